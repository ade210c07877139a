"""Random access to a split: `split[i]` reads one record by the index, whatever shard it is in.

Every record's CRC is checked. A split pickles as paths, opens files when it first needs them, and reads by
`pread`, which has no shared position: one split serves many threads and forked processes at once.
"""

import bisect
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from shardfeed.errors import IntegrityError, RecordError, UsageError
from shardfeed.example import decode
from shardfeed.framing import crc32c, unframe
from shardfeed.index import Index
from shardfeed.manifest import SplitInfo
from shardfeed.naming import INDEX_SUFFIX, RECORD_SUFFIX
from shardfeed.schema import LABEL, Schema

_OPEN_SHARDS = 128  # files one split keeps open; a process may usually have 1024

Record = dict[str, bytes | int | float | list[bytes] | np.ndarray]


@dataclass(frozen=True)
class ShardSlice:
    """The records of one shard that belong to a view: `take` of its `records`, after `skip`.

    `path`: the shard file. `first`: place in the whole split of the shard's first record.
    """

    path: str
    first: int
    skip: int
    take: int
    records: int


class _OpenFile:
    """A file descriptor that closes when the last reader lets go of it: evicting one in use is safe."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class _Shards:
    """A split's shard files and indexes, opened when first used. Shared by all views of the split."""

    def __init__(self, directory: str, info: SplitInfo) -> None:
        self.directory = directory
        self.info = info
        self.firsts = np.cumsum([0, *(shard.records for shard in info.shards)]).tolist()
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[int, _OpenFile] = OrderedDict()
        self._indexes: dict[int, Index] = {}

    def __getstate__(self) -> tuple[str, SplitInfo]:
        return self.directory, self.info

    def __setstate__(self, state: tuple[str, SplitInfo]) -> None:
        self.__init__(*state)

    def path(self, shard: int) -> str:
        return os.path.join(self.directory, self.info.stem(shard) + RECORD_SUFFIX)

    def file(self, shard: int) -> _OpenFile:
        files = self._files
        with self._lock:
            if shard in files:
                files.move_to_end(shard)
                return files[shard]
        opened = _OpenFile(self.path(shard))
        with self._lock:
            files[shard] = opened
            if len(files) > _OPEN_SHARDS:
                files.popitem(last=False)
        return opened

    def index(self, shard: int) -> Index:
        if shard not in self._indexes:
            path = os.path.join(self.directory, self.info.stem(shard) + INDEX_SUFFIX)
            self._indexes[shard] = read_index(path, self.info, shard)
        return self._indexes[shard]

    def payload(self, number: int) -> bytes:
        """The record at place `number` of the whole split, its CRCs checked."""
        shard = bisect.bisect_right(self.firsts, number) - 1
        offsets = self.index(shard).offsets
        row = number - self.firsts[shard]
        start, size = int(offsets[row]), int(offsets[row + 1] - offsets[row])
        file = self.file(shard)  # held while it is read: another thread may evict it, and the last reference closes
        data = os.pread(file.fd, size, start)
        place = f"{self.path(shard)}, record {row}, offset {start}"
        if len(data) != size:
            raise RecordError(
                place, f"got {len(data)} bytes, expected {size}: the shard was cut", "run `shardfeed verify`"
            )
        return unframe(data, place)


def read_index(path: str, info: SplitInfo, shard: int) -> Index:
    """The index of a shard, checked against the manifest's CRC, count and size. Raises IntegrityError."""
    with open(path, "rb") as file:
        data = file.read()
    expected = info.shards[shard]
    if crc32c(data) != expected.index.crc32c:
        raise IntegrityError(path, "the index is not the one that was written with this shard", "convert again")
    index = Index.parse(data, path)
    if len(index) != expected.records or index.offsets[-1] != expected.data.size:
        raise IntegrityError(
            path,
            f"the index has {len(index)} records in {index.offsets[-1]} bytes, "
            f"the manifest {expected.records} in {expected.data.size}",
            "convert again",
        )
    return index


