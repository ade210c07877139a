"""Scan a shard file, intact or damaged, for its records, in bounded memory.

A record's length gives the start of the next one, so a damaged length hides all records after it. They are found by
their headers: 12 bytes whose last four are the CRC-32C of the first eight, a length that fits, and then a payload with
a valid CRC. By chance that happens once in 2^64 offsets.
"""

import os
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from shardfeed.errors import RecordError
from shardfeed.formats.format import Walked
from shardfeed.formats.tfrecord_framing import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, mask, payload_length, unframe
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.storage import OpenFile

_WINDOW = 1 << 20  # bytes read at once
_SEARCHED = 1 << 18  # bytes searched at once: if all are zero, each offset takes 50 bytes of memory
_LENGTH_BYTES = 8
_MOST_VAIN = 8  # times the file's size
_REMEDY = "`shardfeed salvage DIR OUT` makes a dataset of the intact records"


class Piece(NamedTuple):
    """Bytes `start` to `end` of a file. `framed`: one whole record; None: bytes that are not part of a whole record."""

    start: int
    end: int
    framed: bytes | None

    @property
    def payload(self) -> bytes:
        """Payload of the record; b"" if there is no record."""
        return self.framed[HEADER_BYTES:-FOOTER_BYTES] if self.framed else b""


def walk_records(file: OpenFile, starts: list[int] | None, count: int) -> Iterator[Walked]:
    """Yield `count` records by their offsets `starts`, or without them by following the lengths.

    Damage is yielded, not raised. Without `starts` the walk ends at a damaged length. Raises OSError.
    """
    size = file.size
    offset = 0
    for record in range(count):
        offset = starts[record] if starts is not None else offset
        place = f"{file.path}, record {record}, offset {offset}"
        length = None
        try:
            if offset >= size:
                raise RecordError(place, "beyond the end of the file")
            end = size if starts is None or record + 1 == count else min(size, starts[record + 1])
            room = end - offset - HEADER_BYTES  # maximum allocated, whatever the length field
            length = payload_length(file.read(offset, HEADER_BYTES), room, place)
            framed = file.read(offset, HEADER_BYTES + length + FOOTER_BYTES)
            yield Walked(unframe(framed, place), record, offset, None)
        except RecordError as error:
            yield Walked(b"", record, offset, error)
            if starts is None and length is None:
                return  # its length is damaged: without an index the start of the next record is unknown
        offset += FRAME_BYTES + (length or 0)


def whole_records(path: str) -> Iterator[Piece]:
    """Every record of an undamaged file, from its start to its end. Raises RecordError at the first damage, OSError."""
    with _ShardFile(path) as file:
        offset = 0
        record = 0
        while offset < file.size:
            length = file.length_at(offset)
            if length is None:
                raise file.damage_at(offset, f"{path}, record {record}, offset {offset}")
            yield Piece(offset, offset + length + FRAME_BYTES, file.read(offset, length + FRAME_BYTES))
            offset += length + FRAME_BYTES
            record += 1


def pieces(path: str) -> Iterator[Piece]:
    """Divide a file of any content into whole records and the bytes between them. Raises OSError.

    After a damaged record, the search for a whole one starts right after its first byte. So records are found even if
    their neighbour lost or gained bytes, or if they lie inside a damaged one.
    """
    with _ShardFile(path) as file:
        offset = 0
        while offset < file.size:
            length = file.length_at(offset)
            if length is not None:
                end = offset + length + FRAME_BYTES
                yield Piece(offset, end, file.read(offset, length + FRAME_BYTES))
            else:
                end = file.next_whole(offset + 1)
                yield Piece(offset, end, None)
            offset = end


