"""A feature of every record at once: the values that the records have, stored or read, and damage noticed."""

import dataclasses
import functools
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.column import encode_column
from shardfeed.converters import Sample, convert
from shardfeed.errors import IntegrityError, RecordError, ShardfeedError, TooManyRejectedError, UsageError
from shardfeed.formats.example import decode, encode
from shardfeed.formats.format import ShardInfo
from shardfeed.formats.tfrecord import Index, frame
from shardfeed.manifest import FileInfo, Manifest, SplitInfo, read_manifest
from shardfeed.readers import Split, columns, verify
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, Feature, Schema
from shardfeed.shard_table import ShardTable
from shardfeed.storage.local import write_file

from pictures import image_bytes
from trees import tree

MASK, RAGGED, GRADE, PRICE, OFFSET = "image/mask", "image/object/class/label", "image/a/grade", "image/price", "image/x"
COLUMN = "index/train.image.class.label.npy"
SCALARS = {LABEL, GRADE, OFFSET, PRICE, MASK, FORMAT, HEIGHT, "image/width"}
SCALARS |= {"image/filename", "image/source_id", "image/key/sha256"}


@functools.cache
def image(number: int) -> bytes:
    """Noise: every third is short (a record read whole), every fifth of the others a PNG; every eleventh is none."""
    if number % 11 == 5:
        return b"no image %d" % number
    side = 20 if number % 3 == 0 else 100 + number % 7
    pixels = np.random.default_rng(number).integers(0, 256, (side + number % 4, side, 3), np.uint8)
    return image_bytes(Image.fromarray(pixels), "PNG" if number % 5 == 1 else "JPEG", quality=80)


class Noise:
    """Labels of one value and of many, numbers of both signs, and long bytes behind the image."""

    schema = Schema(
        {
            LABEL: Feature("int64"),
            GRADE: Feature("int64"),
            RAGGED: Feature("int64", (None,)),
            OFFSET: Feature("int64"),
            PRICE: Feature("float32"),
            MASK: Feature("bytes"),
        },
        {
            LABEL: tuple(map(str, range(300))),
            GRADE: ("low", "high"),
            RAGGED: ("a", "b"),
        },
    )

    def __len__(self) -> int:
        return 60

    def __getitem__(self, i: int) -> Sample:
        labels = {
            LABEL: i * 7 % 300,
            GRADE: i % 2,
            RAGGED: [i % 2] * (i % 4),
            OFFSET: (-1) ** i * 3**i % 2**63,
            PRICE: i / 7,
            MASK: bytes([i]) * (i * i * 10 % 5000),
        }
        return Sample(b"%d.jpg" % i, image(i), labels)


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """55 records in train (4 shards) and validation (2), about a third short; 5 inputs rejected. Read only."""
    out = tmp_path_factory.mktemp("noise") / "noise"
    options: dict[str, Any] = {"split": {"train": 0.7, "validation": 0.3}, "shards": {"train": 4, "validation": 2}}
    convert(Noise(), out, max_bad=5, workers=1, **options)
    return out


@pytest.fixture
def copy(noise: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(noise, tmp_path / "copy"))


def rewrite(directory: Path, change: Callable[[SplitInfo], SplitInfo]) -> Manifest:
    """Change what the manifest says of each split."""
    before = read_manifest(str(directory))
    after = dataclasses.replace(before, splits={name: change(split) for name, split in before.splits.items()})
    assert after != before, "the corruptor changed nothing"
    write_file(str(directory / "manifest.json"), after.to_bytes())
    return after


def make_older(directory: Path) -> Path:
    """Turn a dataset into one that a version without columns would have made."""
    rewrite(directory, lambda split: dataclasses.replace(split, columns={}))
    for path in directory.glob("index/*.npy"):
        path.unlink()
    assert b"columns" not in (directory / "manifest.json").read_bytes()
    assert verify(directory).damages == []
    return directory


def check(split: Split) -> None:
    """Every scalar feature, compared with reading record by record."""
    records = list(split)
    types = {"int64": np.int64, "float32": np.float32, "bytes": object}
    for key, feature in split.schema.features.items():
        if feature.ragged:
            with pytest.raises(UsageError, match="expected a feature with one value per record"):
                split.column(key)
            continue
        column = split.column(key)
        assert column.shape == (len(split),)
        assert column.dtype == types[feature.dtype]
        assert column.tolist() == [record[key] for record in records], key


def test_every_feature_is_what_the_records_have(noise: Path) -> None:
    data = shardfeed.open(noise)
    assert sum(map(len, data.values())) == 55
    for split in data.values():
        assert set(split.formats) == {"jpeg", "png"}
        assert set(split.shards.info.columns) == SCALARS
        check(split)
        check(split[3:11])
        check(split[::-2])


