import io
import struct
from functools import partial

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from shardfeed.converters.images.other_formats import LoadedImage, load_other
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes, waves

picture = partial(waves, noise=0)


def frames(name: str, count: int = 2) -> bytes:
    images = [picture().point(lambda v, i=i: (v + 40 * i) % 256) for i in range(count)]
    return image_bytes(images[0], name, save_all=True, append_images=images[1:])


def load(kind: str, data: bytes) -> LoadedImage:
    return load_other(kind, data, MAX_PIXELS)  # type: ignore[arg-type]


def refused(kind: str, data: bytes) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        load(kind, data)
    return caught.value.code


def oriented(value: int = 6) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


WEBP = {"lossless": True, "exact": True}


@pytest.mark.promise(31)
@pytest.mark.parametrize(
    ("kind", "mode", "options", "changes"),
    [
        ("gif", "P", {}, ("gif",)),
        ("gif", "L", {}, ("gif",)),
        ("bmp", "RGB", {}, ("bmp",)),
        ("bmp", "L", {}, ("bmp",)),
        ("bmp", "P", {}, ("bmp", "palette")),
        ("bmp", "1", {}, ("bmp", "1-bit")),
        ("tiff", "RGB", {}, ("tiff",)),
        ("tiff", "RGB", {"compression": "tiff_lzw"}, ("tiff",)),
        ("tiff", "L", {"compression": "tiff_deflate"}, ("tiff",)),
        ("tiff", "1", {"compression": "group4"}, ("tiff", "1-bit")),
        ("tiff", "P", {}, ("tiff", "palette")),
        ("tiff", "CMYK", {}, ("tiff", "cmyk")),
        ("tiff", "RGB", {"compression": "packbits"}, ("tiff",)),
        ("webp", "RGB", WEBP, ("webp",)),
    ],
)
def test_lossless_formats_are_exact(kind: str, mode: str, options: dict, changes: tuple[str, ...]) -> None:
    image = picture(mode)
    loaded = load(kind, image_bytes(image, kind, **options))
    assert loaded.changes == changes
    assert not loaded.lossy
    assert loaded.pixels.mode in ("L", "RGB")
    assert np.array_equal(np.asarray(loaded.pixels.convert("RGB")), np.asarray(image.convert("RGB")))


@pytest.mark.promise(31)
def test_16_bits() -> None:
    values = np.arange(0, 65_536, 16, dtype=np.uint16).reshape(64, 64)
    for order in ("<", ">"):
        loaded = load("tiff", image_bytes(Image.fromarray(values.astype(order + "u2")), "TIFF"))
        assert loaded.changes == ("tiff", "16-bit")
        assert np.abs(np.asarray(loaded.pixels) - values / 257).max() <= 0.5


@pytest.mark.promise(31)
@pytest.mark.parametrize("kind", ["tiff", "webp", "avif"])
def test_alpha(kind: str) -> None:
    image = picture()
    image.putalpha(0)
    loaded = load(kind, image_bytes(image, kind, **({} if kind == "tiff" else {"quality": 90})))
    assert loaded.changes == (kind, "alpha")
    assert np.asarray(loaded.pixels).min() >= 250, "nothing is seen but white"


@pytest.mark.parametrize("kind", ["tiff", "webp", "avif", "gif"])
def test_alpha_over_another_color(kind: str) -> None:
    image = picture()
    image.putalpha(0)
    options = {} if kind in ("tiff", "gif") else {"quality": 90}
    loaded = load_other(kind, image_bytes(image, kind, **options), MAX_PIXELS, (200, 20, 20))  # type: ignore[arg-type]
    assert np.abs(np.asarray(loaded.pixels.convert("RGB")).astype(int) - (200, 20, 20)).max() <= 5


@pytest.mark.promise(31)
@pytest.mark.parametrize("kind", ["webp", "avif"])
def test_lossy_formats_say_so(kind: str) -> None:
    loaded = load(kind, image_bytes(picture(), kind, quality=90))
    assert loaded.lossy
    assert np.abs(np.asarray(loaded.pixels).astype(int) - np.asarray(picture())).mean() < 5


@pytest.mark.promise(32)
@pytest.mark.parametrize("kind", ["webp", "avif"])
def test_orientation_is_left_to_apply(kind: str) -> None:
    loaded = load(kind, image_bytes(picture(), kind, exif=oriented()))
    assert (loaded.orientation, loaded.warnings) == (6, ())
    assert loaded.changes == (kind, "exif-rotated")
    assert loaded.pixels.size == (70, 45)


@pytest.mark.promise(32)
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
def test_tiff_comes_upright(compression: str) -> None:
    loaded = load("tiff", image_bytes(picture(), "TIFF", tiffinfo={0x0112: 6}, compression=compression))
    assert loaded.orientation == 1
    assert loaded.changes == ("tiff", "exif-rotated")
    assert np.array_equal(np.asarray(loaded.pixels), np.rot90(np.asarray(picture()), -1))


@pytest.mark.promise(32)
def test_broken_exif_is_a_problem_and_no_reason_to_reject() -> None:
    loaded = load("webp", image_bytes(picture(), "WebP", exif=b"Exif\0\0nonsense"))
    assert loaded.orientation == 1
    assert loaded.warnings


@pytest.mark.promise(31)
@pytest.mark.parametrize("kind", ["gif", "webp", "tiff", "avif"])
def test_more_than_one_frame(kind: str) -> None:
    assert refused(kind, frames(kind)) is RejectCode.ANIMATED


