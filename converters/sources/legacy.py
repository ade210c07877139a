"""Calls readers that still take a path and the old options; gone when all of them take a look."""

from typing import Any

from shardfeed.converters.sources.annotations.options import AnnotationOptions as OldAnnotationOptions
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, ColumnOptions


def old_options(look: Look, options: Any) -> Any:
    """The old options object with the same values."""
    if isinstance(options, ColumnOptions):
        label_map = None if options.label_map is None else str(options.label_map)
        return ContainerOptions(dict(options.columns), options.class_names, options.label_offset, label_map)
    assert isinstance(options, AnnotationOptions)
    names = ("images", "tasks", "boxes_on", "voc_origin", "class_names", "colours", "void", "delimiter", "encoding")
    return OldAnnotationOptions(
        **{name: getattr(options, name) for name in names},
        include=look.include,
        exclude=look.exclude,
        follow_links=look.follow_links,
    )
