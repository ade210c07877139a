"""Folders of images and of masks for them."""

from typing import TYPE_CHECKING

from shardfeed.converters.sources.annotations.masks.pairs import may_have_masks
from shardfeed.converters.sources.annotations.options import AnnotationOptions

if TYPE_CHECKING:
    from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
    from shardfeed.converters.sources.reader import Evidence


def recognise(path: str, options: AnnotationOptions) -> "Evidence | None":
    """As of `reader`, which is imported where a name is as of masks: most folders of images have none."""
    if not (options.images or may_have_masks(path)):
        return None
    from shardfeed.converters.sources.annotations.masks import reader

    return reader.recognise(path, options)


def read(path: str, options: AnnotationOptions) -> "AnnotatedSource":
    """As of `reader`."""
    from shardfeed.converters.sources.annotations.masks import reader

    return reader.read(path, options)
