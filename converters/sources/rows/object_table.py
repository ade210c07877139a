"""The objects of all images of a source, in about 60 bytes each: arrays, and a file for outlines if they are many."""

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shardfeed.annotations import OBJECT_LABEL, Keypoints
from shardfeed.converters.sources.options import Unit
from shardfeed.converters.sources.source import Objects, Outline
from shardfeed.kinds import AREAS, BOXES, CLASSES, MASKS, POINTS
from shardfeed.schema import Feature, Schema
from shardfeed.storage.local import Spill

_IN_MEMORY = 64_000_000  # bytes of outlines; more go to a temporary file


class Outlines:
    """Outlines by number, as JSON: in memory, or in a file without a name that is gone with this process."""

    def __init__(self) -> None:
        self._texts = Spill(in_memory=_IN_MEMORY)
        self._ends = array("q", [0])

    def add(self, outline: Outline) -> int:
        """Add one, JSON as it was read: numbers keep their digits. Returns a hash of it."""
        text = json.dumps(outline, separators=(",", ":")).encode()
        self._ends.append(self._texts.append(text))
        return hash(text)

    def __getitem__(self, number: int) -> Outline:
        start, end = self._ends[number], self._ends[number + 1]
        return json.loads(self._texts.read(start, end - start))

    def __getstate__(self) -> tuple[bytes, bytes]:
        return self._texts.read(0, self._texts.size), self._ends.tobytes()

    def __setstate__(self, state: tuple[bytes, bytes]) -> None:
        self.__init__()
        self._texts.append(state[0])
        self._ends = array("q")
        self._ends.frombytes(state[1])


@dataclass(frozen=True, eq=False)
class ObjectTable:
    """The objects of all images, n of them, made by `ObjectGather`; `of_image` returns the objects of one image.

    Attributes:
        images, numbers: int32 and int64 [n]: number of the image, and of the object, for the report.
        boxes: float64 [n, 4]: left, top, right, bottom.
        labels: int32 [n].
        class_names: in label order; None if objects have no class.
        class_ids: the source's id of each; empty without ids.
        what: the report's word for an object, before its number: "annotation", "line".
        unit: of boxes, points and outlines.
        upright: whether they refer to the upright image; None if the size of the image decides.
        flags: further columns by feature key, such as IS_CROWD: int8 [n].
        areas: float64 [n]; None: objects have none; empty: those of their boxes or masks.
        keypoints: their meaning; None without. points: of each object, by the word of their kind, float64 [n, K, 2 or
            3]: x, y and perhaps visibility.
        outlines: outlines to make masks of, and the index of each object's outline, int64 [n]; None without.
        sizes: (width, height) by image, if known.
    """

    images: np.ndarray
    numbers: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...] | None = None
    class_ids: tuple[int, ...] = ()
    what: str = "object"
    unit: Unit = "pixels"
    upright: bool | None = None
    flags: Mapping[str, np.ndarray] = field(default_factory=dict)
    areas: np.ndarray | None = None
    keypoints: Keypoints | None = None
    points: Mapping[str, np.ndarray] = field(default_factory=dict)
    outlines: tuple[Outlines, np.ndarray] | None = None
    sizes: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def features(self) -> dict[str, Feature]:
        """The columns that records have."""
        outlined = any(kind.outline and kind.word in self.points for kind in POINTS)
        there = {
            BOXES: True,
            CLASSES: self.class_names is not None,
            AREAS: self.areas is not None or self.outlines is not None or outlined,
            MASKS: self.outlines is not None,
            **{kind: kind.word in self.points for kind in POINTS},
        }
        found = {key: Feature("int64", (None,), "number") for key in self.flags}
        return found | {key: of for kind, has in there.items() if has for key, of in kind.features.items()}

    def joined(self, schema: Schema) -> Schema:
        """Return `schema` with the features of objects added."""
        names, ids = dict(schema.class_names), dict(schema.class_ids)
        if self.class_names is not None:
            names[OBJECT_LABEL] = self.class_names
        if self.class_ids:
            ids[OBJECT_LABEL] = self.class_ids
        features = {**schema.features, **self.features}
        return Schema(features, names, ids, self.keypoints, schema.raster)

    @cached_property
    def _by_image(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the objects sorted by image, int64 [n], and the end offset of each image, int64 [images]."""
        counts = np.bincount(self.images) if len(self) else np.zeros(0, np.int64)
        return np.argsort(self.images, kind="stable"), np.cumsum(counts)

    def of_image(self, image: int) -> Objects:
        """The objects of one image, in the order in which they were added."""
        order, ends = self._by_image
        start = ends.item(image - 1) if 0 < image <= len(ends) else 0
        chosen = order[start : ends.item(image) if image < len(ends) else start]
        columns = {key: values[chosen].tolist() for key, values in self.flags.items()}
        if self.class_names is not None:
            columns[OBJECT_LABEL] = self.labels[chosen].tolist()
        outlines = None
        if self.outlines is not None:
            outlines = [self.outlines[0][i] for i in self.outlines[1][chosen].tolist()]
        return Objects(
            boxes=self.boxes[chosen],
            columns=columns,
            names=[f"{self.what} {number}" for number in self.numbers[chosen].tolist()],
            size=self.sizes.get(image),
            fractions=self.unit == "fractions",
            upright=self.upright,
            points={word: values[chosen] for word, values in self.points.items()},
            outlines=outlines,
            areas=None if self.areas is None or not len(self.areas) else self.areas[chosen],
        )

    def class_counts(self) -> tuple[int, ...]:
        """Objects of each class."""
        classes = len(self.class_names or ())
        if not classes or not len(self):
            return (0,) * classes
        return tuple(np.bincount(self.labels, minlength=classes).tolist())
