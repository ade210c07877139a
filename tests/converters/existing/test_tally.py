"""Columns and counts gathered while a shard's records pass by equal those of its receipt."""

import numpy as np
import pytest

from shardfeed.column import column_dtype, encode_column, parse_column
from shardfeed.converters.existing.tally import ShardTally, image_options, shards_fingerprint, tfds_view
from shardfeed.formats.format import Fields, ShardInfo
from shardfeed.schema import ENCODED, FILENAME, FORMAT, HEIGHT, LABEL, WIDTH, Feature, Schema
from shardfeed.storage.storage import FileInfo

MANY = "image/object/class/label"
SCHEMA = Schema(
    {
        LABEL: Feature("int64"),
        MANY: Feature("int64", (None,)),
        FILENAME: Feature("bytes"),
        HEIGHT: Feature("int64"),
        ENCODED: Feature("bytes"),
    },
    {LABEL: ("a", "b", "c"), MANY: ("x", "y")},
)


RAW = b"raw"
JPEG = bytes.fromhex("ffd8 ffc0000b080001000101011100 ffda0008010100003f00 00 ffd9")


def record(label: int, many: list[int], name: bytes, image: bytes = JPEG, size: tuple[int, int] = (4, 5)) -> Fields:
    return {
        LABEL: ("int64", np.array([label])),
        MANY: ("int64", np.array(many, np.int64)),
        FILENAME: ("bytes", [name]),
        FORMAT: ("bytes", [b"raw" if image == RAW else b"jpg"]),
        HEIGHT: ("int64", np.array([size[0]])),
        WIDTH: ("int64", np.array([size[1]])),
        ENCODED: ("bytes", [bytes(3 * size[0] * size[1]) if image == RAW else image]),
    }


def tallied(*records: Fields, columns: tuple[str, ...] = ()) -> ShardTally:
    tally = ShardTally(SCHEMA.class_names.__contains__, columns)
    for number, features in enumerate(records):
        tally.add(features, 100 + number)
    return tally


def info(records: int) -> ShardInfo:
    return ShardInfo(records, FileInfo(1000, 1), FileInfo(20, 2))


def test_a_receipt() -> None:
    tally = tallied(record(2, [0, 1, 1], b"x"), record(0, [], b"y\0"), record(2, [0], b""))
    receipt = tally.receipt("train", 4, SCHEMA, info(3))
    assert (receipt.split, receipt.number, receipt.info) == ("train", 4, info(3))
    assert receipt.class_counts == {LABEL: (1, 0, 2), MANY: (2, 2)}
    assert receipt.formats == {"jpeg": 3}
    assert receipt.columns == {LABEL: encode_column([2, 0, 2], np.dtype("<i4"))}
    assert list(tally.sizes) == [100, 101, 102]
    assert (receipt.rejected, receipt.normalised, receipt.warnings) == ((), (), ())


def test_columns_that_are_asked_for() -> None:
    tally = tallied(record(2, [], b"x"), record(0, [], b"y\0"), columns=(FILENAME, HEIGHT))
    columns = tally.receipt("train", 0, SCHEMA, info(2)).columns
    assert columns.keys() == {LABEL, FILENAME, HEIGHT}
    found = {key: parse_column(data, 2, column_dtype(SCHEMA, key), key).tolist() for key, data in columns.items()}
    assert found == {LABEL: [2, 0], FILENAME: [b"x", b"y\0"], HEIGHT: [4, 4]}


def test_no_record() -> None:
    receipt = tallied(columns=(FILENAME,)).receipt("train", 0, SCHEMA, info(0))
    assert receipt.class_counts == {LABEL: (0, 0, 0), MANY: (0, 0)}
    assert len(parse_column(receipt.columns[FILENAME], 0, np.dtype("O"), "c")) == 0


def test_formats_are_by_the_bytes_of_each_image() -> None:
    webp, png = b"RIFF\x10\0\0\0WEBPVP8 ", b"\x89PNG\r\n\x1a\n" + bytes(20)
    images = [JPEG, JPEG[:-2], b"II, Claudius", webp, png, b"", JPEG + bytes(5)]
    tally = tallied(*(record(0, [], b"x", image=image) for image in images))
    expected = {"jpeg": 2, "damaged": 2, "unknown": 2, "webp": 1}
    assert tally.receipt("a", 0, SCHEMA, info(7)).formats == tally.formats(ENCODED) == expected
    assert tally.damaged == [(ENCODED, 1), (ENCODED, 4)]
    assert tallied(record(0, [], b"x", image=b"none")).formats(ENCODED) == {}
    assert tally.formats(FILENAME) == {}
    cut = record(0, [], b"x", image=RAW) | {HEIGHT: ("int64", np.array([9]))}
    assert tallied(record(0, [], b"x", image=RAW), cut).formats(ENCODED) == {"raw": 1, "damaged": 1}


@pytest.mark.parametrize(
    ("sizes", "encode", "shape"),
    [([(4, 5), (4, 5)], "raw", (4, 5)), ([(4, 5), (6, 5)], "raw", None), ([(0, 5)], "raw", None), ([], "keep", None)],
)
def test_how_images_are_stored(sizes: list[tuple[int, int]], encode: str, shape: tuple[int, int] | None) -> None:
    tallies = [tallied(record(0, [], b"x", image=RAW, size=size)) for size in sizes]
    options = image_options(tallies)
    assert (options.encode, options.shape) == (encode, shape)


def test_a_fingerprint_is_of_every_shard() -> None:
    a, b = FileInfo(1, 2), FileInfo(3, 4)
    prints = [
        shards_fingerprint(how, shards)
        for how, shards in [
            (b"adopted", {"train": [a, b]}),
            (b"adopted", {"train": [b, a]}),
            (b"adopted", {"train": [a]}),
            (b"adopted", {"test": [a, b]}),
            (b"salvaged", {"train": [a, b]}),
        ]
    ]
    assert len(set(prints)) == 5
    assert shards_fingerprint(b"x", {"a": [a], "b": [b]}) == shards_fingerprint(b"x", {"b": [b], "a": [a]})


def test_tfds_has_no_feature_for_several_images() -> None:
    assert "features.json" in tfds_view("x", SCHEMA, {}, [])
    several = Schema({ENCODED: Feature("bytes", (None,))}, {})
    assert tfds_view("x", several, {}, []) == {}
