"""COCO's JSON: `images`, and `annotations` with a file of objects and one of captions for each split.

Places are pixels of the stored image, written so that they are read as the same numbers; masks are run-length codes,
as polygons would be other pixels.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from typing import IO, Any, ClassVar

import numpy as np

from shardfeed.annotations import (
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
)
from shardfeed.converters.sources.annotations.coco_files import keeps_split
from shardfeed.converters.sources.annotations.masks_writer import mask_numbers
from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    OTHER_SPLITS,
    WORDS,
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    object_keys,
    tool_words,
)
from shardfeed.errors import IntegrityError, UsageError, check_extra, escape, name_text, needing_extra
from shardfeed.kinds import KEYPOINTS
from shardfeed.schema import SOURCE_ID
from shardfeed.split_words import usual_split
from shardfeed.text import typed_number

_FOLDER = b"images/"
_FOLDERS = {"instances": "annotations", "captions": "captions"}  # of files that are called like a split alone


class CocoFormat(ExportFormat):
    """Objects with boxes, masks, keypoints, areas and crowds; captions; the images' own numbers."""

    NAME: ClassVar[str] = "coco"
    ANY_CLASS: ClassVar[bool] = True
    WHOLE_PATHS: ClassVar[bool] = True
    NEEDS: ClassVar[str] = "objects with classes, or captions"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        schema = items.schema
        self._objects, self._captions = OBJECT_LABEL in losses.storable, CAPTION in losses.storable
        self._masks = OBJECT_MASK in losses.storable and OBJECT_MASK in schema.features
        self._points = schema.keypoints if KEYPOINT_X in losses.storable else None
        if self._masks:
            check_extra("pycocotools", "masks")
        self._words = tool_words(items.splits)
        self._usual = {*self._words.values()} <= {*WORDS.values()}
        self._annotations = 0
        self._files: dict[tuple[str, str], _SplitDocument] = {}
        categories: list[dict[str, Any]] = []
        self._category_ids: tuple[int, ...] = ()
        if self._objects:
            names = self.class_names(OBJECT_LABEL)
            self._category_ids = schema.category_ids
            if schema.class_ids.get(OBJECT_LABEL, self._category_ids) != self._category_ids:
                self.notes.append("the original class ids are not in label order, so they are not kept")
            points: dict[str, Any] = {}
            if self._points is not None:
                skeleton = [[a + 1, b + 1] for a, b in self._points.skeleton]
                points = {"keypoints": self._points.names, "skeleton": skeleton}
            categories = [{"id": i, "name": n, **points} for i, n in zip(self._category_ids, names, strict=True)]
            what = {OBJECT_AREA: "area (that of the box)", IS_CROWD: "iscrowd (0)"}
            if added := [key for key in what if key not in schema.features]:
                listed = " and ".join(what[key] for key in added)
                again = f"converting the export again adds {', '.join(added)}"
                self.notes.append(f"objects get {listed} for COCO readers: {again}")
        numbers = [SOURCE_ID] if SOURCE_ID in schema.features else []
        self.parts = [RestoredPart(numbers, objects=True)] if self._objects else []
        self.parts += [RestoredPart([*numbers, CAPTION])] if self._captions else []
        for split in items.splits:
            if self._objects:
                self._open(split, "instances", categories)
            if self._captions:
                self._open(split, "captions", None)

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """All features of objects and captions."""
        schema = items.schema
        objects = object_keys(schema, IS_CROWD, OBJECT_AREA, OBJECT_MASK, *KEYPOINTS.features)
        captions = {CAPTION} if CAPTION in schema.features and schema.features[CAPTION].ragged else set[str]()
        return frozenset({*objects, *captions, SOURCE_ID}) if objects or captions else frozenset()

    def _open(self, split: str, kind: str, categories: list[dict[str, Any]] | None) -> None:
        word = self._words[split]
        file = f"annotations/{kind}_{word}.json" if self._usual else f"{_FOLDERS[kind]}/{word}.json"
        self._files[split, kind] = _SplitDocument(self._tree, file.encode(), categories)

    @classmethod
    def lost_split(cls, items: ExportRecords) -> str:
        """The first split that the reader would not take from the name of its file."""
        alone = len(items.splits) == 1
        for split, word in tool_words(items.splits).items():
            meant = usual_split(split) if split == split.casefold() else None
            if not keeps_split(f"{word}.json", meant or split, alone=alone):
                return split
        return ""

    def add(self, item: ExportRecord) -> bytes:
        """Write an image, its objects and its captions."""
        name = image_name(item)
        self._tree.write(_FOLDER + name, item.image, item.where)
        own = item.values.get(SOURCE_ID, b"")
        number = typed_number(own) if isinstance(own, bytes) else None
        number = item.place if number is None else number
        width, height = item.size
        image = {"id": number, "file_name": name_text(name), "width": width, "height": height}
        split = item.split.name
        if self._objects:
            file = self._files[split, "instances"]
            file.image(image)
            for i in range(len(item.boxes)):
                file.annotation({"id": self._next(), "image_id": number, **self._object(item, i)})
        if self._captions:
            file = self._files[split, "captions"]
            file.image(image)
            for text in item.values[CAPTION]:
                file.annotation({"id": self._next(), "image_id": number, "caption": item.text(text, "a caption")})
        return name

    def _next(self) -> int:
        self._annotations += 1  # from 1: pycocotools treats annotation 0 as unmatched
        return self._annotations

    def _object(self, item: ExportRecord, i: int) -> dict[str, Any]:
        values = item.values
        width, height = item.size
        # Exact: a float32 has 24 bits, a side of an image 16 at most, a float64 53.
        left, top, right, bottom = (item.boxes[i] * (width, height, width, height)).tolist()
        wide, high = right - left, bottom - top
        found: dict[str, Any] = {
            "category_id": self._category_ids[int(values[OBJECT_LABEL][i])],
            "bbox": [_plain(side) for side in (left, top, wide, high)],
            "area": _plain(float(values[OBJECT_AREA][i]) if OBJECT_AREA in values else wide * high),
            "iscrowd": int(values[IS_CROWD][i]) if IS_CROWD in values else 0,
        }
        if self._masks:
            found["segmentation"] = _run_lengths(values[OBJECT_MASK][i], item)
        if self._points is not None:
            found |= _keypoints(values, i, len(self._points.names), (width, height))
        return found

    def finish(self) -> list[ReconvertCommand]:
        """Close the JSON files; return how each is converted again."""
        for (split, kind), file in self._files.items():
            if kind == "captions" and not (self._usual or file.annotations):
                problem = f"no image of the split {escape(split)} has a caption, by which its file is known"
                raise UsageError(self.items.directory, problem, OTHER_SPLITS)
            file.close()
        again = []
        options = {"reader": "coco", "images": "images"}
        if self._objects:
            tasks = ["boxes", *(["masks"] if self._masks else []), *(["keypoints"] if self._points else [])]
            again.append(ReconvertCommand("", {**options, "tasks": tasks}))
        if self._captions:
            folder = "" if self._usual else _FOLDERS["captions"]
            again.append(ReconvertCommand(folder, {**options, "tasks": ["captions"]}))
        return again


