"""A shard as TFRecord, written and read: framed records of tf.train.Example in one file, their index in another.

A record in train-00000-of-00004.tfrecord, whose data is an Example:

    uint64 LE  length of data
    uint32 LE  masked CRC-32C of the 8 length bytes
    byte[n]    data
    uint32 LE  masked CRC-32C of data

Source: TensorFlow, tensorflow/core/lib/io/record_writer.h. The mask keeps a CRC stored inside data that is itself
checksummed from cancelling out (tensorflow/core/lib/hash/crc32c.h).

The index, train-00000-of-00004.tfindex, is text, one line per record: `<offset> <size>` in bytes, with the offset from
the shard's start, and the 16 bytes of framing included in the size. It is the format of NVIDIA DALI's `tfrecord2idx`
and of the `tfrecord` package, so both can use it to read shards of shardfeed.

A shard file, intact or damaged, is scanned for its records in bounded memory. A record's length gives the start of the
next one, so a damaged length hides all records after it. They are found by their headers: 12 bytes whose last four are
the CRC-32C of the first eight, a length that fits, and then a payload with a valid CRC. By chance that happens once in
2^64 offsets.
"""

import os
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import ExampleEncoder
from shardfeed.formats.format import Checkpoint, ShardFormat, ShardInfo, ShardView, Walked
from shardfeed.read_back import checked_text
from shardfeed.schema import Feature, Schema, Value
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.local import NewFile, fsync_directory, make_directory, write_file
from shardfeed.storage.storage import LOCAL, Buffer, FileInfo, OpenFile, Part, Storage, pieces

Framed = Sequence[bytes]  # a record as in its shard file: consecutive buffers

_REMEDY = "`shardfeed rebuild DIR` restores it"
HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES  # what framing adds to a payload

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER = struct.Struct("<QI")
_COPIED_BYTES = 16 << 10  # of a frame: copying less takes less time than two more reads


def mask(crc: int) -> int:
    """The stored form of a CRC: rotated right by 15 bits, plus 0xA282EAD8, modulo 2^32."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame_parts(parts: Sequence[bytes]) -> list[bytes]:
    """Return the buffers of one framed record, whose payload is the joined parts; copies only the first and last part.

    The header is joined to the first and the footer to the last: one more buffer costs more than copying a few bytes.
    """
    length, crc = 0, 0
    for part in parts:
        length += len(part)
        crc = extend_crc32c(crc, part)
    prefix = _LENGTH.pack(length)
    header, footer = prefix + _CRC.pack(mask(crc32c(prefix))), _CRC.pack(mask(crc))
    if len(parts) < 2:
        return [header, *parts, footer]
    return [header + parts[0], *parts[1:-1], parts[-1] + footer]


def frame(payload: bytes) -> bytes:
    """One framed record, `len(payload) + FRAME_BYTES` bytes."""
    return b"".join(frame_parts([payload]))


def payload_length(header: bytes, room: int, place: object) -> int:
    """Return the payload's length from the 12 bytes of `header`.

    `room`: bytes after the header in the file. A length that does not fit is refused here, before memory is allocated.
    Raises RecordError, with `place` in its message.
    """
    if len(header) < HEADER_BYTES:
        raise RecordError(place, f"record header truncated: got {len(header)} bytes, expected {HEADER_BYTES}")
    length, stored = _HEADER.unpack(header)
    computed = mask(crc32c(header[:8]))
    if stored != computed:
        raise RecordError(place, f"record length damaged: its CRC-32C is {computed:08x}, the file says {stored:08x}")
    if length + FOOTER_BYTES > room:
        raise RecordError(place, f"record of {length} bytes does not fit: {room} bytes follow its header")
    return length


def unframe(framed: bytes, place: object) -> bytes:
    """Return the payload of exactly one framed record. Raises RecordError if a length or CRC is wrong."""
    length = payload_length(framed[:HEADER_BYTES], len(framed) - HEADER_BYTES, place)
    if length + FRAME_BYTES != len(framed):
        raise RecordError(place, f"record of {length} bytes, expected {len(framed) - FRAME_BYTES} by its index")
    payload = framed[HEADER_BYTES:-FOOTER_BYTES]
    (stored,) = _CRC.unpack(framed[-FOOTER_BYTES:])
    computed = mask(crc32c(payload))
    if stored != computed:
        raise RecordError(place, f"record data damaged: its CRC-32C is {computed:08x}, the file says {stored:08x}")
    return payload


def payload_alone(file: OpenFile, start: int, end: int) -> bytes | None:
    """Read the payload of the framed record in bytes `start` to `end` of a file; None if anything is wrong with it.

    A large payload is read separately: slicing it out of the frame would copy it, which takes longer than its CRC.
    """
    read = file.read
    if end - start < _COPIED_BYTES:
        framed = read(start, end - start)
        first, payload, last = framed[:HEADER_BYTES], framed[HEADER_BYTES:-FOOTER_BYTES], framed[-FOOTER_BYTES:]
    else:
        payload = read(start + HEADER_BYTES, end - start - FRAME_BYTES)
        first, last = read(start, HEADER_BYTES), read(end - FOOTER_BYTES, FOOTER_BYTES)
    return payload if _is_frame(first, payload, last, end - start) else None


def _is_frame(first: Buffer, payload: bytes, last: Buffer, size: int) -> bool:
    """Whether these three make an intact frame of `size` bytes."""
    header, _, footer = frame_parts([payload])
    return (first, last, len(payload)) == (header, footer, size - FRAME_BYTES)


LEAST_LINE_BYTES = 5  # "0 16\n"


@dataclass(frozen=True)
class Index:
    """`offsets`: int64 [n + 1]; record `i` fills bytes `offsets[i]` to `offsets[i + 1]`, the last ends the file."""

    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def from_sizes(cls, sizes: Sequence[int] | np.ndarray) -> "Index":
        """Make an index from the framed size of each record, in bytes, in order."""
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(np.asarray(sizes, np.int64), out=offsets[1:])
        return cls(offsets)

    def to_bytes(self) -> bytes:
        """The index file's bytes."""
        starts, ends = self.offsets[:-1].tolist(), self.offsets[1:].tolist()
        return "".join([f"{a} {b - a}\n" for a, b in zip(starts, ends, strict=True)]).encode()

    def written(self, place: object) -> bytes:
        """The bytes for a file, which `parse` has read back. Raises UsageError for sizes that no shard has."""
        return checked_text(place, self.to_bytes, lambda data: len(Index.parse(data, place)), len(self))

    @classmethod
    def parse(cls, data: bytes, place: object) -> "Index":
        """The inverse of `to_bytes`; `place` names the file in errors.

        Raises IntegrityError unless the records follow each other from offset 0 without gaps and the bytes are
        exactly those `to_bytes` would write: any flipped bit is found.
        """
        try:
            numbers = np.array(data.split(), np.int64)
        except (ValueError, OverflowError):
            raise IntegrityError(place, "the index contains text that is not a number", _REMEDY) from None
        if numbers.size % 2:
            raise IntegrityError(place, f"got {numbers.size} numbers, expected pairs of offset and size", _REMEDY)
        index = cls.from_sizes(numbers[1::2])
        # A sum past 2^63 wraps around to less than 0: offsets that never fall have not.
        too_short = (numbers[1::2] < FRAME_BYTES).any() or (index.offsets[1:] < index.offsets[:-1]).any()
        if too_short or (index.offsets[:-1] != numbers[::2]).any():
            raise IntegrityError(place, "the records are not contiguous", _REMEDY)
        if index.to_bytes() != data:
            raise IntegrityError(place, "not written as '<offset> <size>' lines", _REMEDY)
        return index


