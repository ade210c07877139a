"""The objects of all images of a source, in about 60 bytes each: arrays, and outlines in a file where they are many."""

import json
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.annotations import (
    BOX,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    Keypoints,
)
from shardfeed.converters.sources.objects import Objects, Outline
from shardfeed.converters.sources.options import Unit
from shardfeed.schema import Feature, Schema

_IN_MEMORY = 64_000_000  # bytes of outlines; more go to a temporary file


class Outlines:
    """Outlines by number, as JSON: in memory, or in a file without a name that is gone with this process."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # lives as long as this does
        self._ends = array("q", [0])

    def add(self, outline: Outline) -> int:
        """Add one, JSON as it was read: numbers keep their digits. Returns a hash of it."""
        text = json.dumps(outline, separators=(",", ":")).encode()
        self._ends.append(self._ends[-1] + self._file.write(text))
        return hash(text)

    def __getitem__(self, number: int) -> Outline:
        start, end = self._ends[number], self._ends[number + 1]
        self._file.seek(start)
        return json.loads(self._file.read(end - start))

    def __getstate__(self) -> tuple[bytes, bytes]:
        self._file.seek(0)
        return self._file.read(), self._ends.tobytes()

    def __setstate__(self, state: tuple[bytes, bytes]) -> None:
        self.__init__()
        self._file.write(state[0])
        self._ends = array("q")
        self._ends.frombytes(state[1])


class ObjectTable:
    """Objects are added in any order, each with the number of its image; `of_image` gives those of one, in that order.

    Args:
        class_names: in label order; None where objects have no class.
        class_ids: what the source calls each; empty where those are the labels.
        what: how the report calls an object, before its number: "annotation", "line".
        unit: of boxes, key points and outlines.
        upright: whether they are of the upright image; None where the size of the image tells.
        columns: further ones: int64 by feature key, such as IS_CROWD.
        areas, masks: whether objects have areas, and outlines to make masks of.
        keypoints: of each object; None without.
    """

    def __init__(
        self,
        class_names: Sequence[str] | None = None,
        *,
        class_ids: Sequence[int] = (),
        what: str = "annotation",
        unit: Unit = "pixels",
        upright: bool | None = None,
        columns: Sequence[str] = (),
        areas: bool = False,
        masks: bool = False,
        keypoints: Keypoints | None = None,
    ) -> None:
        self.class_names, self.class_ids = None if class_names is None else tuple(class_names), tuple(class_ids)
        self.what, self.unit, self.upright, self.keypoints = what, unit, upright, keypoints
        # Arrays of numbers that grow, or those of NumPy that `of_arrays` was given.
        self._images: Any = array("q")
        self._numbers: Any = array("q")
        self._labels: Any = array("i")
        self._boxes: Any = array("d")
        self._areas: Any = array("d")
        self._points: Any = array("d")
        self._columns: dict[str, Any] = {key: array("q") for key in columns}
        self._outlines = Outlines() if masks else None
        self._outline_of: np.ndarray | None = None  # the number of each object's outline, where it is not its own
        self._has_areas = areas
        self._sizes: dict[int, tuple[int, int]] = {}
        self._same_sizes: dict[tuple[int, int], tuple[int, int]] = {}  # most images are as large as another
        self._order: np.ndarray | None = None  # objects sorted by image, made when first asked for
        self._ends: np.ndarray | None = None

    @classmethod
    def of_arrays(
        cls,
        what: str,
        unit: Unit,
        upright: bool | None,
        images: np.ndarray,
        numbers: np.ndarray,
        boxes: np.ndarray,
        labels: np.ndarray,
        classes: tuple[Sequence[str], Sequence[int]] | None,
        flags: Mapping[str, np.ndarray],
        areas: np.ndarray | None,
        keypoints: tuple[Keypoints, np.ndarray] | None,
        outlines: tuple[Outlines, np.ndarray] | None,
        sizes: Mapping[int, tuple[int, int]],
    ) -> "ObjectTable":
        """The table of n objects: arrays [n, ...] as `ObjectGather` has them; outlines by their numbers."""
        table = cls(
            None if classes is None else classes[0],
            class_ids=() if classes is None else classes[1],
            what=what,
            unit=unit,
            upright=upright,
            areas=areas is not None,
            keypoints=None if keypoints is None else keypoints[0],
        )
        table._images, table._numbers, table._boxes, table._labels = images, numbers, boxes, labels
        table._columns = dict(flags)
        table._areas = np.zeros(0) if areas is None else areas
        table._points = np.zeros(0) if keypoints is None else keypoints[1]
        if outlines is not None:
            table._outlines, table._outline_of = outlines
        for image, size in sizes.items():
            table.set_size(image, *size)
        return table

    def __len__(self) -> int:
        return len(self._images)

    def add(
        self,
        image: int,
        number: int,
        box: Sequence[float],
        label: int = 0,
        *,
        columns: Mapping[str, int] | None = None,
        area: float = 0.0,
        keypoints: Sequence[float] = (),
        outline: Outline = None,
    ) -> None:
        """One object: of image `image`; `number`: its own, for the report. `box`: left, top, right, bottom.

        `keypoints`: x, y, visibility of each, in one list. `columns`: those not named are 0.
        """
        left, top, right, bottom = box
        self._images.append(image)
        self._numbers.append(number)
        self._boxes.extend((left, top, right, bottom))
        self._labels.append(label)
        for key, values in self._columns.items():
            values.append(columns.get(key, 0) if columns else 0)
        if self._has_areas:
            self._areas.append(area)
        if self.keypoints is not None:
            points = list(keypoints)
            if len(points) != 3 * len(self.keypoints.names):
                raise ValueError(f"{len(points)} numbers for {len(self.keypoints.names)} key points")
            self._points.extend(points)
        if self._outlines is not None:
            self._outlines.add(outline)
        self._order = None

    def set_size(self, image: int, width: int, height: int) -> None:
        """Pixels of an image as it was annotated."""
        size = width, height
        self._sizes[image] = self._same_sizes.setdefault(size, size)

    @property
    def labels(self) -> np.ndarray:
        """As they were added, int32 [n]."""
        return np.array(self._labels)

    def name_classes(self, class_names: Sequence[str], class_ids: Sequence[int], labels: np.ndarray) -> None:
        """For numbers that are known to be those of classes when all are there: the classes, and the label of each."""
        self.class_names, self.class_ids = tuple(class_names), tuple(class_ids)
        self._labels = array("i", labels.astype(np.int32).tobytes())

    @property
    def features(self) -> dict[str, Feature]:
        """The columns that records have."""
        ragged = (None,)
        found = {key: Feature("float32", ragged, "box") for key in BOX}
        if self.class_names is not None:
            found[OBJECT_LABEL] = Feature("int64", ragged, "label")
            found[OBJECT_TEXT] = Feature("bytes", ragged, "text")
        found |= {key: Feature("int64", ragged, "number") for key in self._columns}
        if self._has_areas or self._outlines is not None:
            found[OBJECT_AREA] = Feature("float32", ragged, "number")
        if self._outlines is not None:
            found[OBJECT_MASK] = Feature("bytes", ragged, "mask")
        if self.keypoints is not None:
            found |= {key: Feature("float32", ragged, "keypoint") for key in (KEYPOINT_X, KEYPOINT_Y)}
            found[KEYPOINT_VISIBILITY] = Feature("int64", ragged, "number")
        return found

    def joined(self, schema: Schema) -> Schema:
        """`schema`, and what objects add to it."""
        names, ids = dict(schema.class_names), dict(schema.class_ids)
        if self.class_names is not None:
            names[OBJECT_LABEL] = self.class_names
        if self.class_ids:
            ids[OBJECT_LABEL] = self.class_ids
        features = {**schema.features, **self.features}
        return Schema(features, names, ids, self.keypoints, schema.raster)

    def of_image(self, image: int) -> Objects:
        """The objects of one image, in the order in which they were added."""
        if self._order is None or self._ends is None:
            images = np.asarray(self._images)
            self._order = np.argsort(images, kind="stable")
            self._ends = np.cumsum(np.bincount(images)) if len(images) else np.zeros(0, np.int64)
        start = self._ends.item(image - 1) if 0 < image <= len(self._ends) else 0
        end = self._ends.item(image) if image < len(self._ends) else start
        chosen = self._order[start:end]
        columns: dict[str, Any] = {key: _taken(values, chosen).tolist() for key, values in self._columns.items()}
        if self.class_names is not None:
            columns[OBJECT_LABEL] = _taken(self._labels, chosen).tolist()
        points = None
        if self.keypoints is not None:
            points = _taken(self._points, chosen, len(self.keypoints.names) * 3)
            points = points.reshape(len(chosen), len(self.keypoints.names), 3)
        return Objects(
            boxes=_taken(self._boxes, chosen, 4),
            columns=columns,
            names=[f"{self.what} {number}" for number in _taken(self._numbers, chosen).tolist()],
            size=self._sizes.get(image),
            fractions=self.unit == "fractions",
            upright=self.upright,
            keypoints=points,
            outlines=None if self._outlines is None else [self._outlines[i] for i in self._outline_numbers(chosen)],
            areas=_taken(self._areas, chosen) if len(self._areas) else None,
        )

    def _outline_numbers(self, chosen: np.ndarray) -> list[int]:
        return (chosen if self._outline_of is None else self._outline_of[chosen]).tolist()

    def images_without(self, images: int) -> int:
        """How many of so many images have no object."""
        counts = np.bincount(np.asarray(self._images)) if len(self) else ()
        return images - int(np.count_nonzero(counts))

    def class_counts(self) -> tuple[int, ...]:
        """Objects of each class."""
        classes = len(self.class_names or ())
        if not classes or not len(self):
            return (0,) * classes
        return tuple(np.bincount(np.asarray(self._labels), minlength=classes).tolist())


def _taken(values: Any, chosen: np.ndarray, each: int = 1) -> np.ndarray:
    """Rows `chosen` of `values`, `each` numbers a row, as an array of its own."""
    rows = np.asarray(values)
    return (rows if each == 1 else rows.reshape(-1, each))[chosen].copy()
