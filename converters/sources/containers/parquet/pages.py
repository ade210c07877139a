"""The pages of a column of byte strings: where each is, and what is in it.

A column of a row group is a dictionary page, if it has one, and data pages behind each other, of about 1 MB each. A
data page is definition levels, which tell nulls, and values: plain (each behind its length), or places in the
dictionary. Either may be compressed as a whole.
"""

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from shardfeed.converters.sources.containers.parquet.thrift import read_struct

PLAIN = 0
DICTIONARIES = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_ENCODINGS = {3: "RLE", 5: "DELTA_BINARY_PACKED", 6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY"}
_ENCODINGS |= {9: "BYTE_STREAM_SPLIT"}
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # types of pages
_HEADER_BYTES = (4096, 1 << 16, 1 << 24)  # statistics in a header may be long
_LENGTH = struct.Struct("<I")


class BadPageError(Exception):
    """A page that cannot be read; the message is a clause with its place."""


class Page(NamedTuple):
    """One page: `offset`, `stored`: where its bytes are in the file; `size`: their number when not compressed.

    `rows`: with nulls. `encoding`: Parquet's number. `levels`: bytes of definition levels that come first and are never
    compressed; -1: they are the beginning of the values, behind their length. `compressed`: whether the rest is.
    """

    offset: int
    stored: int
    size: int
    rows: int
    encoding: int
    levels: int
    compressed: bool


def pages_of(file: BinaryIO, start: int, size: int, rows: int) -> Iterator[tuple[Page, Page | None]]:
    """The data pages of the column that takes `size` bytes from `start` on, each with the dictionary, where it has one.

    Raises BadPageError, also where they do not hold `rows` rows.
    """
    place, end, seen = start, start + size, 0
    dictionary = None
    while seen < rows:
        if place >= end:
            raise BadPageError(f"the column at byte {start:,} ends behind {seen:,} of {rows:,} rows")
        header, length = _header(file, place, end)
        kind, plain, stored = (header.get(i) for i in (1, 2, 3))
        if (
            not isinstance(plain, int)
            or not isinstance(stored, int)
            or not (0 <= stored <= end - place - length and plain >= 0)
        ):
            raise BadPageError(f"the page at byte {place:,} is damaged")
        page = _page(header, kind, place + length, stored, plain)
        place += length + stored
        if page is None:
            continue
        if kind == _DICTIONARY:
            dictionary = page
            continue
        if page.encoding != PLAIN and page.encoding not in DICTIONARIES:
            called = _ENCODINGS.get(page.encoding, f"number {page.encoding}")
            raise BadPageError(
                f"the page at byte {page.offset:,} is encoded as {called}, expected plain or a dictionary"
            )
        if page.encoding in DICTIONARIES and dictionary is None:
            raise BadPageError(f"the page at byte {page.offset:,} has no dictionary before it")
        seen += page.rows
        yield page, dictionary if page.encoding in DICTIONARIES else None


def _page(header: dict[int, Any], kind: Any, offset: int, stored: int, size: int) -> Page | None:
    """The page that a header tells of; None for one of another type."""
    about = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(kind, 0))
    if about is None:
        return None
    if not isinstance(about, dict) or not isinstance(about.get(1), int) or not 0 <= about[1] <= 1 << 31:
        raise BadPageError(f"the page at byte {offset:,} is damaged")
    if kind == _DATA_2:
        if about.get(6):
            raise BadPageError(f"the page at byte {offset:,} is of lists")
        levels = about.get(5, 0)
        if not isinstance(levels, int) or not 0 <= levels <= stored:
            raise BadPageError(f"the page at byte {offset:,} is damaged")
        return Page(offset, stored, size, about[1], about.get(4, -1), levels, about.get(7, True))
    if kind == _DICTIONARY:  # plain, whatever old writers call it, and without levels
        return Page(offset, stored, size, about[1], PLAIN, 0, True)
    return Page(offset, stored, size, about[1], about.get(2, -1), -1, True)


