"""PBM, PGM and PPM, plain and raw, of any largest value, against values written here."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.other_formats import load_other
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError


def values(kind: int, largest: int, height: int = 7, width: int = 11) -> np.ndarray:
    shape = (height, width, 3) if kind in (3, 6) else (height, width)
    found = np.random.default_rng(kind).integers(0, largest + 1, shape)
    found.flat[:2] = 0, largest
    return found


def pnm(kind: int, array: np.ndarray, largest: int, head: str = "P{kind}\n{width} {height}\n") -> bytes:
    """A file as netpbm defines it, written without Pillow."""
    height, width = array.shape[:2]
    start = head.format(kind=kind, width=width, height=height) + ("" if kind in (1, 4) else f"{largest}\n")
    if kind == 4:
        body = np.packbits(array.astype(bool), axis=1).tobytes()
    elif kind >= 5:
        body = array.astype("u1" if largest < 256 else ">u2").tobytes()
    else:
        body = "\n".join(" ".join(map(str, row)) for row in array.reshape(height, -1)).encode()
    return start.encode() + body


def refused(data: bytes, max_pixels: int = MAX_PIXELS) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        load_other("pnm", data, max_pixels)
    return caught.value.code


@pytest.mark.promise(31)
@pytest.mark.parametrize("kind", range(1, 7))
@pytest.mark.parametrize("largest", [1, 7, 100, 255, 4095, 65_535])
def test_every_kind_is_exact(kind: int, largest: int) -> None:
    largest = 1 if kind in (1, 4) else largest
    array = values(kind, largest)
    loaded = load_other("pnm", pnm(kind, array, largest), MAX_PIXELS)
    expected = np.floor(array * 255 / largest + 0.5)
    assert np.array_equal(np.asarray(loaded.pixels), 255 - expected if kind in (1, 4) else expected)
    bits = ("1-bit",) if kind in (1, 4) else ("16-bit",) if largest > 255 else ()
    assert loaded.changes == ("pnm", *bits)
    assert not loaded.lossy


@pytest.mark.parametrize(("mode", "name"), [("1", "x.pbm"), ("L", "x.pgm"), ("RGB", "x.ppm")])
def test_what_pillow_writes_comes_out_as_pillow_reads_it(mode: str, name: str) -> None:
    image = Image.linear_gradient("L").convert("RGB").resize((37, 21)).convert(mode)
    out = io.BytesIO()
    image.save(out, "PPM")
    stored = store_image(out.getvalue(), ImageOptions())
    assert (stored.format, stored.height, stored.width) == (b"png", 21, 37)
    found = Image.open(io.BytesIO(stored.encoded))
    assert np.array_equal(np.asarray(found), np.asarray(image.convert("RGB" if mode == "RGB" else "L")))


def test_comments_and_any_white_space() -> None:
    array = values(5, 255)
    head = "P{kind} # by hand\r\n# two\t lines\n {width}\n#x\n\t{height} "
    loaded = load_other("pnm", pnm(5, array, 255, head), MAX_PIXELS)
    assert np.array_equal(np.asarray(loaded.pixels), array)
    assert np.asarray(load_other("pnm", b"P1\n3 2 # no blanks\n101\n#x\n010", MAX_PIXELS).pixels).tolist() == [
        [0, 255, 0],
        [255, 0, 255],
    ]


@pytest.mark.promise(33)
@pytest.mark.parametrize("kind", range(1, 7))
def test_cut_anywhere(kind: int) -> None:
    data = pnm(kind, values(kind, 1 if kind in (1, 4) else 255), 255)
    head = len(b"P6\n11 7\n")
    for size in range(head, len(data) - (4 if kind in (2, 3) else 0)):
        assert refused(data[:size]) is RejectCode.TRUNCATED, size


@pytest.mark.promise(34)
@pytest.mark.parametrize("kind", range(1, 7))
def test_too_many_pixels(kind: int) -> None:
    assert refused(b"P%d 30000 30000 255 " % kind) is RejectCode.TOO_LARGE
    assert refused(pnm(kind, values(kind, 1), 1), max_pixels=76) is RejectCode.TOO_LARGE


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"P5 0 4 255 ", RejectCode.CORRUPT),
        (b"P5 2 2 0 abcd", RejectCode.CORRUPT),
        (b"P5 2 2 65536 abcd", RejectCode.CORRUPT),
        (b"P5 2 2 9 " + bytes([9, 9, 9, 10]), RejectCode.CORRUPT),
        (b"P2 2 2 9 1 2 3 x", RejectCode.CORRUPT),
        (b"P2 2 2 9 1 2 3 -4", RejectCode.CORRUPT),
        (b"P2 2 2 9 1 2 3 99999999999999999999999", RejectCode.CORRUPT),
        (b"P1 2 2 1 0 1 2", RejectCode.CORRUPT),
        (b"P5 1 1 255 x" * 2, RejectCode.ANIMATED),
        (b"P5 1 1 255 x\nP5 1 1 255 y", RejectCode.ANIMATED),
    ],
)
def test_what_is_wrong_is_told(data: bytes, code: RejectCode) -> None:
    assert refused(data) is code


def test_what_follows_the_image_is_no_matter() -> None:
    data = b"P5 1 1 255 x\n"
    assert load_other("pnm", data + bytes(9), MAX_PIXELS).pixels.size == (1, 1)


@settings(max_examples=300)
@given(st.integers(1, 6), st.binary(max_size=60), st.sampled_from([b"2 2 ", b"2 2 255 ", b"", b"9 1 1000 "]))
def test_any_bytes_are_an_image_or_rejected(kind: int, data: bytes, size: bytes) -> None:
    try:
        stored = store_image(b"P%d " % kind + size + data, ImageOptions(max_pixels=10_000))
    except RejectedError:
        return
    assert struct.unpack(">II", stored.encoded[16:24]) == (stored.width, stored.height)
