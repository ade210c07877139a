import io
import struct

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.store import StoredImage, store_image
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.errors import spell_out

from pictures import image_bytes

NO_ALPHA, ALPHA = 0, 2  # of ExtraSamples
PAGE, REDUCED, MASK = 0, 1, 4  # of NewSubfileType


def tiff(*pages: tuple[np.ndarray, int], photometric: int | None = None, extra: int = NO_ALPHA) -> bytes:
    """A TIFF without compression: the pixels of each page, [height, width, bands], and its NewSubfileType."""
    data, last = bytearray(b"II*\0\0\0\0\0"), 4
    for pixels, subfile in pages:
        height, width, bands = pixels.shape
        color = 3 if bands >= 3 and photometric is None else 1

        def value(kind: str, numbers: list[int], data: bytearray = data) -> tuple[int, bytes]:
            packed = struct.pack(f"<{len(numbers)}{kind}", *numbers)
            if len(packed) <= 4:
                return len(numbers), packed.ljust(4, b"\0")
            data += packed + b"\0" * (len(packed) % 2)
            return len(numbers), struct.pack("<I", len(data) - len(packed) - len(packed) % 2)

        at = len(data)
        data += pixels.tobytes() + b"\0" * (pixels.nbytes % 2)
        tags = [(254, 4, value("I", [subfile])), (256, 4, value("I", [width])), (257, 4, value("I", [height]))]
        tags += [(258, 3, value("H", [8 * pixels.itemsize] * bands)), (259, 3, value("H", [1]))]
        tags += [(262, 3, value("H", [(2 if color == 3 else 1) if photometric is None else photometric]))]
        tags += [(273, 4, value("I", [at])), (277, 3, value("H", [bands]))]
        tags += [(278, 4, value("I", [height])), (279, 4, value("I", [pixels.nbytes]))]
        tags += [(338, 3, value("H", [extra] * (bands - color)))] if bands > color else []
        struct.pack_into("<I", data, last, len(data))
        data += struct.pack("<H", len(tags)) + b"".join(
            struct.pack("<HHI", tag, kind, count) + packed for tag, kind, (count, packed) in tags
        )
        last = len(data)
        data += b"\0\0\0\0"
    return bytes(data)


def noise(bands: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(bands).integers(1, np.iinfo(dtype).max, (24, 32, bands)).astype(dtype)


def stored(data: bytes, **options: object) -> StoredImage:
    return store_image(data, ImageOptions(**options))  # type: ignore[arg-type]


def pixels_of(image: StoredImage) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image.encoded)))


def refused(data: bytes, **options: object) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        stored(data, **options)
    return caught.value


@pytest.mark.parametrize("later", [(REDUCED,), (REDUCED, REDUCED), (MASK,), (REDUCED | MASK, REDUCED)])
def test_overviews_are_not_the_picture(later: tuple[int, ...]) -> None:
    picture = noise(3)
    image = stored(
        tiff((picture, PAGE), *((picture[:: 2 * n + 2, :: 2 * n + 2], kind) for n, kind in enumerate(later)))
    )
    assert np.array_equal(pixels_of(image), picture)
    assert not image.warnings


@pytest.mark.parametrize("later", [(PAGE,), (REDUCED, PAGE)])
def test_a_stack_is_refused(later: tuple[int, ...]) -> None:
    data = tiff((noise(3), PAGE), *((noise(3), kind) for kind in later))
    assert refused(data).code is RejectCode.ANIMATED


def test_a_first_page_that_is_an_overview_is_refused() -> None:
    assert refused(tiff((noise(3), REDUCED), (noise(3), PAGE))).code in (RejectCode.UNSUPPORTED, RejectCode.ANIMATED)


@pytest.mark.parametrize(("bands", "left"), [(4, "band 4 is"), (5, "bands 4 to 5 are"), (6, "bands 4 to 6 are")])
def test_bands_beyond_rgb_are_named(bands: int, left: str) -> None:
    picture = noise(bands)
    image = stored(tiff((picture, PAGE)))
    assert np.array_equal(pixels_of(image), picture[..., :3])
    assert image.warnings == (f"TIFF of {bands} bands: red, green and blue are stored, {left} left out",)


def test_alpha_is_no_band_that_is_left_out() -> None:
    picture = noise(4)
    picture[..., 3] = 255
    image = stored(tiff((picture, PAGE), extra=ALPHA))
    assert (image.warnings, "alpha" in image.changes) == ((), True)


@pytest.mark.parametrize("bands", [3, 4, 8, 13])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_gray_of_several_bands_is_refused_with_its_reason(bands: int, dtype: type) -> None:
    error = refused(tiff((noise(bands, dtype), PAGE), photometric=1))
    assert error.code is RejectCode.UNSUPPORTED, "the file is valid, not corrupt"
    assert f"TIFF of {bands} bands" in error.reason


def test_color_of_16_bits_is_counted() -> None:
    assert "16-bit" in stored(tiff((noise(3, np.uint16), PAGE))).changes


def gray16(most: int, kind: str) -> bytes:
    values = np.linspace(0, most, 24 * 32).astype(np.uint16).reshape(24, 32, 1)
    if kind == "tiff":
        return tiff((values, PAGE))
    return image_bytes(Image.fromarray(values[..., 0]), kind)


@pytest.mark.parametrize("kind", ["tiff", "png"])
@pytest.mark.parametrize("bits", [9, 10, 12, 14])
def test_values_of_few_bits_are_kept_with_a_warning_that_works_when_typed(kind: str, bits: int) -> None:
    most = (1 << bits) - 1
    image = stored(gray16(most, kind))
    assert pixels_of(image).max() == round(most / 257), "images are not scaled one by one: they would not be comparable"
    (warning,) = image.warnings
    assert f"--bits {bits} (in Python ImageOptions(bits={bits}))" in spell_out(warning)
    again = stored(gray16(most, kind), bits=bits)
    values = np.linspace(0, most, 24 * 32).astype(np.uint16).reshape(24, 32)
    assert np.array_equal(pixels_of(again), np.floor(values * (255 / most) + 0.5))
    assert not again.warnings
    assert refused(gray16(most + 1, kind), bits=bits).code is RejectCode.UNSUPPORTED


@pytest.mark.parametrize("kind", ["tiff", "png"])
def test_values_of_16_bits_have_no_warning(kind: str) -> None:
    assert not stored(gray16(40_000, kind)).warnings


def test_bits_of_color_are_refused() -> None:
    assert refused(tiff((noise(3, np.uint16), PAGE)), bits=12).code is RejectCode.UNSUPPORTED


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_clear_pixels_have_a_warning_that_works_when_typed(mode: str) -> None:
    picture = Image.fromarray(noise(3)).convert(mode[:-1])
    clear = picture.copy()
    clear.putalpha(0)
    out = io.BytesIO()
    clear.save(out, "PNG")
    image = stored(out.getvalue())
    assert pixels_of(image).min() == 255, "the picture is gone"
    assert "--background none (in Python ImageOptions(background='none'))" in spell_out(image.warnings[0])
    again = stored(out.getvalue(), background="none")
    assert np.array_equal(pixels_of(again), np.asarray(picture))
    assert not again.warnings
