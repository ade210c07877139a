"""What sources with annotations have in common: images, whole-image columns, a table of objects, rasters."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.files.listed_source import ListedColumn, ListedSource, Splits
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.source import Findings, RasterImage, Sample
from shardfeed.schema import Feature, Schema


class Rasters(Protocol):
    """The masks of images, each a class a pixel; `raster`: what their values mean in records."""

    @property
    def raster(self) -> Raster: ...

    def of_image(self, image: int) -> RasterImage: ...


class AnnotatedSource(ListedSource):
    """A source of listed images and their objects; image i of `objects` and `rasters` is file i of `listing`.

    `numbers`: int64 [n], the source's own number of each image, for evaluation; None without. `described`: in words,
    what it was recognised by, for the user.
    """

    def __init__(
        self,
        listing: Listing,
        objects: ObjectTable | None,
        *,
        rasters: Rasters | None = None,
        columns: Sequence[ListedColumn] = (),
        splits: Splits | None = None,
        findings: Findings | None = None,
        numbers: np.ndarray | None = None,
        described: str = "",
    ) -> None:
        super().__init__(listing, columns, splits, findings or Findings())
        # The dataclass below is frozen, so that samples cannot change under a running conversion.
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "rasters", rasters)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "described", described)

    objects: ObjectTable | None
    rasters: Rasters | None
    numbers: np.ndarray | None
    described: str

    @property
    def schema(self) -> Schema:
        """The features of the whole-image columns, of the objects and of the rasters."""
        schema = super().schema
        schema = schema if self.objects is None else self.objects.joined(schema)
        return schema if self.rasters is None else with_raster(schema, self.rasters.raster)

    def __getitem__(self, index: int, /) -> Sample:
        sample = super().__getitem__(index)
        index = operator.index(index) % len(self)
        objects = None if self.objects is None else self.objects.of_image(index)
        number = None if self.numbers is None else self.numbers.item(index)
        raster = None if self.rasters is None else self.rasters.of_image(index)
        return Sample(sample.key, sample.image, sample.features, sample.split, objects, number, raster)


def with_raster(schema: Schema, raster: Raster) -> Schema:
    """`schema`, and a raster of each image."""
    features = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
    return replace(schema, features={**schema.features, **features}, raster=raster)
