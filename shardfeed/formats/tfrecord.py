"""A shard as TFRecord, written and read: framed records of tf.train.Example in one file, their index in another.

train-00000-of-00004.tfrecord     records, each in its frame (see framing.py), whose payload is an Example
train-00000-of-00004.tfindex      one line per record (see framing.py)
"""

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import ExampleEncoder
from shardfeed.formats.format import Checkpoint, ShardFormat, ShardInfo, ShardView, Walked
from shardfeed.formats.tfrecord_framing import FRAME_BYTES, LEAST_LINE_BYTES, Index, frame_parts, payload_alone, unframe
from shardfeed.formats.tfrecord_scan import walk_records
from shardfeed.schema import Feature, Schema, Value
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import NewFile, fsync_directory, make_directory, write_file
from shardfeed.storage.storage import LOCAL, FileInfo, OpenFile, Part, Storage, pieces

Framed = Sequence[bytes]  # a record as in its shard file: consecutive buffers

_REMEDY = "`shardfeed rebuild DIR` restores it"


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
        content = Index.from_sizes(self._sizes).to_bytes()
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

    def cut(self, file: OpenFile, row: int, count: int, data: Sequence[bytes]) -> list[bytes]:
        groups = zip(pieces(self._offsets, row, row + count), data, strict=True)
        return [payload for (first, last), read in groups for payload in self._unframed(file, first, last, read)]

    def _unframed(self, file: OpenFile, first: int, last: int, data: bytes) -> list[bytes]:
        """Return the payloads of records `first` up to `last` from their frames, `data`."""
        offsets = self._offsets[first : last + 1].tolist()
        payloads: list[bytes] = []
        for i, (start, end) in enumerate(pairwise(offsets), first):
            framed = data if last - first == 1 else data[start - offsets[0] : end - offsets[0]]
            place = f"{file.path}, record {i}, offset {start}"
            if len(framed) != end - start:
                problem = f"got {len(framed)} bytes, expected {end - start}: the shard is truncated"
                raise RecordError(place, problem, "run `shardfeed verify DIR`")
            payloads.append(unframe(framed, place))
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
