"""A split's shards as arrays: 32 bytes each. An object for each shard, and for each of its files, would take 1 KB."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from shardfeed.formats.format import ShardInfo
from shardfeed.storage.storage import FileInfo

ROW = np.dtype(
    [("records", "<i8"), ("bytes", "<i8"), ("crc32c", "<u4"), ("index_bytes", "<i8"), ("index_crc32c", "<u4")]
)
_FILE = np.dtype([("records", "<i8"), ("bytes", "<i8"), ("crc32c", "<u4")])


class ShardTable(Sequence[ShardInfo]):
    """Shards in order: `table[i]` is a `ShardInfo`, and the properties are arrays of all shards.

    `rows`: a structured array [shards], read-only.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        rows.flags.writeable = False

    @classmethod
    def of(cls, shards: Iterable[ShardInfo]) -> "ShardTable":
        """The table of these shards."""
        rows = [(s.records, s.data.size, s.data.crc32c, s.index.size, s.index.crc32c) for s in shards]
        return cls(np.array(rows, ROW))

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
        """Records, bytes and checksum of each shard file: 20 bytes, little-endian, which fingerprints are made of."""
        return self.rows[list(_FILE.names or ())].astype(_FILE).tobytes()

    @property
    def digest(self) -> bytes:
        """A hash of the whole table, 16 bytes."""
        return hashlib.blake2b(self.rows.tobytes(), digest_size=16).digest()

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


def _info(row: tuple[int, int, int, int, int]) -> ShardInfo:
    records, size, crc, index_size, index_crc = row
    return ShardInfo(records, FileInfo(size, crc), FileInfo(index_size, index_crc))
