"""The VGG Image Annotator: `via_region_data.json`, a saved project, or its CSV; regions by image."""

import json
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from shardfeed.converters.sources.annotations.tools.documents import TASKS, add_shape, all_of, load, objects_in, part
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, escape

_CLASS = ("class", "label", "name", "type", "category")  # attributes of a region, preferred ones first


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the files name, with their rectangles, polygons and circles.

    The class is the attribute of a region that is called class, label, name, type or category, or its only one.
    """
    found = Annotations(look.path, look, options, tasks=TASKS)
    for path, folder in all_of(look, "via"):
        split = usual_split(folder.rstrip("/").rpartition("/")[2]) if folder else None
        for name, regions in _of_rows(path) if path.lower().endswith(".csv") else _of_entries(path):
            image = found.image(name, folder=folder, where=os.path.basename(path), split=split)
            for number, region in objects_in(found, image, regions):
                _add(found, image, number, region.get("shape_attributes"), region.get("region_attributes"))
    return found.source()


def _of_entries(path: str) -> Iterator[tuple[str, Any]]:
    """Each image with its regions, by JSON."""
    document = load(path)
    images = (
        document["_via_img_metadata"] if isinstance(document, dict) and "_via_img_metadata" in document else document
    )
    for key, entry in part({"images": images}, "images", dict, path).items():
        yield part(entry, "filename", str, f"{path}, {escape(key)}"), entry.get("regions")


def _of_rows(path: str) -> Iterator[tuple[str, Any]]:
    """Each image with its regions, by CSV."""
    table, regions = LabelTable(path, "csv", ","), dict[str, list[Any]]()
    for line, cells in islice(table.texts(), 1, None):
        try:
            shape, attributes = json.loads(cells[5]), json.loads(cells[6])
        except (IndexError, ValueError, RecursionError):
            raise LabelFileError(table.place(line), "no VIA region in the row", "export it again") from None
        of_image = regions.setdefault(cells[0], [])
        of_image += [{"shape_attributes": shape, "region_attributes": attributes}] if shape != {} else []
    yield from regions.items()


def _add(found: Annotations, image: int, number: int, shape: Any, attributes: Any) -> None:
    """One region."""
    shape, attributes = (value if isinstance(value, dict) else {} for value in (shape, attributes))
    texts = {key: value for key, value in attributes.items() if isinstance(value, str)}
    key = next((key for key in _CLASS if key in texts), next(iter(texts), None) if len(texts) == 1 else None)
    label = None if key is None else texts[key].strip()
    kind = shape.get("name")
    try:
        if kind == "rect":
            box = corners_of([shape.get(name) for name in ("x", "y", "width", "height")])
            points, kind = [box[:2], box[2:]], "rectangle"
        elif kind == "circle":
            points = [[shape["cx"], shape["cy"]], [shape["cx"] + shape["r"], shape["cy"]]]
        else:
            points = [list(pair) for pair in zip(shape["all_points_x"], shape["all_points_y"], strict=True)]
            kind = "polygon" if kind in ("polygon", "polyline") and len(points) > 2 else kind
    except (KeyError, TypeError, ValueError):
        found.leave_out(image, AnnotationCode.LINE, f"object {number}: a {escape(str(kind))}, which is not supported")
        return
    add_shape(found, image, number, label, points, str(kind))
