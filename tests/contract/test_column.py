"""The bytes of a column: NumPy reads them, values come back as they were, and any other bytes are refused."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.column import (
    HEADER_BYTES,
    check_labels,
    column_dtype,
    column_keys,
    encode_column,
    join_columns,
    parse_column,
)
from shardfeed.errors import IntegrityError
from shardfeed.naming import column_file
from shardfeed.schema import ENCODED, LABEL, TEXT, Feature, Schema

LABELS, INTEGERS, FLOATS, BYTES = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<f4"), np.dtype("O")
VALUES = {
    LABELS: st.integers(0, 2**31 - 1),
    INTEGERS: st.integers(-(2**63), 2**63 - 1),
    FLOATS: st.floats(width=32, allow_nan=False),
    BYTES: st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"\0", b"a\0", b"\0a\0\0", bytes(3000)])),
}
KINDS = [pytest.param(dtype, id=str(dtype)) for dtype in VALUES]


@pytest.mark.parametrize("dtype", KINDS)
@given(data=st.data())
def test_round_trip(dtype: np.dtype, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[dtype], max_size=100))
    found = parse_column(encode_column(values, dtype), len(values), dtype, "c")
    assert found.tolist() == values
    assert found.dtype == dtype
    assert not found.flags.writeable


@pytest.mark.parametrize("dtype", KINDS)
@given(data=st.data())
def test_the_columns_of_shards_are_joined(dtype: np.dtype, data: st.DataObject) -> None:
    shards = data.draw(st.lists(st.lists(VALUES[dtype], max_size=20), min_size=1, max_size=5))
    pieces = [{"n": encode_column(values, dtype)} for values in shards]
    joined = b"".join(join_columns("n", pieces, [len(values) for values in shards], dtype))
    assert joined == encode_column([value for values in shards for value in values], dtype)


@pytest.mark.parametrize("dtype", [LABELS, INTEGERS, FLOATS])
def test_numpy_maps_numbers(dtype: np.dtype, tmp_path: Path) -> None:
    (tmp_path / "c.npy").write_bytes(encode_column([3, 0, 2], dtype))
    mapped = np.load(tmp_path / "c.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == dtype
    assert mapped.tolist() == [3, 0, 2]


def test_numpy_reads_bytes_as_ends_and_values() -> None:
    file = io.BytesIO(encode_column([b"ab", b"", b"\0c"], BYTES))
    assert np.load(file, allow_pickle=False).tolist() == [2, 2, 4]
    assert np.load(file, allow_pickle=False).tobytes() == b"ab\0c"
    assert not file.read()


def test_the_bytes_are_fixed() -> None:
    text = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }"
    expected = b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117) + b"\n" + bytes([1, 0, 0, 0, 0, 1, 0, 0])
    assert encode_column([1, 256], LABELS) == expected
    ends = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"
    blob = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }"
    first, second = (b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117) + b"\n" for text in (ends, blob))
    assert encode_column([b"hi"], BYTES) == first + bytes([2, 0, 0, 0, 0, 0, 0, 0]) + second + b"hi"


@pytest.mark.parametrize("records", [0, 1, 10**10, 10**18])
def test_any_number_of_records_fits_the_header(records: int) -> None:
    header = next(join_columns("n", [], [records], INTEGERS))
    assert len(header) == HEADER_BYTES == 128
    file = io.BytesIO(header)
    assert np.lib.format.read_magic(file) == (1, 0)
    assert np.lib.format.read_array_header_1_0(file) == ((records,), False, np.dtype("<i8"))


@pytest.mark.parametrize(("values", "dtype"), [([0, 1, 2], LABELS), ([b"ab", b"", b"c"], BYTES)])
def test_other_bytes_are_refused(values: list[Any], dtype: np.dtype) -> None:
    data = encode_column(values, dtype)
    for bit in range(HEADER_BYTES * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError, match="c: its header does not declare 3 values"):
            parse_column(bytes(damaged), 3, dtype, "c")
    for other in [*(data[:cut] for cut in range(len(data))), data + b"\0"]:
        with pytest.raises(IntegrityError):
            parse_column(other, 3, dtype, "c")
    for records in (2, 4):
        with pytest.raises(IntegrityError, match=f"not declare {records} values"):
            parse_column(data, records, dtype, "c")


@pytest.mark.parametrize("ends", [[2, 1, 3], [-1, 2, 3], [1, 2, 4], [1, 2, 2]])
def test_ends_that_do_not_follow_each_other(ends: list[int]) -> None:
    forged = encode_column(ends, INTEGERS) + encode_column([b"abc"], BYTES)[HEADER_BYTES + 8 :]
    assert len(forged) == len(encode_column([b"a", b"b", b"c"], BYTES))
    with pytest.raises(IntegrityError, match="do not increase"):
        parse_column(forged, 3, BYTES, "c")


@pytest.mark.parametrize(("label", "said"), [(3, "has the label 3, expected 0 to 2"), (-1, "has the label -1")])
def test_a_label_out_of_range_is_refused(label: int, said: str) -> None:
    check_labels(np.array([0, 1, 2]), 3, "c")
    with pytest.raises(IntegrityError, match=f"record 1 {said}"):
        check_labels(np.array([0, label, 2]), 3, "c")


def test_which_features_have_a_column() -> None:
    ragged, long = "image/object/class/label", f"image/{'x' * 240}/label"
    keys = [LABEL, "image/a/b/label", "image/a.b/label", ragged, long, "image/Größe/label"]
    features = {key: Feature("int64", (None,) if key == ragged else ()) for key in keys}
    features |= {TEXT: Feature("bytes"), "image/age": Feature("int64"), ENCODED: Feature("bytes")}
    schema = Schema(features, {LABEL: ("a",)})
    assert column_keys("train", schema) == ["image/Größe/label", "image/age", LABEL, TEXT]
    assert [column_dtype(schema, key) for key in (LABEL, "image/age", TEXT)] == [LABELS, INTEGERS, BYTES]
    assert column_file("train", LABEL) == "index/train.image.class.label.npy"
    assert column_file("train", LABEL, version=1) == "train.image.class.label.npy"


def test_pictures_have_no_column() -> None:
    """They would be stored twice: the image, and masks, by their keys or by their kinds."""
    features = {
        ENCODED: Feature("bytes"),
        "image/segmentation/class/encoded": Feature("bytes"),
        "image/depth": Feature("bytes", kind="image"),
        "image/outline": Feature("bytes", kind="place"),
        "image/horizon": Feature("float32", kind="place"),
    }
    assert column_keys("train", Schema(features, {})) == ["image/horizon"]
