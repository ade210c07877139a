"""The index of a shard in a container, and its records: the image from the shard's file, the rest from the index.

    before 0, after 0, before 1, after 1 ...      pieces of payloads; the image between them is in the shard's file
    a line per record, 28 bytes                   offset and size of its image, and the CRC-32C of the whole payload
    24 bytes                                      the number of records, the CRC-32C of the lines, and "SHARDIDX"

All numbers are little-endian. The pieces begin at byte 0 and follow each other without gaps.
"""

import struct
from array import array
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.storage import OpenFile, Part, pieces

LINE = np.dtype(
    [("offset", "<u8"), ("size", "<u8"), ("before", "<u4"), ("behind", "<u4"), ("crc32c", "<u4")]
)  # offset and size in bytes of the image in the shard's file, including headers in between
_END = struct.Struct("<QQ8s")
_MAGIC = b"SHARDIDX"
END_BYTES = _END.size
_REMEDY = "restore it from a copy, or convert again"


def index_end(numbers: "array[int]", offsets: np.ndarray, sizes: np.ndarray | None) -> bytes:
    """Return the bytes after the pieces.

    `numbers`: of each record the sizes of its image and of the pieces before and behind it, and its CRC-32C. `offsets`,
    int64 [n]: of the images; `sizes`: theirs in the file, if different.
    """
    columns = np.frombuffer(numbers, np.uint64).reshape(-1, 4)
    lines = np.empty(len(columns), LINE)
    lines["offset"] = offsets
    lines["size"] = columns[:, 0] if sizes is None else sizes
    for column, name in enumerate(("before", "behind", "crc32c"), 1):
        lines[name] = columns[:, column]
    content = lines.tobytes()
    return content + _END.pack(len(lines), crc32c(content), _MAGIC)


def parse_lines(index: bytes, place: object) -> tuple[np.ndarray, np.ndarray]:
    """The lines at the end of an index, [n] of LINE, and offsets of the piece before each image, int64 [n + 1].

    Raises IntegrityError, with `place` as the file, if they are damaged.
    """
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
    return lines, starts


class TwoFiles:
    """A shard's file, opened with its index; an `OpenFile` of the shard's file."""

    def __init__(self, data: OpenFile, index: OpenFile) -> None:
        self.data, self.index = data, index
        self.path, self.size = data.path, data.size
        self.read = data.read

    @property
    def version(self) -> Hashable:
        """Versions of both files."""
        return self.data.version, self.index.version


class ContainerView:
    """See `ShardView`. Holds 36 bytes per record.

    `block`: at each multiple of this number of bytes the file has `header` bytes that belong to no record; 0: none.
    """

    def __init__(self, lines: np.ndarray, starts: np.ndarray, block: int = 0, header: int = 0) -> None:
        self._lines, self._starts = lines, starts
        self._block, self._header = block, header

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def sizes(self) -> np.ndarray:
        inside = self._lines["size"].astype(np.int64)
        if self._block:
            first = self._lines["offset"].astype(np.int64)
            inside -= self._header * ((first + inside - 1) // self._block - (first - 1) // self._block)
        return np.diff(self._starts) + inside

    def place(self, file: OpenFile, row: int) -> str:
        return f"{file.path}, record {row}, offset {self._lines['offset'][row]}"

    def read(self, file: OpenFile, row: int, count: int) -> list[bytes]:
        payloads: list[bytes] = []
        for first, last in self._groups(row, row + count):
            payloads += self._joined(file, first, last, *(part.read() for part in self._parts(file, first, last)))
        return payloads

    def parts(self, file: OpenFile, row: int, count: int) -> list[Part]:
        """Return, for each group of records, a part of the shard's file and one of its index."""
        return [part for group in self._groups(row, row + count) for part in self._parts(file, *group)]

    def cut(self, file: OpenFile, row: int, count: int, data: Sequence[bytes]) -> list[bytes]:
        groups = zip(self._groups(row, row + count), data[::2], data[1::2], strict=True)
        return [payload for group, image, rest in groups for payload in self._joined(file, *group, image, rest)]

    def _groups(self, row: int, end: int) -> Iterator[tuple[int, int]]:
        """Divide rows `row` to `end` into groups (first, end) to read together, of at least one record."""
        lines = self._lines[row:end]
        offsets = np.append(lines["offset"], lines[-1:]["offset"] + lines[-1:]["size"]).astype(np.int64)
        return ((row + first, row + last) for first, last in pieces(offsets, 0, end - row))

    def _parts(self, file: OpenFile, first: int, last: int) -> tuple[Part, Part]:
        assert isinstance(file, TwoFiles), "opened by the format"
        start, begin = int(self._lines["offset"][first]), int(self._starts[first])
        end = int(self._lines["offset"][last - 1]) + int(self._lines["size"][last - 1])
        return Part(file.data, start, end - start), Part(file.index, begin, int(self._starts[last]) - begin)

    def _joined(self, file: OpenFile, row: int, end: int, data: bytes, pieces: bytes) -> list[bytes]:
        """Join the payloads of records `row` up to `end`: images from `data`, the rest from `pieces`."""
        lines = self._lines[row:end].tolist()
        first = lines[0][0]
        at, payloads = 0, []
        for number, (offset, size, before, behind, crc) in enumerate(lines, row):
            image = data[offset - first : offset - first + size]
            if self._block:
                image = self._without_headers(image, offset)
            payload = b"".join((pieces[at : at + before], image, pieces[at + before : at + before + behind]))
            at += before + behind
            if crc32c(payload) != crc:
                problem = "its bytes changed since they were written: the CRC-32C differs"
                raise RecordError(self.place(file, number), problem, "run `shardfeed verify DIR`")
            payloads.append(payload)
        return payloads

    def _without_headers(self, data: bytes, offset: int) -> bytes:
        """Remove the headers at multiples of the block from the bytes of a record."""
        parts, at = [], 0
        while at < len(data):
            inside = (offset + at) % self._block
            if inside < self._header:
                at += self._header - inside
            stop = min(len(data), at + self._block - (offset + at) % self._block)
            parts.append(data[at:stop])
            at = stop
        return b"".join(parts)