class Split(Sequence[Record]):
    """One split, or a slice of one: `len(split)`, `split[i]`, `split[a:b]`, iteration.

    `split[i]` is a dict by feature key: bytes, int or float for scalars, list[bytes] or a 1-D array for ragged ones. It
    may be used as a map-style dataset of PyTorch as it stands.
    """

    def __init__(self, directory: str, schema: Schema, info: SplitInfo) -> None:
        self.name = info.name
        self.schema = schema
        self._shards = _Shards(directory, info)
        self._range = range(info.records)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of `image/class/label`, by label; empty when there is none."""
        return self.schema.class_names.get(LABEL, ())

    @property
    def class_counts(self) -> Mapping[str, tuple[int, ...]]:
        """Label feature -> records of each class, of the whole split (also for a slice)."""
        return self._shards.info.class_counts

    @property
    def formats(self) -> Mapping[str, int]:
        """`image/format` -> records, of the whole split (also for a slice); empty when unknown."""
        return self._shards.info.formats

    @cached_property
    def record_bytes(self) -> int:
        """Framed bytes of the records; for a slice in proportion to its length."""
        info = self._shards.info
        return info.size * len(self._range) // max(1, info.records)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Split": ...
    def __getitem__(self, index: Any) -> "Record | Split":
        if isinstance(index, slice):
            view = object.__new__(Split)
            view.name, view.schema, view._shards = self.name, self.schema, self._shards
            view._range = self._range[index]
            return view
        payload = self.payload(index)
        try:
            return self._checked(decode(payload))
        except IntegrityError as error:  # CRC right, content not: name the record
            number = self._range[operator.index(index)]
            raise RecordError(f"split {self.name}, record {number}", error.problem, error.remedy) from None

    def __iter__(self) -> Iterator[Record]:
        return (self[i] for i in range(len(self)))

    def payload(self, index: int) -> bytes:
        """The serialized Example at `index` (negative counts from the end). Raises IndexError, RecordError."""
        try:
            number = self._range[operator.index(index)]
        except IndexError:
            raise IndexError(f"split {self.name!r} has {len(self)} samples, got the index {index}") from None
        return self._shards.payload(number)

    def _checked(self, found: Mapping[str, Any]) -> Record:
        record: Record = {}
        for key, feature in self.schema.features.items():
            dtype, values = found.get(key, (None, ()))
            if dtype is None:
                raise IntegrityError("record", f"no feature {key!r}", "the dataset's schema has it: convert again")
            # An empty list has no dtype on the wire that every writer agrees on.
            if dtype != feature.dtype and len(values):
                raise IntegrityError("record", f"feature {key!r} is {dtype}, the schema says {feature.dtype}")
            if feature.ragged:
                record[key] = values
            elif len(values) != 1:
                raise IntegrityError("record", f"feature {key!r} has {len(values)} values, the schema says one")
            else:
                record[key] = values[0] if feature.dtype == "bytes" else values[0].item()
        return record

    def shard_slices(self) -> list[ShardSlice]:
        """The shards behind this view, in order, with the records of each that belong to it.

        Raises UsageError for a slice with a step: its records do not follow each other in the shards.
        """
        if self._range.step != 1:
            raise UsageError(
                f"split {self.name}", f"a slice with step {self._range.step} cannot be streamed", "use step 1"
            )
        shards = self._shards
        slices: list[ShardSlice] = []
        for number, info in enumerate(shards.info.shards):
            first = shards.firsts[number]
            start = max(self._range.start, first)
            stop = min(self._range.stop, first + info.records)
            if start < stop:
                slices.append(ShardSlice(shards.path(number), first, start - first, stop - start, info.records))
        return slices

    def __repr__(self) -> str:
        return f"Split({self.name!r}, {len(self)} samples)"
