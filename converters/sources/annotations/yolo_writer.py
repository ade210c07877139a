"""YOLO as Ultralytics has it: `images/train`, `labels/train` with a line an object, and `data.yaml`.

Numbers have as many decimals as it takes to be read as the same box.
"""

import json
from typing import ClassVar

import numpy as np

from shardfeed.annotations import KEYPOINT_VISIBILITY, KEYPOINT_X, KEYPOINT_Y, OBJECT_AREA, OBJECT_LABEL
from shardfeed.converters.sources.annotations.yolo_reader import label_keys
from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    name_of,
    number_text,
    object_keys,
    tool_words,
)
from shardfeed.errors import check_extra
from shardfeed.kinds import AREAS, KEYPOINTS, ROTATED, polygon_areas


class YoloFormat(ExportFormat):
    """Boxes with a class, upright or rotated, and keypoints."""

    NAME: ClassVar[str] = "yolo"
    SIDE_FILES: ClassVar[int] = 1
    NEEDS: ClassVar[str] = "objects with classes (boxes)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        check_extra("yaml", "yolo")  # to read it again
        super().__init__(items, tree, losses)
        self.parts = [RestoredPart(objects=True)]
        self._names = self.class_names(OBJECT_LABEL)
        self._words = self.folder_words(1)
        self._rotated = ROTATED.features.keys() <= losses.storable
        self._other_areas = 0  # that do not follow from the corners
        self._points = items.schema.keypoints if KEYPOINT_X in losses.storable else None
        if self._points is not None and self._points.skeleton:
            self.notes.append("data.yaml cannot store the skeleton: it is not kept")

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """Boxes, classes, and corners or else keypoints."""
        if ROTATED.is_in(items.schema):
            return object_keys(items.schema, *ROTATED.features, *AREAS.features)  # areas follow from the corners
        return object_keys(items.schema, *KEYPOINTS.features)

    def add(self, item: ExportRecord) -> bytes:
        """Write the image and the file of its labels, which is empty if there is no object."""
        folder = self._words[item.split.name] + b"/"
        name = folder + image_name(item).removeprefix(b"images/" + folder)
        self._tree.write(b"images/" + name, item.image, item.where)
        self._seen.clear()
        lines = [line for i in range(len(item.boxes)) if not self.is_twin(line := self._line(item, i), item)]
        self._tree.write(label_keys(b"images/" + name)[0], "".join(lines).encode(), item.where)
        return b"images/" + name

    def _line(self, item: ExportRecord, i: int) -> str:
        label = int(item.values[OBJECT_LABEL][i])
        name_of(self._names, label, item, OBJECT_LABEL)
        if self._rotated:
            corners = np.stack([np.asarray(item.values[key], np.float32) for key in ROTATED.features], axis=-1)
            corners = corners[4 * i : 4 * i + 4]
            if OBJECT_AREA in item.values:
                self._other_areas += not np.isclose(item.values[OBJECT_AREA][i], _area(corners, item.size), rtol=1e-2)
            texts = [np.format_float_positional(side, trim="-") for side in corners.ravel()]
            return " ".join([str(label), *texts]) + "\n"
        left, top, right, bottom = item.boxes[i].tolist()
        numbers = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        if self._points is not None:
            numbers += _points(item, i, len(self._points.names))
        return " ".join([str(label), *map(number_text, numbers)]) + "\n"

    def finish(self) -> list[ReconvertCommand]:
        """data.yaml, without `path`, which defaults to its folder."""
        keys = tool_words(self._words)
        words = {keys[split]: word.decode() for split, word in self._words.items()}
        if "train" in words and "val" not in words:
            words["val"] = words["train"]
            note = "no validation split for val in data.yaml: val is set to train, as in coco128"
            self.notes.append(f"{note}; `shardfeed split` makes one")
        elif lacking := [key for key in ("train", "val") if key not in words]:
            self.notes.append(f"there is no split for {' and '.join(lacking)} of data.yaml, which Ultralytics needs")
        lines = [f"{key}: {_quoted(f'images/{word}')}" for key, word in words.items()]
        lines += ["names:", *(f"  {label}: {_quoted(name)}" for label, name in enumerate(self._names))]
        if self._points is not None:
            lines.append(f"kpt_shape: [{len(self._points.names)}, 3]")
            lines += [f"flip_idx: {list(self._points.flip)}"] if self._points.flip else []
            of_class = json.dumps(list(self._points.names), ensure_ascii=False)
            lines += ["kpt_names:", *(f"  {label}: {of_class}" for label in range(len(self._names)))]
        lines += ["task: obb"] * self._rotated
        if self._other_areas:
            self.notes.append(f"areas that are not those of the corners are not kept: {self._other_areas:,}")
        self.write_lines("data.yaml", lines)
        tasks = {} if self._points is None else {"tasks": ["keypoints"]}
        return [ReconvertCommand("data.yaml", {"reader": "yolo", **tasks})]


def _quoted(text: str) -> str:
    """A text as YAML: between double quotes, as JSON has it."""
    return json.dumps(text, ensure_ascii=False)


def _area(corners: np.ndarray, size: tuple[int, int]) -> float:
    """The area of a rotated box inside the image, as conversion computes it: float32 [4, 2], fractions."""
    whole, shown = (np.prod(np.ptp(of_all, axis=0)) for of_all in (corners, corners.clip(0, 1)))
    return float(polygon_areas(corners[None] * size)[0] * shown / whole)


def _points(item: ExportRecord, i: int, count: int) -> list[float]:
    of_object = slice(i * count, (i + 1) * count)
    keys = (KEYPOINT_X, KEYPOINT_Y, KEYPOINT_VISIBILITY)
    columns = [np.asarray(item.values[key], np.float64)[of_object] for key in keys]
    return np.stack(columns, axis=-1).ravel().tolist()
