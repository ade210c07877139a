"""Batches whose images are made outside of the graph: the same samples, seeds and labels, and pixels within a level."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from batches import taken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from object_images import encoded
from seekable_images import drawn, jpeg

import shardfeed
from shardfeed.formats.example import cut_out, encode
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.pipelines import (
    Cache,
    Global,
    Stream,
    cached,
    distribute,
    distribute_eval,
    eval_batches,
    letterbox,
    make_batches,
    mix,
    random_resized_crop,
    resize_center_crop,
    train_batches,
)
from shardfeed.pipelines.decoding import pixels
from shardfeed.pipelines.decoding.pixels import join_pieces
from shardfeed.pipelines.tensorflow import assembly, host_decoding
from shardfeed.pipelines.tensorflow.augment import GraphTransform
from shardfeed.readers import Dataset, Skip, Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, LABEL, RESTARTS, WIDTH, Feature, Schema

from decoding_paths import PYTHON, path_fixture

pytest.importorskip("cv2")
from shardfeed.pipelines.decoding import batch as decoding_batch
from shardfeed.pipelines.decoding.batch import BatchDecoder

LONG = pytest.mark.long
path = path_fixture()
BATCH, SIZE = 12, 24
OPTIONS: dict[str, Any] = {"batch_size": BATCH, "seed": 3}
FEATURES = {
    ENCODED: Feature("bytes", (), "image"),
    FORMAT: Feature("bytes"),
    HEIGHT: Feature("int64"),
    LABEL: Feature("int64"),
    WIDTH: Feature("int64"),
}
SCHEMA = Schema(FEATURES)


@pytest.fixture
def made_on_host(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each pipeline that is made, whether its images are made outside of the graph."""
    seen: list[bool] = []
    choose = host_decoding.images_on_host

    def images_on_host(*given: Any) -> Any:
        found = choose(*given)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(assembly, "images_on_host", images_on_host)
    return seen


def in_graph(crop: GraphTransform) -> Callable[..., Any]:
    """The image and the label by a function of a user's, of which nobody knows what it does."""
    return lambda features, seed: (crop(features, seed), features[LABEL])


