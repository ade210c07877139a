"""Datasets with names that are hard for a format, exported and converted again by the printed command."""

import io
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from datasets import stored
from PIL import Image

import shardfeed
from shardfeed.annotations import (
    BOX,
    CAPTION,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    RASTER,
    RASTER_FORMAT,
    Keypoints,
    Raster,
)
from shardfeed.converters import Sample, export
from shardfeed.converters.sources.source import MaskTable, Objects, RasterImage
from shardfeed.errors import ShardfeedError
from shardfeed.kinds import ROTATED
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import ENCODED, FILENAME, LABEL, TEXT, Feature, Schema
from shardfeed.tools.cli import main

from pictures import image_bytes

WIDTH, HEIGHT = 16, 12
FORMATS = ("folder", "coco", "yolo", "voc", "masks", "csv")


@dataclass(frozen=True)
class Hard:
    """A dataset: its kind of content, class names in label order, keys of images, and the split of each image.

    `counts`: number of objects of each image, in turn.
    """

    kind: str
    classes: tuple[str, ...] = ("plain", "other")
    keys: tuple[str, ...] = ("1.jpg", "2.jpg", "3.jpg", "4.jpg")
    splits: tuple[str, ...] = ("train",)
    counts: tuple[int, ...] = (1, 0, 2)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} of {self.classes!r}, {self.keys!r}, {self.splits!r}"


KINDS = {
    "label": (LABEL,),
    "tags": (LABEL,),
    "boxes": ("objects",),
    "masks": ("objects", "outlines"),
    "keypoints": ("objects", "keypoints"),
    "rotated": ("objects", "rotated"),
    "raster": (RASTER,),
    "boxes and raster": ("objects", RASTER),
    "captions": (CAPTION,),
    "boxes and captions": ("objects", CAPTION),
    "label and boxes": (LABEL, "objects"),
    "label and text": (LABEL, "text"),
    "nothing": (),
}
_BOXES = {side: Feature("float32", (None,), "box") for side in BOX}
_OBJECTS = {**_BOXES, OBJECT_LABEL: Feature("int64", (None,), "label"), OBJECT_TEXT: Feature("bytes", (None,), "text")}


