"""Annotations beside images."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from object_images import encoded, put

from shardfeed.converters import AnnotationOptions, LabelOptions
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

_CLASSES = ["cat", "dog", "owl"]  # a format that lists its classes lists the first two


def yolo(folder: Path, files: Files) -> None:
    """Centres and sizes in fractions."""

    def line(one: Mapping[str, Any]) -> str:
        left, top, right, bottom = (side / of for side, of in zip(corners(one), SIDES, strict=True))
        if not one["bbox"]:
            return f"{_CLASSES.index(one['category'])}\n"
        numbers = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
        return f"{_CLASSES.index(one['category'])} {' '.join(map(repr, numbers))}\n"

    put_images(folder / "images", files)
    put_texts(folder, files, "labels/{}.txt", lambda row: "".join(map(line, objects_of(row))))
    put(folder / "data.yaml", "train: images\nnames: [cat, dog]\n")


def voc(folder: Path, files: Files) -> None:
    """An XML file beside each image."""

    def text(one: Mapping[str, Any]) -> str:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), corners(one), strict=True)
        box = "".join(f"<{side}>{value!r}</{side}>" for side, value in sides) if one["bbox"] else ""
        return f"<object><name>{one['category'] or ''}</name>{f'<bndbox>{box}</bndbox>' if box else ''}</object>"

    put_images(folder, files)
    put_texts(folder, files, "{}.xml", lambda row: f"<annotation>{''.join(map(text, objects_of(row)))}</annotation>")


def kitti(folder: Path, files: Files) -> None:
    """Lines of 15 columns."""

    def line(one: Mapping[str, Any]) -> str:
        return f"{one['category']} 0.0 0 -1.5 {' '.join(map(repr, corners(one)))} 1.6 1.7 3.6 -0.6 1.7 46.7 -1.5\n"

    put_images(folder / "image_2", files)
    put_texts(folder, files, "label_2/{}.txt", lambda row: "".join(map(line, objects_of(row))))


def dota(folder: Path, files: Files) -> None:
    """Lines of four corners: of an upright box, since rules are about those."""

    def line(one: Mapping[str, Any]) -> str:
        left, top, right, bottom = map(repr, corners(one))
        return f"{left} {top} {right} {top} {right} {bottom} {left} {bottom} {one['category']} 0\n"

    put_images(folder / "images", files)
    put_texts(folder, files, "labelTxt/{}.txt", lambda row: "".join(map(line, objects_of(row))))


def createml(folder: Path, files: Files) -> None:
    """A JSON file with centres and sizes."""

    def annotation(one: Mapping[str, Any]) -> dict[str, Any]:
        left, top, width, height = one["bbox"] or [None] * 4
        place = {"x": left + width / 2, "y": top + height / 2, "width": width, "height": height} if one["bbox"] else {}
        return {"label": one["category"], "coordinates": place}

    put_images(folder, files)
    rows = rows_of(files)
    entries = [{"image": f"{r['key']}.png", "annotations": [*map(annotation, objects_of(r))]} for r in rows]
    put(folder / "_annotations.createml.json", json.dumps(entries))


def imagefolder(folder: Path, files: Files) -> None:
    """One metadata.jsonl."""
    put_images(folder, files)
    rows = rows_of(files)
    said = [{key: value for key, value in row.items() if key not in ("image", "key")} for row in rows]
    lines = [{"file_name": f"{r['key']}.png", **more} for r, more in zip(rows, said, strict=True)]
    put(folder / "metadata.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))


def boxes_csv(folder: Path, files: Files) -> None:
    """A row for each object, and one without coordinates for an image without."""
    put_images(folder, files)
    lines = ["image,xmin,ymin,xmax,ymax,class"]
    for row in rows_of(files):
        for one in objects_of(row):
            sides = map(repr, corners(one)) if one["bbox"] else ["nan", "1", "2", "3"]
            lines.append(f"{row['key']}.png,{','.join(sides)},{one['category'] or ''}")
        if not row.get("objects"):
            lines.append(f"{row['key']}.png,,,,,")
    put(folder / "_annotations.csv", "\n".join(lines) + "\n")


def coco(folder: Path, files: Files) -> None:
    """A JSON file of instances, or, where a row has a caption, of captions."""
    rows = rows_of(files)
    put_images(folder / "images", files)
    categories = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
    ids = {"dog": 7, "cat": 3, "owl": 99}
    annotations: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        for one in objects_of(row):
            own = {key: value for key, value in one.items() if key != "category"}
            annotations.append({**own, "image_id": i, "category_id": ids.get(one["category"])})
        if "caption" in row:
            annotations.append({"image_id": i, "caption": row["caption"]})
    images = [{"id": i, "file_name": f"{row['key']}.png", "width": 60, "height": 40} for i, row in enumerate(rows)]
    whole = {"annotations": annotations, "images": images, "categories": categories}
    put(folder / "annotations" / "all.json", json.dumps(whole))


def _table(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def labels(folder: Path, files: Files) -> None:
    """A CSV of paths, and a column for each kind of value."""
    put_images(folder, files)
    rows = rows_of(files)
    columns = {"label": "label", "number": "size"}
    named = [(ours, theirs) for ours, theirs in columns.items() if any(ours in row for row in rows)]
    lines = [[f"{row['key']}.png", *(row.get(ours) for ours, _ in named)] for row in rows]
    _table(folder / "labels.csv", [["path", *(theirs for _, theirs in named)], *lines])


def classes_csv(folder: Path, files: Files) -> None:
    """Roboflow's, a column for each class."""
    put_images(folder, files)
    said = [(row["key"], row["tags"] if "tags" in row else [row["label"]]) for row in rows_of(files)]
    lines = [[f"{key}.png", *(int(name in tags) for name in _CLASSES[:2])] for key, tags in said]
    _table(folder / "_classes.csv", [["filename", *_CLASSES[:2]], *lines])


