"""The bytes of a label column: NumPy reads them, and any other bytes are refused."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import IntegrityError
from shardfeed.label_column import column_header, column_keys, column_name, label_bytes, parse_column, read_labels
from shardfeed.schema import LABEL, TEXT, Feature, Schema

CLASSES = 2**31 - 1
LABELS = st.lists(st.integers(0, CLASSES - 1), max_size=300)


def column(labels: list[int]) -> bytes:
    return column_header(len(labels)) + label_bytes(labels)


@given(LABELS)
def test_round_trip(labels: list[int]) -> None:
    data = column(labels)
    assert parse_column(data, len(labels), CLASSES, "c").tolist() == labels
    found = np.load(io.BytesIO(data), allow_pickle=False)
    assert found.dtype == np.dtype("<i4")
    assert found.tolist() == labels


@given(LABELS, st.integers(0, 300))
def test_pieces_of_a_split_may_be_joined(labels: list[int], cut: int) -> None:
    assert label_bytes(labels[:cut]) + label_bytes(labels[cut:]) == label_bytes(labels)
    assert read_labels(label_bytes(labels)).tolist() == labels


def test_numpy_maps_it(tmp_path: Path) -> None:
    (tmp_path / "c.npy").write_bytes(column([3, 0, 2]))
    mapped = np.load(tmp_path / "c.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert mapped.tolist() == [3, 0, 2]


def test_the_bytes_are_fixed() -> None:
    text = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }"
    assert column([1, 256]) == b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117) + b"\n" + bytes([1, 0, 0, 0, 0, 1, 0, 0])


@pytest.mark.parametrize("records", [0, 1, 10**10, 10**18])
def test_any_number_of_records_fits_the_header(records: int) -> None:
    header = column_header(records)
    assert len(header) == 128
    file = io.BytesIO(header)
    assert np.lib.format.read_magic(file) == (1, 0)
    assert np.lib.format.read_array_header_1_0(file) == ((records,), False, np.dtype("<i4"))


def test_other_bytes_are_refused() -> None:
    data = column([0, 1, 2])
    for bit in range(128 * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError, match="c: not the column of 3 labels"):
            parse_column(bytes(damaged), 3, 3, "c")
    for cut in range(128, len(data)):
        with pytest.raises(IntegrityError, match=f"got {cut} bytes, expected 140 for 3 labels"):
            parse_column(data[:cut], 3, 3, "c")
    for other in (data[:50], data + b"\0", b""):
        with pytest.raises(IntegrityError):
            parse_column(other, 3, 3, "c")
    with pytest.raises(IntegrityError, match="not the column of 2 labels"):
        parse_column(data, 2, 3, "c")


@pytest.mark.parametrize(("label", "said"), [(3, "has the label 3, expected 0 to 2"), (-1, "has the label -1")])
def test_a_label_out_of_range_is_refused(label: int, said: str) -> None:
    with pytest.raises(IntegrityError, match=f"record 1 {said}"):
        parse_column(column([0, label, 2]), 3, 3, "c")


def test_which_features_have_a_column() -> None:
    ragged, long = "image/object/class/label", f"image/{'x' * 230}/label"
    keys = [LABEL, "image/a/b/label", "image/a.b/label", ragged, long, "image/Größe/label"]
    features = {key: Feature("int64", (None,) if key == ragged else ()) for key in keys}
    schema = Schema(features | {TEXT: Feature("bytes"), "image/age": Feature("int64")}, dict.fromkeys(keys, ("a",)))
    assert column_keys("train", schema) == ["image/Größe/label", LABEL]
    assert column_name("train", LABEL) == "train.image.class.label.npy"