class _SplitDocument:
    """One JSON file, in bounded memory: annotations wait in a file without a name, as images come first."""

    def __init__(self, tree: ExportFiles, name: bytes, categories: list[dict[str, Any]] | None) -> None:
        self.name = name
        self._lines = tree.stream(name)
        self._waiting: IO[bytes] | None = None
        if tree.root is not None:
            self._waiting = tempfile.TemporaryFile(dir=tree.root)  # noqa: SIM115  # closed with the file
        self._images = self._count = 0
        head: dict[str, Any] = {"info": {"description": "written by shardfeed"}, "licenses": []}
        head |= {} if categories is None else {"categories": categories}
        self._lines.write(_json(head)[:-1] + b',\n"images":[')

    def image(self, entry: Mapping[str, Any]) -> None:
        """Write one image."""
        self._lines.write((b",\n" if self._images else b"\n") + _json(entry))
        self._images += 1

    def annotation(self, entry: Mapping[str, Any]) -> None:
        """Write one annotation."""
        line = (b",\n" if self._count else b"\n") + _json(entry)
        self._count += 1
        if self._waiting is None:
            self._lines.write(line)  # if nothing is written, bytes are counted
        else:
            self._waiting.write(line)

    @property
    def annotations(self) -> int:
        """Number of annotations so far."""
        return self._count

    def close(self) -> None:
        """Write what waits."""
        self._lines.write(b'\n],\n"annotations":[')
        if self._waiting is not None:
            self._waiting.seek(0)
            shutil.copyfileobj(self._waiting, self._lines, 1 << 20)
            self._waiting.close()
        self._lines.write(b"\n]}\n")
        self._lines.close()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _plain(value: float) -> int | float:
    """A number as people write it: 12 for 12.0."""
    return int(value) if value == int(value) else value


def _run_lengths(png: bytes, item: ExportRecord) -> dict[str, Any]:
    """A mask as COCO's compressed run-length code."""
    with needing_extra("masks"):
        from pycocotools import mask
    coco: Any = mask  # its type hints are incomplete
    pixels = mask_numbers(png, item)
    if pixels.shape != item.size[::-1]:
        raise IntegrityError(item.where, f"a mask of the shape {pixels.shape}, the image has {item.size[::-1]}")
    code = coco.encode(np.asfortranarray(pixels != 0, np.uint8))
    return {"size": [int(side) for side in code["size"]], "counts": code["counts"].decode("ascii")}


def _keypoints(values: Mapping[str, Any], i: int, count: int, size: tuple[int, int]) -> dict[str, Any]:
    of_object = slice(i * count, (i + 1) * count)
    x, y, seen = (np.asarray(values[key])[of_object] for key in (KEYPOINT_X, KEYPOINT_Y, KEYPOINT_VISIBILITY))
    flat: list[float] = []
    for left, top, visible in zip(x.astype(np.float64) * size[0], y.astype(np.float64) * size[1], seen, strict=True):
        flat += [_plain(float(left)), _plain(float(top)), int(visible)]
    return {"num_keypoints": int(np.count_nonzero(seen)), "keypoints": flat}
