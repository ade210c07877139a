"""A split read from a copy: the same samples in the same order; made once, by processes that are killed and race."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from batches import same, taken
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, LabelFile, convert
from shardfeed.errors import IntegrityError, RecordError, StorageError, UsageError
from shardfeed.pipelines import (
    Blocks,
    Cache,
    Global,
    Stream,
    cached,
    distribute,
    distribute_eval,
    eval_batches,
    mix,
    order_samples,
    train_batches,
)
from shardfeed.pipelines.caching import cache as cache_module
from shardfeed.pipelines.caching import copies
from shardfeed.readers import Dataset, Split, verify
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, LABEL, WIDTH
from shardfeed.storage.local import Lock

from pictures import image_bytes
from processes import until
from trees import tree

NEITHER = {ENCODED, FORMAT}  # what decoding changes in a record


def without_pixels(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in NEITHER}


def caches(directory: Path) -> list[str]:
    """Names in a cache directory, hidden files too."""
    return sorted(os.listdir(directory))


def encoded_image(seed: int, width: int, height: int) -> bytes:
    """A JPEG of large, smooth patches of colour."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return image_bytes(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), "JPEG", quality=90)


@pytest.fixture(scope="module")
def encoded(train: Split, tmp_path_factory: pytest.TempPathFactory) -> Split:
    return cached(train, tmp_path_factory.mktemp("encoded"))


@pytest.fixture(scope="module")
def decoded(train: Split, tmp_path_factory: pytest.TempPathFactory) -> Split:
    return cached(train, Cache(tmp_path_factory.mktemp("decoded"), decoded=True))


@pytest.fixture
def source(flowers: Dataset, tmp_path: Path) -> Path:
    """A copy of the dataset, for tests that change it."""
    return Path(shutil.copytree(flowers.directory, tmp_path / "flowers"))


# --- What is read is what the split holds


def test_the_copy_is_what_is_read(train: Split, encoded: Split, decoded: Split) -> None:
    for split in (encoded, decoded):
        paths = [part.path for part in split.shard_slices()]
        assert len(paths) == len(train.shard_slices()) == 4
        assert not set(paths) & {part.path for part in train.shard_slices()}
        assert all(os.path.isfile(path) for path in paths)


def test_cached_split_has_the_properties_of_its_source(train: Split, encoded: Split, decoded: Split) -> None:
    for split in (encoded, decoded):
        assert len(split) == len(train)
        assert split.name == train.name
        assert split.fingerprint == train.fingerprint
        assert split.class_names == train.class_names
        assert split.class_counts == train.class_counts
        assert split.record_bytes == train.record_bytes
        for key in (LABEL, HEIGHT, WIDTH, FILENAME):
            np.testing.assert_array_equal(split.column(key), train.column(key))
        view = split[10:90:3]
        assert view.fingerprint == train[10:90:3].fingerprint
        assert [r[FILENAME] for r in view] == [r[FILENAME] for r in train[10:90:3]]
    assert encoded.formats == train.formats
    assert encoded.read_bytes == train.read_bytes == train.record_bytes
    assert decoded.formats == {"raw": len(train)}
    assert decoded.read_bytes == sum(os.path.getsize(part.path) for part in decoded.shard_slices())
    assert decoded[:0.5].read_bytes == pytest.approx(decoded.read_bytes / 2, rel=0.02)


def test_encoded_records_are_the_same_bytes(train: Split, encoded: Split) -> None:
    for ours, theirs in zip(encoded.shard_slices(), train.shard_slices(), strict=True):
        assert Path(ours.path).read_bytes() == Path(theirs.path).read_bytes()


