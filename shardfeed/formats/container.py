"""Common part of the formats of other ecosystems: all but the file itself, which each writes through a `Container`.

A container holds each record's image unchanged, so that their own programs read it; the index has its location and the
rest of the record's payload. So reading is the same for all of them, needs none of their libraries, and checks a CRC
for each record. The index:

    before 0, after 0, before 1, after 1 ...      pieces of payloads; the image between them is in the shard's file
    a line per record, 28 bytes                   offset and size of its image, and the CRC-32C of the whole payload
    24 bytes                                      the number of records, the CRC-32C of the lines, and "SHARDIDX"

All numbers are little-endian. The pieces begin at byte 0 and follow each other without gaps.
"""

import base64
import os
import struct
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from shardfeed.errors import IntegrityError, RecordError, check_extra
from shardfeed.formats.example import ExampleEncoder, values_of
from shardfeed.formats.format import Checkpoint, ShardFormat, ShardInfo, ShardView, Walked
from shardfeed.schema import ENCODED, LABEL, Schema, Value
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.local import NewFile, fsync_directory, make_directory
from shardfeed.storage.storage import Buffer, FileInfo, OpenFile, Part, Storage, pieces

_REMEDY = "restore it from a copy, or convert again"
LINE = np.dtype(
    [("offset", "<u8"), ("size", "<u8"), ("before", "<u4"), ("behind", "<u4"), ("crc32c", "<u4")]
)  # offset and size in bytes of the image in the shard's file, including headers in between
_END = struct.Struct("<QQ8s")
_MAGIC = b"SHARDIDX"
END_BYTES = _END.size


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

    def cut(self, file: OpenFile, row: int, count: int, data: Sequence[Buffer]) -> list[bytes]:
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

    def _joined(self, file: OpenFile, row: int, end: int, data: Buffer, pieces: Buffer) -> list[bytes]:
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

    def _without_headers(self, data: Buffer, offset: int) -> bytes:
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


class WrittenContainer(NamedTuple):
    """A finished, durable container: the file, and the offset of each record's image in it, int64 [n].

    If the file holds whole payloads, these are the payloads' offsets. `sizes`: bytes from the start of each image to
    its end, if headers of the format lie in between.
    """

    file: FileInfo
    offsets: np.ndarray
    sizes: np.ndarray | None = None


class Container(Protocol):
    """A file of a format that is being written."""

    def add(self, values: Mapping[str, Value], parts: Sequence[bytes]) -> None:
        """Append a record; `parts`: its payload. Raises StorageError, and UsageError if the file cannot hold it."""
        ...

    def finish(self) -> WrittenContainer:
        """Make it durable and give it its name. Raises StorageError; then it is discarded."""
        ...

    def discard(self) -> None:
        """Remove the file, even after `finish` has failed."""
        ...


