"""The objects of a record as columns of values: which keys hold them; one rule for records, tars, Parquet and MDS."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardfeed.annotations import (
    BOX,
    IS_CROWD,
    KEYPOINT_VISIBILITY,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
    OBJECTS,
)
from shardfeed.converters.images.mask_file import read_mask
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode, RejectedError
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns
from shardfeed.converters.sources.rows.roles import CLASS_KEYS
from shardfeed.errors import escape, name_text
from shardfeed.formats.format import Fields
from shardfeed.kinds import AREAS, CLASSES, CROWDS, MASKS, POINTS, RecordKind
from shardfeed.schema import Dtype

_FLAGS = {OBJECTS + name: name for name in ("difficult", "truncated", "occluded", "group_of")}  # 0 or 1, of each object
_ALL_FLAGS = (IS_CROWD, *_FLAGS)
_ID = "id"  # a number of each object
DTYPES: Mapping[str, tuple[Dtype, ...]] = {
    **{key: (of.dtype,) for kind in (CLASSES, *POINTS, AREAS, CROWDS, MASKS) for key, of in kind.features.items()},
    **dict.fromkeys(_FLAGS, ("int64",)),
    OBJECT_LABEL: ("int64", "bytes"),
    OBJECT_AREA: ("float32", "int64"),
}
# Keys, best first, of what is said of objects, by our key; and the words of TFDS's keys.
_OUR_KEYS: Mapping[str, tuple[str, ...]] = {
    **{ours: (ours,) for ours in DTYPES},
    OBJECT_AREA: (OBJECT_AREA, f"{OBJECTS}segment/area"),
}
_THEIR_WORDS: Mapping[str, tuple[str, ...]] = {
    OBJECT_AREA: ("area",),
    _ID: ("id",),
    IS_CROWD: ("is_crowd",),
    **{key: (f"is_{name}",) for key, name in _FLAGS.items()},
    OBJECT_LABEL: ("label", *CLASS_KEYS),
}
KEYS_OF_OBJECTS = (*BOX, *DTYPES)  # that are read, by our names
_MOST_RUNS = 1 << 20  # borders of a mask: noise has no outline, and would take a number for every pixel
UNNAMED_POINTS = (
    "key points have no names in records: they get numbers, and training does not mirror images that have some"
)
_OF_POINTS = ("x", "y", "visibilities")
_NONE: tuple[str, Any] = ("", ())


@dataclass(frozen=True)
class ObjectKeys:
    """The keys of objects. `name`: what all begin with. `box`: in the order of BOX, or ymin, xmin, ymax, xmax in one.

    `others`: our key -> theirs.
    """

    name: str
    box: tuple[str, ...]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """All of them."""
        return frozenset({*self.box, *self.others.values()})

    @property
    def label(self) -> str:
        """The key of the class; "" if there is none."""
        return self.others.get(OBJECT_LABEL, "")

    def value(self, features: Fields) -> ObjectColumns | None:
        """Return the objects of a record; None if it has no box.

        Raises BadRowError if they cannot be told apart, RejectedError for a wrong dtype.
        """
        if not any(key in features for key in self.box):
            return None
        corners = self._corners(features)
        found = {ours: _values(features, key, DTYPES.get(ours, ("int64",))) for ours, key in self.others.items()}
        texts = [name_text(text) for text in found.get(OBJECT_TEXT, ())]
        return ObjectColumns(
            corners,
            self._labels(found),
            texts or None,
            found.get(OBJECT_AREA),
            {key: found[key] for key in _ALL_FLAGS if found.get(key)},
            found.get(_ID) or None,
            {kind.word: _points(kind, found, len(corners)) for kind in POINTS if found.keys() >= {*_axes(kind)}},
            _outlines(found.get(OBJECT_MASK), len(corners)),
        )

    def _corners(self, features: Fields) -> list[tuple[float, ...]]:
        """Left, top, right and bottom of each box. Raises BadRowError, RejectedError."""
        sides = [np.asarray(_values(features, key, ("float32",)), np.float32) for key in self.box]
        counts = sorted({len(side) for side in sides})
        if len(counts) > 1:
            raise BadRowError(counts[-1], f"the sides of its boxes have different lengths, {counts[0]} to {counts[-1]}")
        if len(sides) == 1 and counts[0] % 4:
            reason = f"{counts[0]} numbers in {escape(self.box[0])}, expected four per box"
            raise BadRowError(max(1, counts[0] // 4), reason)
        boxes = sides[0].reshape(-1, 4)[:, [1, 0, 3, 2]].T if len(sides) == 1 else sides
        return [*zip(*(side.tolist() for side in boxes), strict=True)]

    def _labels(self, found: Mapping[str, list[Any]]) -> list[Any] | None:
        """The class of each object, a number or a name; None without classes. Raises RejectedError."""
        labels = found.get(OBJECT_LABEL)
        if labels and isinstance(labels[0], bytes):
            return [as_text(label, self.label) for label in labels]
        return labels


def _values(features: Fields, key: str, dtypes: tuple[Dtype, ...]) -> list[Any]:
    dtype, values = features.get(key, _NONE)
    if len(values) and dtype not in dtypes:
        raise RejectedError(RejectCode.CORRUPT, f"{escape(key)} is {dtype}, expected {' or '.join(dtypes)}")
    return values.tolist() if isinstance(values, np.ndarray) else [*map(bytes, values)]


def _axes(kind: RecordKind) -> tuple[str, str]:
    """The keys of x and y of a kind of points."""
    x, y, *_ = kind.features
    return x, y


def _points(kind: RecordKind, found: Mapping[str, list[Any]], count: int) -> list[list[float]]:
    """X, y, and visibility if the kind has it, of the points of each object; those without a place are 0, 0, 0."""
    columns = [np.asarray(found[key], np.float64) for key in _axes(kind)]
    if kind.visible:
        columns.append(np.asarray(found.get(KEYPOINT_VISIBILITY, [2] * len(columns[0])), np.float64))
    lengths = [*map(len, columns)]
    if len({*lengths}) > 1 or (lengths[0] % count if count else lengths[0]):
        *counts, last = [f"{length} {name}" for length, name in zip(lengths, _OF_POINTS, strict=False)]
        reason = f"{', '.join(counts)} and {last} of {kind.name} for {count} boxes"
        raise BadRowError(max(1, count), reason)
    points = np.stack(columns, axis=-1)
    if kind.visible:
        points[np.isnan(points).any(axis=-1)] = 0
    return points.reshape(count, points.size // max(1, count)).tolist()


def _outlines(masks: list[bytes] | None, count: int) -> list[dict[str, Any] | BadAnnotationError] | None:
    """The region of each object; None without masks, or without one for any of its `count` boxes."""
    return None if masks is None or (count and not masks) else [*map(_outline, masks)]


def _outline(mask: bytes) -> dict[str, Any] | BadAnnotationError:
    """The region of a mask's pixels above 0 as a run-length code, or why it has none."""
    try:
        pixels = read_mask(mask).values()
    except RejectedError as error:
        return BadAnnotationError(AnnotationCode.OUTLINE, f"its mask cannot be read: {error.reason or error.code}")
    if pixels is None:
        return BadAnnotationError(AnnotationCode.OUTLINE, "its mask has colours, expected 0 and 1")
    inside = (pixels != 0).ravel("F")
    borders = np.diff(inside, prepend=False)
    if np.count_nonzero(borders) > _MOST_RUNS:
        return BadAnnotationError(AnnotationCode.OUTLINE, f"its mask has more than {_MOST_RUNS:,} borders")
    starts = np.flatnonzero(borders)
    return {"size": [*pixels.shape], "counts": np.diff(starts, prepend=0, append=inside.size).tolist()}


