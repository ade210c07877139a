"""Protocols of a shard format: records are written to a file once, and read from it by row.

The plan, receipts, manifest and commit of a dataset are the same in each format, and so are the payloads of its
records: serialized tf.train.Examples (see example.py). To add a format, write a subclass of
`ShardFormat`, which has what is the same in most of them, and run it through
`shardfeed.testing.shard_format.ShardFormatContract`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol

import numpy as np

from shardfeed.errors import RecordError
from shardfeed.schema import Dtype, Schema, Value
from shardfeed.storage.storage import Buffer, FileInfo, OpenFile, Part, Storage

Decoded = list[bytes] | np.ndarray  # bytes: a list; float32 and int64: a 1-D array
Fields = Mapping[str, tuple[Dtype, Decoded]]  # feature key -> dtype and values of a record


@dataclass(frozen=True)
class ShardInfo:
    """One shard: number of records, and the shard file and its index as written."""

    records: int
    data: FileInfo
    index: FileInfo


class Checkpoint(NamedTuple):
    """Progress of an unfinished shard: number of records written, their bytes, and the CRC-32C of these."""

    records: int
    size: int
    crc32c: int


class Walked(NamedTuple):
    """A record found by `walk`. `payload`: b"" if it is damaged; `error` describes the damage. `offset` in bytes."""

    payload: bytes
    record: int
    offset: int
    error: RecordError | None


class ShardSink(Protocol):
    """A shard that is being written: `with sink: sink.write(...)`. Serves one thread.

    Leaving the block normally makes shard and index durable, the shard first; by an exception, no file stays.
    """

    def write(self, values: Mapping[str, Value]) -> None:
        """Append a record: `values` has exactly the features' keys, each of the stated dtype and shape.

        The same values give the same bytes. Raises StorageError.
        """
        ...

    def write_payload(self, payload: bytes) -> None:
        """Append a record, given as the payload that readers will return byte for byte. Raises StorageError."""
        ...

    def checkpoint(self) -> Checkpoint | None:
        """Make the bytes written so far durable, so that another sink can continue there. Raises StorageError.

        None if files of this format cannot be continued: after a kill, the shard is written from the start.
        """
        ...

    def payloads(self) -> Iterator[bytes]:
        """Iterate over the records before the checkpoint from which this sink continues; call it before writing."""
        ...

    @property
    def info(self) -> ShardInfo:
        """Number of records and files of the written shard; available once the `with` block was left."""
        ...

    def __enter__(self) -> "ShardSink": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ShardView(Protocol):
    """The records of one shard by row, from 0.

    Holds the index, 8 bytes per record, and no open file: the caller decides how many files stay open. Thread-safe.
    """

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each record with its framing, int64 [n]: `ShardFormat.size` of its payload."""
        ...

    def read(self, file: OpenFile, row: int, count: int) -> list[bytes]:
        """The payloads of `count` records from `row` on, checked. Raises RecordError at the first damaged one."""
        ...

    def parts(self, file: OpenFile, row: int, count: int) -> Sequence[Part]:
        """Return the parts of files with `count` records from `row` on, for a storage that reads many at once."""
        ...

    def cut(self, file: OpenFile, row: int, count: int, data: Sequence[Buffer]) -> list[bytes]:
        """Return the same as `read`, from the bytes of all `parts`."""
        ...

    def place(self, file: OpenFile, row: int) -> str:
        """Return the place of a record for errors: file, record number and offset."""
        ...


@dataclass(frozen=True)
class Described:
    """A dataset as its manifest will have it: splits by name, each with its shards in order."""

    name: str
    schema: Schema
    splits: Mapping[str, Sequence[ShardInfo]]


class ShardFormat(Protocol):
    """One way to store records. `name`: as in manifests; suffixes: of a shard's two files, with their dot."""

    name: str
    data_suffix: str
    index_suffix: str

    def check(self, schema: Schema) -> None:
        """Raise UsageError if such shards cannot hold records of `schema`, or if a package to write them is missing."""

    def shard_file(self, split: str, number: int, count: int) -> str:
        """Return the file of shard `number` (from 0) of `count`, relative to the dataset's directory."""
        return shard_stem(split, number, count) + self.data_suffix

    def size(self, payload: bytes) -> int:
        """Bytes of a record with its framing."""
        ...

    def sink(self, data: str, index: str, schema: Schema, most: int, after: Checkpoint | None = None) -> ShardSink:
        """Open a new shard, of `most` records at most, in the files `data` and `index`; creates their directories.

        `after`: a checkpoint of an earlier sink of the same files, which was killed: this one continues after it, and
        raises IntegrityError if the bytes up to there have changed, StorageError if they are gone.
        """
        ...

    def describe(self, dataset: "Described") -> Mapping[str, bytes]:
        """Return the additional files that the format's own programs need: name -> content."""
        return {}

    def versions(self) -> Mapping[str, str]:
        """Versions, by name, of the packages that determine a shard's bytes, except for image codecs."""
        return {}

    def open(self, storage: Storage, data: str, index: str, info: ShardInfo | None = None) -> OpenFile:
        """A shard's file, ready for a view to read from; `info` has the sizes, for the storage. Raises OSError."""
        ...

    def view(self, info: ShardInfo, index: bytes, place: object) -> ShardView:
        """Return a view of the shard `info`, from the content of its index.

        Raises IntegrityError, with `place` as the index, unless the index was written with this shard.
        """
        ...

    def walk(self, file: OpenFile, view: ShardView | None, count: int) -> Iterator[Walked]:
        """Yield all `count` records of a shard that may be damaged; without a `view`, the records that can be found.

        `file`: from `open`. Damage is yielded, not raised. Memory is bounded by the file's size, even for damaged
        lengths. Raises OSError.
        """
        ...

    def may_hold(self, records: np.ndarray, sizes: np.ndarray, index_sizes: np.ndarray) -> np.ndarray:
        """Whether files of these sizes in bytes can hold these numbers of records, bool [shards].

        All are int64 [shards], up to 10**18 - 1. It is a check before memory is allocated.
        """
        ...


def shard_stem(split: str, number: int, count: int) -> str:
    """`train-00003-of-00008` for shard 3 (from 0) of 8; at least five digits."""
    return f"{split}-{number:05d}-of-{count:05d}"
