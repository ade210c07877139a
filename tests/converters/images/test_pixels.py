import io
import threading
import warnings
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image, ImageFile

from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import Filter, ImageOptions
from shardfeed.converters.images.pixels import (
    Fit,
    check_pixels,
    encode_jpeg,
    encode_png,
    fit_image,
    fitted,
    gray_or_rgb,
    load_clean_jpeg,
    load_jpeg,
    load_png,
    raw_bytes,
    strict_decoding,
    upright,
)
from shardfeed.converters.images.png import read_png_header
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes, waves


def array(image: Image.Image | bytes) -> np.ndarray:
    if isinstance(image, bytes):
        image = Image.open(io.BytesIO(image))
    return np.asarray(image).astype(int)


def jpeg_pixels(data: bytes) -> Image.Image:
    return load_jpeg(data, read_jpeg_header(data, MAX_PIXELS))


@pytest.mark.parametrize("kind", [{"subsampling": n} for n in range(3)] + [{"progressive": True}, {"mode": "L"}])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (45, 70), (17, 131), (64, 96)])
def test_both_decoders_make_the_same_pixels_at_every_scale(kind: dict[str, Any], height: int, width: int) -> None:
    mode, options = kind.get("mode", "RGB"), {key: value for key, value in kind.items() if key != "mode"}
    data = image_bytes(waves(mode, height, width), "JPEG", quality=83, **options)
    header = read_jpeg_header(data, MAX_PIXELS)
    for by in (1, 2, 3, 5, 9, 17):
        size = (max(1, width // by), max(1, height // by)) if by > 1 else (width, height)
        fit = Fit(size, (0, 0, width, height)) if by > 1 else None
        clean = load_clean_jpeg(data, header, fit)
        assert (clean.mode, clean.size) == (mode, size)
        assert (array(clean) == array(load_jpeg(data, header, fit))).all()


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_the_fast_decoder_takes_nothing_odd(mode: str) -> None:
    data = image_bytes(waves(mode), "JPEG")
    header = read_jpeg_header(data, MAX_PIXELS)
    for odd in (data[:-40], data[: -len(data) // 3] + b"\xff\xd9", data[:11] + b"\x09" + data[12:]):
        assert load_clean_jpeg(odd, header) is None
    assert load_clean_jpeg(data, header) is not None
    inks = image_bytes(waves("CMYK"), "JPEG")
    assert load_clean_jpeg(inks, read_jpeg_header(inks, MAX_PIXELS)) is None


def test_filters_are_pillows_and_differ() -> None:
    data = image_bytes(waves(), "JPEG", quality=95)
    header = read_jpeg_header(data, MAX_PIXELS)
    whole, found = load_jpeg(data, header), set()
    for name in get_args(Filter):
        fit = fit_image(45, 70, ImageOptions(resize_shorter=30, resize_filter=name))
        assert fit is not None
        expected = whole.resize((47, 30), Image.Resampling[name.upper()])
        for load in (load_jpeg, load_clean_jpeg):
            pixels = load(data, header, fit)
            assert pixels.tobytes() == expected.tobytes()
        found.add(expected.tobytes())
    assert len(found) == 3
    larger = Fit((140, 90), (0, 0, 70, 45), "hamming")
    assert fitted(whole, larger).tobytes() == whole.resize((140, 90), Image.Resampling.BICUBIC).tobytes()


def png_pixels(data: bytes) -> Image.Image:
    return load_png(data, read_png_header(data, MAX_PIXELS, "all")).pixels


def inks_to_rgb(inks: np.ndarray) -> np.ndarray:
    """The documented reference: `inks` [H, W, 4], 255 is full ink."""
    return (255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255


@pytest.mark.parametrize("kind", ["CMYK", "YCCK", "CMYK without Adobe marker"])
def test_inks(kind: str) -> None:
    data = image_bytes(waves("CMYK"), "JPEG", quality=95)
    at = data.index(b"Adobe")
    if kind == "YCCK":
        data = data[: at + 11] + b"\2" + data[at + 12 :]
    inks = array(data)  # Pillow inverts what it reads, as Adobe writes it
    if kind == "CMYK without Adobe marker":
        data = data[: at - 4] + data[at + 12 :]
        inks = 255 - inks
    assert np.abs(array(jpeg_pixels(data)) - inks_to_rgb(inks)).max() <= 1
    if kind == "CMYK":
        assert np.abs(array(jpeg_pixels(data)) - array(waves())).mean() < 12, "the colors are those that were meant"


def test_16_bits_gray_is_scaled_and_not_cut_off() -> None:
    values = np.arange(65_536, dtype=np.uint16).reshape(256, 256)
    pixels = array(png_pixels(image_bytes(Image.fromarray(values), "PNG")))
    assert np.array_equal(pixels, np.floor(values / 257 + 0.5))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_put_over_white(mode: str) -> None:
    image = waves()
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    image = image.convert(mode)
    alpha = array(image)[..., -1:] / 255
    reference = array(image)[..., :-1] * alpha + 255 * (1 - alpha)
    pixels = png_pixels(image_bytes(image, "PNG"))
    assert pixels.mode == mode[:-1]
    assert np.abs(array(pixels).reshape(reference.shape) - reference).max() <= 1


@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_a_transparent_color_becomes_white(mode: str) -> None:
    image = waves(mode)
    key = image.getpixel((3, 4))
    pixels = array(png_pixels(image_bytes(image, "PNG", transparency=key)))
    hit = np.asarray(image).reshape(45, 70, -1) == np.array(key)
    hit = hit.all(axis=-1)
    assert hit.any()
    assert (pixels[hit] == 255).all()
    assert np.array_equal(pixels[~hit], array(image.convert("L" if mode == "L" else "RGB"))[~hit])


def test_premultiplied_alpha() -> None:
    image = waves().convert("RGBA").convert("RGBa")
    assert np.array_equal(array(gray_or_rgb(image).pixels), array(waves()))


@pytest.mark.parametrize("mode", ["1", "P", "YCbCr", "RGBX"])
def test_other_modes(mode: str) -> None:
    image = waves(mode)
    pixels = gray_or_rgb(image).pixels
    assert pixels.mode == ("L" if mode == "1" else "RGB")
    assert np.array_equal(array(pixels), array(image.convert(pixels.mode)))


@pytest.mark.parametrize("mode", ["I", "F", "LAB"])
def test_modes_without_an_agreed_range(mode: str) -> None:
    with pytest.raises(RejectedError) as caught:
        gray_or_rgb(Image.new(mode, (2, 2)))
    assert caught.value.code is RejectCode.UNSUPPORTED


def test_every_orientation() -> None:
    image = waves()
    a = np.asarray(image)
    # EXIF 2.32, table 6: where row 0 and column 0 of the stored image are to be shown
    expected = {
        1: a,
        2: a[:, ::-1],
        3: a[::-1, ::-1],
        4: a[::-1],
        5: a.transpose(1, 0, 2),
        6: np.rot90(a, -1),
        7: a[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(a),
    }
    for orientation, pixels in expected.items():
        assert np.array_equal(np.asarray(upright(image, orientation)), pixels), orientation


def test_encoded_files_carry_no_metadata() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = image_bytes(waves("P"), "PNG", exif=exif, icc_profile=b"profile", dpi=(72, 72), transparency=9)
    for encoded in (encode_png(png_pixels(data)), encode_jpeg(png_pixels(data), 92, half_chroma=True)):
        info = Image.open(io.BytesIO(encoded)).info
        assert set(info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}, info


def test_png_is_exact_and_jpeg_is_close() -> None:
    image = waves()
    assert np.array_equal(array(encode_png(image)), array(image))
    wide = array(encode_jpeg(image, 92, half_chroma=False)) - array(image)
    half = array(encode_jpeg(image, 92, half_chroma=True)) - array(image)
    assert 10 * np.log10(255**2 / (wide**2).mean()) > 36
    assert np.abs(wide).mean() < np.abs(half).mean()


def whole(height: int, width: int, size: tuple[int, int]) -> Fit:
    return Fit(size, (0, 0, width, height))


def test_shrinking_is_antialiased() -> None:
    stripes = Image.fromarray(np.tile(np.array([[0, 255]], np.uint8), (64, 32)))
    assert np.abs(array(fitted(stripes, whole(64, 64, (16, 16))))[:, 2:-2] - 127.5).max() < 2


def test_enlarging_draws_no_rings() -> None:
    edge = Image.fromarray(np.repeat(np.array([[60, 190]], np.uint8), 8, axis=1))
    enlarged = array(fitted(edge, whole(1, 16, (160, 10))))
    # Farther than two pixels from the edge all is flat; Lanczos has a third one, in which it swings back.
    assert (enlarged[:, :60] == 60).all()
    assert (enlarged[:, 100:] == 190).all()
    assert (np.diff(enlarged[:, 72:88]) > 0).all()


def test_a_part_is_cut_between_pixels() -> None:
    ramp = Image.fromarray(np.tile(np.arange(0, 240, 4, dtype=np.uint8), (8, 1)))
    part = array(fitted(ramp, Fit((20, 4), (10.5, 0, 50.5, 8))))
    middles = 10.5 + 2 * (np.arange(20) + 0.5) - 0.5
    assert np.abs(part - 4 * middles)[:, 2:-2].max() <= 1
    assert np.array_equal(array(fitted(ramp, Fit((20, 4), (5.25, 0, 25.25, 4)), 0.5)), part), "in other pixels"


@pytest.mark.parametrize(("height", "width"), [(480, 640), (479, 643), (97, 640)])
def test_a_smaller_decode_is_close_to_a_full_one(height: int, width: int) -> None:
    data = image_bytes(waves(height=height, width=width), "JPEG", quality=92)
    header = read_jpeg_header(data, MAX_PIXELS)
    fit = whole(height, width, (80, height * 80 // width))
    reduced, full = load_jpeg(data, header, fit), fitted(load_jpeg(data, header), fit)
    assert reduced.size == fit.size
    assert reduced != full, "it was decoded at a smaller size"
    assert np.abs(array(reduced) - array(full)).mean() < 1.5


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_raw_bytes(mode: str) -> None:
    image = waves(mode)
    assert np.array_equal(np.frombuffer(raw_bytes(image), np.uint8).reshape(45, 70, 3), array(image.convert("RGB")))


def test_the_check_needs_the_whole_image() -> None:
    data = image_bytes(waves(height=8, width=5), "JPEG")
    check_pixels(data, read_jpeg_header(data, MAX_PIXELS))
    for image in (waves(), waves("L"), waves(height=1, width=1)):
        data = image_bytes(image, "JPEG")
        header = read_jpeg_header(data, MAX_PIXELS)
        check_pixels(data, header)
        with pytest.raises(RejectedError) as caught:
            check_pixels(data[: (header.scan + len(data)) // 2], header)
        assert caught.value.code is RejectCode.TRUNCATED


def test_the_hosts_tolerance_for_cut_files_is_neither_used_nor_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    data = image_bytes(waves(), "JPEG")
    cut = data[: len(data) // 2]
    Image.open(io.BytesIO(cut)).load()  # what the host asked for: gray where data is missing
    with pytest.raises(RejectedError):
        check_pixels(cut, read_jpeg_header(cut, MAX_PIXELS))
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


def test_warnings_are_errors_inside_and_untouched_outside() -> None:
    before = list(warnings.filters)
    with pytest.raises(RejectedError, match="odd tag") as caught, strict_decoding("tiff"):
        warnings.warn("odd tag", stacklevel=1)
    assert caught.value.code is RejectCode.CORRUPT
    assert warnings.filters == before


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError("image file is truncated (3 bytes not processed)"), RejectCode.TRUNCATED),
        (EOFError(), RejectCode.TRUNCATED),
        (OSError("Unsupported BMP compression (6)"), RejectCode.UNSUPPORTED),
        (MemoryError(), RejectCode.TOO_LARGE),
        (Image.DecompressionBombError("big"), RejectCode.TOO_LARGE),
        (SyntaxError("bad"), RejectCode.CORRUPT),
        (IndexError(), RejectCode.CORRUPT),
        (RejectedError(RejectCode.ANIMATED, "two"), RejectCode.ANIMATED),
    ],
)
@pytest.mark.parametrize("kind", ["jpeg", "tiff"])
def test_every_error_becomes_a_code(kind: str, error: Exception, code: RejectCode) -> None:
    with pytest.raises(RejectedError) as caught, strict_decoding(kind):  # type: ignore[arg-type]
        raise error
    assert caught.value.code is code
    assert caught.value.reason.strip(" :")


def test_threads_leave_the_settings_as_they_were() -> None:
    before = list(warnings.filters)
    failed: list[BaseException] = []

    def work() -> None:
        for _ in range(200):
            try:
                with strict_decoding("tiff"):
                    warnings.warn("odd tag", stacklevel=1)
                failed.append(AssertionError("the warning was no error"))
            except RejectedError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert warnings.filters == before
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
