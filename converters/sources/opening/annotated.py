"""What has annotations: recognised by its content, or read as what it is said to be."""

import os
from collections.abc import Collection, Mapping
from typing import Any, get_args

from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.masks.pairs import may_have_masks
from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.annotations.recognise import (
    Evidence,
    almost,
    may_be_annotated,
    only_one,
    reader,
    recognise,
)
from shardfeed.converters.sources.files.listed_source import ListedSource
from shardfeed.converters.sources.opening.described import described
from shardfeed.converters.sources.opening.plain import Plain
from shardfeed.errors import UsageError, argument
from shardfeed.text import some


def annotation_options(
    tasks: Collection[Task], images: str | os.PathLike[str] | None, class_names: Any, **others: Any
) -> AnnotationOptions:
    """What was said of annotations. Raises UsageError for tasks that there are not."""
    wanted: Collection[Any] = (tasks,) if isinstance(tasks, str) else tasks
    unknown = [task for task in wanted if task not in get_args(Task)]
    if unknown:
        raise UsageError("tasks", f"got {unknown[0]!r}, expected some of {', '.join(get_args(Task))}")
    for name, values in (("boxes_on", ("upright", "stored")), ("voc_origin", (0, 1))):
        if others[name] not in (*values, None):
            raise UsageError(name, f"got {others[name]!r}, expected {values[0]!r} or {values[1]!r}")
    return AnnotationOptions(
        images=None if images is None else os.fsdecode(images),
        tasks=frozenset(wanted),
        class_names=None if isinstance(class_names, Mapping) else class_names,
        **others,
    )


def open_annotated(path: str, options: AnnotationOptions, name: str | None, plain: Plain) -> ListedSource:
    """What has annotations, where `path` has any; else the plain source. `name`: of the reader, where it was said."""
    if name in ("folder", "labels") or (name is None and plain.said):
        return _without_annotations(path, options, plain)
    if name is not None:
        module = reader(name)
        if plain.said:
            problem = f"{name} reads annotations, and {argument(plain.said[0])} is not about them"
            raise UsageError("reader", problem, "leave one of the two out")
        if not os.path.exists(path):
            raise UsageError(path, "no such file or folder", "check the path")
        return _told(module.read(path, options), f"read as {name}, as asked")
    is_file = os.path.isfile(path)
    # Names of classes may be those of folders that are called like another layout's.
    looked = is_file or (options.class_names is None and may_be_annotated(path)) or may_have_masks(path)
    found = recognise(path, options) if looked else []
    if fit := only_one(path, found):
        if not is_file and (classes := plain.classes()):
            only_one(path, [Evidence("folder", f"class folders ({some(classes)})"), fit])
        return _read(path, options, fit)
    try:
        return _without_annotations(path, options, plain)
    except UsageError:
        if not looked and os.path.isdir(path):
            found = recognise(path, options)
            if fit := only_one(path, found):
                return _read(path, options, fit)
        if near := almost(path, found):
            raise near from None
        raise


def _read(path: str, options: AnnotationOptions, fit: Evidence) -> AnnotatedSource:
    return _told(reader(fit.name).read(path, options), f"recognised as {fit.name}: {fit.found}")


def _told(source: AnnotatedSource, by: str) -> AnnotatedSource:
    return described(source, f"{by}; {source.described}" if source.described else by)


def _without_annotations(path: str, options: AnnotationOptions, plain: Plain) -> ListedSource:
    """The plain source. Raises UsageError for arguments that are about annotations."""
    source = plain.open()
    for name in ("tasks", "boxes_on", "voc_origin"):
        if getattr(options, name):
            problem = f"{argument(name)} is about annotations, and this is a source without"
            raise UsageError(path, problem, f"leave it out, or say what it is by {argument('reader', typed='NAME')}")
    return source
