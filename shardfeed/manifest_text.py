"""The text of a manifest: canonical JSON that begins with its own checksum, and its lists of shards, parsed by NumPy.

Each shard has eight lines. An object for each of them, as the `json` module makes it, would take 17 microseconds and
3 KB a shard.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardfeed.shard_table import ROW, ShardTable
from shardfeed.storage.checksum import crc32c, extend_crc32c

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
