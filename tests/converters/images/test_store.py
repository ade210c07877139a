import contextlib
import io
import itertools
import random
import resource
import struct
import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shardfeed.converters.images.jpeg import is_one_plain_scan, read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.pixels import Placement
from shardfeed.converters.images.store import StoredImage, check_stored, store_image
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

from damaged_jpegs import DAMAGES, damaged_jpeg
from pictures import image_bytes, over_white, waves
from poisoned_memory import same_under_poisons

CHECKS = ("decode", "header", "none")
DECODE = ImageOptions()


def words(stored: StoredImage) -> str:
    return "+".join(stored.changes)


picture = partial(waves, noise=12, length=17)


def file(image: Image.Image, name: str, **options: object) -> bytes:
    return image_bytes(image, name, **({"quality": 92} if name in ("JPEG", "MPO") else {}) | options)


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def refused(data: bytes, options: ImageOptions = DECODE) -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        store_image(data, options)
    return caught.value.code


def with_comment(data: bytes) -> bytes:
    return data[:33] + chunk(b"tEXt", b"Comment\0kept") + data[33:]


KEPT = {
    "4:2:0": file(picture(), "JPEG"),
    "4:4:4": file(picture(), "JPEG", subsampling="4:4:4"),
    "gray jpeg": file(picture("L"), "JPEG"),
    "progressive": file(picture(), "JPEG", progressive=True),
    "restarts": file(picture(), "JPEG", restart_marker_blocks=2),
    "upright": file(picture(), "JPEG", exif=exif(1)),
    "profile": file(picture(), "JPEG", icc_profile=b"p" * 200_000, comment=b"words"),
    "mpo": file(picture(), "MPO", save_all=True, append_images=[picture("L").convert("RGB")]),
    "trailer": file(picture(), "JPEG") + b"SEFT" * 10,
    "one pixel": file(picture(height=1, width=1), "JPEG"),
    "png": file(picture(), "PNG"),
    "gray png": file(picture("L"), "PNG"),
    "png comment": with_comment(file(picture(), "PNG")),
    "png upright": file(picture(), "PNG", exif=exif(1)),
}


@pytest.mark.promise(31)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", KEPT)
def test_what_every_loader_reads_is_kept(name: str, check: str) -> None:
    data = KEPT[name]
    stored = store_image(data, ImageOptions(check=check))  # type: ignore[arg-type]
    kind = b"png" if "png" in name else b"jpeg"
    size = (1, 1) if name == "one pixel" else (45, 70)
    assert stored == StoredImage(data, kind, *size, (), (), Placement(*size), name == "progressive")
    check_stored(data, kind, *size)


def transparent(mode: str = "RGBA") -> Image.Image:
    image = picture()
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image.convert(mode)


WIDE = Image.fromarray(np.asarray(picture("L")).astype(np.uint16) * 257)
TRANSCODED: dict[str, tuple[bytes, str, bytes, np.ndarray]] = {
    # source, transform, format stored, reference pixels
    "cmyk": (file(picture("CMYK"), "JPEG"), "cmyk", b"png", pixels(file(picture("CMYK"), "JPEG"))),
    "rgb jpeg": (
        file(picture(), "JPEG", keep_rgb=True),
        "rgb-jpeg",
        b"png",
        pixels(file(picture(), "JPEG", keep_rgb=True)),
    ),
    "palette": (file(picture("P"), "PNG"), "palette", b"png", np.asarray(picture("P").convert("RGB"))),
    "palette with a hole": (
        file(picture("P"), "PNG", transparency=bytes([0, 128] * 128)),
        "palette+alpha",
        b"png",
        over_white(Image.open(io.BytesIO(file(picture("P"), "PNG", transparency=bytes([0, 128] * 128))))),
    ),
    "1 bit": (file(picture("1"), "PNG"), "1-bit", b"png", np.asarray(picture("1").convert("RGB"))),
    "16 bits": (file(WIDE, "PNG"), "16-bit", b"png", np.asarray(picture("L").convert("RGB"))),
    "alpha": (file(transparent(), "PNG"), "alpha", b"png", over_white(transparent())),
    "gray alpha": (file(transparent("LA"), "PNG"), "alpha", b"png", over_white(transparent("LA"))),
    "gif": (file(picture("P"), "GIF"), "gif", b"png", np.asarray(picture("P").convert("RGB"))),
    "bmp": (file(picture(), "BMP"), "bmp", b"png", np.asarray(picture())),
    "tiff": (file(picture(), "TIFF", compression="tiff_lzw"), "tiff", b"png", np.asarray(picture())),
    "webp": (file(picture(), "WebP", lossless=True), "webp", b"png", np.asarray(picture())),
    "png turned": (file(picture(), "PNG", exif=exif(6)), "exif-rotated", b"png", np.rot90(np.asarray(picture()), -1)),
    "lossy webp": (file(picture(), "WebP"), "webp", b"jpeg", pixels(file(picture(), "WebP"))),
    "avif": (file(picture(), "AVIF"), "avif", b"jpeg", pixels(file(picture(), "AVIF"))),
}


