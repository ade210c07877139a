"""The corpus of bad and odd inputs: one table, one expected outcome each (RELIABILITY.md 30 to 37 and E).

All files of `FILES` lie in one image folder and go through one real conversion, `shardfeed convert` with two workers.
An outcome is what the dataset then says of the file: a code of rejected.jsonl, "kept jpeg" (the record holds the
file byte for byte), "cmyk -> png" (stored as that, the reason as in normalised.jsonl), "hidden" or "passed over" (both
are counted: the system's names, and files that are images neither by name nor by content). Label files go through
`shardfeed convert`, too, each with its exit code, line and column.
"""

import dataclasses
import io
import json
import os
import socket
import struct
import subprocess
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.converters.sources.rows.label_file import LabelFile
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

from pictures import image_bytes, over_white, waves

Make = Callable[[], bytes]


# --- how the inputs are made ------------------------------------------------------------------------------------------


picture = partial(waves, noise=0, length=17)


def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    return image_bytes(image, kind, **({"quality": 92} if kind in ("JPEG", "MPO") else {}) | options)


def pixels(image: Image.Image | bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(image)) if isinstance(image, bytes) else image
    return np.asarray(image.convert("RGB")).astype(int)


def transparent(mode: str = "RGBA") -> Image.Image:
    image = picture()
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image.convert(mode)


def from_inks(data: bytes, *, inverted: bool) -> np.ndarray:
    """Colors of a JPEG of four inks. Pillow inverts the values of each, as if it had an Adobe marker."""
    inks = 255 - np.asarray(Image.open(io.BytesIO(data))).astype(float)
    inks = inks if inverted else 255 - inks
    return inks[..., :3] * inks[..., 3:] / 255


def as_jpeg(image: Image.Image, chroma: str = "4:2:0") -> np.ndarray:
    """Pixels of an image after it was transcoded to JPEG."""
    return pixels(encode(image.convert("RGB"), "JPEG", subsampling=chroma))


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


# What a camera writes that was held in each way: the picture, turned back.
_TURNS = Image.Transpose
TURNED_BACK = {
    2: _TURNS.FLIP_LEFT_RIGHT,
    3: _TURNS.ROTATE_180,
    4: _TURNS.FLIP_TOP_BOTTOM,
    5: _TURNS.TRANSPOSE,
    6: _TURNS.ROTATE_90,
    7: _TURNS.TRANSVERSE,
    8: _TURNS.ROTATE_270,
}


def turned(orientation: int) -> Image.Image:
    image = picture(height=48, width=64)  # whole blocks of a JPEG, which may then be compared pixel by pixel
    return image.transpose(TURNED_BACK[orientation]) if orientation != 1 else image


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def in_jpeg(*segments: bytes) -> bytes:
    data = encode(picture(), "JPEG")
    return data[:2] + b"".join(segments) + data[2:]


def bad_exif(tiff: bytes) -> bytes:
    return in_jpeg(segment(0xE1, b"Exif\0\0" + tiff))


def orientation_entry(kind: int, count: int, value: bytes) -> bytes:
    return b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHL", 0x0112, kind, count) + value + bytes(4)