_WINDOW = 1 << 20  # bytes read at once
_SEARCHED = 1 << 18  # bytes searched at once: if all are zero, each offset takes 50 bytes of memory
_LENGTH_BYTES = 8
_MOST_VAIN = 8  # times the file's size
_SALVAGE = "`shardfeed salvage DIR OUT` makes a dataset of the intact records"


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


def found_pieces(path: str) -> Iterator[Piece]:
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
    masked = ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(0xA282EAD8)  # as `mask`
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

        A long payload's CRC is computed in found_pieces, so that a wrong length does not allocate memory.
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
            return RecordError(place, error.problem, _SALVAGE)
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


class _Sink:
    """See `ShardSink`. Holds 8 bytes per record until the index is written."""

    def __init__(self, data: str, index: str, features: Mapping[str, Feature], after: Checkpoint | None = None) -> None:
        self._index = index
        self._parts = ExampleEncoder(features).parts
        self._sizes = array("q")
        # The directory is synced once, at the end, before the receipt that vouches for the shard is written.
        self._data = NewFile(data, sync_directory=False, after=after and (after.size, after.crc32c))
        self._after = after.records if after else 0
        self._info: ShardInfo | None = None
        if after:
            self._sizes.extend(len(payload) + FRAME_BYTES for payload in self.payloads())

    def write(self, values: Mapping[str, Value]) -> None:
        self.append(frame_parts(self._parts(values)))

    def write_payload(self, payload: bytes) -> None:
        self.append(frame_parts([payload]))

    def append(self, record: Framed) -> None:
        """Append a record in its frame."""
        self._data.write(record)
        self._sizes.append(sum(map(len, record)))

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(len(self._sizes), *self._data.checkpoint())

    def payloads(self) -> Iterator[bytes]:
        file = LOCAL.open(self._data.temporary)
        return (walked.payload for walked in walk_records(file, None, self._after))

    @property
    def info(self) -> ShardInfo:
        assert self._info is not None, "the `with` block has not ended"
        return self._info

    def __enter__(self) -> "_Sink":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._data.__exit__(kind, *rest)
        if kind is not None:
            return
        directory = os.path.dirname(self._index)
        if not os.path.isdir(directory):
            make_directory(directory)
        content = Index.from_sizes(self._sizes).written(self._index)
        index = FileInfo(*write_file(self._index, content))
        if directory != (own := os.path.dirname(self._data.path)):
            fsync_directory(own)
        self._info = ShardInfo(len(self._sizes), FileInfo(self._data.size, self._data.crc32c), index)