@pytest.mark.promise(31)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", TRANSCODED)
def test_everything_else_is_transcoded(name: str, check: str) -> None:
    """RELIABILITY 31. PNG is within one level of the reference; JPEG adds the loss of quality 92."""
    data, transform, kind, reference = TRANSCODED[name]
    stored = store_image(data, ImageOptions(check=check))  # type: ignore[arg-type]
    assert (words(stored), stored.format, stored.warnings) == (transform, kind, ())
    assert (stored.height, stored.width) == reference.shape[:2]
    difference = pixels(stored.encoded) - reference
    if kind == b"png":
        assert np.abs(difference).max() <= 1
    else:
        assert 10 * np.log10(255**2 / (difference**2).mean()) > 36
    again = store_image(stored.encoded, ImageOptions())
    assert not again.changes, "what is stored would be kept"
    check_stored(stored.encoded, kind, stored.height, stored.width)


@pytest.mark.promise(32)
@pytest.mark.parametrize("orientation", range(2, 9))
def test_jpegs_are_turned_upright(orientation: int) -> None:
    """RELIABILITY 32."""
    data = file(picture(), "JPEG", exif=exif(orientation))
    stored = store_image(data, DECODE)
    assert words(stored) == "exif-rotated"
    assert (stored.height, stored.width) == ((70, 45) if orientation >= 5 else (45, 70))
    a = pixels(data)
    turned = {2: a[:, ::-1], 3: a[::-1, ::-1], 4: a[::-1], 5: a.transpose(1, 0, 2), 6: np.rot90(a, -1)}
    turned |= {7: a[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90(a)}
    difference = pixels(stored.encoded) - turned[orientation]
    assert 10 * np.log10(255**2 / (difference**2).mean()) > 36
    assert Image.open(io.BytesIO(stored.encoded)).getexif().get(0x0112) is None


@pytest.mark.parametrize("chroma", ["4:2:0", "4:2:2", "4:4:4"])
def test_chroma_stays_as_fine_as_it_was(chroma: str) -> None:
    stored = store_image(file(picture(), "JPEG", subsampling=chroma, exif=exif(3)), DECODE)
    assert read_jpeg_header(stored.encoded, MAX_PIXELS).half_chroma == (chroma == "4:2:0")


@pytest.mark.promise(32)
def test_broken_exif_is_upright_with_a_warning() -> None:
    for data in (
        file(picture(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
        file(picture(), "JPEG", exif=exif(9)),
        file(picture(), "PNG", exif=b"II*\0\xff\xff\xff\xff"),
    ):
        stored = store_image(data, DECODE)
        assert stored.encoded == data
        assert len(stored.warnings) == 1
        assert "read as 1" in stored.warnings[0]


@pytest.mark.promise(33)
@pytest.mark.parametrize("check", ["decode", "header"])
@pytest.mark.parametrize("name", ["4:2:0", "progressive", "gray jpeg", "png", "png comment"])
def test_cut_anywhere(name: str, check: str) -> None:
    """RELIABILITY 33."""
    data = KEPT[name]
    options = ImageOptions(check=check)  # type: ignore[arg-type]
    step = 1 if check == "header" else 37
    for size in (*range(2, len(data), step), len(data) - 1):
        assert refused(data[:size], options) is RejectCode.TRUNCATED, size


@pytest.mark.promise(33)
def test_what_each_check_finds() -> None:
    data = KEPT["4:2:0"]
    middle = (read_jpeg_header(data, MAX_PIXELS).scan + len(data)) // 2
    foreign = data[:middle] + b"\xff\xc8" + data[middle:]
    endless = data[:-2]
    for broken, strictness in ((foreign, ("decode",)), (endless, ("decode", "header"))):
        for check in CHECKS:
            options = ImageOptions(check=check)
            if check in strictness:
                assert refused(broken, options) in (RejectCode.CORRUPT, RejectCode.TRUNCATED)
            else:
                assert store_image(broken, options).encoded == broken


def test_images_that_are_transcoded_are_decoded_under_every_check() -> None:
    whole = file(picture("CMYK"), "JPEG")
    cut = whole[: len(whole) // 2]
    for check in CHECKS:
        assert refused(cut, ImageOptions(check=check)) is RejectCode.TRUNCATED


@pytest.mark.promise(30, 33)
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", RejectCode.EMPTY),
        (b"<html></html>", RejectCode.NOT_IMAGE),
        (b"\0" * 1000, RejectCode.NOT_IMAGE),
        (file(picture(), "PNG", save_all=True, append_images=[picture("1").convert("RGB")]), RejectCode.ANIMATED),
        (file(picture("P"), "GIF", save_all=True, append_images=[picture("1").convert("P")]), RejectCode.ANIMATED),
        (b"8BPS\0\1" + bytes(90), RejectCode.UNSUPPORTED),
    ],
)
def test_what_is_rejected(data: bytes, code: RejectCode) -> None:
    assert refused(data) is code


def test_jpegs_of_rare_kinds_are_not_supported() -> None:
    data = KEPT["4:2:0"]
    frame = data.index(b"\xff\xc0")
    for at, value in ((frame + 1, 0xC3), (frame + 1, 0xC9), (frame + 4, 12)):
        assert refused(data[:at] + bytes([value]) + data[at + 1 :]) is RejectCode.UNSUPPORTED


def huge_jpeg() -> bytes:
    data = KEPT["4:2:0"]
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", 30_000, 30_000) + data[at + 4 :]


def huge_png() -> bytes:
    data = KEPT["png"]
    return data[:8] + chunk(b"IHDR", struct.pack(">LL", 30_000, 30_000) + data[24:29]) + data[33:]


def huge_gif() -> bytes:
    data = file(picture("P"), "GIF")
    return data[:6] + struct.pack("<HH", 30_000, 30_000) + data[10:]


@pytest.mark.promise(34)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("make", [huge_jpeg, huge_png, huge_gif])
def test_too_many_pixels_are_found_in_the_header(make: Callable[[], bytes], check: str) -> None:
    """RELIABILITY 34."""
    data = make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(data, ImageOptions(check=check)) is RejectCode.TOO_LARGE  # type: ignore[arg-type]
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 100 << 10, "there was room for 900 million pixels"


def test_the_limits_can_be_lowered() -> None:
    for name in ("4:2:0", "png"):
        assert not store_image(KEPT[name], ImageOptions(max_pixels=45 * 70)).changes
        assert refused(KEPT[name], ImageOptions(max_pixels=45 * 70 - 1)) is RejectCode.TOO_LARGE
        size = len(KEPT[name])
        assert not store_image(KEPT[name], ImageOptions(max_bytes=size)).changes
        assert refused(KEPT[name], ImageOptions(max_bytes=size - 1)) is RejectCode.TOO_LARGE
    assert refused(file(picture(), "BMP"), ImageOptions(max_pixels=45 * 70 - 1)) is RejectCode.TOO_LARGE


def test_images_are_shrunk_to_the_shorter_side_and_never_enlarged() -> None:
    options = ImageOptions(resize_shorter=20)
    for data, kind in ((KEPT["4:2:0"], b"jpeg"), (file(picture("CMYK"), "JPEG"), b"jpeg"), (KEPT["png"], b"png")):
        stored = store_image(data, options)
        assert (stored.format, stored.height, stored.width) == (kind, 20, 31)
        assert stored.changes
        assert words(stored).endswith("resized")
        assert Image.open(io.BytesIO(stored.encoded)).size == (31, 20)
        reference = Image.open(io.BytesIO(data)).convert("RGB").resize((31, 20), Image.Resampling.LANCZOS)
        assert np.abs(pixels(stored.encoded) - np.asarray(reference)).mean() < 6
    for goal in (45, 46, 1000):
        assert not store_image(KEPT["4:2:0"], ImageOptions(resize_shorter=goal)).changes
    turned = store_image(file(picture(), "JPEG", exif=exif(6)), options)
    assert (turned.height, turned.width, words(turned)) == (31, 20, "exif-rotated+resized")
    thin = store_image(file(picture(height=2, width=70), "PNG"), ImageOptions(resize_shorter=1))
    assert (thin.height, thin.width) == (1, 35)
    other = store_image(file(picture(), "BMP"), options)
    assert (other.height, other.width, words(other)) == (20, 31, "bmp+resized")


def test_a_large_photo_is_shrunk_well() -> None:
    photo = picture(height=600, width=800)
    stored = store_image(file(photo, "JPEG"), ImageOptions(resize_shorter=100, quality=95))
    reference = np.asarray(photo.resize((133, 100), Image.Resampling.LANCZOS).convert("L")).astype(int)
    difference = np.asarray(Image.open(io.BytesIO(stored.encoded)).convert("L")) - reference
    assert 10 * np.log10(255**2 / (difference**2).mean()) > 36


def test_quality_encodes_every_jpeg_again_and_no_png() -> None:
    low, high = (store_image(KEPT["4:2:0"], ImageOptions(quality=q)) for q in (30, 90))
    assert len(low.encoded) < len(high.encoded)
    assert words(low) == words(high) == "re-encoded"
    cmyk = store_image(file(picture("CMYK"), "JPEG"), ImageOptions(quality=90))
    assert (cmyk.format, words(cmyk)) == (b"jpeg", "cmyk+re-encoded")
    assert store_image(KEPT["png"], ImageOptions(quality=30)).encoded == KEPT["png"]


@pytest.mark.parametrize("name", ["lossy webp", "cmyk", "alpha"])
def test_the_same_input_gives_the_same_bytes(name: str) -> None:
    data = TRANSCODED[name][0]
    for options in (DECODE, ImageOptions(resize_shorter=20, quality=80)):
        assert store_image(data, options) == store_image(data, options)


RAW = ImageOptions(encode="raw")


def raw_pixels(stored: StoredImage) -> np.ndarray:
    assert stored.format == b"raw"
    return np.frombuffer(stored.encoded, np.uint8).reshape(stored.height, stored.width, 3).astype(int)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", [name for name in KEPT if name != "one pixel"])
def test_raw_is_what_a_decoder_gives(name: str, check: str) -> None:
    stored = store_image(KEPT[name], ImageOptions(encode="raw", check=check))  # type: ignore[arg-type]
    assert (words(stored), stored.warnings) == ("raw", ())
    assert np.array_equal(raw_pixels(stored), pixels(KEPT[name]))


@pytest.mark.parametrize("name", TRANSCODED)
def test_raw_of_everything_else(name: str) -> None:
    data, transform, _, reference = TRANSCODED[name]
    stored = store_image(data, RAW)
    assert words(stored) == f"{transform}+raw"
    assert np.abs(raw_pixels(stored) - reference).max() <= 1


@pytest.mark.promise(31)
def test_raw_pixels_are_tensorflows() -> None:
    for name in ("4:2:0", "4:4:4", "gray jpeg", "progressive", "png", "gray png", "one pixel"):
        decoded = tf.io.decode_image(KEPT[name], channels=3)
        if "png" not in name:
            decoded = tf.io.decode_jpeg(KEPT[name], channels=3, dct_method="INTEGER_ACCURATE")
        assert np.array_equal(raw_pixels(store_image(KEPT[name], RAW)), decoded.numpy()), name


@pytest.mark.promise(32)
def test_raw_pixels_are_upright() -> None:
    for kind in ("JPEG", "PNG"):
        data = file(picture(), kind, exif=exif(6))
        stored = store_image(data, RAW)
        assert (stored.height, stored.width, words(stored)) == (70, 45, "exif-rotated+raw")
        assert np.array_equal(raw_pixels(stored), np.rot90(pixels(data), -1))


SOURCES = {
    "jpeg": KEPT["4:2:0"],
    "gray jpeg": KEPT["gray jpeg"],
    "png": KEPT["png"],
    "cmyk": TRANSCODED["cmyk"][0],
    "bmp": TRANSCODED["bmp"][0],
    "turned": file(picture(), "JPEG", exif=exif(8)),
}


@settings(max_examples=60)
@given(st.sampled_from(list(SOURCES)), st.integers(1, 150), st.integers(1, 150), st.sampled_from(["raw", "keep"]))
def test_every_image_gets_the_size(name: str, height: int, width: int, encode: str) -> None:
    stored = store_image(SOURCES[name], ImageOptions(encode=encode, size=(height, width)))  # type: ignore[arg-type]
    assert (stored.height, stored.width) == (height, width)
    check_stored(stored.encoded, stored.format, height, width)
    if encode == "keep":
        with Image.open(io.BytesIO(stored.encoded)) as image:
            assert image.size == (width, height)


@pytest.mark.parametrize("size", [(20, 31), (31, 20), (30, 30), (90, 140), (100, 100), (12, 12), (5, 60)])
@pytest.mark.parametrize("name", ["4:4:4", "png", "bmp"])
def test_the_middle_is_cut_out(name: str, size: tuple[int, int]) -> None:
    """Against the whole image scaled to cover and its middle taken, which rounds to pixels where this does not."""
    data = KEPT.get(name) or TRANSCODED[name][0]
    stored = store_image(data, ImageOptions(encode="raw", size=size))
    scale = max(size[0] / 45, size[1] / 70)
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    covering = whole.resize((round(70 * scale), round(45 * scale)), Image.Resampling.BICUBIC)
    left, top = (covering.width - size[1]) // 2, (covering.height - size[0]) // 2
    reference = np.asarray(covering.crop((left, top, left + size[1], top + size[0]))).astype(int)
    distance = np.abs(raw_pixels(stored) - reference).mean()
    assert distance < 7
    aside = np.roll(reference, min(size) // 4, axis=(0, 1))
    assert np.abs(raw_pixels(stored) - aside).mean() > 2 * distance, "any other part would do as well"


def test_what_needs_no_scaling_is_only_cut() -> None:
    reference = pixels(KEPT["png"])
    for size, (top, left) in (((45, 40), (0, 15)), ((45, 41), (0, 14)), ((44, 70), (0, 0)), ((41, 70), (2, 0))):
        stored = store_image(KEPT["png"], ImageOptions(encode="raw", size=size))
        assert np.array_equal(raw_pixels(stored), reference[top : top + size[0], left : left + size[1]]), size


def test_an_image_of_the_size_is_kept() -> None:
    for name in ("4:2:0", "png"):
        assert not store_image(KEPT[name], ImageOptions(size=(45, 70))).changes
    raw = store_image(KEPT["png"], ImageOptions(encode="raw", size=(45, 70)))
    assert np.array_equal(raw_pixels(raw), pixels(KEPT["png"]))
    assert words(raw) == "raw"
    assert words(store_image(KEPT["png"], ImageOptions(encode="raw", size=64))) == "resized+raw"


@pytest.mark.parametrize("orientation", [3, 6, 7])
def test_the_size_is_that_of_the_upright_image(orientation: int) -> None:
    turned = store_image(file(picture(), "PNG", exif=exif(orientation)), ImageOptions(encode="raw", size=(30, 20)))
    upright = store_image(file(picture(), "PNG", exif=exif(orientation)), RAW)
    plain = store_image(file(Image.fromarray(raw_pixels(upright).astype(np.uint8)), "PNG"), ImageOptions(size=(30, 20)))
    assert np.abs(raw_pixels(turned) - pixels(plain.encoded)).max() <= 1


def test_a_large_photo_is_scaled_as_well_by_the_smaller_decode() -> None:
    photo = picture(height=603, width=801)
    stored = store_image(file(photo, "JPEG", quality=97), ImageOptions(encode="raw", size=(64, 96)))
    reference = np.asarray(photo.resize((96, 64), Image.Resampling.LANCZOS, (0, 34.5, 801, 568.5))).astype(int)
    difference = (raw_pixels(stored) - reference).mean(axis=2)
    assert 10 * np.log10(255**2 / (difference**2).mean()) > 36


@pytest.mark.promise(33)
def test_damage_is_found_whatever_is_stored() -> None:
    data = KEPT["4:2:0"]
    cut = data[: len(data) // 2]
    for options in (RAW, ImageOptions(size=20), ImageOptions(encode="raw", size=20, check="none")):
        assert refused(cut, options) is RejectCode.TRUNCATED
    assert refused(huge_png(), RAW) is RejectCode.TOO_LARGE


def test_what_a_record_says_is_compared_with_what_it_holds() -> None:
    check_stored(bytes(30), b"raw", 2, 5)
    for data, kind, height, width in (
        (bytes(29), b"raw", 2, 5),
        (bytes(31), b"raw", 2, 5),
        (bytes(30), b"raw", 2, -5),
        (KEPT["png"], b"jpeg", 45, 70),
        (KEPT["png"], b"png", 70, 45),
        (KEPT["4:2:0"], b"raw", 45, 70),
        (bytes(30), b"jpeg", 2, 5),
    ):
        with pytest.raises(RejectedError):
            check_stored(data, kind, height, width)


def test_only_jpeg_and_png_files_are_stored() -> None:
    with pytest.raises(RejectedError) as caught:
        check_stored(file(picture(), "BMP"), b"bmp", 45, 70)
    assert caught.value.code is RejectCode.UNSUPPORTED
    for name, kind in (("4:2:0", b"jpeg"), ("png", b"png")):
        data = KEPT[name]
        for broken in (data[:-1], data[: len(data) // 2], b"", data[:2]):
            with pytest.raises(RejectedError):
                check_stored(broken, kind, 45, 70)


def caught(data: bytes, start: int, stop: int, flips: int, draw: random.Random) -> tuple[int, int]:
    """How many of `flips` single flipped bits between two bytes check="decode" refuses, and how many it warns of."""
    refused_ones = warned = 0
    for _ in range(flips):
        flipped = bytearray(data)
        flipped[draw.randrange(start, stop)] ^= 1 << draw.randrange(8)
        try:
            warned += bool(store_image(bytes(flipped), DECODE).warnings)
        except RejectedError:
            refused_ones += 1
    return refused_ones, warned


@pytest.mark.promise(33)
@pytest.mark.parametrize("rounds", [1000, pytest.param(100_000, marks=pytest.mark.torture)])
def test_the_share_of_flipped_bits_that_decoding_finds(
    rounds: int, seed: int, torture_result: Callable[..., None]
) -> None:
    """RELIABILITY 33: "it decoded" is no integrity check of a JPEG, and of a PNG it is."""
    draw = random.Random(seed)
    png = KEPT["png comment"]
    assert caught(png, 0, len(png), rounds, draw)[0] == rounds
    photo = file(picture(height=120, width=160), "JPEG")
    scan = read_jpeg_header(photo, MAX_PIXELS).scan
    in_scan = caught(photo, scan, len(photo) - 2, 3 * rounds, draw)
    in_header = caught(photo, 0, scan, rounds, draw)
    assert 0.002 < in_scan[0] / (3 * rounds) < 0.04
    assert 0.1 < in_header[0] / rounds < 0.9
    torture_result("bits flipped in a PNG", trials=rounds, failures=0, seed=seed, refused=rounds)
    for where, trials, (found, warned) in (("scan", 3 * rounds, in_scan), ("header", rounds, in_header)):
        what = f"bits flipped in the {where} of a JPEG"
        torture_result(what, trials=trials, failures=0, seed=seed, refused=found, warned=warned)


def mutated(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        size = draw.choice((1, 1, 2, 4, 16))
        at = draw.randrange(len(changed))
        how = draw.randrange(5)
        if how == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            changed[at : at + size] = draw.randbytes(size)
        elif how == 2:
            changed[at : at + size] = draw.choice((b"\0", b"\xff", b"\x7f")) * size
        elif how == 3 and len(changed) > 2 * size:
            del changed[at : at + size]
        else:
            changed[at:at] = draw.randbytes(size)
    return bytes(changed)


FUZZED = {name: source[0] for name, source in TRANSCODED.items()} | {
    name: KEPT[name] for name in ("4:2:0", "progressive", "restarts", "upright", "mpo", "png", "png comment")
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the Image.open below, not of the code under test
@pytest.mark.parametrize("rounds", [60, pytest.param(5000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("name", FUZZED)
def test_damage_gives_an_image_or_a_rejection(name: str, rounds: int) -> None:
    """Half of the changes are in the first 300 bytes, where the headers are."""
    draw = random.Random(f"{rounds} {name}")
    data = FUZZED[name]
    options = (
        ImageOptions(max_pixels=10**6),
        ImageOptions(check="header", resize_shorter=8, max_pixels=10**6),
        ImageOptions(encode="raw", size=(9, 7), max_pixels=10**6),
    )
    rejected = 0
    for number in range(rounds):
        head = data[:300] if number % 2 else data
        damaged = mutated(head, draw) + data[len(head) :]
        try:
            stored = store_image(damaged, options[number % 6 // 2])
        except RejectedError:
            rejected += 1
        else:
            if stored.format == b"raw":
                check_stored(stored.encoded, b"raw", 9, 7)
            else:
                assert Image.open(io.BytesIO(stored.encoded)).size == (stored.width, stored.height)
    assert rejected, "the damage did no damage"


@settings(max_examples=200)
@given(st.sampled_from([data[:size] for data in FUZZED.values() for size in (0, 4, 12, 30)]), st.binary(max_size=200))
def test_any_bytes_give_an_image_or_a_rejection(start: bytes, rest: bytes) -> None:
    with contextlib.suppress(RejectedError):
        store_image(start + rest, ImageOptions(max_pixels=10**6))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("background", ["black", "128,128,128", "#c81414"])
def test_what_is_transparent_shows_the_background(mode: str, background: str) -> None:
    options = ImageOptions(background=background)
    stored = store_image(file(transparent(mode), "PNG"), options)
    values = np.asarray(transparent(mode).convert("RGBA")).astype(float)
    alpha = values[..., 3:] / 255
    expected = values[..., :3] * alpha + np.array(options.background_rgb) * (1 - alpha)
    assert np.abs(pixels(stored.encoded) - expected).max() <= 1
    assert words(stored) == "alpha"
    gray = mode == "LA" and background != "#c81414"
    assert Image.open(io.BytesIO(stored.encoded)).mode == ("L" if gray else "RGB")


@pytest.mark.parametrize(
    ("name", "data", "changes"),
    [
        ("png", file(picture(), "PNG"), "png-to-jpeg"),
        ("gray png", file(picture("L"), "PNG"), "png-to-jpeg"),
        ("palette", file(picture("P"), "PNG"), "palette+png-to-jpeg"),
        ("alpha", file(transparent(), "PNG"), "alpha+png-to-jpeg"),
        ("bmp", file(picture(), "BMP"), "bmp+png-to-jpeg"),
        ("cmyk jpeg", file(picture("CMYK"), "JPEG", quality=95), "cmyk+png-to-jpeg"),
    ],
)
def test_png_to_jpeg_leaves_no_png(name: str, data: bytes, changes: str) -> None:
    exact = store_image(data, ImageOptions())
    stored = store_image(data, ImageOptions(png_to_jpeg=True))
    assert (exact.format, stored.format, words(stored)) == (b"png", b"jpeg", changes)
    assert (stored.height, stored.width) == (exact.height, exact.width)
    assert np.abs(pixels(stored.encoded) - pixels(exact.encoded)).mean() < 6
    assert len(store_image(data, ImageOptions(png_to_jpeg=True, quality=10)).encoded) < len(stored.encoded)


def test_png_to_jpeg_leaves_jpegs_as_they_are() -> None:
    data = file(picture(), "JPEG", quality=90)
    assert store_image(data, ImageOptions(png_to_jpeg=True)).encoded == data


def test_a_png_too_wide_for_a_jpeg_is_told() -> None:
    data = file(Image.new("L", (65_536, 1)), "PNG")
    assert store_image(data, ImageOptions()).format == b"png"
    assert refused(data, ImageOptions(png_to_jpeg=True)) is RejectCode.TOO_LARGE


@pytest.mark.promise(33)
def test_what_is_encoded_again_is_judged_as_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One decoding is the check and makes the pixels; what is odd goes the longer way, as if there were no other."""
    data = file(picture(), "JPEG")
    damaged = [data, data[:-2] + b"\x01\x02\x03\xff\xd9", data[:11] + b"\x09" + data[12:]]
    for at in range(300, len(data) - 30, len(data) // 20):
        damaged += [data[:at], data[:at] + b"\xff\xd9", data[:at] + bytes(30) + data[at + 30 :]]

    def outcomes() -> list[object]:
        found: list[object] = []
        for each, check in itertools.product(damaged, CHECKS):
            try:
                found.append(store_image(each, ImageOptions(check=check, resize_shorter=20)))
            except RejectedError as error:
                found.append((error.code, error.reason))
        return found

    usual = outcomes()
    rejected = sum(isinstance(found, tuple) for found in usual)
    assert 20 < rejected < len(usual) - 20
    monkeypatch.setattr("shardfeed.converters.images.pixels.clean_pixels", lambda *args, **kwargs: None)
    assert outcomes() == usual


@pytest.mark.promise(33)
@pytest.mark.parametrize("kind", [{}, {"subsampling": 0}, {"progressive": True}, {"restart_marker_rows": 1}])
def test_scans_that_are_not_looked_at_are_judged_as_those_that_are(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, object]
) -> None:
    """A strict decoder stops at any marker; walking over all bytes for them took a twentieth of the time."""
    data, draws = file(picture(), "JPEG", **kind), random.Random(3)
    plain = is_one_plain_scan(data, read_jpeg_header(data, MAX_PIXELS))
    assert plain == (not kind or "subsampling" in kind)
    spoiled = [
        data,
        data + b"junk",
        data + data,
        data[:-2],
        data[:-2] + b"\xff\xfe\0\4ab\xff\xd9",
        data[:-2] + b"ab\xff\xd9",
    ]
    for marker in b"\xd0\xd5\x01\xc0\xe0\xdc\xd8\xff\xd9\xda":
        for at in (len(data) - 2, draws.randrange(300, len(data)), draws.randrange(300, len(data))):
            spoiled.append(data[:at] + bytes((0xFF, marker)) + data[at:])
    for _ in range(40):
        at = draws.randrange(20, len(data) - 2)
        spoiled.append(data[:at] + bytes((data[at] ^ 1 << draws.randrange(8),)) + data[at + 1 :])
        spoiled.append(data[:at] + b"\xff\xd9")

    def outcomes() -> list[object]:
        found: list[object] = []
        for each in spoiled:
            try:
                found.append(store_image(each, DECODE).warnings)
            except RejectedError as error:
                found.append((error.code, error.reason))
        return found

    usual = outcomes()
    assert len(set(usual)) > 5
    monkeypatch.setattr("shardfeed.converters.images.store.is_one_plain_scan", lambda *args: False)
    assert outcomes() == usual


OTHERS = [
    ImageOptions(seekable=True, baseline=True, check="header"),
    ImageOptions(seekable=True, baseline=True),
    ImageOptions(resize_shorter=20),
    ImageOptions(encode="raw"),
]


@pytest.mark.promise(33)
@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.torture)])
def test_of_damaged_jpegs_nothing_is_stored_that_no_decoder_wrote(count: int) -> None:
    def outcome(data: bytes, options: ImageOptions) -> object:
        try:
            return store_image(data, options)
        except RejectedError as error:
            return error.code, error.reason

    rng = random.Random(0)
    for data in [damaged_jpeg(kind, rng) for kind in DAMAGES for _ in range(count // 10)]:
        for options in OTHERS:
            same_under_poisons(lambda _, data=data, options=options: outcome(data, options))
