"""The source that all readers come to: keys, images and columns of samples by number."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits, sample_number, schema_of, values_at
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Content, Findings, RasterImage, Sample, SourceFile
from shardfeed.schema import Feature, Schema


class Keys(Protocol):
    """Names of samples by number; picklable. A `Listing` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Contents(Protocol):
    """Encoded files by number; picklable."""

    def __getitem__(self, index: int, /) -> Content: ...


class Rasters(Protocol):
    """The masks of images, each a class for each pixel; `raster`: the meaning of their values in records."""

    @property
    def raster(self) -> Raster: ...

    def of_image(self, image: int) -> RasterImage: ...


@dataclass(frozen=True, eq=False)
class ListedFiles:
    """The files of a listing, as contents."""

    listing: Listing

    def __getitem__(self, index: int, /) -> SourceFile:
        return self.listing.file(index)


@dataclass(frozen=True, eq=False)
class ColumnarSource:
    """A Source (see source.py) of samples by number.

    `numbers`: int64 [n], the source's own number of each image, for evaluation; None without. `described`: in words,
    what was taken for what. `kept`: what must live as long as the source, such as a temporary folder.
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
    kept: object = None

    @property
    def schema(self) -> Schema:
        """The features of the columns, of the objects and of the masks."""
        schema = schema_of(self.columns)
        schema = schema if self.objects is None else self.objects.joined(schema)
        if self.rasters is None:
            return schema
        features = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
        return replace(schema, features={**schema.features, **features}, raster=self.rasters.raster)

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


class ListedSource(ColumnarSource):
    """A `ColumnarSource` over the files of a listing; its samples are sorted by the bytes of their keys."""

    def __init__(
        self,
        listing: Listing,
        columns: Sequence[ListedColumn] = (),
        splits: Splits | None = None,
        findings: Findings | None = None,
        **more: object,
    ) -> None:
        found = Findings() if findings is None else findings
        super().__init__(listing, ListedFiles(listing), columns, splits, findings=found, **more)  # type: ignore[arg-type]

    @property
    def listing(self) -> Listing:
        """The files."""
        assert isinstance(self.keys, Listing)
        return self.keys

    @property
    def root(self) -> bytes:
        """The folder that keys are relative to: an absolute path."""
        return self.listing.root
