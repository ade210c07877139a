import io
import struct
import zlib

import pytest
from PIL import Image, PngImagePlugin

from shardfeed.converters.images.png import MAX_INFLATED_BYTES, PngHeader, only_pixels, read_png_header
from shardfeed.converters.rejects import MAX_METADATA_BYTES, MAX_PIXELS, RejectCode, RejectedError

from pictures import image_bytes


def png(mode: str = "RGB", **options: object) -> bytes:
    image = Image.radial_gradient("L").resize((13, 9)).convert(mode)
    return image_bytes(image, "PNG", **options)


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))


def with_chunks(data: bytes, *chunks: bytes) -> bytes:
    """`chunks` put after the IHDR chunk."""
    return data[:33] + b"".join(chunks) + data[33:]


def read(data: bytes, crcs: str = "all") -> PngHeader:
    return read_png_header(data, MAX_PIXELS, crcs)  # type: ignore[arg-type]


def refused(data: bytes, crcs: str = "all") -> RejectCode:
    with pytest.raises(RejectedError) as caught:
        read(data, crcs)
    return caught.value.code


@pytest.mark.parametrize(
    ("mode", "bits", "color_type"),
    [("L", 8, 0), ("RGB", 8, 2), ("P", 8, 3), ("LA", 8, 4), ("RGBA", 8, 6), ("1", 1, 0), ("I;16", 16, 0)],
)
@pytest.mark.parametrize("crcs", ["all", "header", "none"])
def test_the_header_of_every_kind(mode: str, bits: int, color_type: int, crcs: str) -> None:
    header = read(png(mode), crcs)
    assert header[:6] == (9, 13, bits, color_type, False, False)
    assert (header.orientation, header.exif_problem) == (1, None)


def test_transparency_frames_and_orientation() -> None:
    assert read(png(transparency=(1, 2, 3))).transparency
    assert read(png(save_all=True, append_images=[Image.new("RGB", (13, 9))])).animated
    exif = Image.Exif()
    exif[0x0112] = 8
    assert read(png(exif=exif)).orientation == 8
    assert read(with_chunks(png(), chunk(b"eXIf", b"nonsense"))).exif_problem


@pytest.mark.promise(33)
def test_every_flipped_bit_is_found() -> None:
    data = png(pnginfo=None)
    for bit in range(64, len(data) * 8):  # the first 8 bytes make it a PNG
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        refused(bytes(flipped))


def test_without_decoding_only_the_pixels_go_unchecked() -> None:
    data = with_chunks(png(), chunk(b"tEXt", b"a\0b"))
    for name, found in ((b"IDAT", False), (b"tEXt", True), (b"IHDR", True), (b"IEND", True)):
        at = data.index(name) + 4
        flipped = bytearray(data)
        flipped[at] ^= 1
        if found:
            assert refused(bytes(flipped), "header") in (RejectCode.CORRUPT, RejectCode.TRUNCATED)
        else:
            read(bytes(flipped), "header")


@pytest.mark.promise(33)
@pytest.mark.parametrize("crcs", ["all", "header"])
def test_cut_anywhere(crcs: str) -> None:
    data = png()
    for size in range(8, len(data)):
        assert refused(data[:size], crcs) is RejectCode.TRUNCATED, size


def test_bytes_after_the_end_are_no_fault() -> None:
    assert read(png() + b"tail").width == 13


@pytest.mark.promise(34)
def test_too_many_pixels_are_refused_at_the_first_chunk() -> None:
    data = png()
    huge = data[:16] + struct.pack(">LL", 30_000, 30_000) + data[24:]
    for cut in (huge, huge[:33]):
        assert refused(cut) is RejectCode.TOO_LARGE
    assert refused(data[:16] + struct.pack(">LL", 0, 9) + data[24:29] + bytes(4) + data[33:]) is RejectCode.CORRUPT


BOMB = zlib.compress(bytes(MAX_INFLATED_BYTES + 1), 9)


@pytest.mark.promise(34)
@pytest.mark.parametrize(
    "bomb",
    [
        chunk(b"zTXt", b"key\0\0" + BOMB),
        chunk(b"iCCP", b"name\0\0" + BOMB),
        chunk(b"iTXt", b"key\0\1\0en\0translated\0" + BOMB),
    ],
)
def test_metadata_that_inflates_is_refused(bomb: bytes) -> None:
    data = with_chunks(png(), bomb)
    assert len(data) < 3_000
    for crcs in ("all", "header"):
        assert refused(data, crcs) is RejectCode.TOO_LARGE
    with pytest.raises(ValueError, match="too large"), Image.open(io.BytesIO(data)) as image:
        image.load()  # what our limit follows: Pillow opens no such file


@pytest.mark.promise(34)
def test_metadata_has_a_limit_in_all() -> None:
    fits = chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(MAX_INFLATED_BYTES), 9))
    most = MAX_METADATA_BYTES // MAX_INFLATED_BYTES
    read(with_chunks(png(), fits * most))
    assert refused(with_chunks(png(), fits * (most + 1))) is RejectCode.TOO_LARGE
    assert refused(with_chunks(png(), chunk(b"teSt", bytes(MAX_METADATA_BYTES + 1)))) is RejectCode.TOO_LARGE


def test_text_that_does_not_inflate_says_nothing_about_pixels() -> None:
    assert read(with_chunks(png(), chunk(b"zTXt", b"key\0\0nonsense"))).width == 13


@pytest.mark.promise(33)
@pytest.mark.parametrize(
    "data",
    [
        png()[:8] + chunk(b"CgBI", b"\x50\0\x20\x06") + png()[8:],
        with_chunks(png(), png()[8:33]),  # two IHDR
        with_chunks(png(), chunk(b"XYZW", b"")),  # a chunk that decoders must know
        with_chunks(png(), chunk(b"te\0t", b"")),
        png()[:8] + chunk(b"IHDR", struct.pack(">LLBBBBB", 13, 9, 3, 2, 0, 0, 0)) + png()[33:],
    ],
)
def test_broken_chunks(data: bytes) -> None:
    assert refused(data) is RejectCode.CORRUPT


def test_metadata_is_taken_away_and_nothing_else() -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("key", "value", zip=True)
    noisy = png("P", transparency=3, pnginfo=text)
    kept = only_pixels(noisy, read(noisy))
    assert kept == png("P", transparency=3)
    assert len(kept) < len(noisy)