class _View:
    """See `ShardView`."""

    def __init__(self, offsets: np.ndarray) -> None:
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self._offsets)

    def place(self, file: OpenFile, row: int) -> str:
        return f"{file.path}, record {row}, offset {self._offsets[row]}"

    def read(self, file: OpenFile, row: int, count: int) -> list[bytes]:
        payloads: list[bytes] = []
        for first, last in pieces(self._offsets, row, row + count):
            start, end = self._offsets.item(first), self._offsets.item(last)
            if last - first == 1 and (payload := payload_alone(file, start, end)) is not None:
                payloads.append(payload)
            else:
                payloads += self._unframed(file, first, last, file.read(start, end - start))
        return payloads

    def parts(self, file: OpenFile, row: int, count: int) -> list[Part]:
        spans = (self._offsets[[first, last]].tolist() for first, last in pieces(self._offsets, row, row + count))
        return [Part(file, start, end - start) for start, end in spans]

    def cut(self, file: OpenFile, row: int, count: int, data: Sequence[Buffer]) -> list[bytes]:
        groups = zip(pieces(self._offsets, row, row + count), data, strict=True)
        return [payload for (first, last), read in groups for payload in self._unframed(file, first, last, read)]

    def _unframed(self, file: OpenFile, first: int, last: int, data: Buffer) -> list[bytes]:
        """Return the payloads of records `first` up to `last` from their frames, `data`."""
        offsets = self._offsets[first : last + 1].tolist()
        payloads: list[bytes] = []
        view = memoryview(data)  # so that each payload is copied once
        for i, (start, end) in enumerate(pairwise(offsets), first):
            framed = view[start - offsets[0] : end - offsets[0]]
            payload = bytes(framed[HEADER_BYTES:-FOOTER_BYTES])
            if _is_frame(framed[:HEADER_BYTES], payload, framed[-FOOTER_BYTES:], end - start):
                payloads.append(payload)
                continue
            place = f"{file.path}, record {i}, offset {start}"
            if len(framed) != end - start:
                problem = f"got {len(framed)} bytes, expected {end - start}: the shard is truncated"
                raise RecordError(place, problem, "run `shardfeed verify DIR`")
            payloads.append(unframe(bytes(framed), place))
        return payloads


class TFRecord(ShardFormat):
    """See `ShardFormat`: plain, uncompressed TFRecord, which every loader in the field reads."""

    name = "tfrecord"
    data_suffix = ".tfrecord"
    index_suffix = ".tfindex"

    def size(self, payload: bytes) -> int:
        """The payload and its frame."""
        return len(payload) + FRAME_BYTES

    def encoder(self, features: Mapping[str, Feature]) -> Callable[[Mapping[str, Value]], Framed]:
        """Encoder of framed Examples with sorted keys. Large values become buffers without a copy. Thread-safe."""
        parts = ExampleEncoder(features).parts
        return lambda values: frame_parts(parts(values))

    def framed(self, payload: bytes) -> Framed:
        """The payload in its frame."""
        return frame_parts([payload])

    def sink(self, data: str, index: str, schema: Schema, most: int = 0, after: Checkpoint | None = None) -> _Sink:
        """A shard in `data`, its offsets and sizes in `index`."""
        return _Sink(data, index, schema.features, after)

    def open(self, storage: Storage, data: str, index: str, info: ShardInfo | None = None) -> OpenFile:
        """The shard's file."""
        return storage.open(data, info.data.size if info else None)

    def view(self, info: ShardInfo, index: bytes, place: object) -> _View:
        """See `ShardFormat`. Raises IntegrityError unless CRC, count and size of the index equal those in `info`."""
        if crc32c(index) != info.index.crc32c:
            raise IntegrityError(place, "the index is not the one that was written with this shard", _REMEDY)
        parsed = Index.parse(index, place)
        if len(parsed) != info.records or parsed.offsets[-1] != info.data.size:
            problem = (
                f"the index has {len(parsed)} records in {parsed.offsets[-1]} bytes, "
                f"the manifest {info.records} in {info.data.size}"
            )
            raise IntegrityError(place, problem, _REMEDY)
        return _View(parsed.offsets)

    def walk(self, file: OpenFile, view: ShardView | None, count: int) -> Iterator[Walked]:
        """Yield the records by the index; without one, by following the lengths."""
        starts = None if view is None else np.cumsum([0, *view.sizes[:-1]]).tolist()
        return walk_records(file, starts, count)

    def may_hold(self, records: np.ndarray, sizes: np.ndarray, index_sizes: np.ndarray) -> np.ndarray:
        """A record has its frame at least, and a line in the index."""
        return (records <= sizes // FRAME_BYTES) & (records <= index_sizes // LEAST_LINE_BYTES)
