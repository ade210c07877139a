"""Samples of several arrays or databases, one after the other: names and images are made when they are asked for."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Content, Findings, Skipped
from shardfeed.errors import UsageError, escape
from shardfeed.text import number


class Block(Protocol):
    """The images of one array or database, by number; picklable. `split`: of all of them."""

    @property
    def split(self) -> str | None: ...

    def __len__(self) -> int: ...

    def key(self, index: int, /) -> bytes: ...

    def content(self, index: int, /) -> Content: ...


@dataclass(frozen=True, eq=False)
class Blocks:
    """The keys of the samples of `blocks`; `kept`: int64 [n], the places of those that are taken; None: all are."""

    blocks: Sequence[Block]
    kept: np.ndarray | None = None

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.blocks)))

    def __len__(self) -> int:
        return self._ends[-1] if self.kept is None else len(self.kept)

    def find(self, index: int) -> tuple[Block, int]:
        """The block of a sample, 0 or more, and its place in it."""
        index = index if self.kept is None else self.kept.item(index)
        block = bisect_right(self._ends, index) if len(self.blocks) > 1 else 0
        return self.blocks[block], index - (self._ends[block - 1] if block else 0)

    def __getitem__(self, index: int, /) -> bytes:
        block, place = self.find(index)
        return block.key(place)


@dataclass(frozen=True)
class BlockContents:
    """The images of blocks."""

    of: Blocks

    def __getitem__(self, index: int, /) -> Content:
        block, place = self.of.find(index)
        return block.content(place)


def block_source(
    place: str,
    blocks: Sequence[Block],
    columns: Sequence[ListedColumn] = (),
    unlabelled: Mapping[int, str] | None = None,
    *,
    rejected: Sequence[Skipped] = (),
    notes: Sequence[str] = (),
    described: str = "",
    folder: object = None,
) -> ColumnarSource:
    """The source of all samples but the `unlabelled`: place among all -> why it has no label. `columns`: of the others.

    `folder`: a temporary one that must live as long as the source.
    Raises UsageError where no sample is left.
    """
    every = Blocks(blocks)
    listed = [Skipped(every[i], RejectCode.NO_LABEL.value, reason) for i, reason in (unlabelled or {}).items()]
    kept = np.delete(np.arange(len(every)), [*unlabelled]) if unlabelled else None
    keys = Blocks(blocks, kept)
    if not len(keys):
        first = f", the first: {escape(listed[0].key)}: {listed[0].reason}" if listed else ""
        raise UsageError(place, f"none of {number(len(every), 'sample')} can be taken{first}", "check what it holds")
    names = sorted({block.split for block in blocks}, key=lambda name: (name is None, name or ""))
    splits = None
    if names != [None]:
        numbers = np.array([names.index(block.split) for block in blocks], np.int8).repeat([*map(len, blocks)])
        splits = Splits(tuple(names), numbers if kept is None else numbers[kept])
    findings = Findings(sorted([*listed, *rejected], key=lambda skipped: skipped.key), list(notes))
    return ColumnarSource(
        keys, BlockContents(keys), columns, splits, findings=findings, described=described, kept=folder
    )
