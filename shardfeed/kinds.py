"""The table of kinds: what a record can say of its image beside pixels and a class, one row each.

A row holds what all who read or write the kind must agree on. What a kind needs beyond it is done once per wing:
`place_objects` moves it into the stored image, `pipelines.objects` and `pipelines.tensorflow.objects` into a view, and
`tools`' overlay draws it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shardfeed.annotations import (
    BOX,
    CAPTION,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    OBJECTS,
    RASTER,
    RASTER_FORMAT,
    XMAX,
    XMIN,
    YMAX,
    YMIN,
    Keypoints,
)
from shardfeed.schema import Feature, Schema
from shardfeed.text import number

# What a conversion can be asked for: "classes" of whole images, or kinds by their words.
Task = Literal["boxes", "masks", "keypoints", "rotated", "captions", "classes", "rasters"]
_ANY = (None,)


@dataclass(frozen=True, eq=False)
class RecordKind:
    """One kind. A feature of objects has one value per object, or the same number for each.

    `word`: what `drop` of an export and `tasks` of a conversion call it, where they can. `features`: by key.
    `each(keypoints)`: values of each feature per object; `keypoints`: the dataset's. `allowed`: by key, whether a value
    is possible, and in words which are. `name`, and `remedy` or the `tasks` to ask for: for the
    error where a dataset lacks it.

    A kind of points has x, y and perhaps visibility as its features. `lines(keypoints)`: pairs of points with a line
    between them, for pictures. `flip(keypoints)`: the point that each becomes in the mirrored image. `outline`: whether
    the points surround the object: they may leave the image and any view of it, and the object's area is theirs. Other
    points are missing where they are outside.
    """

    word: str
    features: Mapping[str, Feature]
    each: Callable[[Keypoints | None], int] = lambda _: 1
    allowed: Mapping[str, tuple[Callable[[float], bool], str]] = field(default_factory=dict)
    name: str = ""
    remedy: str = ""
    tasks: str = ""
    lines: Callable[[Keypoints | None], Sequence[tuple[int, int]]] | None = None
    flip: Callable[[Keypoints | None], Sequence[int]] = lambda _: ()
    outline: bool = False

    @property
    def visible(self) -> bool:
        """Whether its points have a visibility: 0 (missing), 1 (occluded) or 2."""
        return len(self.features) == 3

    def is_in(self, schema: Schema) -> bool:
        """Whether records of the schema have it."""
        return self.features.keys() <= schema.features.keys()

    def problem(self, values: Mapping[str, Sequence[Any]], each: int) -> str:
        """Describe the first value of a record that is not allowed; "" if there is none."""
        for key, (is_allowed, expected) in self.allowed.items():
            for i, value in enumerate(values.get(key, ())):
                if not is_allowed(value):  # NaN is refused, too
                    return f"{key} of object {i // each} is {value:g}, expected {expected}"
        return ""


_FRACTION = (lambda value: 0 <= value <= 1), "0 to 1"

BOXES = RecordKind(
    "boxes",
    dict.fromkeys(BOX, Feature("float32", _ANY, "box")),
    name="objects with classes",
    remedy="convert annotations whose boxes have classes",
)
CLASSES = RecordKind("", {OBJECT_LABEL: Feature("int64", _ANY, "label"), OBJECT_TEXT: Feature("bytes", _ANY, "text")})
KEYPOINTS = RecordKind(
    "keypoints",
    {
        **dict.fromkeys((KEYPOINT_X, KEYPOINT_Y), Feature("float32", _ANY, "keypoint")),
        KEYPOINT_VISIBILITY: Feature("int64", _ANY, "number"),
    },
    each=lambda keypoints: 0 if keypoints is None else len(keypoints.names),
    lines=lambda keypoints: () if keypoints is None else keypoints.skeleton,
    flip=lambda keypoints: () if keypoints is None else keypoints.flip,
    allowed={
        **dict.fromkeys((KEYPOINT_X, KEYPOINT_Y), _FRACTION),
        KEYPOINT_VISIBILITY: ((lambda value: value in (0, 1, 2)), "0, 1 or 2"),
    },
    name="key points",
    tasks="boxes,keypoints",
)
_CORNERS = tuple(f"{OBJECTS}corner/{axis}" for axis in "xy")
ROTATED = RecordKind(
    "rotated",
    dict.fromkeys(_CORNERS, Feature("float32", _ANY, "keypoint")),
    each=lambda _: 4,
    allowed=dict.fromkeys(_CORNERS, (math.isfinite, "a finite number")),
    name="rotated boxes",
    tasks="rotated",
    lines=lambda _: ((0, 1), (1, 2), (2, 3), (3, 0)),
    flip=lambda _: (1, 0, 3, 2),  # so that the corners go around the same way
    outline=True,
)
AREAS = RecordKind(
    "areas",
    {OBJECT_AREA: Feature("float32", _ANY, "number")},
    allowed={OBJECT_AREA: ((lambda value: value >= 0), "0 or more")},
)
CROWDS = RecordKind(
    "crowds",
    {IS_CROWD: Feature("int64", _ANY, "number")},
    allowed={IS_CROWD: ((lambda value: value in (0, 1)), "0 or 1")},
)
MASKS = RecordKind("masks", {OBJECT_MASK: Feature("bytes", _ANY, "mask")}, name="masks", tasks="boxes,masks")
CAPTIONS = RecordKind("captions", {CAPTION: Feature("bytes", _ANY, "text")})
RASTERS = RecordKind(
    "rasters",
    {RASTER: Feature("bytes", (), "raster"), RASTER_FORMAT: Feature("bytes", (), "text")},
    name="rasters",
    remedy="convert folders of images and masks",
)

OF_OBJECTS = (BOXES, CLASSES, KEYPOINTS, ROTATED, AREAS, CROWDS, MASKS)
POINTS = tuple(kind for kind in OF_OBJECTS if kind.lines is not None)
KINDS = (*OF_OBJECTS, CAPTIONS, RASTERS)


def objects_problem(values: Mapping[str, Sequence[Any]], schema: Schema) -> str:
    """Return the first problem of a record's objects, in words; "" if there is none.

    `values`: values by feature key; a missing key counts as empty.
    """
    count = len(values.get(XMIN, ()))
    each = {key: kind.each(schema.keypoints) for kind in OF_OBJECTS for key in kind.features}
    for key in schema.object_keys:
        if (found := len(values.get(key, ()))) != (expected := count * each.get(key, 1)):
            return f"{key} has {number(found, 'value')}, expected {expected} for {number(count, 'object')}"
    for low, high in ((XMIN, XMAX), (YMIN, YMAX)):
        pairs = zip(values.get(low, ()), values.get(high, ()), strict=True)
        for i, (least, most) in enumerate(pairs):
            if not 0 <= least < most <= 1:  # NaN is refused, too
                return f"object {i} has {low} {least:g} and {high} {most:g}, expected 0 <= min < max <= 1"
    return next((problem for kind in OF_OBJECTS if (problem := kind.problem(values, kind.each(schema.keypoints)))), "")


def polygon_areas(points: np.ndarray) -> np.ndarray:
    """Areas, float64 [n], of polygons [n, K, 2]."""
    (x, y), (after_x, after_y) = np.moveaxis(points, -1, 0), np.moveaxis(np.roll(points, -1, axis=1), -1, 0)
    return np.abs((x * after_y - after_x * y).sum(axis=-1)) / 2