@pytest.mark.promise(34)
@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_frames_are_not_walked(kind: str) -> None:
    """Bytes after the second frame are not even read."""
    data = frames(kind)
    assert refused(kind, data + data[-50:] * 100_000) is RejectCode.ANIMATED


@pytest.mark.promise(31)
def test_one_frame_in_an_animations_clothes() -> None:
    data = image_bytes(picture(), "WebP", **WEBP)
    frame = data[12:]
    control = b"VP8X" + struct.pack("<LB3x", 10, 2) + (69).to_bytes(3, "little") + (44).to_bytes(3, "little")
    anim = b"ANIM" + struct.pack("<LLH", 6, 0, 0)
    place = bytes(6) + (69).to_bytes(3, "little") + (44).to_bytes(3, "little") + bytes(4)
    body = b"WEBP" + control + anim + b"ANMF" + struct.pack("<L", 16 + len(frame)) + place + frame
    loaded = load("webp", b"RIFF" + struct.pack("<L", len(body)) + body)
    assert np.array_equal(np.asarray(loaded.pixels), np.asarray(picture()))


def huge(kind: str) -> bytes:
    """A small file that says it is 30,000 x 30,000 pixels, or the most its header can say."""
    data = bytearray(image_bytes(picture(), kind, **(WEBP if kind == "webp" else {})))
    side = 30_000
    if kind == "gif":
        data[6:10] = struct.pack("<HH", side, side)
    elif kind == "bmp":
        data[18:26] = struct.pack("<ll", side, side)
    elif kind == "tiff":
        for tag in (256, 257):
            at = data.index(struct.pack("<HHL", tag, 4, 1))
            data[at + 8 : at + 12] = struct.pack("<L", side)
    elif kind == "webp":
        data[21:25] = struct.pack("<L", 16_383 | 16_383 << 14)
    elif kind == "avif":
        at = data.index(b"ispe") + 8
        data[at : at + 8] = struct.pack(">LL", side, side)
    return bytes(data)


@pytest.mark.promise(34)
@pytest.mark.parametrize("kind", ["gif", "bmp", "tiff", "webp", "avif"])
def test_too_many_pixels(kind: str) -> None:
    assert refused(kind, huge(kind)) is RejectCode.TOO_LARGE
    if kind in ("gif", "webp"):
        assert refused(kind, huge(kind)[:40]) is RejectCode.TOO_LARGE


@pytest.mark.promise(34)
def test_a_canvas_larger_than_its_webp() -> None:
    control = b"VP8X" + struct.pack("<L", 10) + bytes(4) + b"\xff\xff\xff" * 2
    assert refused("webp", b"RIFF\xff\0\0\0WEBP" + control) is RejectCode.TOO_LARGE


@pytest.mark.promise(33)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gif", {}),
        ("bmp", {}),
        ("tiff", {}),
        ("tiff", {"compression": "tiff_lzw"}),
        ("webp", {}),
        ("webp", WEBP),
        ("avif", {}),
    ],
)
def test_cut_anywhere(kind: str, options: dict) -> None:
    data = image_bytes(picture("L" if kind == "gif" else "RGB"), kind, **options)
    for size in range(30, len(data), max(1, len(data) // 60)):
        code = refused(kind, data[:size])
        assert code in (RejectCode.TRUNCATED, RejectCode.CORRUPT), size
        if kind in ("gif", "webp"):
            assert code is RejectCode.TRUNCATED, size
    assert load(kind, data).pixels.size == (70, 45)


def test_gif_without_end_or_image() -> None:
    data = image_bytes(picture("P"), "GIF")
    assert data[-1:] == b";"
    assert refused("gif", data[:-1]) is RejectCode.TRUNCATED
    assert refused("gif", data[:-1] + b"x") is RejectCode.CORRUPT
    assert refused("gif", b"GIF89a\1\0\1\0\0\0\0;") is RejectCode.CORRUPT


def test_comments_around_a_gifs_image_are_passed_over() -> None:
    data = image_bytes(picture("P"), "GIF", comment=b"c" * 1000)
    data = data[:-1] + b"!\xfe\3abc\0;"
    assert load("gif", data).pixels.size == (70, 45)


@pytest.mark.parametrize("tags", [{254: 1}, {50706: b"\1\4\0\0"}])
def test_the_thumbnail_of_a_camera_raw_file_is_not_the_image(tags: dict) -> None:
    assert refused("tiff", image_bytes(picture(), "TIFF", tiffinfo=tags)) is RejectCode.UNSUPPORTED


def test_float_pixels_have_no_agreed_range() -> None:
    assert refused("tiff", image_bytes(picture("F"), "TIFF")) is RejectCode.UNSUPPORTED


@pytest.mark.promise(33)
def test_a_warning_is_a_rejection() -> None:
    data = bytearray(image_bytes(picture(), "TIFF"))
    at = data.index(struct.pack("<HHL", 258, 3, 3))  # BitsPerSample, stored elsewhere in the file
    data[at + 8 : at + 12] = struct.pack("<L", 10_000_000)
    with pytest.warns(UserWarning, match="Truncated"), pytest.raises(SyntaxError):
        TiffImageFile(io.BytesIO(data))
    with pytest.raises(RejectedError, match="Truncated File Read"):  # the warning; the error comes later
        load("tiff", bytes(data))


@pytest.mark.promise(34)
def test_the_hosts_pixel_limit_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    for kind in ("bmp", "webp", "avif"):
        assert load(kind, image_bytes(picture(), kind)).pixels.size == (70, 45)
    assert Image.MAX_IMAGE_PIXELS == 1000