def alike(found: Sequence[Any], expected: Sequence[Any], *, share: float = 0.25) -> None:
    """The same batches, but for a level in a few pixels."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one[0].dtype == other[0].dtype == np.uint8
        off = np.abs(one[0].astype(int) - other[0])
        assert off.max() <= 1
        assert off.mean() <= share
        for part, same in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(part, same)


def photo(height: int, width: int, seed: int) -> np.ndarray:
    """Smooth shapes with some noise; with every fourth seed nothing but noise."""
    if seed % 4 == 0:
        return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 90 * np.sin(x / (9 + 5 * c) + seed) * np.cos(y / (13 + 3 * c)) for c in range(3)]
    noise = np.random.default_rng(seed).normal(0, 9, (height, width, 3))
    return np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


CROPS: dict[str, Callable[[tuple[int, int]], GraphTransform]] = {
    "random": random_resized_crop,
    "narrow": lambda size: random_resized_crop(size, area=(0.01, 0.1), aspect_ratio=(0.2, 5)),
    "center": resize_center_crop,
    "letterbox": lambda size: letterbox(size, fill=77),
}


@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    target=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    kind=st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "gray", "png", "gray png", "raw"]),
    crop=st.sampled_from(sorted(CROPS)),
    seed=st.integers(0, 2**40),
)
@example(size=(90, 88), target=(11, 11), kind="4:2:0", crop="center", seed=0)  # made smaller by the decoder
@example(size=(90, 88), target=(3, 2), kind="4:2:0", crop="center", seed=0)  # by 8, and no more
@example(size=(90, 88), target=(11, 11), kind="png", crop="letterbox", seed=0)  # and by us
@example(size=(5, 76), target=(3, 36), kind="png", crop="letterbox", seed=36326966)  # in two steps
@example(size=(40, 30), target=(40, 30), kind="raw", crop="letterbox", seed=0)  # nothing to resize
@settings(max_examples=20, deadline=None)
def test_pixels_are_within_a_level_of_the_graphs(
    size: tuple[int, int], target: tuple[int, int], kind: str, crop: str, seed: int
) -> None:
    shown = photo(*size, seed % 100)
    stored = shown[..., 0] if kind.startswith("gray") else shown
    if kind == "raw":
        image, form = shown.tobytes(), b"raw"
    elif kind.endswith("png"):
        image, form = encoded(stored, "PNG"), b"png"
    else:
        options = {} if kind == "gray" else {"subsampling": kind}
        image, form = encoded(stored, "JPEG", quality=90, **options), b"jpeg"
    transform = CROPS[crop](target)
    seeds = np.array([[7, seed], [seed, 7], [1, 1]], np.int64)
    features = {ENCODED: image, FORMAT: form, HEIGHT: size[0], WIDTH: size[1]}
    expected = np.stack([transform(tf.nest.map_structure(tf.constant, features), tf.constant(key)) for key in seeds])
    for formats in ({form.decode()}, {"raw", "jpeg", "png"}):
        decode = BatchDecoder(transform.crop, SCHEMA, formats, 1)
        found = decode([encode(FEATURES, features | {LABEL: 5})] * 3, seeds)
        assert found.images.shape == (3, *target, 3)
        # What is no JPEG is shrunk in two steps, each of which rounds.
        assert np.abs(found.images.astype(int) - expected).max() <= (1 if form == b"jpeg" else 2)
        left = {key for key in FEATURES if cut_out(found.others[0], key) != (None, found.others[0])}
        assert not left & {ENCODED}


KINDS: dict[str, dict[str, Any]] = {
    "global": {"order": "global"},
    "from a step on": {"order": "global", "start_step": 20},
    "blocks": {"order": "blocks", "start_step": 3},
    "stored": {"order": "stored"},
    "balanced": {"order": Global(balance="class")},
    "stream": {"order": "stream"},
    "stream from a step on": {"order": Stream(buffer=20), "start_step": 20},
}
QUICK = ("from a step on", "stream from a step on")


@pytest.mark.parametrize("kind", [kind if kind in QUICK else pytest.param(kind, marks=LONG) for kind in KINDS])
def test_training_batches_are_those_of_the_graph(train: Split, made_on_host: list[bool], kind: str) -> None:
    batches = train_batches(train, image_size=SIZE, **OPTIONS, **KINDS[kind])
    graph = make_batches(train, in_graph(random_resized_crop(SIZE)), **OPTIONS, **KINDS[kind])
    assert made_on_host == [True, False]
    assert batches.element_spec == graph.element_spec
    assert batches.cardinality() == graph.cardinality()
    alike(taken(batches, 4), taken(graph, 4))
    if "start_step" not in KINDS[kind]:
        alike(taken(batches, 2), taken(graph, 2))  # of another epoch


def test_a_crop_alone_and_a_last_batch_that_is_smaller(train: Split, made_on_host: list[bool]) -> None:
    options: dict[str, Any] = {"batch_size": 50, "order": "stored", "drop_remainder": False}
    crop = resize_center_crop((20, 30))
    batches = make_batches(train, crop, **options)
    graph = make_batches(train, lambda features, seed: crop(features, seed), **options)
    assert made_on_host == [True, False]
    assert batches.element_spec == graph.element_spec == tf.TensorSpec([None, 20, 30, 3], tf.uint8)
    found, expected = taken(batches), taken(graph)
    assert [len(images) for images in found] == [50, 50, 50, 11]
    alike([(images,) for images in found], [(images,) for images in expected])


@LONG
def test_evaluation(train: Split, made_on_host: list[bool]) -> None:
    found = taken(eval_batches(train, batch_size=40, image_size=SIZE))
    options: dict[str, Any] = {"batch_size": 40, "order": "stored", "drop_remainder": False}
    alike(found, taken(make_batches(train, in_graph(resize_center_crop(SIZE)), **options)))
    strategy = tf.distribute.get_strategy()
    masked = [
        tuple(np.asarray(part) for part in batch)
        for batch in distribute_eval(strategy, train, batch_size=40, image_size=SIZE).batches
    ]
    assert made_on_host == [True, False, True]
    assert sum(int(mask.sum()) for *_, mask in masked) == len(train)
    alike([batch[:2] for batch in masked[:4]], found[:4])


def test_a_strategy(train: Split, made_on_host: list[bool]) -> None:
    feed = distribute(tf.distribute.get_strategy(), train, image_size=SIZE, order="global", **OPTIONS)
    whole = taken(train_batches(train, image_size=SIZE, order="global", start_step=5, **OPTIONS), 2)
    found = [tuple(np.asarray(part) for part in batch) for batch in feed.at(5).batches.take(2)]
    assert made_on_host == [True, True]
    for one, other in zip(found, whole, strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)


def test_shares_of_a_step(train: Split) -> None:
    """Several replicas of one pipeline, and several pipelines."""
    arranged, order = shardfeed.pipelines.order_samples(train, batch_size=BATCH, seed=3, order="global")
    options: dict[str, Any] = {"start_step": 2, "pad": None, "keys": [ENCODED], "damaged": None, "parallelism": 2}
    made = [
        taken(assembly.assemble_batches(arranged, order, random_resized_crop(SIZE), share=share, **options), count)
        for share, count in (
            (assembly.Share(), 2),
            (assembly.Share(4), 8),
            (assembly.Share(2, 0, 2), 2),
            (assembly.Share(2, 1, 2), 2),
        )
    ]
    whole = np.concatenate(made[0])
    np.testing.assert_array_equal(np.concatenate(made[1]), whole)
    halves = [half for pair in zip(made[2], made[3], strict=True) for half in pair]
    np.testing.assert_array_equal(np.concatenate(halves), whole)


@pytest.mark.parametrize("order", ["global", "stream"])
@pytest.mark.parametrize("workers", [1, 50])
def test_any_number_of_threads(train: Split, workers: int, order: Any) -> None:
    options: dict[str, Any] = {"image_size": SIZE, "order": order, **OPTIONS}
    found = taken(train_batches(train, workers=workers, **options))
    for one, other in zip(found, taken(train_batches(train, workers=2, **options)), strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)


def test_a_batch_stays_what_it_is_while_others_are_made(train: Split) -> None:
    """Memory is used again, but not as long as a tensor has it."""
    batches = train_batches(train, image_size=SIZE, order="global", start_step=0, **OPTIONS)
    kept: list[tuple[tf.Tensor, np.ndarray]] = [(images, images.numpy()) for images, _ in batches.take(30)]
    for images, before in kept:
        np.testing.assert_array_equal(images, before)


def test_memory_is_used_again() -> None:
    memory = decoding_batch.ReusedMemory()  # what it is for cannot be seen from outside
    first = memory((5, 7, 3))
    at = first.ctypes.data
    assert (at % 64, first.shape, first.dtype) == (0, (5, 7, 3), np.uint8)
    part = first[1:2].reshape(-1)
    del first
    second = memory((5, 7, 3))
    assert second.ctypes.data != at, "a part of it is still there"
    del part
    assert memory((5, 7, 3)).ctypes.data == at


@LONG
def test_raw_pixels_and_mixtures(train: Split, made_on_host: list[bool], tmp_path: Any) -> None:
    raw = cached(train, Cache(tmp_path, decoded=True))
    for samples in (raw, mix([(train, 2), (raw, 1)])):
        batches = train_batches(samples, image_size=SIZE, order="global", **OPTIONS)
        keys = [ENCODED, LABEL]
        graph = make_batches(samples, in_graph(random_resized_crop(SIZE)), order="global", keys=keys, **OPTIONS)
        alike(taken(batches, 3), taken(graph, 3))
    assert made_on_host == [True, False, True, False]


class Altered:
    """A split in which some records are others."""

    def __init__(self, split: Split, change: Callable[[dict[str, Any]], dict[str, Any]], which: int) -> None:
        self._split, self._change, self._which = split, change, which

    def __getattr__(self, name: str) -> Any:
        return getattr(self._split, name)

    def __len__(self) -> int:
        return len(self._split)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._split)

    def payloads(self, indices: np.ndarray) -> list[bytes]:
        """Those of the split, but one."""
        found = self._split.payloads(indices)
        for at in np.flatnonzero(indices == self._which):
            record = self._change(dict(self._split[self._which]))
            features = {key: self._split.schema.features[key] for key in record}
            found[at] = encode(features, record)
        return found


def cut(record: dict[str, Any]) -> dict[str, Any]:
    return record | {ENCODED: record[ENCODED][: len(record[ENCODED]) // 2]}


def without_image(record: dict[str, Any]) -> dict[str, Any]:
    del record[ENCODED]
    return record


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cut, "it does not decode"),
        (without_image, "it has no image/encoded"),
        (lambda record: record | {ENCODED: b""}, "it does not decode: no known image format begins with b''"),
    ],
)
@pytest.mark.parametrize("order", ["stored", pytest.param("blocks", marks=LONG)])
def test_an_image_that_does_not_decode_is_named(
    train: Split, change: Callable[..., Any], said: str, order: Any
) -> None:
    altered: Any = Altered(train, change, 30)
    batches = train_batches(altered, batch_size=16, image_size=SIZE, order=order)
    name = bytes(train.column("image/filename")[30]).decode()
    with pytest.raises(tf.errors.OpError, match=rf"tfrecord, record 30, offset \d+ \({name}\): {said}") as raised:
        for _ in batches:
            pass
    assert "RecordError" in str(raised.value)


@pytest.mark.parametrize("drop_remainder", [False, pytest.param(True, marks=LONG)])
def test_damaged_records_are_left_out(flowers: Dataset, tmp_path: Any, drop_remainder: bool) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(flowers.directory, copy)
    path = copy / "train-00001-of-00004.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    split = shardfeed.open(copy)["train"]
    options: dict[str, Any] = {"batch_size": 16, "order": "stored", "drop_remainder": drop_remainder}
    crop = resize_center_crop(SIZE)
    found = []
    for transform in (crop, lambda features, seed: crop(features, seed)):
        damaged = Skip(1)
        with pytest.warns(RuntimeWarning, match="left out, 1 of at most 1"):
            found.append(taken(make_batches(split, transform, damaged=damaged, **options)))
        assert len(damaged.found) == 1
    full = len(split) // 16
    assert sorted(map(len, found[0])) == ([16] * full if drop_remainder else [len(split) % 16, 15, *[16] * (full - 1)])
    # In the graph, the samples that follow a damaged record move up.
    alike(*([(np.concatenate(batches),)] for batches in found))


@LONG
def test_a_batch_transform_gets_the_same_seed(train: Split) -> None:
    def mixed(made: Any, seed: tf.Tensor) -> Any:
        images, labels = made
        return images, labels, tf.random.stateless_uniform([3], seed)

    options: dict[str, Any] = {"order": "global", "batch_transform": mixed, **OPTIONS}
    batches = train_batches(train, image_size=SIZE, **options)
    alike(taken(batches, 2), taken(make_batches(train, in_graph(random_resized_crop(SIZE)), **options), 2))


def test_of_seekable_jpegs_the_window_is_decoded(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """The pixels of plain ones, and of a dataset with both; lengths that lie are an error of their record."""
    features = FEATURES | {RESTARTS: Feature("bytes")}
    image = jpeg(drawn(120, 192, 0), subsampling="4:2:0", restart_marker_blocks=2)
    record: dict[str, Any] = {ENCODED: image, FORMAT: b"jpeg", HEIGHT: 120, WIDTH: 192, LABEL: 4}
    seeds = np.arange(40).reshape(20, 2)
    crop = random_resized_crop(40, area=(0.1, 0.5)).crop
    plain = BatchDecoder(crop, SCHEMA, {"jpeg"}, 2)([encode(FEATURES, record)] * 20, seeds).images

    spliced = []
    monkeypatch.setattr(pixels, "join_pieces", lambda *given: spliced.append(join_pieces(*given)) or spliced[-1])
    decode = BatchDecoder(crop, Schema(features), {"jpeg"}, 2)
    payloads = [encode(features, record | {RESTARTS: lengths}) for lengths in (row_lengths(image), b"")]
    np.testing.assert_array_equal(decode(payloads * 10, seeds).images, plain)
    if path == PYTHON:
        assert (len(spliced), None in spliced) == (10, False)
    with pytest.raises(decoding_batch.UndecodableError):
        decode([encode(features, record | {RESTARTS: b"\1\2\3\4" * 8})], seeds[:1])


@LONG
def test_where_the_graph_makes_the_images(
    train: Split, made_on_host: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"order": "global", **OPTIONS}
    make_batches(train, random_resized_crop(SIZE, antialias=True), **options)
    monkeypatch.setitem(sys.modules, "cv2", None)
    without = taken(train_batches(train, image_size=SIZE, **options), 2)
    monkeypatch.undo()
    assert made_on_host == [False, False]
    alike(taken(train_batches(train, image_size=SIZE, **options), 2), without)
