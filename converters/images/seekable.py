"""Restart markers put into a JPEG that is kept, without loss, so that its windows can be decoded alone.

Own code, as no package does it: what TurboJPEG has for it since 3.1 is in no wheel, and `jpegtran`, a program, takes
several times as long and is not everywhere. That the coefficients are the same is not trusted but checked: the
compiled module (`shardfeed.native`) compares the files code by code. Without it Numba compiles the code that inserts
the markers, both files are decoded, and every pixel is compared. Both ways make the same bytes.
"""

import importlib
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import simplejpeg

from shardfeed.converters.images.baseline import NotTranscodableError
from shardfeed.converters.images.jpeg import JpegHeader
from shardfeed.errors import MissingExtraError
from shardfeed.jpeg.markers import DHT, DRI, EOI, FRAMES, SOS, header_segments, scan_markers
from shardfeed.jpeg.restarts import row_lengths
from shardfeed.native import REMEDY, library, path_in_use
from shardfeed.native.codes import DamagedCodesError, have_same_codes, recoded

_PIECE = 64  # target width of a piece in pixels; a smaller one reads less around a window, but takes more bytes
_PIECES_ACROSS = 32  # at most; very wide images get wider pieces, because their windows are large
_TABLES = 64  # cached: most files have the usual tables
_ACROSS = 6  # pieces; at 256 pixels, four across, crops were no faster: docs/design/030-seekable-jpegs.md
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
        before, after = (simplejpeg.decode_jpeg(each, color, strict=False) for each in (data, made))
    except ValueError as error:
        raise NotTranscodableError(str(error)) from error
    return np.array_equal(before, after)


def check_coder() -> None:
    """Raise MissingExtraError, which says what to install, unless the compiled module or Numba can insert markers."""
    if library() is None and find_spec("numba") is None:
        problem = f"neither the compiled module ({path_in_use()}) nor Numba is there to insert restart markers"
        raise MissingExtraError("seekable", problem, f"{REMEDY}, or pip install 'shardfeed[seekable]'")


@cache
def coder() -> Any:
    """The module that Numba compiles. Raises MissingExtraError."""
    check_coder()
    return importlib.import_module("shardfeed.converters.images.recode")


class _File(NamedTuple):
    """Parsed parts of a JPEG in one scan.

    `kept`: the segments that are copied unchanged, joined. `scan_header`: the SOS segment. `tables`: (counts by length,
    symbols) by the number that the scan header has for them, with 16 added for AC tables. `mcu`: (height, width),
    pixels; `mcus`: how many. `blocks`: component and numbers of its two tables, for each block of an MCU. `interval`:
    of the restart markers in the file, 0 for none. `scan`: offset of the image data.
    """

    kept: bytes
    scan_header: bytes
    tables: dict[int, _Table]
    mcu: tuple[int, int]
    mcus: int
    blocks: list[tuple[int, int, int]]
    interval: int
    scan: int


