"""Rows with a plan's data about each sample, 64 bytes on disk: added in source order, read in order of places.

Rows are written in runs, each sorted by place. A bucket is a range of places, small enough for memory: its rows lie
together in each run. So the order is the same for any number of buckets, and memory does not grow with the samples.
"""

import struct
from collections.abc import Iterator
from math import isqrt

import numpy as np

from shardfeed.storage.local import Spill

# A sample in stored order: its number in the source, and its state (see Inputs).
STORED = np.dtype([("number", "<i8"), ("state", [("digest", "V16"), ("mtimes", "V8")])])
_DRAWN = [("draw", "<u8"), ("place", "<u8")]
_KNOWN = [("size", "<i8"), ("label", "<i4"), ("split", "<i2"), ("own_id", "?"), ("", "V1")]
_ROW = np.dtype([*_DRAWN, ("stored", STORED), *_KNOWN])
_pack = struct.Struct("<16sq24sqih?x").pack
MOST_SPLITS = 1 << 15  # of a row's field
_LEAST_ROWS = 1 << 14  # of a run and of a bucket: 1 MB


class PlanRows:
    """The rows of `count` samples. An array of them has these fields.

    `draw` and `place`: the two numbers that a sample draws. `stored`: as in STORED. `size`: in bytes. `label`: the
    first label. `split`: number of the split that the source names, or -1. `own_id`: whether the source gives an id.
    """

    def __init__(self, count: int, directory: str | None, buckets: int | None = None) -> None:
        # Of 10^9 samples, runs and buckets have 32 MB each, and a bucket is read in pieces of 16 kB.
        self._run_rows = max(_LEAST_ROWS, 16 * isqrt(count))
        buckets = buckets or -(-count // self._run_rows)
        self._bounds = np.array([(bucket << 64) // buckets for bucket in range(1, buckets)], np.uint64)
        self._spill = Spill(directory)
        self._run = bytearray()
        self._cuts: list[np.ndarray] = []  # of each run: where each bucket begins and the last ends, int64

    def add(self, draws: bytes, number: int, state: bytes, size: int, label: int, split: int, own_id: bool) -> None:
        """Add the next sample; `number` counts from 0."""
        self._run += _pack(draws, number, state, size, label, split, own_id)
        if len(self._run) >= self._run_rows * _ROW.itemsize:
            self.end()

    def end(self) -> None:
        """Write the last run."""
        rows = _sorted(np.frombuffer(self._run, _ROW))
        begin = self._spill.size // _ROW.itemsize
        if len(rows):
            cuts = np.searchsorted(rows["place"], self._bounds)
            self._cuts.append(begin + np.concatenate([[0], cuts, [len(rows)]]))
            self._spill.append(rows.tobytes())
        self._run = bytearray()

    def _read(self, begin: int, end: int) -> np.ndarray:
        width = _ROW.itemsize
        return np.frombuffer(self._spill.read(begin * width, (end - begin) * width), _ROW)

    def by_number(self) -> Iterator[np.ndarray]:
        """All rows in the source's order, in blocks."""
        for cuts in self._cuts:
            rows = self._read(int(cuts[0]), int(cuts[-1]))
            yield rows[np.argsort(rows["stored"]["number"])]

    def by_place(self) -> Iterator[np.ndarray]:
        """All rows in the order of their places, equal places in the source's order; a bucket at a time."""
        for bucket in range(len(self._bounds) + 1):
            pieces = [self._read(*cuts[bucket : bucket + 2].tolist()) for cuts in self._cuts]
            yield _sorted(np.concatenate(pieces))

    def column(self, name: str) -> np.ndarray:
        """One field of all rows in the source's order, in memory."""
        return np.concatenate([rows[name].copy() for rows in self.by_number()])


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(rows["place"], kind="stable")]
