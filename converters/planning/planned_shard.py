"""Samples of each split in stored order, and their division into shards."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.planning.rows import STORED
from shardfeed.storage.local import Spill


class SplitMembers:
    """The samples of a split in stored order, on disk if there are many, and their counts."""

    def __init__(self, directory: str | None, classes: int) -> None:
        self.images = self.size = 0
        self.class_counts = np.zeros(classes, np.int64)
        self.own_id = False
        self._stored = Spill(directory)

    def add(self, rows: np.ndarray) -> None:
        """Add the next samples: rows as in rows.py."""
        labels, classes = rows["label"], len(self.class_counts)
        known = labels[(labels >= 0) & (labels < classes)]
        self.class_counts += np.bincount(known, minlength=classes)
        self.images += len(rows)
        self.size += int(rows["size"].sum())
        self.own_id |= bool(rows["own_id"].any())
        self._stored.append(rows["stored"].tobytes())

    def stored(self, start: int, count: int) -> np.ndarray:
        """`count` samples from position `start` on: STORED [count]."""
        width = STORED.itemsize
        return np.frombuffer(self._stored.read(start * width, count * width), STORED)


@dataclass(frozen=True, eq=False)
class PlannedShard:
    """Shard `number` of `count` of a split: the `size` samples from `start` on, of the samples planned for the split.

    `first` is the position of its first sample in the split, from 0, or after the existing records. Its samples are
    read from disk each time.
    """

    split: str
    number: int
    count: int
    first: int
    start: int
    size: int
    members: SplitMembers

    def __len__(self) -> int:
        return self.size

    @property
    def samples(self) -> np.ndarray:
        """Numbers of the source's samples in stored order, int64 [size]."""
        return self.members.stored(self.start, self.size)["number"]

    @property
    def states(self) -> bytes:
        """The states of these samples, as added to `Inputs`."""
        return self.members.stored(self.start, self.size)["state"].tobytes()


def share_out(rows: np.ndarray, split_of: np.ndarray, splits: Iterable[SplitMembers]) -> None:
    """Add each row to its split: `split_of`, int64 [rows], are indices into `splits`."""
    for number, split in enumerate(splits):
        split.add(rows[split_of == number])


def cut(name: str, split: SplitMembers, count: int, onto: AppendTarget | None) -> list[PlannedShard]:
    """`count` consecutive pieces with lengths that differ by one at most, longer ones first; after those of `onto`."""
    before, first = (0, 0) if onto is None else (onto.shards(name), onto.numbers.get(name, 0))
    size, longer = divmod(split.images, count)
    starts = [i * size + min(i, longer) for i in range(count + 1)]
    return [
        PlannedShard(name, before + i, before + count, first + start, start, end - start, split)
        for i, (start, end) in enumerate(pairwise(starts))
    ]