def caption_files(folder: Path, files: Files) -> None:
    """A text file next to each image."""
    put_images(folder, files)
    put_texts(folder, files, "{}.txt", lambda row: f"{row['caption']}\n")


def sagemaker(folder: Path, files: Files) -> None:
    """A manifest of boxes, with classes by number."""

    def annotation(one: Mapping[str, Any]) -> dict[str, Any]:
        sides = dict(zip(("left", "top", "width", "height"), one["bbox"] or [None] * 4, strict=True))
        return {"class_id": _CLASSES.index(one["category"]) if one["category"] in _CLASSES else None, **sides}

    put_images(folder, files)
    about = {"class-map": {str(i): name for i, name in enumerate(_CLASSES)}, "type": "groundtruth/object-detection"}
    lines = [
        {
            "source-ref": f"s3://bucket/photos/{row['key']}.png",
            "boxes": {"annotations": [*map(annotation, objects_of(row))]},
            "boxes-metadata": about,
        }
        for row in rows_of(files)
    ]
    put(folder / "output.manifest", "".join(f"{json.dumps(line)}\n" for line in lines))


def captions(folder: Path, files: Files) -> None:
    """Flickr8k's token file."""
    put_images(folder, files)
    lines = [f"{row['key']}.png#0\t{row['caption']}\n" for row in rows_of(files)]
    put(folder / "captions.token", "".join(lines))


def split_lists(folder: Path, files: Files) -> None:
    """Food-101's: images by class, and a list of each split; the second file is of tests."""
    for row in rows_of(files):
        if row["image"] is not None:
            put(folder / "images" / str(row["label"]) / f"{row['key']}.png", row["image"])
    for name, rows in zip(("train", "test"), [*files.values(), []], strict=False):
        put(folder / f"meta/{name}.txt", "".join(f"{row['label']}/{row['key']}\n" for row in rows))


def class_folders(folder: Path, files: Files) -> None:
    """A folder for each class; an image without one lies beside them."""
    for row in rows_of(files):
        put(folder / ("" if row.get("label") is None else str(row["label"])) / f"{row['key']}.png", row["image"])


def masks(folder: Path, files: Files) -> None:
    """Folders of images and of masks; of those that have colours a table."""
    put_images(folder / "images", files)
    for row in rows_of(files):
        if row.get("mask") is not None:
            put(folder / "masks" / f"{row['key']}.png", encoded(row["mask"]))
            if row["mask"].ndim == 3:
                put(folder / "classes.csv", "name,r,g,b\nbackground,0,0,0\ncat,1,1,1\ndog,2,2,2\n")


_OBJECTS = frozenset({"objects", "nan"})
_LABELS = frozenset({"label", "encoded", "name", "none", "unlabelled", "class names"})
BUILDERS = {
    "yolo": Builder(yolo, frozenset({"objects", "listed", "orphan"}), fractions=True, kind=AnnotationOptions),
    "coco": Builder(
        coco,
        _OBJECTS | {"caption", "area", "id", "iscrowd", "null", "listed", "missing", "outline"},
        kind=AnnotationOptions,
    ),
    "voc": Builder(voc, _OBJECTS | {"null", "class names", "missing"}, kind=AnnotationOptions),
    "kitti": Builder(kitti, _OBJECTS | {"class names", "orphan"}, kind=AnnotationOptions),
    "dota": Builder(dota, _OBJECTS | {"class names", "orphan"}, kind=AnnotationOptions),
    "boxes-csv": Builder(boxes_csv, _OBJECTS | {"null", "class names", "missing"}, kind=AnnotationOptions),
    "imagefolder": Builder(
        imagefolder,
        (_OBJECTS | _LABELS | {"absent", "lists", "keys", "int", "caption", "area", "id", "iscrowd", "null", "missing"})
        - {"unlabelled"},
        kind=AnnotationOptions,
    ),
    "createml": Builder(createml, _OBJECTS | {"null", "class names", "missing"}, kind=AnnotationOptions),
    "caption-files": Builder(caption_files, frozenset({"caption", "missing"}), kind=AnnotationOptions),
    "sagemaker": Builder(sagemaker, _OBJECTS | {"class names", "missing"}, kind=AnnotationOptions),
    "captions": Builder(captions, frozenset({"caption", "missing"}), kind=AnnotationOptions),
    "classes-csv": Builder(classes_csv, frozenset({"label", "name", "tags", "missing"}), kind=AnnotationOptions),
    "split-lists": Builder(split_lists, (_LABELS | {"missing"}) - {"none", "unlabelled"}, kind=AnnotationOptions),
    "masks": Builder(masks, frozenset({"mask", "colours", "unpaired"}), kind=AnnotationOptions),
    "labels": Builder(
        labels,
        _LABELS | {"int", "number", "double", "mixed", "missing"},
        path="labels.csv",
        refuses={
            "a label that is null": "got an empty cell, expected a label",
            "a label that is null at first": "got an empty cell, expected a label",
            "a label of -1": "got the label -1",
            "a text among numbers of classes": "got 'zero', expected an integer",
            "a number that is not there": "got an empty cell, expected a number",
        },
        numbers={"number_columns": ["size"]},
        kind=LabelOptions,
    ),
    "folder": Builder(class_folders, _LABELS, kind=LabelOptions),
}
