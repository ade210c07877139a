"""A split's shards as arrays: 32 bytes each. An object for each shard, and for each of its files, would take 1 KB."""

import hashlib
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, overload
from weakref import WeakValueDictionary

import numpy as np

from shardfeed.errors import ShardfeedError
from shardfeed.formats.format import ShardInfo
from shardfeed.storage.storage import FileInfo

ROW = np.dtype(
    [("records", "<i8"), ("bytes", "<i8"), ("crc32c", "<u4"), ("index_bytes", "<i8"), ("index_crc32c", "<u4")]
)
_FILE = np.dtype([("records", "<i8"), ("bytes", "<i8"), ("crc32c", "<u4")])
_MOST_PICKLED = 32 << 10  # bytes of rows, 1,024 shards: reading a manifest of as many takes 5 ms of CPU time


class StoredTable(Protocol):
    """The table of a split in a dataset's manifest, where other processes read it. Pickles."""

    @property
    def directory(self) -> str:
        """The dataset's directory."""
        ...

    def read(self, digest: bytes) -> tuple[np.ndarray, Hashable]:
        """Read the rows of the table with this digest, and the version of the manifest. Raises IntegrityError."""
        ...


class ShardTable(Sequence[ShardInfo]):
    """Shards in order: `table[i]` is a `ShardInfo`, and the properties are arrays of all shards.

    `stored`: manifests that contain the table. `versions`: directory -> the version of the manifest that this process
    has read it from. A table of more than 1,024 shards pickles as `stored` and its digest: the process that receives it
    reads it when it is first used, from the first of `stored` that has it, once for all tables with this digest.
    """

    def __init__(self, rows: np.ndarray | None, stored: tuple[StoredTable, ...] = (), digest: bytes = b"") -> None:
        self.stored, self.versions = stored, dict[str, Hashable]()
        self._rows, self._digest, self._lock = rows, digest, threading.Lock()
        if rows is not None:
            rows.flags.writeable = False

    @classmethod
    def of(cls, shards: Iterable[ShardInfo]) -> "ShardTable":
        """The table of these shards."""
        rows = [(s.records, s.data.size, s.data.crc32c, s.index.size, s.index.crc32c) for s in shards]
        return cls(np.array(rows, ROW))

    @property
    def rows(self) -> np.ndarray:
        """A structured array [shards], read-only. Raises IntegrityError if another dataset has replaced this one."""
        if self._rows is None:
            with self._lock:
                if self._rows is None:
                    self._rows = self._read_again()
        return self._rows

    def found_in(self, stored: StoredTable, version: Hashable = None) -> None:
        """Note a manifest with this table, the first to read it from; `version`: as this process has read it."""
        self.stored = tuple(dict.fromkeys((stored, *self.stored)))
        if version is not None:
            self.versions[stored.directory] = version

    def _read_again(self) -> np.ndarray:
        for last, stored in enumerate(self.stored, 1 - len(self.stored)):
            try:
                rows, self.versions[stored.directory] = stored.read(self.digest)
                return rows
            except (ShardfeedError, OSError):
                if not last:
                    raise
        raise AssertionError

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rows is not None and (not self.stored or self._rows.nbytes <= _MOST_PICKLED):
            return ShardTable, (self._rows,)
        return _unpickled, (self.stored, self.digest)

    @property
    def records(self) -> np.ndarray:
        """Number of records of each shard, int64 [shards]."""
        return self.rows["records"]

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each shard file, int64 [shards]."""
        return self.rows["bytes"]

    @property
    def index_sizes(self) -> np.ndarray:
        """Bytes of each index, int64 [shards]."""
        return self.rows["index_bytes"]

    @property
    def files(self) -> bytes:
        """Records, bytes and checksum of each shard file: 20 bytes, little-endian, the input of fingerprints."""
        return self.rows[list(_FILE.names or ())].astype(_FILE).tobytes()

    @property
    def digest(self) -> bytes:
        """A hash of the whole table, 16 bytes."""
        self._digest = self._digest or hashlib.blake2b(self.rows.tobytes(), digest_size=16).digest()
        return self._digest

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, index: slice) -> "ShardTable": ...
    def __getitem__(self, index: Any) -> "ShardInfo | ShardTable":
        return ShardTable(self.rows[index]) if isinstance(index, slice) else _info(self.rows[index].item())

    def __iter__(self) -> Iterator[ShardInfo]:
        return map(_info, self.rows.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardTable) and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __repr__(self) -> str:
        return f"ShardTable({len(self)} shards, {self.records.sum()} records)"


# Tables without rows that this process has received, so that those of a dataset are read once.
_received: WeakValueDictionary[tuple[bytes, tuple[str, ...]], ShardTable] = WeakValueDictionary()


def _unpickled(stored: tuple[StoredTable, ...], digest: bytes) -> ShardTable:
    key = digest, tuple(one.directory for one in stored)
    return _received.setdefault(key, ShardTable(None, stored, digest))


def _info(row: tuple[int, int, int, int, int]) -> ShardInfo:
    records, size, crc, index_size, index_crc = row
    return ShardInfo(records, FileInfo(size, crc), FileInfo(index_size, index_crc))