def test_a_dataset_without_stored_columns(copy: Path) -> None:
    for split in shardfeed.open(make_older(copy)).values():
        check(split)


def test_other_datasets(flowers: Any, tmp_path: Path) -> None:
    for split in flowers.values():
        check(split)
    older = make_older(Path(shutil.copytree(flowers.directory, tmp_path / "copy")))
    for name, split in shardfeed.open(older).items():
        check(split)
        assert (split.column(LABEL) == flowers[name].column(LABEL)).all()


def test_numpy_reads_the_files(noise: Path) -> None:
    for name, split in shardfeed.open(noise).items():
        for key, dtype in ((LABEL, "<i4"), (GRADE, "<i4"), (HEIGHT, "<i8"), (OFFSET, "<i8"), (PRICE, "<f4")):
            values = np.load(noise / "index" / f"{name}.{key.replace('/', '.')}.npy", mmap_mode="r")
            assert values.dtype == dtype
            assert values.tolist() == [record[key] for record in split]
        with (noise / "index" / f"{name}.image.mask.npy").open("rb") as file:
            ends, values = np.load(file), np.load(file)
        assert [part.tobytes() for part in np.split(values, ends[:-1])] == [record[MASK] for record in split]


def test_stored_labels_need_no_shard(copy: Path) -> None:
    expected = shardfeed.open(copy)["train"].column(LABEL)
    for path in copy.rglob("train-*.tf*"):
        path.write_bytes(bytes(len(path.read_bytes())))
    damaged = shardfeed.open(copy)["train"]
    assert (damaged.column(LABEL) == expected).all()
    with pytest.raises(IntegrityError):
        damaged.column(ENCODED)


def test_a_column_is_read_once_and_not_pickled(copy: Path) -> None:
    train = shardfeed.open(copy)["train"]
    empty = len(pickle.dumps(train))
    first = [train.column(key) for key in (LABEL, HEIGHT)]
    shutil.rmtree(copy)
    for key, column in zip((LABEL, HEIGHT), first, strict=True):
        assert (train[2:].column(key) == column[2:]).all(), "a view shares what was read"
        column[:] = -1
        assert (train.column(key) != column).all(), "each caller has an array of its own"
    assert len(pickle.dumps(train)) == empty