def find_object_keys(dtypes: Mapping[str, Dtype], asked: Mapping[str, str]) -> ObjectKeys | None:
    """Find the keys of boxes and of the other columns of objects, by the dtype of each key; None without boxes."""
    sides = tuple(asked.get(side, side) for side in BOX)
    if all(dtypes.get(side) == "float32" for side in sides):
        return ObjectKeys(OBJECTS.removesuffix("/"), sides, _others(_OUR_KEYS, dtypes, asked))
    boxes = [key for key, dtype in dtypes.items() if key.endswith("/bbox") and dtype == "float32"]
    if len(boxes) != 1:
        return None
    prefix = boxes[0].removesuffix("bbox")
    if prefix == "image/":  # what else begins so is of the image
        return ObjectKeys(boxes[0], (boxes[0],))
    theirs = {ours: tuple(prefix + word for word in words) for ours, words in _THEIR_WORDS.items()}
    return ObjectKeys(prefix.removesuffix("/"), (boxes[0],), _others(theirs, dtypes, asked))


def _others(
    candidates: Mapping[str, tuple[str, ...]], dtypes: Mapping[str, Dtype], asked: Mapping[str, str]
) -> dict[str, str]:
    """Our key -> theirs, of what is said of objects beside their boxes. `candidates`: by our key, best first."""
    others: dict[str, str] = {}
    for ours, keys in candidates.items():
        known = DTYPES.get(ours, ("int64",))
        fitting = [key for key in ((asked[ours],) if ours in asked else keys) if dtypes.get(key) in known]
        others |= {ours: fitting[0]} if fitting else {}
    if OBJECT_LABEL not in others or dtypes[others[OBJECT_LABEL]] == "bytes":  # then no text is beside a number
        text = others.pop(OBJECT_TEXT, "")
        others |= {OBJECT_LABEL: text} if text and OBJECT_LABEL not in others else {}
    return others


def as_text(value: Any, key: str) -> str:
    """A value as text. Raises RejectedError if it is not UTF-8."""
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise RejectedError(RejectCode.CORRUPT, f"the text in {escape(key)} is not UTF-8") from None
