"""A source of samples that are parts of larger files, in about 40 bytes and a key's length each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shardfeed.converters.sources.annotations.annotated_source import Rasters, annotated
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.containers.part import FilePart
from shardfeed.converters.sources.files.listed_source import (
    ListedColumn,
    Splits,
    sample_number,
    schema_of,
    values_at,
)
from shardfeed.converters.sources.source import Content, Findings, Sample, SourceFile
from shardfeed.schema import Schema


class Keys(Protocol):
    """What samples are called, by number; picklable."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Contents(Protocol):
    """Encoded files by number; picklable."""

    def __getitem__(self, index: int, /) -> Content: ...


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of `files`: `numbers` int32 [n] says of which one, `offsets` and `sizes` int64 [n] where, in bytes."""

    files: Sequence[SourceFile]
    numbers: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    def __getitem__(self, index: int, /) -> FilePart:
        file = self.files[self.numbers.item(index)]
        offset, size = self.offsets.item(index), self.sizes.item(index)
        return FilePart(file.path, offset, size, file.size, file.mtime_ns)


@dataclass(frozen=True, eq=False)
class PartSource:
    """A Source (see source.py) in the order of its files. `described`: in words, what was taken for what.

    `numbers`: int64 [n], the source's own number of each image, for evaluation; None without.
    """

    keys: Keys
    images: Contents
    columns: Sequence[ListedColumn] = ()
    splits: Splits | None = None
    objects: ObjectTable | None = None
    rasters: Rasters | None = None
    numbers: np.ndarray | None = None
    findings: Findings = field(default_factory=Findings)
    described: str = ""

    @property
    def schema(self) -> Schema:
        """The features of the columns, of the objects and of the masks."""
        return annotated(schema_of(self.columns), self.objects, self.rasters)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int, /) -> Sample:
        index = sample_number(index, len(self))
        return Sample(
            self.keys[index],
            self.images[index],
            values_at(self.columns, index),
            self.splits.names[self.splits.numbers.item(index)] if self.splits else None,
            None if self.objects is None else self.objects.of_image(index),
            None if self.numbers is None else self.numbers.item(index),
            None if self.rasters is None else self.rasters.of_image(index),
        )
