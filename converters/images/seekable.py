"""Restart markers put into a JPEG that is kept, without loss, so that its windows can be decoded alone.

Own code, as no package does it: what TurboJPEG has for it since 3.1 is in no wheel, and `jpegtran`, a program, takes
several times as long and is not everywhere. The optional compiled module (`shardfeed.native`) inserts the markers. That
the coefficients are the same is not trusted but checked: it compares the files code by code; where it cannot, both
are decoded, and every pixel is compared.
"""

from typing import NamedTuple

import numpy as np
import simplejpeg

from shardfeed.converters.images.baseline import NotTranscodableError
from shardfeed.converters.images.jpeg import JpegHeader
from shardfeed.formats.jpeg_markers import DHT, DRI, FRAMES, SOS, header_segments
from shardfeed.formats.jpeg_restarts import row_lengths
from shardfeed.native import DamagedCodesError, check_built, have_same_codes, library, recoded

_PIECE = 64  # target width of a piece in pixels; a smaller one reads less around a window, but takes more bytes
_PIECES_ACROSS = 32  # at most; very wide images get wider pieces, because their windows are large
_ACROSS = 6  # pieces; at 256 pixels, four across, crops were no faster: docs/design/004-jpegs.md
_FEW = 8  # pieces of an image: with fewer, a window skips too little

_Table = tuple[bytes, bytes]  # counts of codes by length, and symbols in the order of their codes (T.81, B.2.4.2)

# Codes for the first coefficients that every decoder knows (T.81, K.3.1), where those of a file lack one.
_USUAL = (
    (bytes.fromhex("00010501010101010100000000000000"), bytes(range(12))),
    (bytes.fromhex("00030101010101010101010000000000"), bytes(range(12))),
)
_USUAL_TABLES = b"".join(map(b"".join, _USUAL))