def test_decoded_records_are_pixels(train: Split, decoded: Split) -> None:
    kinds = set()
    for ours, theirs in zip(decoded, train, strict=True):
        assert without_pixels(ours) == without_pixels(theirs)
        assert ours[FORMAT] == b"raw"
        decode = tf.io.decode_jpeg if theirs[FORMAT] == b"jpeg" else tf.io.decode_png
        options = {"dct_method": "INTEGER_ACCURATE"} if theirs[FORMAT] == b"jpeg" else {}
        image = decode(theirs[ENCODED], channels=3, **options).numpy()
        assert image.shape == (ours[HEIGHT], ours[WIDTH], 3)
        assert ours[ENCODED] == image.tobytes()
        kinds.add(theirs[FORMAT])
    assert kinds == {b"jpeg", b"png"}


def test_ragged_features_stay(folder: Callable[..., Path], tmp_path: Path) -> None:
    images = folder(2)
    rows = [
        '{"path": "daisy/0000.jpg", "label": "a", "ymin": [0.1, 0.5], "ids": [3, -4, 5], "tags": ["x", "yy"]}',
        '{"path": "daisy/0001.jpg", "label": "b", "ymin": [], "ids": [], "tags": []}',
    ]
    (tmp_path / "boxes.jsonl").write_text("\n".join(rows) + "\n")
    columns = ["label", "ymin", "ids", "tags"]
    convert(LabelFile(tmp_path / "boxes.jsonl", root=images, label_columns=columns), tmp_path / "boxes", workers=1)
    split = shardfeed.open(tmp_path / "boxes")["train"]
    ragged = [key for key, feature in split.schema.features.items() if feature.ragged]
    assert len(ragged) >= 3
    for ours, theirs in zip(cached(split, Cache(tmp_path / "cache", decoded=True)), split, strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in without_pixels(theirs).items():
            np.testing.assert_array_equal(ours[key], value)  # type: ignore[arg-type]  # numbers, bytes or lists of them
            assert getattr(ours[key], "dtype", None) == getattr(value, "dtype", None)


def test_pieces_cover_each_shard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_PIECE_BYTES", 100)
    firsts = np.array([0, 5, 5, 12])
    sizes = np.array([0, 0, 0, 0, 0, 40, 60, 1, 500, 99, 100, 2])
    found = [list(copies._pieces(firsts, shard, sizes)) for shard in (1, 2)]
    assert found[0] == [range(5, 5)], "an empty shard has a file too"
    assert found[1] == [range(5, 7), range(7, 8), range(8, 9), range(9, 10), range(10, 11), range(11, 12)]


def test_at_most_the_given_number_of_pieces_is_made_ahead() -> None:
    made: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        for used, result in enumerate(copies._in_order(pool, lambda n: made.append(n) or n, range(50), 5)):
            assert result == used
            assert len(made) <= used + 5 + 1
    assert sorted(made) == list(range(50))


# --- Orders and batches


@pytest.mark.long
@pytest.mark.parametrize(
    "order", [Stream(buffer=32), "global", pytest.param(Blocks(buffer=32), marks=pytest.mark.long)], ids=str
)
def test_batches_bit_for_bit_with_an_encoded_cache(train: Split, encoded: Split, order: Any) -> None:
    options: dict[str, Any] = {"batch_size": 12, "image_size": 24, "seed": 9, "order": order}
    reference = taken(train_batches(train, **options))
    assert len(reference) == len(train) // 12
    assert same(taken(train_batches(encoded, **options)), reference)
    assert same(taken(train_batches(encoded[20:90], **options)), taken(train_batches(train[20:90], **options)))


@pytest.mark.parametrize("order", [Stream(buffer=32), "global", Blocks(buffer=32)], ids=str)
def test_the_same_samples_in_the_same_order_decoded(train: Split, decoded: Split, order: Any) -> None:
    options: dict[str, Any] = {"batch_size": 12, "image_size": 24, "seed": 9, "order": order}
    reference = taken(train_batches(train, **options))
    assert same(taken(train_batches(decoded, **options)), reference), "no window here is twice the target"


def test_windows_that_are_scaled_while_they_are_decoded(tmp_path: Path) -> None:
    """By the JPEG decoder or by means of pixels: nearly the same, on smooth images."""
    for number in range(12):
        path = tmp_path / "images" / f"class_{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded_image(number, width=320, height=256))
    convert(ImageFolder(tmp_path / "images"), tmp_path / "data", workers=1)
    split = shardfeed.open(tmp_path / "data")["train"]
    options: dict[str, Any] = {"batch_size": 12, "image_size": 32, "order": "global"}
    ((expected, expected_labels),) = taken(train_batches(split, **options))
    ((images, labels),) = taken(train_batches(cached(split, Cache(tmp_path / "cache", decoded=True)), **options))
    np.testing.assert_array_equal(labels, expected_labels)
    difference = np.abs(images.astype(int) - expected)
    # The JPEG decoder's window is in whole pixels of the scaled image: the two are less than one of those apart.
    assert 0 < difference.mean() < 6
    assert np.abs(images[::-1].astype(int) - expected).mean() > 30, "other images would be found out"


@pytest.mark.long
def test_each_function_that_makes_batches_takes_a_cached_split(train: Split, encoded: Split) -> None:
    strategy = tf.distribute.get_strategy()
    common: dict[str, Any] = {"batch_size": 8, "image_size": 16}
    made: dict[str, Callable[[Split], Any]] = {
        "train": lambda split: train_batches(split, order="global", **common).take(2),
        "eval": lambda split: eval_batches(split, **common),
        "replicas": lambda split: eval_batches(split, replicas=2, **common),
        "feed": lambda split: distribute(strategy, split, order="global", **common).batches.take(2),
        "eval_feed": lambda split: distribute_eval(strategy, split, **common).batches,
    }
    for name, make in made.items():
        assert same(taken(make(encoded)), taken(make(train))), name


def test_evaluation_with_a_decoded_cache(train: Split, decoded: Split) -> None:
    reference = taken(eval_batches(train, batch_size=50, image_size=24))
    found = taken(eval_batches(decoded, batch_size=50, image_size=24))
    assert [len(labels) for _, labels in found] == [len(labels) for _, labels in reference]
    for (images, labels), (expected, expected_labels) in zip(found, reference, strict=True):
        np.testing.assert_array_equal(labels, expected_labels)
        np.testing.assert_array_equal(images, expected)


def test_orders_do_not_change(train: Split, encoded: Split, decoded: Split) -> None:
    wanted: list[dict[str, Any]] = [
        {"order": Stream(buffer=40)},
        {"order": Blocks(buffer=40)},
        {"order": "global"},
        {"order": "stored"},
        {"order": Global(balance="class")},
    ]
    for options in wanted:
        for split in (encoded, decoded):
            ours, order = order_samples(split, batch_size=6, seed=4, **options)
            theirs, expected = order_samples(train, batch_size=6, seed=4, **options)
            assert order == expected, options
            numbers = np.arange(len(ours))
            np.testing.assert_array_equal(ours.places(numbers), theirs.places(numbers))


def test_the_default_shuffle_buffer_counts_what_it_will_hold(
    train: Split, decoded: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded.read_bytes > 2 * train.read_bytes
    monkeypatch.setattr("shardfeed.pipelines.orders.choose_order.memory_budget", lambda: 4 * 2 * train.read_bytes)
    assert "shuffle_buffer" in order_samples(train, batch_size=6)[1].to_json()
    assert order_samples(train, batch_size=6)[1] != order_samples(decoded, batch_size=6)[1]


def test_a_position_goes_on_with_or_without_a_cache(train: Split, encoded: Split, decoded: Split) -> None:
    strategy = tf.distribute.get_strategy()
    options: dict[str, Any] = {"batch_size": 8, "image_size": 16, "seed": 3, "order": "global"}
    feeds = [distribute(strategy, split, **options) for split in (train, encoded, decoded)]
    whole: Any = feeds[0].batches
    reference = taken(whole, 9)
    position = feeds[0].position(5)
    assert position == feeds[1].position(5) == feeds[2].position(5)
    resumed: Any = feeds[1].at(position).batches
    assert same(taken(resumed, 4), reference[5:])
    other: Any = feeds[2].at(position).batches
    for (_, labels), (_, expected) in zip(taken(other, 4), reference[5:], strict=True):
        np.testing.assert_array_equal(labels, expected)


@pytest.mark.long
def test_mixtures_are_cached_part_by_part(flowers: Dataset, tmp_path: Path) -> None:
    parts = [(flowers["train"], 3.0), (flowers["validation"], 1.0)]
    plain = mix(parts)
    ours = cached(plain, tmp_path)
    assert len(caches(tmp_path)) == 2
    assert ours.fingerprint == plain.fingerprint
    assert ours.read_bytes == plain.read_bytes
    options: dict[str, Any] = {"batch_size": 8, "image_size": 16}
    assert same(taken(train_batches(ours, **options)), taken(train_batches(plain, **options)))
    half = mix([(cached(flowers["train"], Cache(tmp_path, decoded=True)), 3.0), parts[1]])
    assert set(half.formats) == {"raw", "jpeg", "png"}
    for (_, labels), (_, expected) in zip(
        taken(train_batches(half, **options)), taken(train_batches(plain, **options)), strict=True
    ):
        np.testing.assert_array_equal(labels, expected)


# --- Which shards are copied, under which names, for how long


def test_a_view_copies_the_shards_that_it_touches(train: Split, tmp_path: Path) -> None:
    firsts = [part.first for part in train.shard_slices()]
    view = train[firsts[1] + 3 : firsts[2] + 2]
    for decode in (False, True):
        ours = cached(view, Cache(tmp_path / str(decode), decoded=decode))
        (name,) = caches(tmp_path / str(decode))
        assert sorted(path.name for path in (tmp_path / str(decode) / name).glob("*.tfrecord")) == [
            "train-00000-of-00002.tfrecord",
            "train-00001-of-00002.tfrecord",
        ]
        assert [without_pixels(record) for record in ours] == [without_pixels(record) for record in view]
        assert [(s.first, s.skip, s.take) for s in ours.shard_slices()] == [
            (s.first, s.skip, s.take) for s in view.shard_slices()
        ]
        np.testing.assert_array_equal(ours.column(FILENAME), view.column(FILENAME))
        # Another view of the same shards takes what is there.
        cached(train[firsts[1] : firsts[3] : 2], Cache(tmp_path / str(decode), decoded=decode))
        assert caches(tmp_path / str(decode)) == [name]
    chosen = train.select([firsts[3] + 1, 2, firsts[3]])
    ours = cached(chosen, tmp_path / "selected")
    assert [record[FILENAME] for record in ours] == [record[FILENAME] for record in chosen]
    assert len(list((tmp_path / "selected").glob("*/*.tfrecord"))) == 2


def test_an_empty_view_needs_no_cache(train: Split, tmp_path: Path) -> None:
    assert len(cached(train[:0], tmp_path / "none")) == 0
    assert not (tmp_path / "none").exists()


def test_name_of_a_copy_identifies_its_content(train: Split, tmp_path: Path) -> None:
    cached(train, tmp_path)
    cached(train, Cache(tmp_path, decoded=True))
    plain, decoded = sorted(caches(tmp_path), key=len)
    assert plain.startswith("flowers-train-")
    assert decoded.startswith("flowers-train-decoded-")
    for name in (plain, decoded):
        result = verify(tmp_path / name)
        assert result.damages == []
        assert result.records == len(train)


def test_a_cache_is_made_once(train: Split, tmp_path: Path) -> None:
    cached(train, tmp_path / "a" / "b")
    (name,) = caches(tmp_path / "a" / "b")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a" / "b" / name).iterdir()}
    again = cached(train, Cache(tmp_path / "a" / "b"))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a" / "b" / name).iterdir()} == before
    assert [r[FILENAME] for r in again] == [r[FILENAME] for r in train]


def test_a_cache_of_a_cache(train: Split, encoded: Split, decoded: Split, tmp_path: Path) -> None:
    """From the network to a disk to memory; and what is decoded stays so, under a name that says it."""
    ours = cached(encoded, Cache(tmp_path, decoded=True))
    assert [record[ENCODED] for record in ours[:20]] == [record[ENCODED] for record in decoded[:20]]
    assert ours.fingerprint == train.fingerprint
    again = cached(decoded, tmp_path)
    assert [part.path for part in again.shard_slices()] == [part.path for part in ours.shard_slices()]
    assert again.formats == {"raw": len(train)}


def test_a_dataset_converted_anew_is_another(folder: Callable[..., Path], tmp_path: Path) -> None:
    images = folder(4)
    for seed in (0, 1):
        convert(ImageFolder(images), tmp_path / "data", seed=seed, replace=True, workers=1)
        split = shardfeed.open(tmp_path / "data")["train"]
        ours = cached(split, tmp_path / "cache")
        assert list(ours) == list(split)
    assert len(caches(tmp_path / "cache")) == 2


def test_pickled_into_another_process(train: Split, encoded: Split, decoded: Split) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for split in (encoded, decoded, decoded[5:60]):
            assert pool.map(split.__getitem__, [0, 50]) == [split[0], split[50]]


# --- Damage


@pytest.mark.parametrize("damage", ["cut", "missing", "index", "manifest", "no manifest", "foreign", "other key"])
def test_a_damaged_cache_is_made_again(train: Split, tmp_path: Path, damage: str) -> None:
    cached(train, tmp_path)
    (name,) = caches(tmp_path)
    directory = tmp_path / name
    shard, manifest = directory / "train-00001-of-00004.tfrecord", directory / "manifest.json"
    whole = tree(directory)
    if damage == "cut":
        os.truncate(shard, shard.stat().st_size - 1)
    elif damage == "missing":
        shard.unlink()
    elif damage == "index":
        (directory / "index/train-00002-of-00004.tfindex").write_bytes(b"")
    elif damage == "manifest":
        text = manifest.read_text()
        manifest.write_text(text.replace('"records": ', '"records":  ', 1))
        assert manifest.read_text() != text
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "foreign":
        (directory / "train-00004-of-00005.tfrecord").write_bytes(b"")
    else:
        shutil.rmtree(directory)
        cached(train[:0.25], tmp_path)
        (other,) = caches(tmp_path)
        assert other != name
        os.rename(tmp_path / other, directory)
    with pytest.warns(RuntimeWarning, match=rf"the cache .*{name} is damaged: .*; it is made again"):
        ours = cached(train, tmp_path)
    assert caches(tmp_path) == [name]
    assert tree(directory) == whole
    assert list(ours[:5]) == list(train[:5])


def test_a_file_of_the_user_in_a_damaged_cache_is_never_removed(train: Split, tmp_path: Path) -> None:
    cached(train, tmp_path / "cache")
    ((name,), whole) = caches(tmp_path / "cache"), tree(tmp_path / "cache")
    directory = tmp_path / "cache" / name
    (directory / "mine").mkdir()
    (directory / "mine" / "notes").write_text("stay")
    (directory / "train-00001-of-00004.tfrecord").unlink()
    with pytest.raises(StorageError, match=r"the cache is damaged: .* missing; and mine in it are not its"):
        cached(train, tmp_path / "cache")
    assert (directory / "mine" / "notes").read_text() == "stay"
    (directory / "mine").rename(tmp_path / "mine")
    with pytest.warns(RuntimeWarning, match="made again"):
        cached(train, tmp_path / "cache")
    assert tree(tmp_path / "cache") == whole


def test_a_flipped_bit_in_the_cache_raises_as_ever(train: Split, tmp_path: Path) -> None:
    cached(train, tmp_path)
    (path,) = tmp_path.glob("*/train-00001-of-00004.tfrecord")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    ours = cached(train, tmp_path)
    with pytest.raises(RecordError, match=r"train-00001-of-00004\.tfrecord, record .* damaged"):
        list(ours)


@pytest.mark.parametrize("decode", [False, True])
def test_a_damaged_source_is_not_copied(source: Path, tmp_path: Path, decode: bool) -> None:
    path = source / "train-00002-of-00004.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match=r"train-00002-of-00004\.tfrecord, record"):
        cached(shardfeed.open(source)["train"], Cache(tmp_path / "cache", decoded=decode))
    assert caches(tmp_path / "cache") == []


def test_an_image_that_cannot_be_decoded_is_named(folder: Callable[..., Path], tmp_path: Path) -> None:
    images = folder(4)
    bad = images / "rose" / "0002.jpg"
    data = bad.read_bytes()
    table = data.index(b"\xff\xc4")  # the first Huffman table: more codes than there is room for
    bad.write_bytes(data[: table + 5] + b"\xff" * 16 + data[table + 21 :])
    convert(ImageFolder(images), tmp_path / "data", image=ImageOptions(check="header"), workers=1)
    split = shardfeed.open(tmp_path / "data")["train"]
    number = [record[FILENAME] for record in split].index(b"rose/0002.jpg")
    with pytest.raises(RecordError, match=rf"split train, record {number} of .*data: its image cannot be decoded"):
        cached(split, Cache(tmp_path / "cache", decoded=True))
    assert caches(tmp_path / "cache") == []
    assert list(cached(split, tmp_path / "cache")) == list(split), "as it is, it can be cached"


def test_a_changed_shard_is_not_copied(source: Path, tmp_path: Path) -> None:
    """Each record sound, and its CRC right, but not the shard that the manifest names."""
    one, two = source / "train-00000-of-00004.tfrecord", source / "train-00001-of-00004.tfrecord"
    split = shardfeed.open(source)["train"]
    lines = (source / "index/train-00000-of-00004.tfindex").read_text().splitlines()
    spans = [tuple(map(int, line.split())) for line in lines]
    sizes = [size for _, size in spans]
    i, j = next((i, j) for i in range(len(sizes)) for j in range(i) if sizes[i] == sizes[j])
    data = bytearray(one.read_bytes())
    (a, size), (b, _) = spans[i], spans[j]
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    assert bytes(data) != one.read_bytes()
    one.write_bytes(data)
    assert two.exists()
    with pytest.raises(IntegrityError, match=r"train-00000-of-00004\.tfrecord: its checksum is not the manifest's"):
        cached(split, tmp_path / "cache")
    assert caches(tmp_path / "cache") == []


# --- Room and permission


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A function that mounts a file system in memory; skips where this user may not."""
    places: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"mounted{len(places)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True)
        if done.returncode:
            pytest.skip("this user may not mount a file system")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_no_room_is_said_before_anything_is_written(
    train: Split, decoded: Split, mounted: Callable[[str], Path]
) -> None:
    room = train.read_bytes + (decoded.read_bytes - train.read_bytes) // 2
    place = mounted(f"size={room}")
    with pytest.raises(StorageError) as caught:
        cached(train, Cache(place / "cache", decoded=True))
    text = str(caught.value)
    needed = re.search(r"([\d.]+) kB are needed", text)
    assert needed
    assert float(needed[1]) * 1000 == pytest.approx(decoded.read_bytes, rel=0.05)
    assert "are free in its in-memory file system" in text
    for remedy in ("--shm-size", "another directory", "decoded=False", "--resize-shorter 256"):
        assert remedy in text
    assert caches(place / "cache") == []
    assert len(cached(train, place / "cache")) == len(train), "as it is, it fits"


def test_a_disk_that_gets_full_leaves_nothing(train: Split, tmp_path: Path) -> None:
    script = f"""
import resource
import shardfeed
from shardfeed.errors import StorageError
from shardfeed.pipelines import cached
train = shardfeed.open({train.shards.directory!r})["train"]
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    cached(train, {str(tmp_path / "cache")!r})
except StorageError as error:
    print(error)
"""
    done = run(script)
    assert "cannot write: File too large" in done.stdout
    assert caches(tmp_path / "cache") == []


def test_a_read_only_cache_is_used_but_not_made(train: Split, mounted: Callable[[str], Path]) -> None:
    place = mounted("size=64m")
    cached(train, place)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    assert list(cached(train, place)[:3]) == list(train[:3])
    with pytest.raises(
        StorageError, match=r"the cache does not exist, and cannot be made: .*Read-only.*; give another"
    ):
        cached(train[:0.1], place)


def test_a_file_in_the_way(train: Split, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("mine")
    with pytest.raises(StorageError, match="cannot be made"):
        cached(train, tmp_path / "cache")
    assert (tmp_path / "cache").read_text() == "mine"


def test_invalid_caches_are_refused(train: Split) -> None:
    for bad in ("", 3):
        with pytest.raises(UsageError, match=r"expected .*a path"):
            cached(train, bad)  # type: ignore[arg-type]  # that is the point
    for wrong in ("no", 1, None):
        with pytest.raises(UsageError, match=r"decoded: got .*, expected True or False"):
            Cache("x", decoded=wrong)  # type: ignore[arg-type]  # that is the point
    for wrong in ("inf", "nan", "1e400", "2XB", True):
        with pytest.raises(UsageError, match=r"limit: got .*, expected .*(integer|number)"):
            Cache("x", limit=wrong)
    for large in (2**63, 10**5000):
        with pytest.raises(UsageError, match=r"^limit: got .*, expected "):
            Cache("x", limit=large)
    assert Cache("x", limit="2TB").limit == 2 * 10**12
    assert Cache("x", limit="1.5 TiB").limit == 3 << 39
    with pytest.raises(UsageError, match="expected a Split or a Mixture"):
        cached([1, 2], "x")  # type: ignore[call-overload]  # that is the point


# --- Processes that are killed, and that start at once

CHILD = """
import sys, os, json, warnings, signal, threading
import shardfeed
from shardfeed.pipelines import Cache, cached
from shardfeed.pipelines.caching import cache as cache_module
data, directory, decoded = sys.argv[1], sys.argv[2], sys.argv[3] == "decoded"
train = shardfeed.open(data)["train"]
"""


def run(script: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done


# Ends itself by SIGKILL at the n-th fsync or rename: between any two of them nothing that lasts changes its name.
KILLED = (
    CHILD
    + """
left = int(sys.argv[4])
def counted(call):
    def instead(*arguments):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return instead
os.fsync, os.rename = counted(os.fsync), counted(os.rename)
cached(train, Cache(directory, decoded))
print(left)
"""
)


@pytest.mark.long
def test_killed_at_any_moment(train: Split, tmp_path: Path) -> None:
    """At each durable step of a build: what is left is no cache, and the next run builds over it."""
    calls = 10_000 - int(run(KILLED, train.shards.directory, str(tmp_path / "whole"), "encoded", "10000").stdout)
    (name,) = caches(tmp_path / "whole")
    assert calls > 20
    published = False
    for moment in sorted({*range(1, calls, 5), *range(calls - 3, calls + 1)}):
        arguments = [train.shards.directory, str(tmp_path / "killed"), "encoded", str(moment)]
        run(KILLED, *arguments, code=-signal.SIGKILL)
        published = (tmp_path / "killed" / name).exists()
        if published:
            break
        assert all(left.startswith(".") for left in caches(tmp_path / "killed"))
    assert published, "the last moment is after the rename that publishes it"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(cached(train, tmp_path / "killed")) == list(train)
    cached(train[:0.1], tmp_path / "killed")
    left = [path for path in caches(tmp_path / "killed") if path.startswith(".")]
    assert left in ([], [f".{name}.lock"]), "a lock that ended with its owner stays where nothing was built since"


@pytest.mark.long
def test_killed_while_it_decodes(train: Split, tmp_path: Path) -> None:
    arguments = [train.shards.directory, str(tmp_path), "decoded", "4"]
    run(KILLED, *arguments, code=-signal.SIGKILL)
    assert any(name.endswith(".building") for name in caches(tmp_path))
    ours = cached(train, Cache(tmp_path, decoded=True))
    assert [without_pixels(record) for record in ours] == [without_pixels(record) for record in train]
    (name,) = caches(tmp_path)
    assert not name.startswith(".")


# Slow enough to be met while it builds, which it never ends.
SLOW = (
    CHILD
    + """
import time
from shardfeed.storage import local
fsync = os.fsync
os.fsync = lambda fd: (time.sleep(0.02), fsync(fd))
local.publish = lambda building, out: time.sleep(3600)
cached(train, Cache(directory, decoded))
"""
)


@pytest.mark.long
def test_killed_from_outside_at_random_moments(train: Split, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", SLOW, train.shards.directory, str(tmp_path), "encoded"])
        until(lambda: caches(tmp_path), 0.001)
        time.sleep(rng.uniform(0, 0.2))
        child.kill()
        child.wait()
        assert all(name.startswith(".") for name in caches(tmp_path))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing that it left is taken for a damaged cache
            assert list(cached(train, tmp_path)) == list(train)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


RACING = (
    CHILD
    + """
built = []
build = cache_module._build
cache_module._build = lambda *arguments: (built.append(1), build(*arguments))[1]
print("ready", flush=True)
sys.stdin.readline()
ours = cached(train, Cache(directory, decoded))
print(json.dumps([len(built), ours[7]["image/filename"].decode(), ours.shard_slices()[0].path]))
"""
)


@pytest.mark.parametrize("kind", ["encoded", pytest.param("decoded", marks=pytest.mark.long)])
def test_processes_that_start_at_once(train: Split, tmp_path: Path, kind: str) -> None:
    """One builds, the others wait for it."""
    command = [sys.executable, "-c", RACING, train.shards.directory, str(tmp_path), kind]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    found = []
    for child in children:
        out, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors[-3000:]
        found.append(json.loads(out.splitlines()[-1]))
    assert sum(built for built, *_ in found) == 1
    assert len({tuple(rest) for _, *rest in found}) == 1
    assert found[0][1].encode() == train[7][FILENAME]
    assert not [name for name in caches(tmp_path) if name.startswith(".")]


def test_shards_are_copied_without_tensorflow(train: Split, tmp_path: Path) -> None:
    """So that a job's other processes, or one that only fills a cache, need not load it."""
    script = CHILD + 'cached(train, directory)\nprint("tensorflow" in sys.modules)\n'
    assert run(script, train.shards.directory, str(tmp_path), "encoded").stdout == "False\n"


def test_waiting_for_another_process_is_announced(
    train: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cached(train, tmp_path)
    (name,) = caches(tmp_path)
    shutil.rmtree(tmp_path / name)
    monkeypatch.setattr(cache_module, "_SAY_SECONDS", 0.3)
    lock = Lock(str(tmp_path / f".{name}.lock"), "process 1 on elsewhere")
    said = []

    def release() -> None:
        until(lambda: said.append(capfd.readouterr().err) or said[-1])
        time.sleep(1)  # in which it would be said again
        lock.release()

    thread = threading.Thread(target=release)
    thread.start()
    ours = cached(train, tmp_path)
    thread.join()
    assert list(ours[:2]) == list(train[:2])
    text = "".join(said) + capfd.readouterr().err
    assert text.count("waiting for the cache") == 1
    assert "process 1 on elsewhere is writing this output" in text


def test_no_progress_bar_without_a_terminal(train: Split, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cached(train, tmp_path)
    assert capfd.readouterr().err == ""
