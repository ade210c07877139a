"""Files of annotation tools."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from object_images import HEIGHT, WIDTH, put

from shardfeed.converters import AnnotationOptions
from tests.converters.sources.builders.builder import (
    SIDES,
    Builder,
    Files,
    corners,
    objects_of,
    put_images,
    put_texts,
    rows_of,
)


def _points(one: Mapping[str, Any]) -> list[list[float]] | None:
    """The corners of an object's outline, else two of its box; None without a box."""
    outline = one.get("outline") or corners(one)
    return None if one["bbox"] is None else [list(pair) for pair in zip(outline[::2], outline[1::2], strict=True)]


def _kind(one: Mapping[str, Any]) -> str:
    return "polygon" if "outline" in one else "rectangle"


def labelme(folder: Path, files: Files) -> None:
    """A JSON file beside each image."""

    def shape(one: Mapping[str, Any]) -> dict[str, Any]:
        return {"label": one["category"], "points": _points(one), "shape_type": _kind(one)}

    put_images(folder, files)
    for row in rows_of(files):
        document = {"flags": {}, "shapes": [*map(shape, objects_of(row))], "imagePath": f"{row['key']}.png"}
        put(folder / f"{row['key']}.json", json.dumps(document))


def via(folder: Path, files: Files) -> None:
    """Regions by image."""

    def region(one: Mapping[str, Any]) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "name": "rect",
            **dict(zip(("x", "y", "width", "height"), one["bbox"] or (), strict=False)),
        }
        if "outline" in one:
            shape = {"name": "polygon", "all_points_x": one["outline"][::2], "all_points_y": one["outline"][1::2]}
        attributes = {} if one["category"] is None else {"class": one["category"]}
        return {"shape_attributes": shape, "region_attributes": attributes}

    put_images(folder, files)
    entries = {
        row["key"]: {"filename": f"{row['key']}.png", "regions": [*map(region, objects_of(row))]}
        for row in rows_of(files)
    }
    put(folder / "via_region_data.json", json.dumps(entries))


def label_studio(folder: Path, files: Files) -> None:
    """Tasks with places in percent, or choices."""

    def result(one: Mapping[str, Any]) -> dict[str, Any]:
        kind = f"{_kind(one)}labels"
        sides = [100 * side / of for side, of in zip(one["bbox"] or (), SIDES, strict=False)]
        value = dict(zip(("x", "y", "width", "height"), sides, strict=False))
        if "outline" in one:
            value = {"points": [[100 * x / WIDTH, 100 * y / HEIGHT] for x, y in _points(one) or ()]}
        return {"type": kind, "value": {**value, kind: [one["category"]] if one["category"] else []}}

    put_images(folder / "images", files)
    tasks = []
    for row in rows_of(files):
        found = [*map(result, objects_of(row))]
        if choices := _classes(row):
            found.append({"type": "choices", "value": {"choices": choices}})
        tasks.append({"data": {"image": f"/data/{row['key']}.png"}, "annotations": [{"result": found}]})
    put(folder / "project.json", json.dumps(tasks))


def _classes(row: Mapping[str, Any]) -> Sequence[str]:
    """The classes of an image."""
    return row["tags"] if "tags" in row else [row["label"]] if row.get("label") is not None else []


def cvat(folder: Path, files: Files) -> None:
    """One XML file."""

    def shape(one: Mapping[str, Any]) -> str:
        label = f" label={quoteattr(one['category'])}" if one["category"] else ""
        if "outline" in one:
            points = ";".join(f"{x!r},{y!r}" for x, y in _points(one) or ())
            return f'<polygon{label} points="{points}"/>'
        box = 'xtl="{!r}" ytl="{!r}" xbr="{!r}" ybr="{!r}"'.format(*corners(one)) if one["bbox"] else ""
        return f"<box{label} {box}/>"

    put_images(folder / "images", files)
    images = [
        f'<image id="{n}" name="{row["key"]}.png">'
        f"{''.join(f'<tag label={quoteattr(name)}/>' for name in _classes(row))}"
        f"{''.join(map(shape, objects_of(row)))}</image>"
        for n, row in enumerate(rows_of(files))
    ]
    put(folder / "annotations.xml", f"<annotations><meta/>{''.join(images)}</annotations>")


def supervisely(folder: Path, files: Files) -> None:
    """A JSON file in `ann` for each image in `img`."""

    def text(row: Mapping[str, Any]) -> str:
        entries = [
            {"classTitle": one["category"], "geometryType": _kind(one), "points": {"exterior": _points(one)}}
            for one in objects_of(row)
        ]
        return json.dumps({"description": "", "size": {"width": WIDTH, "height": HEIGHT}, "objects": entries})

    put_images(folder / "ds0/img", files)
    put_texts(folder, files, "ds0/ann/{}.png.json", text)


def fiftyone(folder: Path, files: Files) -> None:
    """A list of samples, boxes in fractions."""

    def detection(one: Mapping[str, Any]) -> dict[str, Any]:
        box = one["bbox"] and [side / of for side, of in zip(one["bbox"], SIDES, strict=True)]
        return {"label": one["category"], "bounding_box": box}

    put_images(folder / "data", files)
    samples = []
    for row in rows_of(files):
        sample: dict[str, Any] = {"filepath": f"data/{row['key']}.png"}
        if "objects" in row:
            sample["truth"] = {"_cls": "Detections", "detections": [*map(detection, row["objects"])]}
        if "label" in row:
            sample["truth"] = {"_cls": "Classification", "label": row["label"]} if row["label"] is not None else None
        samples.append(sample)
    put(folder / "samples.json", json.dumps({"samples": samples}))


_SAYS = frozenset({"objects", "nan", "null", "missing", "class names"})
_LABELS = frozenset({"label", "encoded", "name", "none"})
BUILDERS = {
    "labelme": Builder(labelme, _SAYS | {"outline"}, kind=AnnotationOptions),
    "via": Builder(via, _SAYS | {"outline"}, kind=AnnotationOptions),
    "label-studio": Builder(
        label_studio, _SAYS | _LABELS | {"outline", "tags"}, fractions=True, kind=AnnotationOptions
    ),
    "cvat": Builder(cvat, _SAYS | {"outline", "tags"}, kind=AnnotationOptions),
    "supervisely": Builder(supervisely, _SAYS | {"outline"}, kind=AnnotationOptions),
    "fiftyone": Builder(fiftyone, _SAYS | _LABELS, fractions=True, kind=AnnotationOptions),
}
