"""The index of a shard in a container: for each record, the bytes before and after the image in its payload.

    before 0, after 0, before 1, after 1 ...      pieces of payloads; the image between them is in the shard's file
    a line per record, 28 bytes                   offset and size of its image, and the CRC-32C of the whole payload
    24 bytes                                      the number of records, the CRC-32C of the lines, and "SHARDIDX"

All numbers are little-endian. The pieces begin at byte 0 and follow each other without gaps.
"""

import struct
from array import array
from typing import NamedTuple

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.storage.checksum import crc32c

LINE = np.dtype(
    [("offset", "<u8"), ("size", "<u8"), ("before", "<u4"), ("behind", "<u4"), ("crc32c", "<u4")]
)  # offset and size in bytes of the image in the shard's file, including headers in between
_END = struct.Struct("<QQ8s")
_MAGIC = b"SHARDIDX"
END_BYTES = _END.size
_REMEDY = "restore it from a copy, or convert again"


class Lines(NamedTuple):
    """Index of a shard in memory: `lines` [n] of LINE, and offsets of the piece before each image, int64 [n + 1]."""

    lines: np.ndarray
    starts: np.ndarray


class LineBuilder:
    """The lines of a shard that is being written."""

    def __init__(self) -> None:
        self._numbers = array("Q")

    def __len__(self) -> int:
        return len(self._numbers) // 4

    def add(self, size: int, before: int, behind: int, crc: int) -> None:
        """Add a record; the offset of its image is given to `end`."""
        self._numbers.extend((size, before, behind, crc))

    def end(self, offsets: np.ndarray, sizes: np.ndarray | None) -> bytes:
        """Return the bytes after the pieces. `offsets`, int64 [n], of the images; `sizes` in the file, if different."""
        numbers = np.frombuffer(self._numbers, np.uint64).reshape(-1, 4)
        lines = np.empty(len(numbers), LINE)
        lines["offset"] = offsets
        lines["size"] = numbers[:, 0] if sizes is None else sizes
        for column, name in enumerate(("before", "behind", "crc32c"), 1):
            lines[name] = numbers[:, column]
        content = lines.tobytes()
        return content + _END.pack(len(lines), crc32c(content), _MAGIC)


def parse_lines(index: bytes, place: object) -> Lines:
    """Parse the lines at the end of an index. Raises IntegrityError, with `place` as the file, if they are damaged."""
    if len(index) < END_BYTES:
        raise IntegrityError(place, f"got {len(index)} bytes, expected at least {END_BYTES}", _REMEDY)
    count, crc, magic = _END.unpack(index[-END_BYTES:])
    room = (len(index) - END_BYTES) // LINE.itemsize
    if magic != _MAGIC or count > room:
        raise IntegrityError(place, "it does not end like an index", _REMEDY)
    first = len(index) - END_BYTES - count * LINE.itemsize
    content = index[first : len(index) - END_BYTES]
    lines = np.frombuffer(content, LINE)
    pieces = lines["before"].astype(np.int64) + lines["behind"]
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(pieces, out=starts[1:])
    if crc32c(content) != crc or starts[-1] != first:
        raise IntegrityError(place, "its lines do not match their checksum", _REMEDY)
    return Lines(lines, starts)
