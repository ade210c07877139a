"""What a shard format is: how records become a file that is written once, and are read from it by their rows.

A dataset is plan, receipts, manifest and commit whatever its shards are. What is behind these protocols alone knows
what stands in a shard file: to add a format is to write one class with them, and to run it through
`shardfeed.testing.shard_format.ShardFormatContract`.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol

import numpy as np

from shardfeed.errors import RecordError
from shardfeed.schema import Dtype, Feature, Value
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.storage import OpenFile

Decoded = list[bytes] | np.ndarray  # bytes: a list; float32 and int64: a 1-D array
Fields = Mapping[str, tuple[Dtype, Decoded]]  # feature key -> dtype and values of a record
Stored = Sequence[bytes]  # a record as it stands in its shard file: buffers that follow each other


@dataclass(frozen=True)
class ShardInfo:
    """One shard: number of records, and the shard file and its index as written."""

    records: int
    data: FileInfo
    index: FileInfo


class Checkpoint(NamedTuple):
    """How far a shard was written that is not finished: its records, and the bytes they take with their CRC-32C."""

    records: int
    size: int
    crc32c: int


class Walked(NamedTuple):
    """A record met on the way: `payload` is b"" where `error` says what is wrong with it; `offset` in bytes."""

    payload: bytes
    record: int
    offset: int
    error: RecordError | None


class Encoder(Protocol):
    """Records with the same features, one after the other. Has no state that a call changes: it serves many threads."""

    def __call__(self, values: Mapping[str, Value], /) -> Stored:
        """The record: `values` has exactly the features' keys, each of the stated dtype and shape.

        The same values give the same bytes. Large values may be among the buffers as they are, without a copy.
        """
        ...


class ShardSink(Protocol):
    """A shard that is being written: `with sink: sink.write(...)`.

    Leaving the block normally makes shard and index durable under their names, the shard first; by an exception, no
    file stays. Serves one thread.
    """

    def write(self, values: Mapping[str, Value]) -> None:
        """Append a record; arguments as of `Encoder`. Raises StorageError."""
        ...

    def append(self, record: Stored) -> None:
        """Append a record that is encoded already, byte for byte. Raises StorageError."""
        ...

    def checkpoint(self) -> Checkpoint:
        """Make durable what was written so far, so that another sink can go on there. Raises StorageError."""
        ...

    def payloads(self) -> Iterator[bytes]:
        """What was written up to the checkpoint that this sink went on from, record by record; before it writes."""
        ...

    @property
    def info(self) -> ShardInfo:
        """What was written; once the block was left."""
        ...

    def __enter__(self) -> "ShardSink": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ShardView(Protocol):
    """The records of one shard by their rows, from 0. Holds what the index says, 8 bytes a record, and no open file.

    Whoever reads many shards decides how many files stay open, so the shard file is an argument. Serves many threads.
    """

    def __len__(self) -> int: ...

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each record in the shard file, int64 [n]."""
        ...

    def read(self, file: OpenFile, row: int, count: int) -> list[bytes]:
        """The payloads of `count` records from `row` on, checked. Raises RecordError at the first damaged one."""
        ...

    def place(self, file: OpenFile, row: int) -> str:
        """What an error calls a record: file, number and offset."""
        ...


class ShardFormat(Protocol):
    """One way to store records. `name`: as it stands in documents; suffixes: of a shard's two files, with their dot."""

    @property
    def name(self) -> str: ...
    @property
    def data_suffix(self) -> str: ...
    @property
    def index_suffix(self) -> str: ...

    def encoder(self, features: Mapping[str, Feature]) -> Encoder:
        """What makes stored records of values."""
        ...

    def stored(self, payload: bytes) -> Stored:
        """A record that was read, as it stands in a shard file."""
        ...

    def decode(self, payload: bytes, keys: Container[str] | None = None) -> Fields:
        """The features of a payload, all of them or those in `keys`. Raises IntegrityError where it is no record."""
        ...

    def sink(
        self, data: str, index: str, features: Mapping[str, Feature], after: Checkpoint | None = None
    ) -> ShardSink:
        """A new shard in the files `data` and `index`; the index's directory is made if it is not there.

        `after`: a checkpoint of the sink of the same files that was killed, whoever it was; this one writes what comes
        behind it. Raises IntegrityError where what was written up to there has changed; StorageError where it is gone.
        """
        ...

    def view(self, info: ShardInfo, index: bytes, place: object) -> ShardView:
        """The records of the shard `info`, by the content of its index.

        Raises IntegrityError, with `place` for the index, unless that is the one that was written with this shard.
        """
        ...

    def walk(self, file: OpenFile, view: ShardView | None, count: int) -> Iterator[Walked]:
        """All of the `count` records of a shard that may be damaged; without a `view` as far as they can be found.

        Damage is given, not raised, and memory is bounded by the file's size whatever it says. Raises OSError.
        """
        ...

    def may_hold(self, info: ShardInfo) -> bool:
        """Whether files of these sizes can hold so many records: who makes room for records asks first."""
        ...