def header_offsets(data: bytes, room: int) -> list[int]:
    """Find the offsets in `data` at which 12 bytes are a record's header: right CRC, and a length that fits.

    `room`: bytes of the file from the start of `data` on.
    """
    windows = len(data) - HEADER_BYTES + 1
    if windows <= 0 or room < FRAME_BYTES:
        return []
    values = np.frombuffer(data, np.uint8)
    # The high bytes of a length that fits are zero; in compressed data few offsets have so many zeros.
    low = max(1, ((room - FRAME_BYTES).bit_length() + 7) // 8)
    at = None
    for byte in range(_LENGTH_BYTES - 1, low - 1, -1):
        at = np.flatnonzero(values[byte : byte + windows] == 0) if at is None else at[values[at + byte] == 0]
    if at is None:
        at = np.arange(windows)
    headers = np.lib.stride_tricks.sliding_window_view(values, HEADER_BYTES)[at]
    lengths = np.ascontiguousarray(headers[:, :_LENGTH_BYTES]).view("<u8")[:, 0]
    stored = np.ascontiguousarray(headers[:, _LENGTH_BYTES:]).view("<u4")[:, 0]
    fits = lengths <= np.maximum(room - FRAME_BYTES - at, 0).astype(np.uint64)
    fits &= at <= room - FRAME_BYTES
    crcs, tables = np.full(len(headers), crc32c(bytes(_LENGTH_BYTES)), np.uint32), _byte_tables()
    for byte in range(_LENGTH_BYTES):
        crcs ^= tables[byte][headers[:, byte]]
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(0xA282EAD8)  # as `framing.mask`
    right = fits & (masked == stored)
    return at[right].tolist()


@cache
def _byte_tables() -> np.ndarray:
    """uint32 [8, 256]: change of the CRC by value b of byte j of eight. A CRC is linear: changes combine by xor."""
    zeros = crc32c(bytes(_LENGTH_BYTES))
    eight = [bytes(j) + bytes((b,)) + bytes(_LENGTH_BYTES - 1 - j) for j in range(_LENGTH_BYTES) for b in range(256)]
    return np.array([crc32c(data) ^ zeros for data in eight], np.uint32).reshape(_LENGTH_BYTES, 256)


class _ShardFile:
    """A file read forward through one window of a megabyte. `size` in bytes."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self._start, self._data = 0, b""
        self._vain = 0  # bytes after headers without a record

    def __enter__(self) -> "_ShardFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on, fewer at the file's end."""
        if offset < self._start or offset + size > self._start + len(self._data):
            if size > _WINDOW:
                return os.pread(self._fd, size, offset)
            self._start, self._data = offset, os.pread(self._fd, _WINDOW, offset)
        at = offset - self._start
        return self._data[at : at + size]

    def length_at(self, offset: int) -> int | None:
        """Return the payload's length of the whole record at `offset`; None if there is none.

        A long payload's CRC is computed in pieces, so that a wrong length does not allocate memory.
        """
        try:
            length = payload_length(self.read(offset, HEADER_BYTES), self.size - offset - HEADER_BYTES, "")
        except RecordError:
            return None
        crc = 0
        body = offset + HEADER_BYTES
        for start in range(body, body + length, _WINDOW):
            crc = extend_crc32c(crc, self.read(start, min(_WINDOW, body + length - start)))
        return length if self.read(body + length, FOOTER_BYTES) == mask(crc).to_bytes(4, "little") else None

    def damage_at(self, offset: int, place: str) -> RecordError:
        """Return, without raising it, the error for the damaged record at `offset`."""
        try:
            length = payload_length(self.read(offset, HEADER_BYTES), self.size - offset - HEADER_BYTES, place)
            unframe(self.read(offset, length + FRAME_BYTES), place)
        except RecordError as error:
            return RecordError(place, error.problem, _REMEDY)
        return RecordError(place, "it changed while it was read", "read it again")

    def next_whole(self, offset: int) -> int:
        """Find the start of the first whole record from `offset` on; the file's end if there is none.

        Only forged files have headers without a record after them. To bound the reading, such headers are no longer
        followed once their lengths add up to several times the file's size.
        """
        while self.size - offset >= FRAME_BYTES:
            data = os.pread(self._fd, _SEARCHED, offset)
            zeros = len(data) - len(data.lstrip(b"\0"))
            if zeros > HEADER_BYTES:  # a hole: twelve zeros are not a header, so they are skipped
                offset += zeros - HEADER_BYTES
                continue
            for at in header_offsets(data, self.size - offset):
                length = int.from_bytes(data[at : at + _LENGTH_BYTES], "little")
                if self._vain + length > _MOST_VAIN * self.size + _WINDOW:
                    continue
                if self.length_at(offset + at) is not None:
                    return offset + at
                self._vain += length
            if len(data) < HEADER_BYTES:
                break  # the file became shorter meanwhile
            offset += len(data) - HEADER_BYTES + 1
        return self.size
