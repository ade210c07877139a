"""The VGG Image Annotator: `via_region_data.json`, a saved project, or its CSV; regions by image."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from shardfeed.converters.sources.annotations.tools.documents import TASKS, add_shape, all_of, load
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, escape

_CLASS = ("class", "label", "name", "type", "category")  # attributes of a region, those that are preferred first


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the files name, with their rectangles, polygons, circles and ellipses.

    The class is the attribute of a region that is called class, label, name, type or category, or its only one.
    """
    found = Annotations(look.path, look, options, tasks=TASKS)
    for path, folder in all_of(look, "via"):
        split = usual_split(folder.rstrip("/").rpartition("/")[2]) if folder else None
        for name, number, shape, attributes in _rows(path) if path.endswith(".csv") else _regions(path):
            image = found.image(name, folder=folder, where=os.path.basename(path), split=split)
            if shape:
                _add(found, image, number, shape, attributes)
    return found.source()


def _regions(path: str) -> Iterator[tuple[str, int, Mapping[str, Any], Mapping[str, Any]]]:
    """Image, number, shape and attributes of each region; one without a shape of an image that has none."""
    document = load(path)
    images = document.get("_via_img_metadata", document) if isinstance(document, dict) else None
    if not isinstance(images, dict):
        raise LabelFileError(path, "no images with regions in it", "save it with VIA 2")
    for entry in images.values():
        if not isinstance(entry, dict) or not isinstance(entry.get("filename"), str):
            raise LabelFileError(path, "an entry has no filename", "save it with VIA 2")
        regions = entry.get("regions") or []
        yield entry["filename"], 0, {}, {}
        for number, region in enumerate(regions.values() if isinstance(regions, dict) else regions):
            shape, attributes = (region.get(f"{what}_attributes") or {} for what in ("shape", "region"))
            yield entry["filename"], number, shape or {"name": "nothing"}, attributes


def _rows(path: str) -> Iterator[tuple[str, int, Mapping[str, Any], Mapping[str, Any]]]:
    """The same of the CSV."""
    table = LabelTable(path, "csv", ",")
    records = iter(table)
    next(records, None)
    for record in records:
        cells = [str(cell) for cell in record.cells]
        try:
            shape, attributes = json.loads(cells[5]), json.loads(cells[6])
            number = int(cells[4])
        except (IndexError, ValueError, RecursionError):
            raise LabelFileError(table.place(record.line), "no region of VIA in the row", "export it again") from None
        yield cells[0], number, shape, attributes


def _add(found: Annotations, image: int, number: int, shape: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """One region."""
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
        found.leave_out(image, AnnotationCode.LINE, f"object {number}: a {escape(str(kind))}, which is not read")
        return
    add_shape(found, image, number, label, points, str(kind))
