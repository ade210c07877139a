"""Supervisely: a folder of datasets, each with `img/` and `ann/IMAGE.json`, and `meta.json` with the classes."""

import os
from functools import partial

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import TASKS, add_pixels, add_shape, all_of, of_png
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import escape
from shardfeed.split_words import usual_split

_READ = ("rectangle", "polygon")
_DOCUMENT = frozenset(("size", "objects"))
_OBJECT = frozenset(
    ("id", "classId", "classTitle", "geometryType", "points", "bitmap", "labelerLogin", "createdAt", "updatedAt")
)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images next to the annotations, in `img`; datasets named like splits are splits."""
    found = Annotations(look.path, look, options, tasks=TASKS)
    found.tells_unannotated = False
    for path, folder in all_of(look, "supervisely"):
        document = load(path)
        entries = part(document, "objects", list, path)
        dataset = folder.removesuffix("ann/")
        split = usual_split(dataset.rstrip("/").rpartition("/")[2]) if dataset else None
        found.unread("images", document, _DOCUMENT)
        size = document.get("size")
        size = size if isinstance(size, dict) else {}
        name = os.path.basename(path).removesuffix(".json")
        where = f"{dataset}ann/{name}.json"
        sides = size.get("width"), size.get("height")
        image = found.image(
            name, folder=f"{dataset}img/", where=where, split=split, size=sides, once=True, fields=document
        )
        for number, entry in objects_in(found, image, entries):
            label, kind, points = entry.get("classTitle"), str(entry.get("geometryType")), entry.get("points")
            points = points if isinstance(points, dict) else {}
            found.unread("objects", entry, _OBJECT)
            bitmap = entry.get("bitmap")
            if kind == "bitmap" and isinstance(bitmap, dict):
                decode = partial(of_png, bitmap.get("data"), deflated=True)
                origin = bitmap.get("origin")
                corner = origin if isinstance(origin, list) and len(origin) == 2 else (None, None)
                add_pixels(found, image, number, "" if label is None else label, decode, corner)
            elif "exterior" in points or kind in _READ:
                label = "" if label is None else label
                add_shape(found, image, number, label, points.get("exterior"), kind, points.get("interior"))
            else:
                kind = escape(kind[:40])
                found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: a {kind}, which is not supported")
    return found.source()
