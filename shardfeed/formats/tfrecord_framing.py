"""TFRecord framing, and the index of a shard: the frame around each payload, and the offset of each record.

    uint64 LE  length of data
    uint32 LE  masked CRC-32C of the 8 length bytes
    byte[n]    data
    uint32 LE  masked CRC-32C of data

Source: TensorFlow, tensorflow/core/lib/io/record_writer.h. The mask keeps a CRC stored inside data that is itself
checksummed from cancelling out (tensorflow/core/lib/hash/crc32c.h).

The index is text, one line per record: `<offset> <size>` in bytes, with the offset from the shard's start, and the 16
bytes of framing included in the size. It is the format of NVIDIA DALI's `tfrecord2idx` and of the `tfrecord` package,
so both can use it to read shards of shardfeed.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.storage import OpenFile

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
    header, _, footer = frame_parts([payload])
    return payload if (first, last, len(payload)) == (header, footer, end - start - FRAME_BYTES) else None


LEAST_LINE_BYTES = 5  # "0 16\n"
_REMEDY = "`shardfeed rebuild DIR` restores it"


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
