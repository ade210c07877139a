"""Create ML: a JSON list of images with their boxes; centre and size in pixels. Roboflow writes one per split."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.documents import entries_of, objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import all_of
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import class_text, is_number
from shardfeed.converters.sources.rows.rows import ColumnarSource


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Read boxes with classes from every such file in the folder; image names are relative to its folder.

    Raises LabelFileError for an invalid file, UsageError if there is none.
    """
    found = Annotations(look.path, look, options, what="annotation")
    for path, folder in all_of(look, "createml"):
        for place, where, entry in entries_of(load(path), path):
            name, annotations = part(entry, "image", str, place), part(entry, "annotations", list, place)
            found.unread("images", entry, frozenset(("image", "annotations")))
            image = found.image(name, where=where, folder="" if options.images else folder, once=True, fields=entry)
            for n, one in objects_in(found, image, annotations):
                _add(found, image, n, one)
    if look.is_folder:
        found.take_rest("images without annotations, treated as images without objects")
    return found.source()


def _add(found: Annotations, image: int, n: int, one: Mapping[str, Any]) -> None:
    """One object; without coordinates it is listed."""
    found.unread("annotations", one, frozenset(("coordinates", "label")))
    place = one.get("coordinates")
    if not isinstance(place, Mapping) or not place:
        found.leave_out(image, AnnotationCode.BOX_EMPTY, f"annotation {n}: it has no coordinates")
        return
    numbers = [place.get(key) for key in ("x", "y", "width", "height")]
    if all(map(is_number, numbers)):
        x, y, wide, high = cast("list[float]", numbers)
        with suppress(OverflowError):  # an integer beyond all floats, which is refused later
            if all(map(math.isfinite, (x, y, wide, high))):
                numbers = [x - wide / 2, y - high / 2, x + wide / 2, y + high / 2]
    try:
        found.object(image, n, numbers, class_text(one.get("label")))
    except BadAnnotationError as error:
        found.leave_out(image, error.code, f"annotation {n}: {error.reason}")
