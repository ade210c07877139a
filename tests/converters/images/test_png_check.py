"""Whether a PNG's image data is whole, judged as libpng does where Pillow is content (RELIABILITY.md 33)."""

import io
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.images.png import check_rows, read_png_header
from shardfeed.converters.images.store import store_image
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError

KINDS = {(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8), (6, 16)}
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))


def png(height: int, width: int, color: int, bits: int, rows: bytes, *, interlace: int = 0, idats: int = 1) -> bytes:
    header = struct.pack(">LLBBBBB", width, height, bits, color, 0, 0, interlace)
    packed = zlib.compress(rows)
    step = -(-len(packed) // idats)
    parts = [chunk(b"IHDR", header), chunk(b"PLTE", bytes(768)) if color == 3 else b""]
    parts += [chunk(b"IDAT", packed[at : at + step]) for at in range(0, len(packed), step)]
    return b"\x89PNG\r\n\x1a\n" + b"".join([*parts, chunk(b"IEND", b"")])


def plain_rows(height: int, width: int, color: int, bits: int, interlace: int = 0) -> bytes:
    """Rows of filter type 0 and zeros, by counting pixels one by one."""
    rows = b""
    for left, top, across, down in PASSES if interlace else ((0, 0, 1, 1),):
        columns = len(range(left, width, across))
        for _ in range(top, height, down) if columns else ():
            rows += bytes(1 + -(-columns * CHANNELS[color] * bits // 8))
    return rows


def verdict(data: bytes) -> RejectCode | None:
    try:
        check_rows(data, read_png_header(data, MAX_PIXELS, "all"))
    except RejectedError as error:
        return error.code
    return None


@pytest.mark.promise(33)
@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize(("color", "bits"), sorted(KINDS))
def test_every_row_must_be_there_and_more_is_no_fault(color: int, bits: int, interlace: int) -> None:
    for height, width in ((1, 1), (1, 9), (9, 1), (3, 2), (8, 8), (13, 21)):
        rows = plain_rows(height, width, color, bits, interlace)
        make = [height, width, color, bits]
        assert verdict(png(*make, rows, interlace=interlace)) is None
        assert verdict(png(*make, rows, interlace=interlace, idats=3)) is None
        assert verdict(png(*make, rows + b"\xff\0", interlace=interlace)) is None
        assert verdict(png(*make, rows[:-1], interlace=interlace)) is RejectCode.TRUNCATED
        with Image.open(io.BytesIO(png(*make, rows, interlace=interlace))) as image:
            image.load()
            assert image.size == (width, height)


@pytest.mark.promise(33)
@pytest.mark.parametrize("interlace", [0, 1])
def test_every_rows_filter_is_looked_at(interlace: int) -> None:
    rows = plain_rows(9, 7, 2, 8, interlace)
    at = 0
    for left, top, across, down in PASSES if interlace else ((0, 0, 1, 1),):
        columns = len(range(left, 7, across))
        for _ in range(top, 9, down) if columns else ():
            for kind, expected in ((4, None), (5, RejectCode.CORRUPT)):
                changed = rows[:at] + bytes([kind]) + rows[at + 1 :]
                assert verdict(png(9, 7, 2, 8, changed, interlace=interlace)) is expected
            at += 1 + 3 * columns
    assert at == len(rows)


@pytest.mark.promise(34)
def test_a_large_image_takes_little_memory() -> None:
    """And rows that cross from one piece to the next are seen: the filter of the last one is."""
    height, width = 3001, 2999
    rows = bytes(height * (1 + 3 * width))
    good = png(height, width, 2, 8, rows)
    bad = png(height, width, 2, 8, rows[: -1 - 3 * width] + b"\x09" + bytes(3 * width))
    tracemalloc.start()
    try:
        assert verdict(good) is None
        assert verdict(bad) is RejectCode.CORRUPT
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def damaged_stream(data: bytes, draw: random.Random) -> bytes:
    """The compressed pixels with a byte changed, or cut, under a right CRC."""
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    body = bytearray(data[at + 4 : at + 4 + size])
    if draw.random() < 0.5:
        body[draw.randrange(size)] ^= 1 << draw.randrange(8)
    else:
        del body[draw.randrange(size) :]
    return data[: at - 4] + chunk(b"IDAT", bytes(body)) + data[at + 8 + size :]


def damaged_rows(data: bytes, draw: random.Random) -> bytes:
    """The pixels before compression with a byte changed, removed or doubled."""
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    rows = bytearray(zlib.decompress(data[at + 4 : at + 4 + size]))
    place = draw.randrange(len(rows))
    how = draw.randrange(3)
    if how == 0:
        rows[place] ^= 1 << draw.randrange(8)
    elif how == 1:
        del rows[place]
    else:
        rows[place:place] = bytes(1)
    return data[: at - 4] + chunk(b"IDAT", zlib.compress(bytes(rows))) + data[at + 8 + size :]


def damaged_chunks(data: bytes, draw: random.Random) -> bytes:
    """A chunk doubled, left out, moved, or with a byte of it changed under a right CRC."""
    chunks = []
    at = 8
    while at < len(data):
        stop = at + 12 + int.from_bytes(data[at : at + 4], "big")
        chunks.append(data[at:stop])
        at = stop
    place, how = draw.randrange(len(chunks)), draw.randrange(4)
    taken = chunks[place]
    if how == 0:
        chunks.insert(place, taken)
    elif how == 1:
        del chunks[place]
    elif how == 2:
        chunks.insert(draw.randrange(len(chunks)), chunks.pop(place))
    elif len(taken) > 12:
        body = bytearray(taken[8:-4])
        body[draw.randrange(len(body))] ^= 1 << draw.randrange(8)
        chunks[place] = chunk(taken[4:8], bytes(body))
    return data[:8] + b"".join(chunks)


@pytest.mark.promise(33)
@pytest.mark.parametrize("rounds", [300, pytest.param(20_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("spoil", [damaged_stream, damaged_rows, damaged_chunks])
def test_what_passes_tensorflow_decodes(
    spoil: Callable[[bytes, random.Random], bytes], rounds: int, seed: int, torture_result: Callable[..., None]
) -> None:
    """Damage that no CRC shows: an encoder's mistake, or a file that was put together anew."""
    import tensorflow as tf

    draw = random.Random(seed)
    sources = []
    for mode in ("L", "RGB"):
        small = np.random.default_rng(7).integers(0, 256, (5, 6, 3), np.uint8)
        image = Image.fromarray(small).resize((23, 17)).convert(mode)
        out = io.BytesIO()
        image.save(out, format="PNG")
        parts = out.getvalue()
        sources += [
            parts,
            parts[:33] + chunk(b"tEXt", b"Comment\0words") + chunk(b"gAMA", bytes(3) + b"9") + parts[33:],
        ]
    kept = rejected = 0
    for number in range(rounds):
        damaged = spoil(sources[number % len(sources)], draw)
        try:
            stored = store_image(damaged, ImageOptions())
        except RejectedError:
            rejected += 1
            continue
        kept += 1
        assert tf.io.decode_image(stored.encoded).shape[:2] == (stored.height, stored.width)
    assert kept or spoil is damaged_stream, "a stream carries its own checksum"
    assert rejected
    what = f"PNG, {spoil.__name__.replace('_', ' ')}: TensorFlow decodes each file that is kept"
    torture_result(what, trials=rounds, failures=0, seed=seed, kept=kept)


@pytest.mark.promise(33)
def test_the_stream_must_end() -> None:
    """All rows are there, the last bytes of the checksum are not: TensorFlow refuses it, Pillow does not notice."""
    whole = png(9, 7, 2, 8, plain_rows(9, 7, 2, 8))
    at = whole.index(b"IDAT")
    size = int.from_bytes(whole[at - 4 : at], "big")
    for left in range(1, 5):
        body = whole[at + 4 : at + 4 + size - left]
        cut = whole[: at - 4] + chunk(b"IDAT", body) + whole[at + 8 + size :]
        assert verdict(cut) is RejectCode.TRUNCATED
        Image.open(io.BytesIO(cut)).load()
    wrong = whole[at + 4 : at + 3 + size] + bytes([whole[at + 3 + size] ^ 1])
    assert verdict(whole[: at - 4] + chunk(b"IDAT", wrong) + whole[at + 8 + size :]) is RejectCode.CORRUPT
