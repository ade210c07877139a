"""A split's shards as arrays, 32 bytes each, and the text of a manifest, whose lists of shards NumPy parses.

An object for each shard, and for each of its files, would take 1 KB. The text is canonical JSON that begins with its
own checksum. Each shard has eight lines in it: as the `json` module parses them, they would take 17 microseconds and
3 KB a shard.
"""

import hashlib
import json
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, overload
from weakref import WeakValueDictionary

import numpy as np

from shardfeed.errors import ShardfeedError
from shardfeed.formats.format import ShardInfo
from shardfeed.storage.checksum import crc32c, extend_crc32c
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


_HEAD = b'{\n "crc32c": "'  # the first of the sorted keys, so that the rest is serialised and hashed only once
_HEAD_BYTES = len(_HEAD) + 10  # with the checksum
_SPLITS, _SHARDS = b'\n "splits": {', b'\n   "shards": ['  # in canonical JSON, depth is indentation
_LINES, _BREAK = 8, ord("\n")  # of a shard: its braces, five numbers and the file's name, in alphabetical order
# Bytes and shards that are looked at together: copies and results take little memory, and stay in the cache.
_PIECE_BYTES, _TOGETHER = 1 << 20, 8192
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[[*b"0123456789abcdef"]] = range(16)


def manifest_text(content: Mapping[str, Any]) -> bytes:
    """Return the only valid bytes of a manifest with this content."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n"
    rest = text.encode()[1:]
    return _head(rest) + rest


def checksum_problem(data: bytes) -> str:
    """Describe what is wrong with a manifest's bytes, according to their checksum; "" if nothing is."""
    if not data.startswith(_HEAD):
        return "not a manifest: it does not begin with a checksum"
    same = data[:_HEAD_BYTES] == _head(data, _HEAD_BYTES)
    return "" if same else "changed since it was written: its checksum does not match"


def _head(data: bytes, start: int = 0) -> bytes:
    """The first bytes of a manifest: the checksum of the remaining bytes, `data[start:]` after an opening brace."""
    crc = crc32c(b"{")
    for at in range(start, len(data), _PIECE_BYTES):  # `google_crc32c` takes bytes alone
        crc = extend_crc32c(crc, data[at : at + _PIECE_BYTES])
    return _HEAD + b'%08x",' % crc


def take_shards(data: bytes) -> tuple[bytes, list[ShardTable]]:
    """Return a manifest's JSON with empty lists of shards, and the shards of each split, in order. Raises ValueError.

    Names of files are not compared: they are a function of the split.
    """
    rest, tables, end = list[bytes](), list[ShardTable](), 0
    found = data.find(_SHARDS, data.find(_SPLITS))
    while found >= 0:
        start = found + len(_SHARDS)
        rest.append(data[end:start])
        end = data.index(b"]", start)
        tables.append(_parsed(np.frombuffer(data, np.uint8, end - start, start)))
        found = data.find(_SHARDS, end)
    return b"".join([*rest, data[end:]]), tables


def _parsed(text: np.ndarray) -> ShardTable:
    """The shards in a list without its brackets; `text`: uint8 [bytes]. Raises ValueError."""
    pieces = range(0, max(1, len(text)), _PIECE_BYTES)
    breaks = np.concatenate([at + np.flatnonzero(text[at : at + _PIECE_BYTES] == _BREAK) for at in pieces])
    if len(breaks) % _LINES != (len(breaks) > 0):  # one more at the end
        raise ValueError(f"got {len(breaks)} lines of shards, expected {_LINES} per shard")
    breaks = breaks[:-1].reshape(-1, _LINES)
    rows = np.empty(len(breaks), ROW)
    for first in range(0, len(breaks), _TOGETHER):
        part = slice(first, first + _TOGETHER)
        for numbers in (_COUNTS, _CRCS):
            found = numbers.parse(text, breaks[part])
            for column, name in enumerate(numbers.names):
                rows[name][part] = found[:, column]
    return ShardTable(rows)


class _Numbers:
    """Numbers of each shard of the same base: `names[i]` is in line `lines[i]` of a shard, within these margins."""

    def __init__(self, base: int, most: int, quote: int, lines: dict[str, int]) -> None:
        self.names, self._base, self._most = tuple(lines), base, most
        self._lines = np.array([*lines.values()])
        self._left = np.array([len(f'\n     "{name}": ') + quote for name in lines])
        self._right = np.array([quote + (name != "records") for name in lines])  # a comma after all but the last

    def parse(self, text: np.ndarray, breaks: np.ndarray) -> np.ndarray:
        """The numbers, int64 [shards, names]; `breaks`: int64 [shards, lines], before each line. Raises ValueError."""
        starts, ends = breaks[:, self._lines] + self._left, breaks[:, self._lines + 1] - self._right
        sizes = ends - starts
        width = int(sizes.max())
        if width > self._most or sizes.min() < 1:
            raise ValueError(f"a shard's number has {width} digits, expected 1 to {self._most}")
        at = ends[..., None] - np.arange(width, 0, -1)
        digits = _DIGITS[text[at]]
        digits[at < starts[..., None]] = 0
        if digits.max() >= self._base:
            raise ValueError("a shard's number has other characters than digits")
        return digits @ self._base ** np.arange(width - 1, -1, -1)


_COUNTS = _Numbers(10, 18, 0, {"records": 6, "bytes": 1, "index_bytes": 4})  # 18 digits fit into int64
_CRCS = _Numbers(16, 8, 1, {"crc32c": 2, "index_crc32c": 5})