def _read(data: bytes, header: JpegHeader) -> _File:
    kept, tables, frame, scan = [data[:2]], {}, b"", b""
    interval = behind = 0
    try:
        for marker, at, behind in header_segments(data):
            body = data[at + 4 : behind]
            if marker == DHT:
                tables.update(_tables(body))
            elif marker == DRI:
                interval = int.from_bytes(body[:2], "big")
            elif marker == SOS:
                scan = data[at:behind]
            else:
                kept.append(data[at:behind])
            if marker in FRAMES:
                frame = body
        factors = {frame[6 + 3 * n]: (n, frame[7 + 3 * n] >> 4, frame[7 + 3 * n] & 15) for n in range(frame[5])}
        if header.process > 1 or scan[4] != len(factors) or scan[5 + 2 * scan[4] :] != b"\x00\x3f\x00":
            raise NotTranscodableError("it is not in one sequential scan")
        wide, tall = max(f[1] for f in factors.values()), max(f[2] for f in factors.values())
        blocks = []
        for n in range(scan[4]):
            component, across, down = factors[scan[5 + 2 * n]]
            chosen = scan[6 + 2 * n]
            blocks += [(component, chosen >> 4, chosen & 15 | 16)] * (across * down)
        if len(factors) == 1:  # not interleaved: its MCUs are blocks, whatever its factors
            wide, tall, blocks = 1, 1, blocks[:1]
        if not {table for block in blocks for table in block[1:]} <= tables.keys():
            raise NotTranscodableError("its image data refers to a missing table")
    except (IndexError, KeyError) as error:
        raise NotTranscodableError("its header is incomplete") from error
    mcus = -(-header.width // (8 * wide)) * -(-header.height // (8 * tall))
    return _File(b"".join(kept), scan, tables, (8 * tall, 8 * wide), mcus, blocks, interval, behind)


def _tables(body: bytes) -> dict[int, _Table]:
    """The tables of a DHT segment."""
    found, at = {}, 0
    while at < len(body):
        counts = body[at + 1 : at + 17]
        symbols = body[at + 17 : at + 17 + sum(counts)]
        if len(symbols) != sum(counts) or len(symbols) > 256:
            raise NotTranscodableError("a Huffman table is truncated")
        if sum(count << (16 - length) for length, count in enumerate(counts, 1)) > 1 << 16:
            raise NotTranscodableError("a Huffman table is invalid")
        found[body[at]] = counts, symbols
        at += 17 + len(symbols)
    return found


def _coded(data: bytes, file: _File, interval: int) -> bytes:
    """The file with restart markers every `interval` MCUs; with other tables, where its own lack a code."""
    for usual in (False, True):
        tables = {n: _USUAL[n & 1] if usual and n < 16 else table for n, table in file.tables.items()}
        if (scan := _scan(data, file, interval, tables)) is not None:
            held = b"".join(bytes((n,)) + counts + symbols for n, (counts, symbols) in sorted(tables.items()))
            coding = (b"\xff\xc4", (len(held) + 2).to_bytes(2, "big"), held)
            restarts = b"\xff\xdd\x00\x04" + interval.to_bytes(2, "big")
            return b"".join((file.kept, *coding, restarts, file.scan_header, scan, b"\xff\xd9"))
    raise NotTranscodableError("its image data is damaged")


def _scan(data: bytes, file: _File, interval: int, tables: dict[int, _Table]) -> bytes | None:
    """The image data, coded with `tables`; None where they have no code for something."""
    pieces = -(-file.mcus // interval)
    # A code grows by less than two bytes where its table is another; and each byte may be followed by a zero.
    room = 2 * (len(data) - file.scan) + 6 * len(file.blocks) * file.mcus + 32 * pieces + 64
    if library() is not None:
        try:
            return recoded(data, interval, b"" if tables == file.tables else _USUAL_TABLES, room)
        except DamagedCodesError as error:
            raise NotTranscodableError(str(error)) from None
    recode = coder()
    numbers = sorted(tables)
    blocks = np.array([(component, numbers.index(a), numbers.index(b)) for component, a, b in file.blocks])
    coding = _coding(tuple(file.tables[number] for number in numbers), tuple(tables[number] for number in numbers))
    out = np.empty(room, np.uint8)
    state, predicted = np.zeros(4, np.int64), np.zeros(4, np.int64)
    for first, mcus, stretch in _stretches(data, file):
        padded = np.frombuffer(stretch + bytes(recode.PADDING), np.uint8)
        said = recode.recode(padded, len(stretch), first, mcus, interval, blocks, *coding, out, state, predicted)
        if said == recode.NO_CODE:
            return None
        if said != recode.WELL:
            raise NotTranscodableError("its image data is damaged")
    spare = -int(state[recode.COUNT]) & 7
    rest = int(state[recode.BITS]) & ((1 << int(state[recode.COUNT])) - 1)
    ending = (rest << spare | ((1 << spare) - 1)).to_bytes((int(state[recode.COUNT]) + spare) // 8, "big")
    return out[: state[recode.WRITTEN]].tobytes() + ending.replace(b"\xff", b"\xff\x00")


def _stretches(data: bytes, file: _File) -> list[tuple[int, int, bytes]]:
    """(number of the first MCU, MCU count, image data without the zeros after 0xFF) between the existing markers.

    Raises NotTranscodableError unless these are the restart markers that the header declares, and the end.
    """
    found, start, expected = [], file.scan, 0
    for marker, behind in scan_markers(data, file.scan):
        first = expected * file.interval
        left = file.mcus - first
        mcus = min(file.interval, left) if file.interval else left
        found.append((first, mcus, data[start : behind - 2].replace(b"\xff\x00", b"\xff")))
        if marker == EOI and mcus == left:
            return found
        if marker != 0xD0 + expected % 8 or mcus >= left:
            break
        start, expected = behind, expected + 1
    raise NotTranscodableError("its image data has markers that its header does not declare")


@lru_cache(_TABLES)
def _coding(reading: tuple[_Table, ...], writing: tuple[_Table, ...]) -> list[np.ndarray]:
    """`short`, `longest`, `offset`, `symbol`, `code` and `code_size` of `recode`, to read and to write with tables."""
    made = [(*_decoding(*read), *_encoding(*write)) for read, write in zip(reading, writing, strict=True)]
    return [np.stack(each) for each in zip(*made, strict=True)]


def _decoding(counts: bytes, symbols: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`short`, `longest`, `offset` and `symbol` of `recode`, of one table (T.81, annex C)."""
    look: int = coder().LOOK
    short = np.zeros(1 << look, np.uint16)
    longest, offset = np.full(17, -1, np.int64), np.zeros(17, np.int64)
    symbol = np.zeros(256, np.uint8)
    symbol[: len(symbols)] = np.frombuffer(symbols, np.uint8)
    for code, length, place in _codes(counts):
        if length <= look:
            begin = code << (look - length)
            short[begin : begin + (1 << (look - length))] = length << 8 | symbols[place]
        longest[length], offset[length] = code, place - code
    return short, longest, offset, symbol


def _encoding(counts: bytes, symbols: bytes) -> tuple[np.ndarray, np.ndarray]:
    """`code` and `code_size` of `recode`, of one table."""
    codes, sizes = np.zeros(12, np.int64), np.zeros(12, np.int64)
    for code, length, place in _codes(counts):
        if symbols[place] < len(codes):
            codes[symbols[place]], sizes[symbols[place]] = code, length
    return codes, sizes


def _codes(counts: bytes) -> list[tuple[int, int, int]]:
    """(code, its length in bits, place of its symbol) of each of a Huffman table."""
    found: list[tuple[int, int, int]] = []
    code = 0
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            found.append((code, length, len(found)))
            code += 1
        code <<= 1
    return found