def schema_of(hard: Hard) -> Schema:
    """The schema of a kind of content with those classes."""
    parts, classes = KINDS[hard.kind], hard.classes
    features: dict[str, Feature] = {}
    names: dict[str, tuple[str, ...]] = {}
    points: Keypoints | None = None
    if LABEL in parts:
        tags = hard.kind == "tags"
        features |= {LABEL: Feature("int64", (None,) if tags else (), "tags" if tags else "label")}
        features |= {TEXT: Feature("bytes", (None,) if tags else ())}
        names[LABEL] = classes
    if "text" in parts:
        features["image/said"] = Feature("bytes", (), "text")
    if "objects" in parts:
        features |= _OBJECTS
        names[OBJECT_LABEL] = classes
    if "outlines" in parts:
        features[OBJECT_MASK] = Feature("bytes", (None,), "mask")
    if "keypoints" in parts:
        points = Keypoints(("left", "right"), (1, 0))
        features |= dict.fromkeys((KEYPOINT_X, KEYPOINT_Y), Feature("float32", (None,), "keypoint"))
        features[KEYPOINT_VISIBILITY] = Feature("int64", (None,), "number")
    if "rotated" in parts:
        features |= ROTATED.features
    if CAPTION in parts:
        features[CAPTION] = Feature("bytes", (None,), "text")
    raster = Raster(classes, 255) if RASTER in parts else None
    if raster is not None:
        features |= {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")}
    return Schema(features, names, keypoints=points, raster=raster)


@cache
def picture(number: int, kind: str = "JPEG") -> bytes:
    """An image of its own for each number."""
    pixels = np.random.default_rng(number).integers(0, 256, (3, 4, 3), np.uint8)
    return image_bytes(Image.fromarray(pixels).resize((WIDTH, HEIGHT)), kind)


def sample(hard: Hard, place: int) -> Sample:
    """The image at `place`."""
    parts, classes = KINDS[hard.kind], hard.classes
    label = place % len(classes)
    features: dict[str, Any] = {}
    if hard.kind == "tags":
        labels = sorted({label, (label + 1) % len(classes)})[: place % 3]
        features |= {LABEL: labels, TEXT: [classes[one].encode() for one in labels]}
    elif LABEL in parts:
        features |= {LABEL: label, TEXT: classes[label].encode()}
    if "text" in parts:
        features["image/said"] = classes[label].encode()
    if CAPTION in parts:
        features[CAPTION] = [f"{classes[label]} {place}".encode()] if place != 1 else []
    objects = _objects(hard, place) if "objects" in parts else None
    key = hard.keys[place].encode("utf-8", "surrogateescape")
    raster = RasterImage(_mask(hard, place), _table(len(classes))) if RASTER in parts else None
    split = hard.splits[place % len(hard.splits)]
    kind = "PNG" if hard.keys[place].lower().endswith(".png") else "JPEG"
    return Sample(key, picture(place, kind), features, split, objects, raster=raster)


def _objects(hard: Hard, place: int) -> Objects:
    parts, count = KINDS[hard.kind], hard.counts[place % len(hard.counts)]
    boxes = np.array([[1 + n, 2, 8 + n, 9] for n in range(count)], float).reshape(-1, 4)
    labels = [(place + n) % len(hard.classes) for n in range(count)]
    points = {}
    if "keypoints" in parts:
        points["keypoints"] = np.array([[[x, 3, 2], [x + 2, 4, 1]] for x, *_ in boxes], float).reshape(-1, 2, 3)
    if "rotated" in parts:
        corners = [[[left, 4], [left + 2, 2], [left + 6, 6], [left + 4, 8]] for left, *_ in boxes]
        points["rotated"] = np.array(corners, float).reshape(-1, 4, 2)
        boxes = np.array([[left, 2, left + 6, 8] for left, *_ in boxes], float).reshape(-1, 4)
    outlines = [[[x, y, right, y, right, low, x, low]] for x, y, right, low in boxes.tolist()]
    columns = {OBJECT_LABEL: labels, OBJECT_TEXT: [hard.classes[one].encode() for one in labels]}
    names = [str(n) for n in range(count)]
    size = (WIDTH, HEIGHT)
    return Objects(
        boxes, columns, names, size, upright=True, points=points, outlines=outlines if "outlines" in parts else None
    )


def _mask(hard: Hard, place: int) -> bytes:
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[2:8, 3:9] = place % len(hard.classes)
    pixels[9] = 255
    return image_bytes(Image.fromarray(pixels), "PNG")


@cache
def _table(count: int) -> MaskTable:
    return MaskTable(values=(*((n, n) for n in range(count)), (255, 255)))


def made(hard: Hard, out: Path) -> Dataset:
    """The dataset."""
    samples = [sample(hard, place) for place in range(len(hard.keys))]
    return stored(out, schema_of(hard), samples)


@dataclass(frozen=True)
class Outcome:
    """The outcome of an export: `same`, or `refused` by us with nothing written; `wrong`: anything else."""

    same: bool = False
    refused: str = ""
    wrong: str = ""


def contents(data: Dataset, parts: Sequence[str]) -> dict[tuple[str, bytes], dict[str, Any]]:
    """Those parts of each record, by split and image, with names in place of numbers."""
    found: dict[tuple[str, bytes], dict[str, Any]] = {}
    for split, records in data.items():
        for record in records:
            values = {part: _said(part, record, data.manifest.schema) for part in parts}
            found[split, bytes(record[ENCODED])] = values  # type: ignore[arg-type]
    return found


def _said(part: str, record: Mapping[str, Any], schema: Schema) -> Any:
    if part == LABEL:
        labels = np.atleast_1d(record[LABEL]).tolist()
        return [schema.class_names[LABEL][label] for label in labels], record.get(TEXT)
    if part == RASTER:
        pixels = np.asarray(Image.open(io.BytesIO(record[RASTER])))
        assert schema.raster is not None
        return pixels.tolist(), schema.raster.class_names
    if part == "objects":
        names = [schema.class_names[OBJECT_LABEL][label] for label in record[OBJECT_LABEL]]
        boxes = np.stack([np.asarray(record[side]) for side in BOX], -1).round(4).tolist()
        return sorted(zip(names, boxes, strict=True))
    if part == "text":
        return record["image/said"]
    if part == CAPTION:
        return record[CAPTION]
    keys = {"outlines": [OBJECT_MASK], "keypoints": [KEYPOINT_X, KEYPOINT_Y], "rotated": [*ROTATED.features]}[part]
    return [np.asarray(record[key]).tolist() for key in keys]


def lists(schema: Schema, parts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The class lists of those parts."""
    keys = {LABEL: LABEL, "objects": OBJECT_LABEL}
    return {keys[part]: schema.class_names[keys[part]] for part in parts if part in keys}


def exported(hard: Hard, to: str, room: Path) -> Outcome:
    """Export a dataset to `to`, and convert it again by each printed command; `room`: a new directory."""
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(parents=True)
    try:
        data = made(hard, room / "data")
    except ShardfeedError as error:
        return Outcome(wrong=f"the dataset itself: {error}")
    before = sorted(room.rglob("*"))
    try:
        report = export(data, room / "out", to, drop="all")  # type: ignore[arg-type]
    except ShardfeedError as error:
        left = sorted(room.rglob("*")) != before
        text = f"{type(error).__name__}: {error}"
        if left or "reading the export gives a different dataset" in text:
            return Outcome(wrong=text + " (something is left)" * left)
        return Outcome(refused=text)
    except Exception as error:
        return Outcome(wrong=f"{type(error).__name__}: {error}")
    wrong = [problem for n in range(len(report.convert_commands)) if (problem := _again(hard, data, report, n, room))]
    return Outcome(wrong="; ".join(wrong)) if wrong else Outcome(same=True)


def _again(hard: Hard, data: Dataset, report: Any, which: int, room: Path) -> str:
    """Describe what differs if the export is converted by one of its commands; "" for nothing."""
    words = shlex.split(report.convert_commands[which])
    again = room / f"again{which}"
    words[words.index("NEW")] = str(again)
    if code := main([*words[1:], "--quiet", "--workers", "1"]):
        return f"converted again: exit {code}: {report.convert_commands[which]}"
    theirs = shardfeed.open(again)
    parts = [part for part in KINDS[hard.kind] if _stores(theirs, part)]
    if not parts:
        return "nothing is stored"
    if lists(data.manifest.schema, parts) != lists(theirs.manifest.schema, parts):
        ours, found = lists(data.manifest.schema, parts), lists(theirs.manifest.schema, parts)
        return f"classes {found}, expected {ours}"
    ours, found = contents(data, parts), contents(theirs, parts)
    if ours.keys() != found.keys():
        return f"{len(found)} images, {len(found.keys() & ours.keys())} of those expected"
    differ = [(ours[key], found[key]) for key in ours if ours[key] != found[key]]
    if differ:
        return f"got {differ[0][1]}, expected {differ[0][0]}"
    keys = _keys(theirs)
    renamed = len(keys) - len(keys & _keys(data))
    return f"{renamed} names differ, {report.renamed} are told" if renamed != report.renamed and not which else ""


def _keys(data: Dataset) -> set[Any]:
    return {record[FILENAME] for split in data.values() for record in split}  # type: ignore[misc]


def _stores(data: Dataset, part: str) -> bool:
    keys = {"objects": OBJECT_LABEL, "outlines": OBJECT_MASK, "keypoints": KEYPOINT_X, "text": "image/said"}
    key = keys.get(part, next(iter(ROTATED.features)) if part == "rotated" else part)
    return key in data.manifest.schema.features
