"""Samples of blocks: arrays or databases of images, one after the other."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.rows import Rows
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Content
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
    blocks: Sequence[Block],
    rows: Rows,
    unlabelled: Mapping[int, str] | None = None,
    *,
    described: str = "",
    folder: object = None,
) -> ColumnarSource:
    """The source of all samples except `unlabelled` (index -> why it has no label). `rows`: of the labelled samples.

    `folder`: a temporary folder that must live as long as the source. Raises UsageError if no sample is left.
    """
    every = Blocks(blocks)
    for index, reason in (unlabelled or {}).items():
        rows.ledger.reject(every[index], RejectCode.NO_LABEL, reason)
    kept = np.delete(np.arange(len(every)), [*unlabelled]) if unlabelled else None
    keys = Blocks(blocks, kept)
    if not len(keys):
        first = next(iter(rows.ledger.rejected.values()), None)
        why = f", the first: {escape(first.key)}: {first.reason}" if first else ""
        problem = f"none of {number(len(every), 'sample')} can be used{why}"
        raise UsageError(rows.place, problem, "check its contents")
    if any(block.split is not None for block in blocks):
        of_block = np.arange(len(blocks)).repeat([*map(len, blocks)])
        rows.splits = Splits.coded([block.split for block in blocks], of_block if kept is None else of_block[kept])
    return rows.source(keys, BlockContents(keys), described=described, kept=folder)
