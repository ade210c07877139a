"""Images stored plainly in a Parquet file: plain pages, not compressed, without nulls.

A column of a row group is a dictionary page, if it has one, and data pages behind each other. A page is a header in
Thrift's compact protocol, definition levels, which mark nulls, and values, each after its length. All other encodings,
and damaged files, are left to pyarrow.
"""

import os
import struct
from array import array
from typing import Any, BinaryIO, NamedTuple

from shardfeed.converters.sources.files.parquet_file import WHOLE
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import UsageError

# Parquet's numbers of compressions that pyarrow reads; for others it may end the process.
_CODECS = (_UNCOMPRESSED := 0, 1, 2, 4, 6, 7)
_PLAIN, _DATA, _INDEX, _DATA_2 = 0, 0, 1, 3  # an encoding, and types of pages
_HEADER_BYTES = (512, 1 << 16, 1 << 24)  # statistics in a header may be long
_TRUE, _FALSE, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
_BROKEN = (IndexError, KeyError, TypeError, ValueError, RecursionError, struct.error)

Places = tuple["array[int]", "array[int]"]  # the offset and the size of each image


class Chunk(NamedTuple):
    """A column in a row group: bytes from `start` on, rows, and the number of their compression."""

    start: int
    size: int
    rows: int
    codec: int


def column_chunks(path: str, leaf: int) -> list[Chunk]:
    """Locate column `leaf` in each row group, using the footer.

    Raises UsageError if it is damaged, or compressed in a way that pyarrow cannot read.
    """
    try:
        with open_regular(path) as file:
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            file.seek(-8 - size, os.SEEK_END)
            directory, _ = _read_struct(file.read(size), 0)
        chunks = [_chunk(group[1][leaf]) for group in directory[4]]
    except (*_BROKEN, OSError):
        raise UsageError(path, "cannot be read as Parquet: its directory is damaged", WHOLE) from None
    if any(chunk.codec not in _CODECS for chunk in chunks):
        problem = "its images have an unknown or obsolete compression"
        raise UsageError(path, problem, f"write it again, with pyarrow, or {WHOLE}")
    return chunks


def _chunk(column: dict[int, Any]) -> Chunk:
    """Parse the metadata of a column chunk. Raises KeyError or ValueError if malformed, or stored in another file."""
    about = column[3]
    numbers = [about[field] for field in (9, 7, 5, 4)]
    dictionary = about.get(11) or numbers[0]  # 0, where some have none
    if 1 in column or not all(isinstance(number, int) and number >= 0 for number in (*numbers, dictionary)):
        raise ValueError
    return Chunk(min(numbers[0], dictionary), *numbers[1:])


def places_in_file(file: BinaryIO, chunk: Chunk, most: int) -> Places | None:
    """Locate each image of a column in the file; None if one of them is not stored plain.

    `most`: the definition level of a value.
    """
    if chunk.codec != _UNCOMPRESSED:
        return None
    found = array("q"), array("q")
    place, end = chunk.start, chunk.start + chunk.size
    try:
        while len(found[0]) < chunk.rows and place < end:
            header, data = _header(file, place, end)
            place = data + header[3]
            if header[3] < 0 or place > end:
                return None
            if header[1] == _INDEX:
                continue
            about = header[{_DATA: 5, _DATA_2: 8}[header[1]]]
            if header[1] == _DATA_2:
                first = data + about[5] if not about[2] and not about[6] and about[4] == _PLAIN else -1
            else:
                first = _values_offset(file, data, about[1], most) if about[2] == _PLAIN else -1
            if first < 0 or not _walk(file, first, place, about[1], found):
                return None
    except _BROKEN:
        return None
    return found if len(found[0]) == chunk.rows else None


def _values_offset(file: BinaryIO, place: int, rows: int, most: int) -> int:
    """Return the offset of the values in a page of version 1; -1 unless its levels are one run without nulls."""
    if not most:
        return place
    file.seek(place)
    size = int.from_bytes(file.read(4), "little")
    levels = file.read(min(size, 16))
    run, end = _varint(levels, 0)
    return place + 4 + size if not run & 1 and run >> 1 >= rows and levels[end] == most else -1


def _walk(file: BinaryIO, place: int, end: int, rows: int, found: Places) -> bool:
    """Append the offsets of this many values; return whether the last one ends at the end of the page."""
    offsets, sizes = found
    for _ in range(rows):
        file.seek(place)
        (size,) = struct.unpack("<I", file.read(4))
        offsets.append(place + 4)
        sizes.append(size)
        place += 4 + size
        if place > end:
            return False
    return True


def _header(file: BinaryIO, place: int, end: int) -> tuple[dict[int, Any], int]:
    """The header of a page, and the offset behind it. Raises IndexError, ValueError."""
    for most in _HEADER_BYTES:
        file.seek(place)
        try:
            header, length = _read_struct(file.read(min(most, end - place)), 0)
        except IndexError:
            continue
        return header, place + length
    raise ValueError


def _read_struct(data: bytes, place: int) -> tuple[dict[int, Any], int]:
    """Parse a struct into values by field number, and its end. Raises IndexError if it is truncated, ValueError."""
    found: dict[int, Any] = {}
    field = 0
    while head := data[place]:
        place += 1
        if head >> 4:
            field += head >> 4
        else:
            number, place = _varint(data, place)
            field = number >> 1 ^ -(number & 1)
        found[field], place = _value(data, place, head & 15)
    return found, place + 1


def _value(data: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in _INTS:
        number, place = _varint(data, place)
        return number >> 1 ^ -(number & 1), place
    if kind == _STRUCT:
        return _read_struct(data, place)
    if kind in _LISTS:
        head, place = data[place], place + 1
        count = head >> 4
        if count == 15:
            count, place = _varint(data, place)
        if count > len(data):
            raise ValueError(count)
        items = []
        for _ in range(count):
            item, place = _value(data, place, head & 15)
            items.append(item)
        return items, place
    size = {_BYTE: 1, _DOUBLE: 8}.get(kind, 0)
    if kind == _BINARY:
        size, place = _varint(data, place)
    elif not size:
        raise ValueError(kind)
    if place + size > len(data):
        raise IndexError(place + size)
    return data[place : place + size], place + size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
