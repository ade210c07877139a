"""Folders of images and of masks for them, each a class for each pixel."""

from typing import TYPE_CHECKING

from shardfeed.converters.sources.annotations.masks.pairs import may_have_masks
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.source import ColumnarSource

if TYPE_CHECKING:
    from shardfeed.converters.sources.reader import Evidence


def recognise(look: Look, options: AnnotationOptions) -> "Evidence | None":
    """As `reader` does, which is imported where a name is as of masks: most folders of images have none."""
    if not look.is_folder or (options.tasks and "rasters" not in options.tasks):
        return None
    if not (options.images or may_have_masks(look)):
        return None
    from shardfeed.converters.sources.annotations.masks import reader

    return reader.recognise(look, options)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """As `reader` does."""
    from shardfeed.converters.sources.annotations.masks import reader

    return reader.read(look, options)
