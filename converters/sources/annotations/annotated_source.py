"""What sources with annotations have in common: images, whole-image columns, a table of objects, rasters."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from shardfeed.annotations import RASTER, RASTER_FORMAT, Raster
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.files.listed_source import ListedColumn, ListedSource
from shardfeed.converters.sources.source import RasterImage, Sample
from shardfeed.schema import Feature, Schema


class Rasters(Protocol):
    """The masks of images, each a class a pixel; `raster`: what their values mean in records."""

    @property
    def raster(self) -> Raster: ...

    def of_image(self, image: int) -> RasterImage: ...


@dataclass(frozen=True, eq=False)
class AnnotatedSource(ListedSource):
    """A source of listed images and their objects; image i of `objects` and `rasters` is file i of `listing`.

    `numbers`: int64 [n], the source's own number of each image, for evaluation; None without. `described`: in words,
    what it was recognised by, for the user.
    """

    columns: Sequence[ListedColumn] = ()
    objects: ObjectTable | None = field(default=None, kw_only=True)
    rasters: Rasters | None = field(default=None, kw_only=True)
    numbers: np.ndarray | None = field(default=None, kw_only=True)
    described: str = field(default="", kw_only=True)

    @property
    def schema(self) -> Schema:
        """The features of the whole-image columns, of the objects and of the rasters."""
        return annotated(super().schema, self.objects, self.rasters)

    def __getitem__(self, index: int, /) -> Sample:
        sample = super().__getitem__(index)
        index = operator.index(index) % len(self)
        objects = None if self.objects is None else self.objects.of_image(index)
        number = None if self.numbers is None else self.numbers.item(index)
        raster = None if self.rasters is None else self.rasters.of_image(index)
        return Sample(sample.key, sample.image, sample.features, sample.split, objects, number, raster)


def annotated(schema: Schema, objects: ObjectTable | None, rasters: Rasters | None) -> Schema:
    """`schema`, and what is in each image."""
    schema = schema if objects is None else objects.joined(schema)
    if rasters is None:
        return schema
    features = {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
    return replace(schema, features={**schema.features, **features}, raster=rasters.raster)
