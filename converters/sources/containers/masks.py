"""Masks that are parts of larger files, each beside its image."""

from collections.abc import Callable
from dataclasses import dataclass

from shardfeed.annotations import Raster
from shardfeed.converters.sources.annotations.masks.layouts import Layout
from shardfeed.converters.sources.annotations.masks.meaning import Seen, meaning_of
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.objects import MaskTable
from shardfeed.converters.sources.rows.source import Contents
from shardfeed.converters.sources.source import RasterImage


@dataclass(frozen=True, eq=False)
class PartMasks:
    """The masks of all images, and what their values mean in records."""

    raster: Raster
    table: MaskTable
    contents: Contents

    def of_image(self, image: int) -> RasterImage:
        """The mask of one image."""
        return RasterImage(self.contents[image], self.table)


def read_masks(
    place: str, contents: Contents, count: int, class_names: ClassList | None, name: Callable[[int], str]
) -> tuple[PartMasks, tuple[str, ...]]:
    """The masks of `count` images, and notes. Some are read, to learn what is in them; `name`: what a sample is called.

    Raises UsageError where nothing says what their values mean.
    """
    options = AnnotationOptions(class_names=class_names)
    seen = Seen.of_contents(count, lambda i: (name(i), contents[i]))
    meaning = meaning_of(place.encode("utf-8", "surrogateescape"), Layout(), None, seen, options)
    return PartMasks(meaning.raster, meaning.table, contents), meaning.notes