def jpeg_says(height: int, width: int) -> bytes:
    data = bytearray(encode(picture(), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def jpeg_of_process(marker: int, bits: int = 8) -> bytes:
    data = bytearray(encode(picture(), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 1], data[at + 4] = marker, bits
    return bytes(data)


def jpeg_scans(scans: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    data = encode(picture("L"), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + b"\xff\xd9"


def without_adobe(data: bytes) -> bytes:
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))


def png_of(width: int, height: int, bits: int, color: int, data: bytes, *more: bytes, interlace: int = 0) -> bytes:
    header = struct.pack(">LLBBBBB", width, height, bits, color, 0, 0, interlace)
    parts = (chunk(b"IHDR", header), *more, chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def in_png(*chunks: bytes) -> bytes:
    data = encode(picture(), "PNG")
    return data[:33] + b"".join(chunks) + data[33:]


def gray_png(bits: int) -> tuple[bytes, np.ndarray]:
    """Rows of all values of `bits` bits, 8 pixels wide."""
    top = (1 << bits) - 1
    values = np.arange(8) % (top + 1)
    row = int("".join(f"{v:0{bits}b}" for v in values), 2).to_bytes(bits, "big")
    return png_of(8, 4, bits, 0, (b"\0" + row) * 4), np.repeat((values * 255 / top)[None, :, None], 3, 2).repeat(4, 0)


WIDE = np.arange(0, 65_536, 16, dtype=np.uint16).reshape(64, 64)
WIDE_RGB = np.stack([WIDE, WIDE.T, WIDE[::-1]], axis=-1)


def wide_rgb_png() -> bytes:
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in WIDE_RGB)
    return png_of(64, 64, 16, 2, rows)


def tiff_of(entries: dict[int, tuple[int, int, int]], pixels: bytes = b"", next_at: int | None = 0) -> bytes:
    """A little-endian TIFF of one directory: tag -> (type, count, value); next_at None: the directory itself again."""
    body = b"".join(struct.pack("<HHLL", tag, *entry) for tag, entry in sorted(entries.items()))
    following = struct.pack("<L", 8 if next_at is None else next_at)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + body + following + pixels


def plain_tiff(height: int, width: int, **more: tuple[int, int, int]) -> dict[int, tuple[int, int, int]]:
    tags = {256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1)}
    at = 8 + 2 + 12 * (len(tags) + 4 + len(more)) + 4
    tags |= {273: (4, 1, at), 277: (3, 1, 1), 278: (4, 1, height), 279: (4, 1, height * width % 2**32)}
    return tags | {int(tag[1:]): entry for tag, entry in more.items()}


def riff(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<L", len(body)) + body


def webp_chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<L", len(body)) + body + b"\0" * (len(body) % 2)


def webp_canvas(height: int, width: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    still = encode(picture(), "WebP")
    return riff(webp_chunk(b"VP8X", bytes(4) + size), still[12:])


def avif_says(height: int, width: int) -> bytes:
    data = encode(picture(), "AVIF")
    at = data.index(b"ispe") + 8
    return data[:at] + struct.pack(">LL", width, height) + data[at + 8 :]


def frames(kind: str, count: int) -> bytes:
    images = [Image.new("L", (8, 8), 80 * i % 256) for i in range(count)]
    return encode(images[0], kind, save_all=True, append_images=images[1:])


def gif_frames(count: int) -> bytes:
    data = encode(picture("P"), "GIF")
    start = data.index(b",", 13 + (3 << (data[10] & 7) + 1))
    return data[:start] + data[start:-1] * count + b";"


def gif_frame_larger_than_its_screen() -> bytes:
    data = bytearray(encode(picture("P"), "GIF"))
    start = data.index(b",", 13 + (3 << (data[10] & 7) + 1))
    data[start + 5 : start + 9] = b"\xff\xff\xff\xff"
    return bytes(data)


def bmp_says(height: int, width: int) -> bytes:
    data = bytearray(encode(picture(), "BMP"))
    data[18:26] = struct.pack("<ll", width, height)
    return bytes(data)


def cut(data: bytes, at: float) -> bytes:
    size = int(len(data) * at) if at < 1 else len(data) - int(at)
    assert 0 < size < len(data)
    return data[:size]


def changed(data: bytes, at: float, to: bytes) -> bytes:
    at = int(len(data) * at)
    assert data[at : at + len(to)] != to
    return data[:at] + to + data[at + len(to) :]


def repacked(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A PNG whose compressed pixels were changed and whose CRC is right again."""
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    body = change(data[start + 4 : start + 4 + size])
    return data[: start - 4] + chunk(b"IDAT", body) + data[start + 8 + size :]


def parted(data: bytes) -> bytes:
    """A PNG whose compressed pixels lie in two chunks with a comment between them."""
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    body = data[start + 4 : start + 4 + size]
    halves = chunk(b"IDAT", body[:99]), chunk(b"tEXt", b"Comment\0between"), chunk(b"IDAT", body[99:])
    return data[: start - 4] + b"".join(halves) + data[start + 8 + size :]


# --- files: what they are, and what becomes of them -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """An input `name` under its class folder, made by `make`, and the `outcome` that row `row` promises.

    `reference`: the pixels to find, [height, width, 3], within one level. `warned`: words of a warning about it.
    """

    row: int | str
    name: str
    make: Make
    outcome: str
    reference: Callable[[], np.ndarray] | None = None
    warned: str = ""


JPEG = encode(picture(), "JPEG")
PNG = encode(picture(), "PNG")
CMYK = encode(picture("CMYK"), "JPEG")
RESTARTS = encode(picture(), "JPEG", restart_marker_blocks=2)
WEBP = {"lossless": True, "exact": True}
BOMB = zlib.compress(bytes(64 << 20), 9)
SPARSE = b"sparse:"  # what `plant` makes a file of that many bytes without content of


def here(image: Image.Image) -> Callable[[], np.ndarray]:
    return lambda: pixels(image)


def upright(orientation: int) -> np.ndarray:
    """Expected pixels of a turned JPEG: turned back, and compressed once more."""
    stored = Image.open(io.BytesIO(encode(turned(orientation), "JPEG")))
    back = {6: _TURNS.ROTATE_270, 8: _TURNS.ROTATE_90}.get(orientation, TURNED_BACK.get(orientation))
    found = stored.transpose(back) if back is not None else stored
    assert np.abs(pixels(found) - pixels(picture(height=48, width=64))).mean() < 4, "the reference is upright"
    return as_jpeg(found)


FILES = [
    # 30: no images at all
    Case(30, "empty.jpg", lambda: b"", "E_EMPTY"),
    Case(30, "text.jpg", lambda: b"not found\n", "E_NOT_IMAGE"),
    Case(30, "page.jpg", lambda: b"<!DOCTYPE html><html><body>404</body></html>", "E_NOT_IMAGE"),
    Case(30, "drawing.svg", lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "skipped:"),
    Case(30, "error.jpg", lambda: b'{"error": "rate limit"}', "E_NOT_IMAGE"),
    Case(30, "pointer.jpg", lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "E_NOT_IMAGE"),
    Case(30, "zeros.jpg", lambda: bytes(4096), "E_NOT_IMAGE"),
    Case(30, "document.pdf", lambda: b"%PDF-1.7\n" + bytes(100), "skipped:"),
    Case(30, "clip.jpg", lambda: b"\0\0\0\x18ftypisom\0\0\2\0isomavc1" + bytes(100), "E_NOT_IMAGE"),
    Case(30, "one byte.jpg", lambda: b"\xff", "E_TRUNCATED"),
    Case(30, "two bytes.png", lambda: b"\x89P", "E_TRUNCATED"),
    Case(30, "labels.txt", lambda: b"a.jpg 0\n", "skipped:"),
    Case(30, "drawing.png", lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "E_NOT_IMAGE"),
    Case(30, "empty.txt", lambda: b"", "skipped:"),
    Case(30, "README", lambda: b"Flowers.\n", "skipped:"),
    Case(30, "metadata.json", lambda: b'{"author": "x"}', "skipped:"),
    Case(30, ".DS_Store", lambda: b"\0\0\0\1Bud1", "hidden"),
    Case(30, "Thumbs.db", lambda: b"\xd0\xcf\x11\xe0", "hidden"),
    Case(30, "desktop.ini", lambda: b"[.ShellClassInfo]", "hidden"),
    Case(30, "._x.jpg", lambda: b"\0\5\x16\7", "hidden"),
    Case(30, ".hidden.jpg", lambda: JPEG, "hidden"),
    Case(30, ".ipynb_checkpoints/x.jpg", lambda: JPEG, "hidden"),
    Case(30, "__MACOSX/x.jpg", lambda: JPEG, "hidden"),
    # 31: told by content, kept where every loader reads it, else transcoded
    Case(31, "jpeg.png", lambda: JPEG, "kept jpeg"),
    Case(31, "png.jpg", lambda: PNG, "kept png"),
    Case(31, "no extension", lambda: JPEG, "kept jpeg"),
    Case(31, "upper case.JPEG", lambda: JPEG, "kept jpeg"),
    Case(31, "text.txt.png", lambda: PNG, "kept png"),
    Case(31, "gray.jpg", lambda: encode(picture("L"), "JPEG"), "kept jpeg"),
    Case(31, "progressive.jpg", lambda: encode(picture(), "JPEG", progressive=True), "kept jpeg"),
    Case(31, "full chroma.jpg", lambda: encode(picture(), "JPEG", subsampling="4:4:4"), "kept jpeg"),
    Case(31, "restarts.jpg", lambda: RESTARTS, "kept jpeg"),
    Case(31, "mpo.jpg", lambda: encode(picture(), "MPO", save_all=True, append_images=[picture()]), "kept jpeg"),
    Case(31, "trailer.jpg", lambda: JPEG + b"SEFT" * 99, "kept jpeg"),
    Case(31, "one pixel.jpg", lambda: encode(picture(height=1, width=1), "JPEG"), "kept jpeg"),
    Case(31, "cmyk.jpg", lambda: CMYK, "cmyk -> png", lambda: from_inks(CMYK, inverted=True)),
    Case(
        31,
        "cmyk not adobe.jpg",
        lambda: without_adobe(CMYK),
        "cmyk -> png",
        lambda: from_inks(without_adobe(CMYK), inverted=False),
    ),
    Case(
        31,
        "rgb.jpg",
        lambda: encode(picture(), "JPEG", keep_rgb=True),
        "rgb-jpeg -> png",
        lambda: pixels(encode(picture(), "JPEG", keep_rgb=True)),
    ),
    Case(31, "gray.png", lambda: encode(picture("L"), "PNG"), "kept png"),
    Case(
        31,
        "interlaced.png",
        lambda: png_of(1, 1, 8, 2, b"\0\1\2\3", interlace=1),
        "kept png",
    ),
    *(
        Case(31, f"{bits} bits.png", lambda b=bits: gray_png(b)[0], f"{bits}-bit -> png", lambda b=bits: gray_png(b)[1])
        for bits in (1, 2, 4)
    ),
    Case(
        31,
        "16 bits gray.png",
        lambda: encode(Image.fromarray(WIDE), "PNG"),
        "16-bit -> png",
        lambda: np.repeat(WIDE[..., None] / 257, 3, 2),
    ),
    Case(31, "16 bits rgb.png", wide_rgb_png, "16-bit -> png", lambda: WIDE_RGB / 257),
    Case(31, "palette.png", lambda: encode(picture("P"), "PNG"), "palette -> png", here(picture("P"))),
    Case(
        31,
        "palette with a hole.png",
        lambda: encode(picture("P"), "PNG", transparency=bytes([0, 128] * 128)),
        "palette+alpha -> png",
        lambda: over_white(Image.open(io.BytesIO(encode(picture("P"), "PNG", transparency=bytes([0, 128] * 128))))),
    ),
    Case(31, "alpha.png", lambda: encode(transparent(), "PNG"), "alpha -> png", lambda: over_white(transparent())),
    Case(
        31,
        "gray alpha.png",
        lambda: encode(transparent("LA"), "PNG"),
        "alpha -> png",
        lambda: over_white(transparent("LA")),
    ),
    Case(31, "transparent color.png", lambda: encode(picture(), "PNG", transparency=(0, 0, 1)), "alpha -> png"),
    Case(31, "animated.png", lambda: frames("PNG", 3), "E_ANIMATED"),
    Case(31, "bmp.jpg", lambda: encode(picture(), "BMP"), "bmp -> png", here(picture())),
    Case(31, "palette.bmp", lambda: encode(picture("P"), "BMP"), "bmp+palette -> png", here(picture("P"))),
    Case(31, "1 bit.bmp", lambda: encode(picture("1"), "BMP"), "bmp+1-bit -> png", here(picture("1"))),
    Case(31, "tiff.tif", lambda: encode(picture(), "TIFF"), "tiff -> png", here(picture())),
    Case(31, "lzw.tif", lambda: encode(picture(), "TIFF", compression="tiff_lzw"), "tiff -> png", here(picture())),
    Case(
        31,
        "fax.tif",
        lambda: encode(picture("1"), "TIFF", compression="group4"),
        "tiff+1-bit -> png",
        here(picture("1")),
    ),
    Case(31, "cmyk.tif", lambda: encode(picture("CMYK"), "TIFF"), "tiff+cmyk -> png", here(picture())),
    Case(
        31,
        "16 bits.tif",
        lambda: encode(Image.fromarray(WIDE), "TIFF"),
        "tiff+16-bit -> png",
        lambda: np.repeat(WIDE[..., None] / 257, 3, 2),
    ),
    Case(
        31, "alpha.tif", lambda: encode(transparent(), "TIFF"), "tiff+alpha -> png", lambda: over_white(transparent())
    ),
    Case(31, "float.tif", lambda: encode(picture("F"), "TIFF"), "E_UNSUPPORTED"),
    Case(31, "pages.tif", lambda: frames("TIFF", 3), "E_ANIMATED"),
    Case(31, "webp.jpg", lambda: encode(picture(), "WebP", **WEBP), "webp -> png", here(picture())),
    Case(
        31,
        "lossy.webp",
        lambda: encode(picture(), "WebP"),
        "webp -> jpeg",
        lambda: as_jpeg(Image.open(io.BytesIO(encode(picture(), "WebP")))),
    ),
    Case(
        31,
        "alpha.webp",
        lambda: encode(transparent(), "WebP", **WEBP),
        "webp+alpha -> png",
        lambda: over_white(transparent()),
    ),
    Case(31, "animated.webp", lambda: frames("WebP", 3), "E_ANIMATED"),
    Case(
        31,
        "avif.avif",
        lambda: encode(picture(), "AVIF"),
        "avif -> jpeg",
        lambda: as_jpeg(Image.open(io.BytesIO(encode(picture(), "AVIF"))), "4:4:4"),
    ),
    Case(31, "animated.avif", lambda: frames("AVIF", 3), "E_ANIMATED"),
    Case(31, "gif.jpg", lambda: encode(picture("P"), "GIF"), "gif -> png", here(picture("P"))),
    Case(31, "animated.gif", lambda: frames("GIF", 3), "E_ANIMATED"),
    Case(31, "12 bits.jpg", lambda: jpeg_of_process(0xC1, 12), "E_UNSUPPORTED"),
    Case(31, "lossless.jpg", lambda: jpeg_of_process(0xC3), "E_UNSUPPORTED"),
    Case(31, "arithmetic.jpg", lambda: jpeg_of_process(0xC9), "E_UNSUPPORTED"),
    Case(31, "photo.heic", lambda: b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "E_CORRUPT"),
    Case(31, "image.jp2", lambda: encode(picture(), "JPEG2000"), "jpeg2000 -> png", lambda: pixels(picture())),
    Case(31, "image.jxl", lambda: b"\xff\x0a" + bytes(50), "E_UNSUPPORTED"),
    Case(31, "favicon.ico", lambda: encode(picture(), "ICO"), "E_UNSUPPORTED"),
    Case(31, "layers.psd", lambda: b"8BPS\0\1" + bytes(50), "E_UNSUPPORTED"),
    Case(31, "bitmap.ppm", lambda: encode(picture(), "PPM"), "pnm -> png", lambda: pixels(picture())),
    Case(31, "bitmap.pgm", lambda: encode(picture("L"), "PPM"), "pnm -> png", lambda: pixels(picture("L"))),
    Case(31, "bitmap.pbm", lambda: encode(picture("1"), "PPM"), "pnm+1-bit -> png", lambda: pixels(picture("1"))),
    Case(33, "cut.ppm", lambda: encode(picture(), "PPM")[:-1], "E_TRUNCATED"),
    Case(33, "cut.jp2", lambda: encode(picture(), "JPEG2000")[:-1], "E_TRUNCATED"),
    Case(34, "huge.pgm", lambda: b"P5 30000 30000 255\n", "E_TOO_LARGE"),
    # 32: upright
    *(
        Case(
            32,
            f"turned {o}.jpg",
            lambda o=o: encode(turned(o), "JPEG", exif=exif(o)),
            "exif-rotated -> jpeg" if o > 1 else "kept jpeg",
            lambda o=o: upright(o),
        )
        for o in range(1, 9)
    ),
    *(
        Case(
            32,
            f"turned {o}.png",
            lambda o=o: encode(turned(o), "PNG", exif=exif(o)),
            "exif-rotated -> png" if o > 1 else "kept png",
            here(turned(1)),
        )
        for o in range(1, 9)
    ),
    Case(
        32,
        "turned.tif",
        lambda: encode(turned(6), "TIFF", tiffinfo={0x0112: 6}),
        "tiff+exif-rotated -> png",
        here(turned(1)),
    ),
    Case(
        32,
        "turned.webp",
        lambda: encode(turned(6), "WebP", exif=exif(6), **WEBP),
        "webp+exif-rotated -> png",
        here(turned(1)),
    ),
    Case(32, "turned.avif", lambda: encode(turned(6), "AVIF", exif=exif(6)), "avif+exif-rotated -> jpeg"),
    Case(32, "exif 0.jpg", lambda: bad_exif(orientation_entry(3, 1, b"\0\0\0\0")), "kept jpeg", warned="read as 1"),
    Case(32, "exif 9.jpg", lambda: bad_exif(orientation_entry(3, 1, b"\x09\0\0\0")), "kept jpeg", warned="read as 1"),
    Case(32, "exif text.jpg", lambda: bad_exif(orientation_entry(2, 2, b"6\0\0\0")), "kept jpeg", warned="read as 1"),
    Case(32, "exif twice.jpg", lambda: bad_exif(orientation_entry(3, 2, b"\6\0\6\0")), "kept jpeg", warned="read as 1"),
    Case(32, "exif cut.jpg", lambda: bad_exif(b"II*\0\x08\0\0\0\x05\0"), "kept jpeg", warned="read as 1"),
    Case(32, "exif outside.jpg", lambda: bad_exif(b"II*\0\xff\xff\xff\xff"), "kept jpeg", warned="read as 1"),
    Case(32, "exif noise.jpg", lambda: bad_exif(b"noise"), "kept jpeg", warned="read as 1"),
    Case(32, "exif noise.png", lambda: in_png(chunk(b"eXIf", b"noise")), "kept png", warned="read as 1"),
    # 33: damaged
    Case(33, "half.jpg", lambda: cut(JPEG, 0.5), "E_TRUNCATED"),
    Case(33, "header only.jpg", lambda: JPEG[: JPEG.index(b"\xff\xda")], "E_TRUNCATED"),
    Case(33, "no end marker.jpg", lambda: cut(JPEG, 2), "E_TRUNCATED"),
    Case(33, "last byte.jpg", lambda: cut(JPEG, 1), "E_TRUNCATED"),
    Case(33, "end marker put back.jpg", lambda: cut(JPEG, 0.7) + b"\xff\xd9", "E_CORRUPT"),
    Case(33, "half progressive.jpg", lambda: cut(encode(picture(), "JPEG", progressive=True), 0.5), "E_TRUNCATED"),
    Case(33, "half cmyk.jpg", lambda: cut(CMYK, 0.5), "E_TRUNCATED"),
    Case(33, "restart lost.jpg", lambda: RESTARTS.replace(b"\xff\xd3", b"", 1), "E_CORRUPT"),
    Case(33, "marker in the data.jpg", lambda: changed(JPEG, 0.8, b"\xff\xc1"), "E_CORRUPT"),
    # As frames of motion JPEG: every decoder knows the tables of the standard.
    Case(33, "no tables.jpg", lambda: JPEG.replace(b"\xff\xc4", b"\xff\xec"), "kept jpeg"),
    Case(33, "no frame.jpg", lambda: JPEG.replace(b"\xff\xc0", b"\xff\xec"), "E_CORRUPT"),
    Case(33, "zeros at the end.jpg", lambda: JPEG[:-300] + bytes(300), "E_TRUNCATED"),
    Case(33, "text mode.jpg", lambda: JPEG.replace(b"\n", b"\r\n"), "E_CORRUPT"),
    Case(33, "half.png", lambda: cut(PNG, 0.5), "E_TRUNCATED"),
    Case(33, "no end.png", lambda: cut(PNG, 12), "E_TRUNCATED"),
    Case(33, "flipped.png", lambda: changed(PNG, 0.5, bytes([PNG[len(PNG) // 2] ^ 1])), "E_CORRUPT"),
    Case(33, "text mode.png", lambda: PNG[:8] + PNG[8:].replace(b"\0", b"\r\0"), "E_CORRUPT"),
    Case(33, "pixels missing.png", lambda: png_of(9, 9, 8, 0, bytes(10) * 8), "E_TRUNCATED"),
    Case(33, "pixels cut.png", lambda: repacked(PNG, lambda body: body[: len(body) // 2]), "E_TRUNCATED"),
    Case(33, "pixels broken.png", lambda: repacked(PNG, lambda body: body[:9] + b"\xff" * 9 + body[18:]), "E_CORRUPT"),
    Case(33, "odd filter.png", lambda: png_of(4, 1, 8, 0, b"\x07abcd"), "E_CORRUPT"),
    Case(33, "parted.png", lambda: parted(PNG), "E_CORRUPT"),
    Case(33, "no palette.png", lambda: png_of(4, 1, 8, 3, b"\0abcd"), "E_CORRUPT"),
    Case(33, "color 5.png", lambda: png_of(4, 1, 8, 5, b"\0abcd"), "E_CORRUPT"),
    Case(33, "no pixels.png", lambda: PNG[:33] + chunk(b"IEND", b""), "E_TRUNCATED"),
    Case(33, "cut.gif", lambda: cut(encode(picture("P"), "GIF"), 0.8), "E_TRUNCATED"),
    Case(33, "cut.bmp", lambda: cut(encode(picture(), "BMP"), 0.8), "E_TRUNCATED"),
    Case(33, "cut.tif", lambda: cut(encode(picture(), "TIFF"), 0.8), "E_TRUNCATED"),
    Case(33, "cut.webp", lambda: cut(encode(picture(), "WebP"), 0.8), "E_TRUNCATED"),
    Case(33, "cut.avif", lambda: cut(encode(picture(), "AVIF"), 0.8), "E_TRUNCATED"),
    # 34: too large, and said so before anything is allocated
    Case(34, "30000.jpg", lambda: jpeg_says(30_000, 30_000), "E_TOO_LARGE"),
    Case(34, "65535.jpg", lambda: jpeg_says(65_535, 65_535), "E_TOO_LARGE"),
    Case(34, "0.jpg", lambda: jpeg_says(0, 70), "E_CORRUPT"),
    Case(34, "30000.png", lambda: png_of(30_000, 30_000, 8, 2, b""), "E_TOO_LARGE"),
    Case(34, "4 thousand millions.png", lambda: png_of(2**32 - 1, 2**32 - 1, 8, 2, b""), "E_TOO_LARGE"),
    Case(34, "0.png", lambda: png_of(0, 5, 8, 2, b""), "E_CORRUPT"),
    Case(34, "65535.gif", lambda: b"GIF89a\xff\xff\xff\xff\0\0\0" + bytes(9), "E_TOO_LARGE"),
    Case(34, "frame larger than screen.gif", gif_frame_larger_than_its_screen, "E_TOO_LARGE"),
    Case(34, "30000.bmp", lambda: bmp_says(30_000, 30_000), "E_TOO_LARGE"),
    Case(34, "upside down.bmp", lambda: bmp_says(-(2**31), 30_000), "E_TOO_LARGE"),
    Case(34, "30000.tif", lambda: tiff_of(plain_tiff(30_000, 30_000)), "E_TOO_LARGE"),
    Case(34, "4 thousand millions.tif", lambda: tiff_of(plain_tiff(2**32 - 1, 2**32 - 1)), "E_TOO_LARGE"),
    Case(34, "canvas.webp", lambda: webp_canvas(30_000, 30_000), "E_TOO_LARGE"),
    Case(34, "lossless.webp", lambda: riff(webp_chunk(b"VP8L", b"\x2f\xff\xff\xff\x0f" + bytes(9))), "E_TOO_LARGE"),
    Case(34, "30000.avif", lambda: avif_says(30_000, 30_000), "E_TOO_LARGE"),
    Case(34, "text bomb.png", lambda: in_png(chunk(b"zTXt", b"Comment\0\0" + BOMB)), "E_TOO_LARGE"),
    Case(34, "profile bomb.png", lambda: in_png(chunk(b"iCCP", b"profile\0\0" + BOMB)), "E_TOO_LARGE"),
    Case(34, "other text bomb.png", lambda: in_png(chunk(b"iTXt", b"Comment\0\1\0\0\0" + BOMB)), "E_TOO_LARGE"),
    Case(34, "long text.png", lambda: in_png(chunk(b"tEXt", b"Comment\0" + b"a" * (17 << 20))), "E_TOO_LARGE"),
    Case(34, "pixels bomb.png", lambda: repacked(PNG, lambda _: BOMB), "E_TOO_LARGE"),
    Case(34, "segments.jpg", lambda: in_jpeg(*[segment(0xE5, bytes(65_000))] * 270), "E_TOO_LARGE"),
    Case(34, "comments.jpg", lambda: in_jpeg(*[segment(0xFE, bytes(65_000))] * 270), "E_TOO_LARGE"),
    Case(34, "scans.jpg", lambda: jpeg_scans(600), "E_TOO_LARGE"),
    Case(34, "frames.gif", lambda: gif_frames(3000), "E_ANIMATED"),
    Case(34, "frames.png", lambda: in_png(chunk(b"acTL", struct.pack(">LL", 2**31 - 1, 0))), "E_ANIMATED"),
    Case(34, "pages.tif", lambda: frames("TIFF", 300), "E_ANIMATED"),
    Case(34, "pages in a circle.tif", lambda: tiff_of(plain_tiff(9, 9), bytes(81), None), "tiff -> png"),
    Case(34, "tag.tif", lambda: tiff_of(plain_tiff(9, 9, t34675=(7, 2**32 - 1, 8)), bytes(81)), "E_CORRUPT"),
    Case(34, "chunk length.png", lambda: PNG[:33] + b"\x7f\xff\xff\xffIDAT" + PNG[41:], "E_TRUNCATED"),
    Case(34, "3 GiB.jpg", lambda: SPARSE + b"%d" % (3 << 30), "E_TOO_LARGE"),
    Case(34, "1 TiB.jpg", lambda: SPARSE + b"%d" % (1 << 40), "E_TOO_LARGE"),
    # E: archives are not touched, pickles not loaded
    Case("E", "images.zip", lambda: b"PK\3\4" + bytes(26) + b"../../evil.jpg" + JPEG, "skipped:"),
    Case("E", "images.tar", lambda: b"../../evil.jpg".ljust(512, b"\0") + JPEG, "skipped:"),
    Case("E", "images.tar.gz", lambda: b"\x1f\x8b\x08" + bytes(50), "skipped:"),
    Case("E", "evil.pkl", lambda: b"cos\nsystem\n(S'touch evil'\ntR.", "skipped:"),
    Case("E", "evil.npy", lambda: b"\x93NUMPY\1\0" + bytes(100), "skipped:"),
    Case("E", "evil.ps", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n(evil) run\n", "skipped:"),
]

LONG = "n" * 251 + ".jpg"
NAMES: list[str | bytes] = [
    b"not utf-8 \xe9\xff.jpg",
    "new\nline.jpg",
    'new\n{"key": "forged"}\nline.jpg',
    "tab\t.jpg",
    "return\r.jpg",
    " spaces  .jpg ",
    "quotes'\".jpg",
    "back\\slash.jpg",
    "a,b;c|d.jpg",
    "<script>alert(1)</script >.jpg".replace("/", "∕"),
    "\x1b[31mred\x07.jpg",
    "\x7f\x01.jpg",
    "\u202egnp.jpg",
    "🙂.jpg",
    "%s{}$HOME`id`.jpg",
    "*?[a].jpg",
    "-rf",
    "~",
    "a..b...jpg",
    "dot at the end.",
    "CON.jpg",
    LONG,
    unicodedata.normalize("NFC", "café.jpg"),
    unicodedata.normalize("NFD", "café.jpg"),
    "equal.jpg",
    "deep/equal.jpg",
    "deep/er/equal.jpg",
    "folder.jpg/equal.jpg",
]
assert all(len(os.fsencode(part)) <= 255 for name in NAMES for part in os.fsencode(name).split(b"/"))
assert len(LONG) == 255


# What the tree below holds (36). A key that is not here is not listed.
TREE = {
    "file.jpg": "kept jpeg",
    "hard link.jpg": "kept jpeg",
    "link to a file.jpg": "kept jpeg",
    "folder/inside.jpg": "kept jpeg",
    "link to a hidden folder/hidden.jpg": "kept jpeg",
    "link out.jpg": "E_PATH_ESCAPE",
    "link out absolute.jpg": "E_PATH_ESCAPE",
    "link out by a link.jpg": "E_PATH_ESCAPE",
    "link out to a folder": "E_PATH_ESCAPE",
    "link to a device.jpg": "E_PATH_ESCAPE",
    "link to the root of all": "E_PATH_ESCAPE",
    "link to itself.jpg": "E_MISSING",
    "link to nothing.jpg": "E_MISSING",
    "fifo.jpg": "E_NOT_REGULAR",
    "link to a fifo.jpg": "E_NOT_REGULAR",
    "socket.jpg": "E_NOT_REGULAR",
    "device.jpg": "E_NOT_REGULAR",
}
ALIASES = ("link to a folder", "link up", "folder/link to its parent", "folder/link to itself")


def plant(path: bytes, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        if data.startswith(SPARSE):
            file.truncate(int(data.removeprefix(SPARSE)))
        else:
            file.write(data)


def plant_tree(root: Path, outside: Path) -> None:
    plant(os.fsencode(root / "file.jpg"), JPEG)
    plant(os.fsencode(root / "folder" / "inside.jpg"), JPEG)
    plant(os.fsencode(root / ".store" / "hidden.jpg"), JPEG)
    plant(os.fsencode(outside / "secret.jpg"), JPEG)
    os.link(root / "file.jpg", root / "hard link.jpg")
    up = os.path.relpath(outside, root)
    for link, target in {
        "link to a file.jpg": "folder/inside.jpg",
        "link to a folder": "folder",
        "link to a hidden folder": ".store",
        "link up": "..",
        "folder/link to its parent": "..",
        "folder/link to itself": ".",
        "link out.jpg": f"{up}/secret.jpg",
        "link out absolute.jpg": str(outside / "secret.jpg"),
        "link out by a link.jpg": "link out to a folder/secret.jpg",
        "link out to a folder": up,
        "link to a device.jpg": "/dev/zero",
        "link to the root of all": "/",
        "link to itself.jpg": "link to itself.jpg",
        "link to nothing.jpg": "nothing.jpg",
        "link to a fifo.jpg": "fifo.jpg",
    }.items():
        (root / link).symlink_to(target)
    os.mkfifo(root / "fifo.jpg")
    here_ = os.getcwd()
    os.chdir(root)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.jpg")
    finally:
        os.chdir(here_)
    try:
        os.mknod(root / "device.jpg", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, without end
    except PermissionError:  # only root makes devices
        os.mkfifo(root / "device.jpg")


@dataclasses.dataclass(frozen=True)
class Converted:
    """The one conversion: its report, what it printed, its records by key, and outcomes by key."""

    report: dict[str, Any]
    data: Dataset
    records: dict[bytes, dict[str, Any]]
    sources: Path
    out: Path
    rejected: dict[str, dict[str, str]]
    normalised: dict[str, dict[str, str]]
    warnings: dict[str, str]

    def outcome(self, key: bytes) -> str:
        text = key.decode("utf-8", "surrogateescape")
        record, rejected = self.records.get(key), self.rejected.get(text)
        assert not (record and rejected), "one outcome each"
        if rejected:
            return rejected["code"]
        if record is None:
            return "hidden" if any(map(is_hidden, key.split(b"/"))) else "skipped:"
        changed = self.normalised.get(text)
        kind = record["image/format"].decode()
        return f"{changed['code']} -> {kind}" if changed else f"kept {kind}"


def lines(path: Path) -> dict[str, dict[str, str]]:
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len({line["key"] for line in found}) == len(found)
    return {line["key"]: line for line in found}


def convert(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """`shardfeed convert ...` in a process of its own; a minute is far more than it takes, so never blocked."""
    command = [sys.executable, "-m", "shardfeed.tools.cli", "convert", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    base = tmp_path_factory.mktemp("corpus")
    root, out = base / "images", base / "out"
    for case in FILES:
        plant(os.fsencode(root / folder(case) / case.name), case.make())
    for number, name in enumerate(NAMES):
        plant(os.fsencode(root / "names") + b"/" + os.fsencode(name), encode(picture(width=16 + number), "JPEG"))
        plant(os.fsencode(root / "broken") + b"/" + os.fsencode(name), b"broken")
    plant_tree(root / "tree", base / "outside")
    done = convert([str(root), str(out), "--json", "--max-bad", "100%", "--workers", "2", "--shards", "3"])
    assert done.returncode == 0, done.stderr
    data = shardfeed.open(out)
    report = json.loads(done.stdout)
    return Converted(
        report,
        data,
        {record["image/filename"]: record for record in data["train"]},
        root,
        out,
        lines(out / "rejected.jsonl"),
        lines(out / "normalised.jsonl"),
        {entry["key"]: entry["reason"] for entry in report["warnings"]},
    )


def folder(case: Case) -> str:
    """Cases of one row share a class, so that names may come again."""
    return f"row {case.row}"


@pytest.mark.promise(30, 31, 32, 33, 34)
@pytest.mark.parametrize("case", FILES, ids=lambda case: f"{case.row} {case.name}")
def test_a_file_has_the_outcome_it_should(converted: Converted, case: Case) -> None:
    key = f"{folder(case)}/{case.name}".encode()
    assert converted.outcome(key) == case.outcome
    record = converted.records.get(key)
    if case.outcome.startswith("kept"):
        assert record is not None
        assert record["image/encoded"] == case.make()
    if record is not None:
        found = pixels(record["image/encoded"])
        assert found.shape == (record["image/height"], record["image/width"], 3)
        if case.reference is not None and not case.outcome.startswith("kept"):
            expected = case.reference()
            assert found.shape == expected.shape
            assert np.abs(found - expected).max() <= 1
    assert case.warned in converted.warnings.get(key.decode(), "")


@pytest.mark.parametrize(
    "name", [pytest.param(n, id=ascii(n)[:40], marks=pytest.mark.promise(35)) for n in map(os.fsencode, NAMES)]
)
def test_a_name_is_the_key_wherever_it_is_told(converted: Converted, name: bytes) -> None:
    width = 16 + [os.fsencode(known) for known in NAMES].index(name)
    assert converted.records[b"names/" + name]["image/width"] == width, "this file and no other"
    meant = names_image(name)
    assert converted.outcome(b"broken/" + name) == ("E_NOT_IMAGE" if meant else "skipped:")
    told = [entry["key"] for entry in converted.report["rejected"]]
    assert told.count((b"broken/" + name).decode("utf-8", "surrogateescape")) == meant


@pytest.mark.promise(36)
@pytest.mark.parametrize("name", TREE)
def test_a_tree_has_the_outcomes_it_should(converted: Converted, name: str) -> None:
    assert converted.outcome(f"tree/{name}".encode()) == TREE[name]


@pytest.mark.promise(30, 36)
def test_what_was_passed_over_is_counted_and_nothing_else_is_there(converted: Converted) -> None:
    notes = converted.report["notes"]
    hidden = sum(case.outcome == "hidden" for case in FILES) + 1  # the tree's .store
    assert any(note.startswith(f"ignored hidden names: {hidden} (") for note in notes)
    assert any(
        note.startswith(f"links to folders that are already listed under another name: {len(ALIASES)} (")
        for note in notes
    )
    told = {key for key in converted.records if key.startswith(b"tree/")}
    told |= {key.encode() for key in converted.rejected if key.startswith("tree/")}
    assert told == {f"tree/{name}".encode() for name in TREE}
    passed = sum(case.outcome == "skipped:" for case in FILES)
    passed += sum(not names_image(os.fsencode(name)) for name in NAMES)
    assert any(note.startswith(f"{passed} files ignored, not images by name or content: ") for note in notes)
    files = sum(case.outcome != "hidden" for case in FILES) + 2 * len(NAMES) + len(TREE) - passed
    assert len(converted.records) + len(converted.rejected) == files
    assert main(["verify", str(converted.out), "--deep"]) == 0


@pytest.mark.promise(35)
def test_a_name_forges_no_line(converted: Converted, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in rejected.jsonl nor on a terminal, where control characters are escaped."""
    done = convert([str(converted.sources), str(converted.out) + "2", "--workers", "2"])
    assert done.returncode == 3, "rejected inputs, and none allowed"
    assert "\x1b" not in done.stdout + done.stderr
    assert "forged" not in [line.strip() for line in done.stdout.splitlines()]


PEAK = """
import json, resource, sys
from shardfeed.tools.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def worker_peak(root: Path, out: Path) -> int:
    """Bytes that the larger of two workers held at most while `root` was converted."""
    command = [sys.executable, "-c", PEAK, "convert", str(root), str(out), "--quiet", "--max-bad", "100%"]
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, timeout=60, check=True)
    code, peak = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return peak * 1024


@pytest.mark.promise(34)
def test_what_is_too_large_is_refused_before_it_is_allocated(tmp_path: Path) -> None:
    """All of them together cost a worker not much more than the largest file, of 17 MiB."""
    for root in (tmp_path / "small", tmp_path / "huge"):
        plant(os.fsencode(root / "class" / "whole.jpg"), JPEG)
    for case in FILES:
        if case.row == 34:
            plant(os.fsencode(tmp_path / "huge" / "class" / case.name), case.make())
    small = worker_peak(tmp_path / "small", tmp_path / "out1")
    huge = worker_peak(tmp_path / "huge", tmp_path / "out2")
    assert huge - small < 96 << 20


# --- label files (37) -------------------------------------------------------------------------------------------------

NFC, NFD = unicodedata.normalize("NFC", "ö.jpg"), unicodedata.normalize("NFD", "ö.jpg")
ROOT = ("a.jpg", "b.jpg", "sub/c d.jpg", 'q"q.jpg', "new\nline.jpg", "é1.jpg", NFC, NFD)
ALL = {"a.jpg": "cat", "b.jpg": "dog"}


@dataclasses.dataclass(frozen=True)
class Table:
    """A label file and what is to be said of it.

    `said`: the error's place and words, after the file's name, with exit code 2; or the labels by path, then `told` are
    words that must stand in the notes and `rejected` the codes of the paths that lead to no file.
    """

    name: str
    content: str | bytes
    said: str | dict[str, str]
    told: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    file: str = "labels.csv"
    options: tuple[str, ...] = ()


TABLES = [
    Table("header", "path,label\na.jpg,cat\nb.jpg,dog\n", ALL),
    Table("no header", "a.jpg,cat\nb.jpg,dog\n", ALL),
    Table("byte order mark", b"\xef\xbb\xbfpath,label\na.jpg,cat\nb.jpg,dog\n", ALL),
    Table("UTF-16", "path,label\na.jpg,cat\nb.jpg,dog\n".encode("utf-16"), ALL),
    Table("UTF-16, big end first", b"\xfe\xff" + "a.jpg,cat\nb.jpg,dog\n".encode("utf-16-be"), ALL),
    Table("UTF-32", "a.jpg,cat\nb.jpg,dog\n".encode("utf-32"), ALL),
    Table("UTF-16 without mark", "a.jpg,cat\n".encode("utf-16-le"), {"a.jpg": "cat"}),
    Table("UTF-16 cut", "a.jpg,cat\nb.jpg,dog\n".encode("utf-16")[:-1], ":2: cannot be decoded as utf-16"),
    Table("CRLF", "path,label\r\na.jpg,cat\r\nb.jpg,dog\r\n", ALL),
    Table("CR", "path,label\ra.jpg,cat\rb.jpg,dog\r", ALL),
    Table("no line end", "path,label\na.jpg,cat\nb.jpg,dog", ALL),
    Table("quotes", 'path,label\n"a.jpg","cat"\n"q""q.jpg",dog\n', {"a.jpg": "cat", 'q"q.jpg': "dog"}),
    Table("embedded newline", 'path,label\na.jpg,cat\n"new\nline.jpg",dog\n', {"a.jpg": "cat", "new\nline.jpg": "dog"}),
    Table("error after an embedded newline", 'path,label\n"new\nline.jpg",dog\na.jpg\n', ":4: got 1 cells"),
    Table(
        "quote not closed", 'path,label\na.jpg,"cat\nb.jpg,dog\n', ":2: cannot be read as CSV: unexpected end of data"
    ),
    Table("text after a quote", 'path,label\n"a.jpg"x,cat\n', ":2: cannot be read as CSV"),
    Table("blank lines", "\n\npath,label\n\na.jpg,cat\n  \nb.jpg,dog\n\n", ALL),
    Table("error after blank lines", "path,label\n\n\na.jpg,cat,1\n", ":4: got 3 cells, expected 2"),
    Table("semicolons", "path;label\na.jpg;cat\nb.jpg;dog\n", ALL),
    Table("tabs", "path\tlabel\na.jpg\tcat\nb.jpg\tdog\n", ALL, file="labels.tsv"),
    Table("objects", '{"path":"a.jpg","label":"cat"}\n{"path":"b.jpg","label":"dog"}\n', ALL, file="labels.jsonl"),
    Table("lines of blanks", "a.jpg cat\nsub/c d.jpg dog\n", {"a.jpg": "cat", "sub/c d.jpg": "dog"}, file="l.txt"),
    Table("no label on a line", "a.jpg cat\nb.jpg\n", ":2: no space between path and label", file="l.txt"),
    Table("doubled, the same", "path,label\na.jpg,cat\na.jpg,cat\nb.jpg,dog\n", ALL, ("duplicate rows: 1",)),
    Table("doubled, another spelling", "a.jpg,cat\n./a.jpg,cat\nb.jpg,dog\n", ALL, ("duplicate rows: 1",)),
    Table(
        "doubled, conflicting",
        "path,label\na.jpg,cat\nb.jpg,dog\na.jpg,dog\n",
        ":4, column 'label': got 'dog', expected 'cat'",
    ),
    Table("missing and conflicting", "a.jpg,cat\nno.jpg,cat\nno.jpg,dog\n", ":3, column 2: got 'dog', expected 'cat'"),
    Table(
        "rows without file",
        "a.jpg,cat\nb.jpg,dog\nno.jpg,cat\nnot.jpg,dog\n",
        ALL,
        ("without a file: 2 (no.jpg, not.jpg)", "without a row: 6"),
        ("E_MISSING", "E_MISSING"),
    ),
    Table("files without row", "a.jpg,cat\nb.jpg,dog\n", ALL, ("image files under the root without a row: 6",)),
    Table("no row with a file", "path,label\nx.jpg,cat\n", ":2, column 'path': none of 1 rows names a file"),
    Table("no row", "path,label\n", ": no rows after the header"),
    Table("empty", "", ": no rows in it"),
    Table("up and out", "a.jpg,cat\nb.jpg,dog\n../a.jpg,cat\n", ALL, (), ("E_PATH_ESCAPE",)),
    Table("up and back", "a.jpg,cat\nsub/../b.jpg,dog\n", ALL),
    Table("absolute outside", "a.jpg,cat\nb.jpg,dog\n/etc/passwd,cat\n", ALL, (), ("E_PATH_ESCAPE",)),
    Table("absolute inside", "ROOT/a.jpg,cat\nROOT/b.jpg,dog\n", ALL),
    Table("backslashes", "path,label\nsub\\c d.jpg,cat\n", {"sub/c d.jpg": "cat"}),
    Table(
        "not an integer",
        "path,label\na.jpg,0\nb.jpg,1\nsub/c d.jpg,dog\n",
        ":4, column 'label': got 'dog', expected an integer",
    ),
    Table("a fraction", "a.jpg,0\nb.jpg,1\nsub/c d.jpg,1.5\n", ":3, column 2: got '1.5', expected an integer"),
    Table("negative", "a.jpg,0\nb.jpg,-1\n", ":2, column 2: got the label -1, expected 0 or more"),
    Table("from 1", "a.jpg,1\nb.jpg,2\n", ":1, column 2: got 2 integer labels from 1 to 2, expected 0 to 1"),
    Table("with a gap", "a.jpg,0\nb.jpg,2\n", ":2, column 2: got 2 integer labels from 0 to 2, expected 0 to 1"),
    Table("empty label", "path,label\na.jpg,cat\nb.jpg,\n", ":3, column 'label': got an empty cell, expected a label"),
    Table("empty path", "path,label\na.jpg,cat\n,dog\n", ":3, column 'path': got an empty path"),
    Table(
        "unknown class",
        "a.jpg,cat\nb.jpg,dig\n",
        ":2, column 2: got the class 'dig'",
        options=("--class-names", "CLASSES"),
    ),
    Table("out of range", "a.jpg,0\nb.jpg,7\n", ":2, column 2: got the label 7", options=("--class-names", "CLASSES")),
    Table("a name that is not UTF-8", b"a.jpg,cat\nb.jpg,d\xffg\n", ":2, column 2: got the class name 'd\\udcffg'"),
    Table("control character in a class", "a.jpg,cat\nb.jpg,d\x1bg\n", ":2, column 2: got the class name 'd\\x1bg'"),
    Table(
        "unique other form",
        "a.jpg,cat\n" + unicodedata.normalize("NFD", "é1.jpg") + ",dog\n",
        {"a.jpg": "cat", "é1.jpg": "dog"},
    ),
    Table("exact before other form", f"{NFC},cat\n{NFD},dog\n", {NFC: "cat", NFD: "dog"}),
    Table("two columns of labels", "path,x,y\na.jpg,1,2\n", ":1: got the columns path, x, y: none of them"),
    Table("column twice", "path,label,label\na.jpg,1,2\n", ":1: two columns are named 'label'"),
    Table("no such column", "path,label\na.jpg,1\n", ":1: got the columns", options=("--label-column", "kind")),
    Table("header or not", "one,two\nthree,four\n", ":1: the first row"),
    Table("split unheard of", "path,label,split\na.jpg,cat,train\nb.jpg,dog,a/b\n", ":3, column 'split': the split"),
    Table("not JSON", '{"path":"a.jpg","label":"cat"}\n{"path":\n', ":2: not JSON", file="labels.jsonl"),
    Table(
        "key twice",
        '{"path":"a.jpg","label":1,"label":2}\n',
        ":1: the key 'label' appears twice",
        file="labels.jsonl",
    ),
    Table(
        "key missing", '{"path":"a.jpg","label":"x"}\n{"path":"b.jpg"}\n', ":2: the object has no key", file="l.jsonl"
    ),
    Table("nested", '{"path":"a.jpg","label":' + "[" * 5000 + "\n", ":1: not JSON: nested too deep", file="l.jsonl"),
    Table("NaN", '{"path":"a.jpg","label":NaN}\n', ":1: not JSON: NaN is not a number", file="l.jsonl"),
    Table("an image", JPEG, ":1: got a NUL character", file="a.csv"),
    Table("one long line", "a" * (2 << 20), ":1: more than 1048576 characters"),
    Table("column that is a path", "path,../../label\na.jpg,cat\nb.jpg,dog\n", ALL),
]

opened: list[str] | None = None  # files that this process has opened since a test asked


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if opened is not None and event == "open":
        opened.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else "")


sys.addaudithook(watch)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    global opened
    for name in ROOT:
        plant(os.fsencode(tmp_path / "images" / name), JPEG)
    opened = []
    yield tmp_path / "images"
    opened = None


@pytest.mark.promise(35, 37)
@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_a_label_file_is_read_or_refused(
    images: Path, tmp_path: Path, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / table.file
    content = table.content.encode() if isinstance(table.content, str) else table.content
    path.write_bytes(content.replace(b"ROOT", os.fsencode(images)))
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    if isinstance(table.said, dict):
        source = LabelFile(path, images)
        assert {os.fsdecode(s.key): s.features["image/class/text"] for s in source} == {
            key: name.encode() for key, name in table.said.items()
        }
        for words in table.told:
            assert [note for note in source.findings.notes if words in note], source.findings.notes
        assert tuple(skipped.code for skipped in source.findings.rejected) == table.rejected
        return
    before = sorted(os.listdir(tmp_path))
    options = [str(tmp_path / "classes.txt") if option == "CLASSES" else option for option in table.options]
    assert main(["convert", str(images), str(tmp_path / "out"), "--labels", str(path), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"shardfeed: {path}{table.said}")
    assert said.count("\n") == 1, "one line, whatever the file holds"
    assert opened is not None
    assert str(path) in opened
    assert not [name for name in opened if name.startswith(str(images))], "before any image is read"
    assert sorted(os.listdir(tmp_path)) == before, "nothing is left behind"


@pytest.mark.promise(35, 37)
def test_both_directions_of_a_mismatch_are_in_the_report(images: Path, tmp_path: Path) -> None:
    """The real conversion: rows without file are rejected by their place, files without row are counted."""
    path = tmp_path / "labels.csv"
    path.write_text("path,label\na.jpg,cat\nb.jpg,dog\nno.jpg,cat\n../b.jpg,dog\n")
    common = ["convert", str(images), str(tmp_path / "out"), "--labels", str(path), "--workers", "1", "--json"]
    assert main(common) == 3, "rows without file count against --max-bad"
    assert not (tmp_path / "out").exists()
    assert main([*common, "--max-bad", "2"]) == 0
    rejected = lines(tmp_path / "out" / "rejected.jsonl")
    assert {key: (entry["code"], entry["reason"]) for key, entry in rejected.items()} == {
        "no.jpg": ("E_MISSING", "labels.csv:4: no such file"),
        "../b.jpg": ("E_PATH_ESCAPE", "labels.csv:5: it points outside the root"),
    }


@pytest.mark.promise(30, 31, 32, 33, 34, 35, 36, 37)
def test_the_corpus_has_the_size_that_is_promised() -> None:
    assert len(FILES) + len(NAMES) + len(TREE) + len(TABLES) >= 120
    keys = [(case.row, case.name) for case in FILES]
    assert len(set(keys)) == len(keys)
    assert len({table.name for table in TABLES}) == len(TABLES)
