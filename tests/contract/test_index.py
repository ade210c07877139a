"""A shard's index: offsets and sizes as text, of which any other bytes are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import IntegrityError
from shardfeed.formats.tfrecord import LEAST_LINE_BYTES, Index, frame


def test_the_bytes_are_those_that_dali_reads() -> None:
    assert Index.from_sizes([16, 100, 21]).to_bytes() == b"0 16\n16 100\n116 21\n"
    assert Index.from_sizes([16]).to_bytes() == b"0 16\n"
    assert len(Index.from_sizes([16]).to_bytes()) == LEAST_LINE_BYTES
    assert Index.from_sizes([]).to_bytes() == b""


@given(st.lists(st.integers(0, 100_000), max_size=30))
def test_round_trip(lengths: list[int]) -> None:
    index = Index.from_sizes([length + 16 for length in lengths])
    again = Index.parse(index.to_bytes(), "x")
    assert again.offsets.tolist() == index.offsets.tolist()
    assert len(again) == len(lengths)


@pytest.mark.promise(24)
def test_every_flipped_bit_of_an_index_is_found() -> None:
    framed = [frame(bytes(n)) for n in (0, 5, 100)]
    data = Index.from_sizes(list(map(len, framed))).to_bytes()
    same = 0
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            Index.parse(bytes(damaged), "x")
            same += 1  # only the last record's size can change and still fit: the manifest's CRC finds that
        except IntegrityError:
            pass
    assert same <= 8 * len(b"116")
    for cut in range(1, len(data)):
        if data[:cut].count(b"\n") == 3 or not data[:cut].endswith(b"\n"):
            with pytest.raises(IntegrityError):
                Index.parse(data[:cut], "x")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"0 16\n16\n", "got 3 numbers, expected pairs"),
        (b"0 x\n", "not a number"),
        (b"0 16.0\n", "not a number"),
        (b"0 99999999999999999999\n", "not a number"),
        (b"0 15\n", "not contiguous"),
        (b"1 16\n", "not contiguous"),
        (b"0 16\n17 16\n", "not contiguous"),
        (b"0 16\n15 16\n", "not contiguous"),
        (b"0 9223372036854775807\n9223372036854775807 9223372036854775807\n-2 20\n", "not contiguous"),
        (b"0  16\n", "not written as"),
        (b"0 16", "not written as"),
        (b"00 16\n", "not written as"),
        (b"0 16\n\n", "not written as"),
    ],
)
def test_other_text_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(IntegrityError, match=f"the file: .*{said}.*shardfeed rebuild"):
        Index.parse(data, "the file")


def test_offsets_past_four_gigabytes() -> None:
    sizes = [3 << 30, 2 << 30, 16]
    index = Index.parse(Index.from_sizes(sizes).to_bytes(), "x")
    assert index.offsets.dtype == np.int64
    assert np.diff(index.offsets).tolist() == sizes
