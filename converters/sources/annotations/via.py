"""The VGG Image Annotator: `via_region_data.json`, a saved project, or its CSV; regions by image."""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import TASKS, add_shape, all_of, choose_class, ellipse
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, escape
from shardfeed.split_words import usual_split
from shardfeed.text import some

_CLASS = ("class", "label", "name", "type", "category")  # attributes of a region, preferred ones first


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the files name, with their rectangles, polygons, ellipses and circles.

    The class is the attribute of a region that the user names, that is called class, label, name, type or category, or
    its only one; of a checkbox, the one option that is checked.
    """
    found = Annotations(look.path, look, options, tasks=TASKS)
    found.tells_unannotated = False
    regions: list[tuple[int, int, Any, Mapping[str, Any]]] = []
    for path, folder in all_of(look, "via"):
        split = usual_split(folder.rstrip("/").rpartition("/")[2]) if folder else None
        for name, entry in _of_rows(path) if path.lower().endswith(".csv") else _of_entries(path):
            image = found.image(name, folder=folder, where=os.path.basename(path), split=split)
            attributes = entry.get("file_attributes")
            found.unread("images", attributes if isinstance(attributes, dict) else {}, frozenset())
            for number, region in objects_in(found, image, entry.get("regions")):
                attributes = region.get("region_attributes")
                attributes = attributes if isinstance(attributes, dict) else {}
                regions.append((image, number, region.get("shape_attributes"), attributes))
    names = (key for _, _, _, attributes in regions for key, value in attributes.items() if _values(value))
    key = choose_class(look.path, options, "region attribute", names, _CLASS)
    for image, number, shape, attributes in regions:
        found.unread("regions", attributes, frozenset((key,)))
        classes = None if key is None else _values(attributes.get(key))
        if classes is not None and len(classes) > 1:
            reason = f"object {number}: got the classes {some(classes)} as {escape(key)}, expected one"
            found.leave_out(image, AnnotationCode.CATEGORY, reason)
        else:
            _add(found, image, number, shape, classes if classes is None else "".join(classes))
    return found.source()


def _values(value: Any) -> list[str]:
    """The values of an attribute: its text, or the options of a checkbox that are checked."""
    if isinstance(value, dict):
        return [option for option, checked in value.items() if checked is True]
    return [value.strip()] if isinstance(value, str) and value.strip() else []


def _of_entries(path: str) -> Iterator[tuple[str, Any]]:
    """Each image with its regions, by JSON."""
    document = load(path)
    images = document.get("_via_img_metadata", document) if isinstance(document, dict) else document
    for key, entry in part({"images": images}, "images", dict, path).items():
        yield part(entry, "filename", str, f"{path}, {escape(key)}"), entry


def _of_rows(path: str) -> Iterator[tuple[str, Any]]:
    """Each image with its regions, by CSV."""
    table, entries = LabelTable(path, "csv", ","), dict[str, dict[str, Any]]()
    for line, cells in islice(table.texts(), 1, None):
        try:
            of_file, shape, attributes = (json.loads(cells[i]) for i in (2, 5, 6))
        except (IndexError, ValueError, RecursionError):
            raise LabelFileError(table.place(line), "no VIA region in the row", "export it again") from None
        entry = entries.setdefault(cells[0], {"file_attributes": of_file, "regions": []})
        region = {"shape_attributes": shape, "region_attributes": attributes}
        entry["regions"] += [region] if shape != {} else []
    yield from entries.items()


def _add(found: Annotations, image: int, number: int, shape: Any, label: str | None) -> None:
    """One region."""
    shape = shape if isinstance(shape, dict) else {}
    kind = shape.get("name")
    try:
        if kind == "rect":
            box = corners_of([shape.get(name) for name in ("x", "y", "width", "height")])
            points, kind = [box[:2], box[2:]], "rectangle"
        elif kind == "circle":
            points, kind = ellipse([shape[side] for side in ("cx", "cy", "r", "r")]), "polygon"
        elif kind == "ellipse":
            sides = [shape[side] for side in ("cx", "cy", "rx", "ry")]
            points, kind = ellipse(sides, shape.get("theta") or 0.0), "polygon"
        else:
            points = [list(pair) for pair in zip(shape["all_points_x"], shape["all_points_y"], strict=True)]
            kind = "polygon" if kind in ("polygon", "polyline") and len(points) > 2 else kind
    except (KeyError, TypeError, ValueError):
        found.leave_out(image, AnnotationCode.LINE, f"object {number}: a {escape(str(kind))}, which is not supported")
        return
    add_shape(found, image, number, label, points, str(kind))
