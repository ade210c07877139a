"""JPEG 2000: what is read of it, and that cut and forged files are found before they are decoded."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.other_formats import load_other
from shardfeed.converters.images.other_headers import check_jpeg2000
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes


def picture(mode: str = "RGB") -> Image.Image:
    y, x = np.mgrid[:45, :70]
    channels = [128 + 100 * np.sin(x / (7 + c) + y / (11 - c)) for c in range(4)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8), "RGBA").convert(mode)


def file(mode: str = "RGB", **options: object) -> bytes:
    return image_bytes(picture(mode), "JPEG2000", **options)


def refused(data: bytes, max_pixels: int = MAX_PIXELS) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        load_other("jpeg2000", data, max_pixels)
    return caught.value.code


@pytest.mark.promise(31)
@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("bare", [False, True])
def test_reversible_files_are_exact(mode: str, bare: bool) -> None:
    data = file(mode, no_jp2=bare)
    loaded = load_other("jpeg2000", data, MAX_PIXELS)
    assert np.array_equal(np.asarray(loaded.pixels), np.asarray(picture(mode)))
    assert (loaded.changes, loaded.lossy) == (("jpeg2000",), False)
    assert store_image(data, ImageOptions()).format == b"png"


@pytest.mark.promise(31)
def test_the_rounding_wavelet_is_lossy() -> None:
    data = file(irreversible=True, quality_layers=[5])
    loaded = load_other("jpeg2000", data, MAX_PIXELS)
    assert loaded.lossy
    assert store_image(data, ImageOptions()).format == b"jpeg"
    assert np.abs(np.asarray(loaded.pixels).astype(int) - np.asarray(picture())).mean() < 5


@pytest.mark.promise(31)
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha_is_over_the_background(mode: str) -> None:
    loaded = load_other("jpeg2000", file(mode), MAX_PIXELS, (0, 0, 0))
    assert loaded.changes == ("jpeg2000", "alpha")
    values = np.asarray(picture(mode).convert("RGBA")).astype(float)
    expected = values[..., :3] * values[..., 3:] / 255
    assert np.abs(np.asarray(loaded.pixels.convert("RGB")) - expected).max() <= 1


def test_16_bits() -> None:
    array = np.arange(0, 65_536, 16, dtype=np.uint16).reshape(64, 64)
    out = io.BytesIO()
    Image.fromarray(array).save(out, "JPEG2000")
    loaded = load_other("jpeg2000", out.getvalue(), MAX_PIXELS)
    assert loaded.changes == ("jpeg2000", "16-bit")
    assert np.abs(np.asarray(loaded.pixels) - array / 257).max() <= 0.5


@pytest.mark.promise(33)
@pytest.mark.parametrize("bare", [False, True])
def test_cut_anywhere(bare: bool) -> None:
    data = file(no_jp2=bare)
    for size in range(12, len(data), max(1, len(data) // 100)):
        assert refused(data[:size]) in (RejectCode.TRUNCATED, RejectCode.CORRUPT), size
    assert refused(data[:-1]) is RejectCode.TRUNCATED


def at_siz(data: bytes) -> int:
    """Where the width is in the codestream's header; the height follows."""
    return data.index(b"\xff\x4f\xff\x51") + 8


@pytest.mark.promise(34)
@pytest.mark.parametrize("bare", [False, True])
def test_too_many_pixels_in_the_codestream(bare: bool) -> None:
    data = bytearray(file(no_jp2=bare))
    at = at_siz(data)
    data[at : at + 8] = struct.pack(">II", 30_000, 30_000)
    assert refused(bytes(data)) is RejectCode.TOO_LARGE
    assert refused(file(no_jp2=bare), max_pixels=70 * 45 - 1) is RejectCode.TOO_LARGE


@pytest.mark.promise(34)
def test_two_sizes_are_a_lie() -> None:
    """Pillow believes the box before the codestream, its decoder what the codestream says, and both are compared."""
    data = bytearray(file())
    at = data.index(b"ihdr") + 4
    data[at : at + 8] = struct.pack(">II", 4, 4)
    assert refused(bytes(data)) is RejectCode.CORRUPT


def test_too_many_components() -> None:
    data = bytearray(file(no_jp2=True))
    at = at_siz(data) + 32
    assert data[at : at + 2] == b"\0\3"
    data[at : at + 2] = struct.pack(">H", 16_384)
    assert refused(bytes(data)) is RejectCode.UNSUPPORTED


def test_boxes_of_every_way_to_say_their_length() -> None:
    data = file()
    at = data.index(b"jp2c") - 4
    to_the_end = data[:at] + bytes(4) + data[at + 4 :]
    long = data[:at] + struct.pack(">I4sQ", 1, b"jp2c", len(data) - at + 8) + data[at + 8 :]
    for changed in (to_the_end, long):
        assert check_jpeg2000(changed, MAX_PIXELS) is False
    with pytest.raises(RejectedError, match="box of 2 bytes"):
        check_jpeg2000(data[:12] + struct.pack(">I", 2) + data[16:], MAX_PIXELS)


@settings(max_examples=150)
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4), st.integers(0, 40))
def test_changed_headers_are_an_image_or_rejected(bare: bool, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(file("L", no_jp2=bare))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        stored = store_image(bytes(data[: len(data) - cut]), ImageOptions(max_pixels=100_000))
    except RejectedError:
        return
    assert stored.height * stored.width <= 100_000
