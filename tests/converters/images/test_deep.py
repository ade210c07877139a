"""Images of 16 bits as `keep_depth` stores them: OpenCV, which decodes all of them, is the reference."""

import struct
import sys
import zlib
from collections.abc import Callable

import cv2
import numpy as np
import pytest

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import StoredImage, check_stored, store_image
from shardfeed.converters.rejects import RejectedError
from tests.converters.images.test_tiff import ALPHA, PAGE, noise, tiff

PREMULTIPLIED = 1  # of ExtraSamples
COLOUR, GRAY = noise(3, np.uint16), noise(1, np.uint16)
BOTH = np.concatenate([COLOUR, GRAY], 2)


def kept(data: bytes, **options: object) -> StoredImage:
    return store_image(data, ImageOptions(keep_depth=True, **options))  # type: ignore[arg-type]


def pixels_of(stored: StoredImage) -> np.ndarray:
    """[h, w, bands], red first."""
    assert stored.format == b"png16"
    check_stored(stored.encoded, stored.format, stored.height, stored.width)
    found = cv2.imdecode(np.frombuffer(stored.encoded, np.uint8), cv2.IMREAD_UNCHANGED)
    assert found.dtype == np.uint16
    return found.reshape(*found.shape[:2], -1)[..., ::-1]


def png(pixels: np.ndarray) -> bytes:
    order = [2, 1, 0, 3][: pixels.shape[2]] if pixels.shape[2] > 1 else [0]
    return cv2.imencode(".png", pixels[..., order])[1].tobytes()


@pytest.mark.promise(31)
@pytest.mark.parametrize("pixels", [GRAY, COLOUR], ids=["gray", "colour"])
def test_files_of_16_bits_keep_each_number(pixels: np.ndarray) -> None:
    assert kept(png(pixels)).encoded == png(pixels)
    stored = kept(tiff((pixels, PAGE)))
    assert (pixels_of(stored) == pixels).all()
    assert stored.changes == ("tiff",)


@pytest.mark.parametrize("bits", [16, 12])
def test_gray_in_which_0_is_white_is_inverted_as_in_8_bits(bits: int) -> None:
    values = GRAY >> (16 - bits)
    data = tiff((values, PAGE), photometric=0)
    if bits == 16:
        assert (pixels_of(kept(data)) == 65_535 - GRAY).all()
    stored = store_image(data, ImageOptions(bits=bits))
    plain = cv2.imdecode(np.frombuffer(stored.encoded, np.uint8), cv2.IMREAD_UNCHANGED)
    assert np.abs(plain - (255 - values[..., 0] / ((1 << bits) - 1) * 255)).max() <= 0.51


def test_values_in_which_0_is_white_are_checked_as_they_are_stored() -> None:
    data = tiff((np.minimum(GRAY, 4_094), PAGE), photometric=0)
    (warning,) = store_image(data, ImageOptions()).warnings
    assert "values of 16 bits reach 4,094 of 65,535" in warning
    with pytest.raises(RejectedError, match="it has the value 5000, which does not fit 12 bits"):
        store_image(tiff((np.minimum(GRAY, 5_000), PAGE), photometric=0), ImageOptions(bits=12))


@pytest.mark.parametrize("data", [png(BOTH), tiff((BOTH, PAGE), extra=ALPHA)], ids=["png", "tiff"])
def test_alpha_is_dropped_or_put_over_the_background(data: bytes) -> None:
    assert (pixels_of(kept(data, background="none")) == COLOUR).all()
    over = COLOUR * (GRAY / 65_535) + 257 * 128 * (1 - GRAY / 65_535)
    assert np.abs(pixels_of(kept(data, background="#808080")) - over).max() <= 1


@pytest.mark.parametrize("to_file", [png, lambda pixels: tiff((pixels, PAGE), extra=ALPHA)], ids=["png", "tiff"])
def test_images_that_are_hardly_seen_are_named(to_file: Callable[[np.ndarray], bytes]) -> None:
    for most, share in ((100 << 8, "at most 100 of 255, so most"), (0, "at most 0 of 255, so all")):
        data = to_file(np.concatenate([COLOUR, np.minimum(GRAY, most)], 2))
        (warning,) = kept(data).warnings
        assert f"alpha is {share} that is stored is background" in warning
        assert (warning,) == store_image(data, ImageOptions()).warnings
        assert not kept(data, background="none").warnings