def test_a_small_view_of_a_large_column(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its numbers are kept in memory; the checksum is that of the whole file."""
    expected = {key: shardfeed.open(copy)["train"].column(key) for key in (LABEL, OFFSET, PRICE)}
    monkeypatch.setattr(columns, "_KEPT_BYTES", 100)
    monkeypatch.setattr(columns, "READ_BYTES", 130)
    train = shardfeed.open(copy)["train"]
    for key, whole in expected.items():
        for part in (slice(0, 2), slice(7, 9), slice(9, 7, -1), slice(11, 13, 2), slice(3, 3), slice(-1, None)):
            found = train[part].column(key)
            assert found.dtype == whole.dtype
            assert found.tolist() == whole[part].tolist(), (key, part)
            assert key not in train.shards.columns
    path = copy / "index" / f"train.{OFFSET.replace('/', '.')}.npy"
    content = path.read_bytes()
    for damaged, problem in (
        (content[:-1] + bytes([content[-1] ^ 1]), "does not belong"),
        (content[:-1], f"got {len(content) - 1} bytes, expected {len(content)}"),
        (content + b"x", f"got {len(content) + 1} bytes, expected {len(content)}"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=problem):
            shardfeed.open(copy)["train"][:2].column(OFFSET)
    path.unlink()
    with pytest.raises(IntegrityError, match="missing: the manifest has this column"):
        shardfeed.open(copy)["train"][:2].column(OFFSET)


def test_a_view_without_samples_has_no_values(noise: Path) -> None:
    train = shardfeed.open(noise)["train"]
    end = len(train)
    for view in (train[::-1][end:], train[::-2][end + 5 :], train[::-1][:0], train[7:7], train[:0:-1][-1:0]):
        assert len(view) == 0
        for key in (LABEL, MASK):
            assert view.column(key).shape == (0,), view


def test_a_selection(noise: Path) -> None:
    train = shardfeed.open(noise)["train"]
    large = train.select(train.column(HEIGHT) >= 50)
    assert 0 < len(large) < len(train)
    assert [record["image/filename"] for record in large] == [
        record["image/filename"] for record in train if record[HEIGHT] >= 50
    ]
    check(large)


class Colliding(Noise):
    """Two label features whose files would have one name."""

    schema = Schema(
        {
            LABEL: Feature("int64"),
            "image/a/b": Feature("int64"),
            "image/a.b": Feature("int64"),
        },
        {LABEL: ("a", "b"), "image/a/b": ("c", "d"), "image/a.b": ("e", "f")},
    )

    def __getitem__(self, i: int) -> Sample:
        return Sample(b"%d" % i, image(3 * (i % 3)), {LABEL: i % 2, "image/a/b": i // 2 % 2, "image/a.b": i // 4 % 2})


def test_columns_with_one_file_name_are_not_stored(tmp_path: Path) -> None:
    convert(Colliding(), tmp_path / "out", shards=2, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    assert not {"image/a/b", "image/a.b"} & train.shards.info.columns.keys()
    assert LABEL in train.shards.info.columns
    check(train)


class Unnamed(Noise):
    """A label that no class has."""

    def __getitem__(self, i: int) -> Sample:
        sample = super().__getitem__(i)
        return dataclasses.replace(sample, features={**sample.features, GRADE: -1 if i == 7 else 0})


@pytest.mark.promise(27)
def test_a_label_without_a_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sample 7\.jpg: got the label -1 for image/a/grade, expected 0 to 1"):
        convert(Unnamed(), tmp_path / "out", workers=1, max_bad=5)
    assert not (tmp_path / "out").exists()


class AllBad(Noise):
    """A source whose validation split has no image that can be stored."""

    def __getitem__(self, i: int) -> Sample:
        sample = super().__getitem__(i)
        name = "validation" if isinstance(sample.image, bytes) and sample.image.startswith(b"no") else "train"
        return dataclasses.replace(sample, split=name)


def test_a_split_without_records(tmp_path: Path) -> None:
    convert(AllBad(), tmp_path / "out", max_bad=5, workers=1)
    empty = shardfeed.open(tmp_path / "out")["validation"]
    assert not list((tmp_path / "out").rglob("validation*.npy"))
    assert empty.column(LABEL).shape == empty.column(HEIGHT).shape == (0,)


# The same bytes.


def strip_columns(receipts: Path) -> int:
    """Turn the receipts into those of a version without columns, and without the checksum."""
    changed = 0
    for path in sorted(receipts.iterdir())[1:]:
        value = json.loads(path.read_bytes().splitlines()[0])
        del value["columns"]
        path.write_text(json.dumps(value))
        changed += 1
    return changed


@pytest.mark.long
@pytest.mark.parametrize("older", [False, True])
def test_resumed_from_receipts_with_other_workers(noise: Path, tmp_path: Path, older: bool) -> None:
    options: dict[str, Any] = {"split": {"train": 0.7, "validation": 0.3}, "shards": {"train": 4, "validation": 2}}
    out = tmp_path / "noise"
    with pytest.raises(TooManyRejectedError):
        convert(Noise(), out, workers=2, **options)
    if older:
        assert strip_columns(tmp_path / ".noise.staging" / "receipts") == 5
    report = convert(Noise(), out, workers=2, max_bad=5, **options)
    assert (report.images > 0) == older, "only shards without their labels are made again"
    assert tree(out) == tree(noise)


# Damage.


def test_every_bit_of_a_stored_column(copy: Path) -> None:
    path = copy / COLUMN
    data = path.read_bytes()
    train = shardfeed.open(copy)["train"]
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="does not belong"):
            train.column(LABEL)
    assert [damage.file for damage in verify(copy).damages] == [COLUMN]


def test_a_stored_column_cut_longer_or_missing(copy: Path) -> None:
    path = copy / COLUMN
    data = path.read_bytes()
    for other in (data[:-4], data + b"\0", b""):
        path.write_bytes(other)
        with pytest.raises(IntegrityError, match=f"got {len(other)} bytes, expected {len(data)}"):
            shardfeed.open(copy)["train"].column(LABEL)
    path.unlink()
    with pytest.raises(IntegrityError, match="missing: the manifest has this column"):
        shardfeed.open(copy)["train"].column(LABEL)
    assert [(damage.file, damage.problem) for damage in verify(copy).damages] == [(COLUMN, "missing")]


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda labels: labels[:-1], "not declare"),
        (lambda labels: [*labels[:-1], 300], "has the label 300, expected 0 to 299"),
        (lambda labels: [-1, *labels[1:]], "record 0 has the label -1"),
    ],
)
def test_a_column_that_the_manifest_vouches_for(copy: Path, forge: Callable[[list[int]], list[int]], said: str) -> None:
    labels = forge(shardfeed.open(copy)["train"].column(LABEL).tolist())
    info = FileInfo(*write_file(str(copy / COLUMN), encode_column(labels, np.dtype("<i4"))))
    rewrite(
        copy,
        lambda split: (
            dataclasses.replace(split, columns={**split.columns, LABEL: info}) if split.name == "train" else split
        ),
    )
    with pytest.raises(IntegrityError, match=said):
        shardfeed.open(copy)["train"].column(LABEL)


def replace_records(directory: Path, payloads: list[bytes]) -> Split:
    """The dataset with one split, train, of one shard that holds `payloads`."""
    framed = [frame(payload) for payload in payloads]
    stem = str(directory / "train-00000-of-00001")
    data = FileInfo(*write_file(stem + ".tfrecord", b"".join(framed)))
    index = FileInfo(
        *write_file(
            str(directory / "index/train-00000-of-00001.tfindex"), Index.from_sizes([len(f) for f in framed]).to_bytes()
        )
    )
    split = SplitInfo("train", ShardTable.of([ShardInfo(len(framed), data, index)]))
    manifest = dataclasses.replace(read_manifest(str(directory)), splits={"train": split}, sidecars={})
    write_file(str(directory / "manifest.json"), manifest.to_bytes())
    present = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    for name in present - manifest.files().keys() - {"manifest.json"}:
        os.unlink(directory / name)
    return shardfeed.open(directory)["train"]


def two_payloads(split: Split) -> list[bytes]:
    """The shortest record and the longest, which is second."""
    payloads = sorted((split.payload(i) for i in range(len(split))), key=len)
    assert len(payloads[0]) < 4000
    assert len(payloads[-1]) > 9000
    return [payloads[0], payloads[-1]]


@pytest.mark.long
def test_every_byte_of_a_record_that_is_read_for_a_column(copy: Path) -> None:
    """Its CRC is checked: damage is never a wrong value."""
    payloads = two_payloads(shardfeed.open(copy)["train"])
    train = replace_records(copy, payloads)
    path = copy / "train-00000-of-00001.tfrecord"
    data = path.read_bytes()
    start = len(frame(payloads[0]))
    assert len(train.column(HEIGHT)) == 2
    for place in range(start, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(RecordError, match=f"record 1, offset {start}: "):
            shardfeed.open(copy)["train"].column(HEIGHT)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({HEIGHT: None}, "no feature image/height"),
        ({HEIGHT: ("int64", [])}, "feature image/height has 0 values, the schema says one"),
        ({HEIGHT: ("int64", [1, 2])}, "feature image/height has 2 values, the schema says one"),
        ({HEIGHT: ("float32", [1.0])}, "feature image/height is float32, the schema says int64"),
    ],
)
def test_a_record_that_is_not_of_the_schema(copy: Path, change: dict[str, Any], said: str) -> None:
    payloads = two_payloads(shardfeed.open(copy)["train"])
    found: dict[str, Any] = decode(payloads[1]) | change
    content = {key: value for key, value in found.items() if value is not None}
    features = {key: Feature(dtype, (None,)) for key, (dtype, _) in content.items()}
    values = {key: v.tolist() if isinstance(v, np.ndarray) else v for key, (_, v) in content.items()}
    train = replace_records(copy, [payloads[0], encode(features, values)])
    with pytest.raises(RecordError, match=f"record 1, offset [1-9][0-9]+: {said}"):
        train.column(HEIGHT)


def test_records_of_another_writer(copy: Path) -> None:
    """TensorFlow writes an Example's features in no particular order; other layouts are read whole."""
    import tensorflow as tf

    payloads = two_payloads(shardfeed.open(copy)["train"])
    expected = replace_records(copy, payloads).column(HEIGHT).tolist()
    entries = [tf.train.Example.FromString(payload) for payload in payloads]
    assert replace_records(copy, [e.SerializeToString() for e in entries]).column(HEIGHT).tolist() == expected
    # Two Features messages, which a parser must merge: not our layout, the same content.
    apart = [
        tf.train.Example(features=tf.train.Features(feature={HEIGHT: e.features.feature[HEIGHT]})) for e in entries
    ]
    for e in entries:
        del e.features.feature[HEIGHT]
    both = [a.SerializeToString() + b.SerializeToString() for a, b in zip(entries, apart, strict=True)]
    assert replace_records(copy, both).column(HEIGHT).tolist() == expected


def test_every_error_is_ours(copy: Path) -> None:
    """Random bytes in place of a long record."""
    payloads = two_payloads(shardfeed.open(copy)["train"])
    replace_records(copy, payloads)
    path = copy / "train-00000-of-00001.tfrecord"
    data = path.read_bytes()
    start = len(frame(payloads[0]))
    rng = np.random.default_rng(1)
    for keep in (0, 8, 12, 13, 16, 40, 80):
        path.write_bytes(data[: start + keep] + rng.bytes(len(data) - start - keep))
        for key in (HEIGHT, FORMAT, ENCODED, PRICE):
            with pytest.raises(ShardfeedError, match="record 1"):
                shardfeed.open(copy)["train"].column(key)
