"""A source of images that lie in several arrays or databases, one behind the other."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from shardfeed.converters.sources.rows.columns import ListedColumn, sample_number, schema_of, values_at
from shardfeed.converters.sources.source import Content, Findings, Sample
from shardfeed.schema import Schema


class Block(Protocol):
    """The images of one array or database, by number; picklable. `split`: of all of them."""

    @property
    def split(self) -> str | None: ...

    def __len__(self) -> int: ...

    def key(self, index: int, /) -> bytes: ...

    def content(self, index: int, /) -> Content: ...


@dataclass(frozen=True, eq=False)
class BlockSource:
    """A Source (see source.py): the images of `blocks`, in order. `columns`: labels of all samples.

    `described`: in words, what was taken for what.
    """

    blocks: Sequence[Block]
    columns: Sequence[ListedColumn] = ()
    findings: Findings = field(default_factory=Findings)
    described: str = ""

    @property
    def schema(self) -> Schema:
        """The label features, and the class names."""
        return schema_of(self.columns)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.blocks)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self))
        number = bisect_right(self._ends, index)
        block = self.blocks[number]
        place = index - (self._ends[number - 1] if number else 0)
        return Sample(block.key(place), block.content(place), values_at(self.columns, index), block.split)