def _header(file: BinaryIO, place: int, end: int) -> tuple[dict[int, Any], int]:
    """The header at `place` and its bytes."""
    for most in _HEADER_BYTES:
        file.seek(place)
        try:
            return read_struct(file.read(min(most, end - place)))
        except IndexError:
            continue
        except (ValueError, RecursionError):
            break
    raise BadPageError(f"no header of a page at byte {place:,}")


def present_rows(levels: bytes, most: int, rows: int) -> np.ndarray:
    """bool [rows]: which rows have a value, by the definition levels, of which `most` says that."""
    if not most:
        return np.ones(rows, bool)
    return unpack(levels, most.bit_length(), rows) == most


def split_levels(data: bytes, page: Page, most: int) -> tuple[bytes, bytes]:
    """Definition levels and values of a page that is not compressed any more (`levels` -1). Raises BadPageError."""
    if not most:
        return b"", data
    if len(data) < 4:
        raise BadPageError(f"the page at byte {page.offset:,} is damaged")
    end = 4 + _LENGTH.unpack_from(data)[0]
    if end > len(data):
        raise BadPageError(f"the page at byte {page.offset:,} is damaged")
    return data[4:end], data[end:]


def unpack(data: bytes, width: int, count: int) -> np.ndarray:
    """int64 [count]: numbers of `width` bits in Parquet's mixture of runs and packed bits. Raises BadPageError."""
    found: list[np.ndarray] = []
    place, left = 0, count
    try:
        while left > 0:
            head = shift = 0
            while True:
                byte = data[place]
                place += 1
                head |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            if head & 1:
                size = (head >> 1) * width
                bits = np.unpackbits(np.frombuffer(data[place : place + size], np.uint8), bitorder="little")
                if not size or len(bits) < min(left, (head >> 1) * 8) * width:
                    raise BadPageError("numbers in a page are cut")
                whole = bits[: len(bits) // width * width].reshape(-1, width).astype(np.int64)
                run = whole @ (np.int64(1) << np.arange(width, dtype=np.int64))
                place += size
            else:
                size = -(-width // 8)
                if not head >> 1:
                    raise BadPageError("a run of no numbers in a page")
                run = np.full(min(head >> 1, left), int.from_bytes(data[place : place + size], "little"), np.int64)
                place += size
            found.append(run[:left])
            left -= len(found[-1])
    except IndexError:
        raise BadPageError("numbers in a page are cut") from None
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def plain_ends(data: bytes, count: int) -> list[int]:
    """Where each of `count` byte strings ends that stand behind their lengths. Raises BadPageError."""
    ends = []
    place = 0
    for _ in range(count):
        if place + 4 > len(data):
            raise BadPageError("values in a page are cut")
        place += 4 + _LENGTH.unpack_from(data, place)[0]
        ends.append(place)
    if place > len(data):
        raise BadPageError("values in a page are cut")
    return ends


def walk_plain(file: BinaryIO, page: Page, most: int) -> Iterator[tuple[int, int]]:
    """Offset and size in the file of each value of a plain page that is not compressed; -1 and 0 for a null.

    Raises BadPageError.
    """
    file.seek(page.offset)
    levels = page.levels
    if levels < 0:
        levels = _LENGTH.unpack(file.read(4))[0] if most else 0
        place = page.offset + (4 if most else 0)
    else:
        place = page.offset
    end = page.offset + page.stored
    if place + levels > end:
        raise BadPageError(f"the page at byte {page.offset:,} is damaged")
    file.seek(place)
    present = present_rows(file.read(levels), most, page.rows)
    place += levels
    for there in present.tolist():
        if not there:
            yield -1, 0
            continue
        file.seek(place)
        head = file.read(4)
        if len(head) < 4 or place + 4 > end:
            raise BadPageError(f"the page at byte {page.offset:,} is cut")
        size = _LENGTH.unpack(head)[0]
        if place + 4 + size > end:
            raise BadPageError(f"the value at byte {place:,} does not end in its page")
        yield place + 4, size
        place += 4 + size