class ContainerSink:
    """See `ShardSink`. Holds 32 bytes per record until the index is written."""

    def __init__(self, form: "ContainerFormat", data: str, index: str, schema: Schema, most: int) -> None:
        self._holds_payloads = form.holds_payloads
        self._features = schema.features
        self._image = image_key(schema)
        self._encoder = ExampleEncoder(schema.features, apart=self._image)
        self._directories = dict.fromkeys((os.path.dirname(data), os.path.dirname(index)))
        for directory in self._directories:
            if not os.path.isdir(directory):
                make_directory(directory)
        self._numbers = array("Q")  # see `index_end`
        self._container = form.container(data, schema, most)
        self._index = NewFile(index, sync_directory=False)
        self._info: ShardInfo | None = None

    def write(self, values: Mapping[str, Value]) -> None:
        parts = self._encoder.parts(values)
        image = values[self._image] if self._image is not None else None
        at = next((i for i, part in enumerate(parts) if part is image), len(parts))
        before, behind = b"".join(parts[:at]), b"".join(parts[at + 1 :])
        crc = crc32c(before)
        for part in parts[at:]:
            crc = extend_crc32c(crc, part)
        size = len(image) if at < len(parts) and isinstance(image, bytes) else 0
        self._container.add(values, parts)
        if self._holds_payloads:
            before = behind = b""
        self._index.write([before, behind])
        self._numbers.extend((size, len(before), len(behind), crc))

    def write_payload(self, payload: bytes) -> None:
        self.write(values_of(payload, self._features))

    def checkpoint(self) -> Checkpoint | None:
        """None: most of these files end with their index, and so cannot be continued."""
        return None

    def payloads(self) -> Iterator[bytes]:
        """Nothing: it never continues from a checkpoint."""
        return iter(())

    @property
    def info(self) -> ShardInfo:
        assert self._info is not None, "the `with` block has not ended"
        return self._info

    def __enter__(self) -> "ContainerSink":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:
            self._container.discard()
            self._index.__exit__(kind, *rest)
            return
        with self._index:
            try:
                written = self._container.finish()
            except BaseException:
                self._container.discard()
                raise
            self._index.write([index_end(self._numbers, written.offsets, written.sizes)])
        for directory in self._directories:
            fsync_directory(directory)
        self._info = ShardInfo(len(self._numbers) // 4, written.file, FileInfo(self._index.size, self._index.crc32c))


class ContainerFormat(ShardFormat):
    """See `ShardFormat`: a subclass has `name`, `data_suffix` and `container`.

    `container(path, schema, most)`: makes a new file at `path` for `most` records at most. Raises StorageError.
    """

    index_suffix = ".index"
    container: Callable[[str, Schema, int], Container]
    block, header = 0, 0  # see `ContainerView`
    holds_payloads = False  # whether the file holds whole payloads; else only the images, unchanged
    package = ""  # that writes such files, and whose version determines their bytes

    def check(self, schema: Schema) -> None:
        if self.package:
            check_extra(self.package, "to")

    def size(self, payload: bytes) -> int:
        """Bytes of the payload: the framing differs from record to record."""
        return len(payload)

    def sink(self, data: str, index: str, schema: Schema, most: int, after: Checkpoint | None = None) -> ContainerSink:
        """Open a new shard: images in `data`, the rest of the payloads in `index`."""
        assert after is None, "there are no checkpoints"
        return ContainerSink(self, data, index, schema, most)

    def versions(self) -> Mapping[str, str]:
        """Version of `package`."""
        if not self.package:
            return {}
        check_extra(self.package, "to")
        from importlib.metadata import version  # not at the top: it is slow, and few need it

        return {self.package: version(self.package)}

    def open(self, storage: Storage, data: str, index: str, info: ShardInfo | None = None) -> OpenFile:
        """Both files."""
        sizes = (info.data.size, info.index.size) if info else (None, None)
        return TwoFiles(storage.open(data, sizes[0]), storage.open(index, sizes[1]))

    def view(self, info: ShardInfo, index: bytes, place: object) -> ContainerView:
        """See `ShardFormat`. Raises IntegrityError unless the CRC and the number of records equal those in `info`."""
        if crc32c(index) != info.index.crc32c:
            raise IntegrityError(place, "the index is not the one that was written with this shard", _REMEDY)
        lines, starts = parse_lines(index, place)
        if len(lines) != info.records:
            problem = f"the index has {len(lines)} records, the manifest {info.records}"
            raise IntegrityError(place, problem, _REMEDY)
        return ContainerView(lines, starts, self.block, self.header)

    def walk(self, file: OpenFile, view: ShardView | None, count: int) -> Iterator[Walked]:
        """Yield the records by the index; nothing without one."""
        for row in range(count if view is not None else 0):
            assert isinstance(view, ContainerView)
            offset = int(view._lines["offset"][row])
            try:
                yield Walked(view.read(file, row, 1)[0], row, offset, None)
            except RecordError as error:
                yield Walked(b"", row, offset, error)

    def may_hold(self, records: np.ndarray, sizes: np.ndarray, index_sizes: np.ndarray) -> np.ndarray:
        """A record has its line in the index."""
        return records <= (index_sizes - END_BYTES) // LINE.itemsize


def image_key(schema: Schema) -> str | None:
    """The feature that is stored as an image; None if records have none."""
    key = schema.key(ENCODED)
    return key if key is not None and schema.features[key].scalar and schema.kind(key) == "image" else None


def column_names(schema: Schema) -> dict[str, str]:
    """Feature -> column: `image` and `label` for the image and the label, otherwise the key."""
    names = {key: key for key in schema.features}
    for key, name in ((image_key(schema), "image"), (label_key(schema), "label")):
        if key is not None:
            names[key] = name
    return {key: key if name != key and name in schema.features else name for key, name in names.items()}


def label_key(schema: Schema) -> str | None:
    """The feature with the single class of a record; None if there is none."""
    key = schema.key(LABEL)
    return key if key is not None and key in schema.class_names and schema.features[key].scalar else None


def plain(value: Value) -> Any:
    """Convert a value to JSON: bytes that are not text as {"base64": ...}, floats as the stored float32."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [plain(item) for item in value]  # type: ignore[arg-type]  # a list in a list has plain items, too
    return float(np.float32(value)) if isinstance(value, float) else value
