import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.converters.images.exif import read_orientation


def exif(value: int, order: str = "<", kind: int = 3, count: int = 1, tag: int = 0x0112) -> bytes:
    """EXIF of two tags: a width, then `tag`."""
    magic = b"II*\0" if order == "<" else b"MM\0*"
    packed = struct.pack(order + {3: "H2x", 4: "L"}.get(kind, "L"), value)
    entries = struct.pack(order + "HHLH2x", 0x0100, 3, 1, 640) + struct.pack(order + "HHL", tag, kind, count) + packed
    return magic + struct.pack(order + "LH", 8, 2) + entries + bytes(4)


@pytest.mark.promise(32)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
@pytest.mark.parametrize("value", range(1, 9))
def test_every_orientation(value: int, kind: int, order: str) -> None:
    assert read_orientation(exif(value, order, kind)) == (value, None)
    assert read_orientation(b"Exif\0\0" + exif(value, order, kind)) == (value, None)


def test_without_the_tag_it_is_upright_and_nothing_is_wrong() -> None:
    assert read_orientation(exif(6, tag=0x0113)) == (1, None)


@pytest.mark.promise(32)
@pytest.mark.parametrize("broken", [exif(0), exif(9), exif(6, kind=2), exif(6, count=3), exif(65_535, ">")])
def test_a_value_that_means_nothing_is_upright_with_a_warning(broken: bytes) -> None:
    orientation, problem = read_orientation(broken)
    assert orientation == 1
    assert problem is not None
    assert "read as 1" in problem


@pytest.mark.promise(32)
def test_cut_anywhere_is_upright_with_a_warning() -> None:
    whole = exif(6)
    last_needed = len(whole) - 4  # the offset of the next directory is not needed
    for size in range(last_needed):
        orientation, problem = read_orientation(whole[:size])
        assert orientation == 1, size
        assert problem, size
    assert read_orientation(whole[:last_needed]) == (6, None)


@pytest.mark.promise(32)
@pytest.mark.parametrize("offset", [0, 4, 10_000, 2**32 - 1])
def test_a_directory_outside_the_data_is_a_warning(offset: int) -> None:
    whole = exif(6)
    assert read_orientation(whole[:4] + struct.pack("<L", offset) + whole[8:])[1]


@pytest.mark.promise(32)
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_directory_without_an_entry_is_whole(order: str) -> None:
    """Directory left by programs that remove every tag; Pillow reads it as empty, too."""
    whole = exif(6, order)[:4] + struct.pack(order + "LHL", 8, 0, 0)
    assert read_orientation(whole) == (1, None)
    assert read_orientation(whole[:-4]) == (1, None)
    for size in range(len(whole) - 4):
        assert read_orientation(whole[:size])[1], size


@pytest.mark.promise(32)
@given(st.binary(max_size=64), st.sampled_from([b"", b"II*\0", b"MM\0*", b"Exif\0\0II*\0\x08\0\0\0"]))
def test_any_bytes_give_an_answer(data: bytes, start: bytes) -> None:
    orientation, problem = read_orientation(start + data)
    assert 1 <= orientation <= 8
    assert problem is None or orientation == 1