def interval_for(height: int, width: int, mcu: tuple[int, int], *, sparing: bool = False) -> int:
    """MCUs of a piece: a divisor of those in a row, so that pieces are about 64 pixels wide, or a 32nd of the image.

    `mcu`: (height, width) of one, pixels. `sparing`: only if a few bytes help much: no narrow pieces, and none in an
    image with fewer than six side by side. 0 if the image is too small to benefit.
    """
    columns, rows = -(-width // mcu[1]), -(-height // mcu[0])
    wanted = max(_PIECE, width / _PIECES_ACROSS) / mcu[1]
    least = _PIECE if sparing else _PIECE // 2
    fit = [n for n in range(1, columns + 1) if columns % n == 0 and (n * mcu[1] >= least or n == columns)]
    interval = min(fit, key=lambda n: abs(np.log(n / wanted)))
    across = columns // interval
    return interval if across * rows >= _FEW and (across >= _ACROSS or not sparing) else 0


def to_seekable(data: bytes, header: JpegHeader) -> bytes:
    """The sequential JPEG `data` with restart markers, whose decoded pixels are the same bit for bit.

    EXIF, ICC profile and comments are kept; data after the image is not. A file that is already seekable, or too small
    to benefit, is returned unchanged. Raises NotTranscodableError, and nothing else for any bytes that are a JPEG with
    this header.
    """
    made = _with_markers(data, header)
    # A decoder fills in the missing parts of a damaged file, and differently for other bytes.
    if made is not data and not (have_same_codes(data, made) or _have_same_pixels(data, made, header)):
        raise NotTranscodableError("the pixels would change, so it may be damaged")
    return made


def whole_seekable(data: bytes, header: JpegHeader) -> bytes | None:
    """Return the result of `to_seekable` if the compiled module has compared every code: then `data` is whole.

    None means that a decoder must check `data`.
    """
    if library() is None:
        return None
    try:
        made = _with_markers(data, header)
    except NotTranscodableError:
        return None
    return made if made is not data and have_same_codes(data, made) else None


def _with_markers(data: bytes, header: JpegHeader) -> bytes:
    """Insert restart markers, without a comparison; `data` itself if it is seekable, or too small to benefit."""
    if row_lengths(data):
        return data
    try:
        simplejpeg.decode_jpeg_header(data)
    except (ValueError, KeyError):
        raise NotTranscodableError("its chroma subsampling is only decoded as a whole") from None
    file = _read(data, header)
    interval = interval_for(header.height, header.width, file.mcu)
    if not interval:
        return data
    made = _coded(data, file, interval)
    if not row_lengths(made):
        raise NotTranscodableError("its rows could not be cut into pieces")
    return made


def _have_same_pixels(data: bytes, made: bytes, header: JpegHeader) -> bool:
    color = "GRAY" if header.components == 1 else "RGB"
    try:
        before, after = (simplejpeg.decode_jpeg(each, color) for each in (data, made))
    except ValueError as error:
        raise NotTranscodableError(str(error)) from error
    return np.array_equal(before, after)


def check_coder() -> None:
    """Raise UsageError, which says what to do, unless the compiled module can insert markers."""
    check_built("seekable", "restart markers are inserted by it")


class _File(NamedTuple):
    """Parsed parts of a JPEG in one scan.

    `kept`: the segments that are copied unchanged, joined. `scan_header`: the SOS segment. `tables`: (counts by length,
    symbols) by the number that the scan header has for them, with 16 added for AC tables. `mcu`: (height, width),
    pixels; `mcus`: how many; `blocks`: in each. `scan`: offset of the image data.
    """

    kept: bytes
    scan_header: bytes
    tables: dict[int, _Table]
    mcu: tuple[int, int]
    mcus: int
    blocks: int
    scan: int


def _read(data: bytes, header: JpegHeader) -> _File:
    kept, tables, frame, scan, behind = [data[:2]], {}, b"", b"", 0
    try:
        for marker, at, behind in header_segments(data):
            body = data[at + 4 : behind]
            if marker == DHT:
                tables.update(_tables(body))
            elif marker == SOS:
                scan = data[at:behind]
            elif marker != DRI:
                kept.append(data[at:behind])
            if marker in FRAMES:
                frame = body
        factors = {frame[6 + 3 * n]: (frame[7 + 3 * n] >> 4, frame[7 + 3 * n] & 15) for n in range(frame[5])}
        if header.process > 1 or scan[4] != len(factors) or scan[5 + 2 * scan[4] :] != b"\x00\x3f\x00":
            raise NotTranscodableError("it is not in one sequential scan")
    except IndexError as error:
        raise NotTranscodableError("its header is incomplete") from error
    # The MCUs of a single component are blocks, whatever its factors.
    across, down = zip(*factors.values() if len(factors) > 1 else [(1, 1)], strict=True)
    tall, wide = 8 * max(down), 8 * max(across)
    mcus = -(-header.width // wide) * -(-header.height // tall)
    blocks = sum(a * b for a, b in zip(across, down, strict=True))
    return _File(b"".join(kept), scan, tables, (tall, wide), mcus, blocks, behind)


def _tables(body: bytes) -> dict[int, _Table]:
    """The tables of a DHT segment."""
    found, at = {}, 0
    while at < len(body):
        counts = body[at + 1 : at + 17]
        symbols = body[at + 17 : at + 17 + sum(counts)]
        if len(symbols) != sum(counts):
            raise NotTranscodableError("a Huffman table is truncated")
        found[body[at]] = counts, symbols
        at += 17 + len(symbols)
    return found


def _coded(data: bytes, file: _File, interval: int) -> bytes:
    """The file with restart markers every `interval` MCUs; with other tables, where its own lack a code."""
    check_coder()
    # A code grows by less than two bytes where its table is another; and each byte may be followed by a zero.
    room = 2 * (len(data) - file.scan) + 6 * file.blocks * file.mcus + 32 * -(-file.mcus // interval) + 64
    for usual in (False, True):
        tables = {n: _USUAL[n & 1] if usual and n < 16 else table for n, table in file.tables.items()}
        try:
            scan = recoded(data, interval, _USUAL_TABLES if usual else b"", room)
        except DamagedCodesError as error:
            raise NotTranscodableError(str(error)) from None
        if scan is not None:
            held = b"".join(bytes((n,)) + counts + symbols for n, (counts, symbols) in sorted(tables.items()))
            coding = (b"\xff\xc4", (len(held) + 2).to_bytes(2, "big"), held)
            restarts = b"\xff\xdd\x00\x04" + interval.to_bytes(2, "big")
            return b"".join((file.kept, *coding, restarts, file.scan_header, scan, b"\xff\xd9"))
    raise NotTranscodableError("its image data is damaged")