@pytest.mark.parametrize("background", ["none", "#804020"])
def test_colours_stored_times_alpha_are_those_without_the_option(background: str) -> None:
    """The noise has colours above their alpha, too, which none can have: they count as the brightest."""
    times_alpha = (COLOUR.astype(np.uint32) * GRAY // 65_535).astype(np.uint16)
    times_alpha[0] = COLOUR[0]
    data = tiff((np.concatenate([times_alpha, GRAY], 2), PAGE), extra=PREMULTIPLIED)
    found = pixels_of(kept(data, background=background)).astype(float)
    plain = store_image(data, ImageOptions(background=background))
    of_8 = cv2.imdecode(np.frombuffer(plain.encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    opaque = GRAY[..., 0] >= (1 << 15)  # where Pillow divides by a small alpha of 8 bits it is many levels off
    assert np.abs(found / 257 - of_8)[opaque].max() <= 3
    if background == "none":
        assert np.abs(found - COLOUR)[1:][opaque[1:]].max() <= 2
    else:
        share = GRAY / 65_535
        over = np.minimum(times_alpha, GRAY) + 257 * np.array([0x80, 0x40, 0x20]) * (1 - share)
        assert np.abs(found - over).max() <= 0.51


@pytest.mark.parametrize(("background", "bands"), [("none", 1), ("#808080", 1), ("#804020", 3)])
def test_gray_with_alpha_stays_gray_unless_a_colour_is_behind_it(background: str, bands: int) -> None:
    alpha = GRAY[::-1]
    found = pixels_of(kept(png_of_gray_and_alpha(np.concatenate([GRAY, alpha], 2)), background=background))
    share = np.ones(GRAY.shape) if background == "none" else alpha / 65_535
    behind = [] if background == "none" else [int(background[at : at + 2], 16) for at in (1, 3, 5)][:bands]
    assert found.shape == (*GRAY.shape[:2], bands)
    assert np.abs(found - (GRAY * share + 257 * np.array(behind or [0]) * (1 - share))).max() <= 0.51


def png_of_gray_and_alpha(pixels: np.ndarray) -> bytes:
    """A PNG of colour type 4, which OpenCV does not write."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, 4, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_filters_compute_in_more_than_8_bits() -> None:
    small = pixels_of(kept(png(COLOUR), resize_shorter=12))
    of_8 = store_image(png(COLOUR), ImageOptions(resize_shorter=12))
    plain = cv2.imdecode(np.frombuffer(of_8.encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert small.shape == (12, 16, 3)
    assert np.abs(small / 257 - plain).mean() < 1
    assert len(np.unique(small)) > 256


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_tiff_is_turned_as_one_of_8_bits(orientation: int) -> None:
    def turned(pixels: np.ndarray) -> bytes:
        data = tiff((pixels, PAGE))  # its directory is the end, and begins with a tag that no one needs
        start = int.from_bytes(data[4:8], "little") + 2
        tags = sorted(
            [data[at : at + 12] for at in range(start + 12, len(data) - 4, 12)] + [tag], key=lambda one: one[:2][::-1]
        )
        return data[:start] + b"".join(tags) + data[-4:]

    tag = np.array([274, 3, 1, 0, orientation, 0], "<u2").tobytes()
    plain = store_image(turned((COLOUR >> 8).astype(np.uint8)), ImageOptions())
    expected = cv2.imdecode(np.frombuffer(plain.encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert (pixels_of(kept(turned(COLOUR))) >> 8 == expected).all()


def test_without_opencv_colours_are_refused_and_gray_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert kept(tiff((GRAY, PAGE))).format == kept(png(COLOUR)).format == b"png16"
    with pytest.raises(RejectedError, match="pip install opencv-python-headless"):
        kept(tiff((COLOUR, PAGE)))
