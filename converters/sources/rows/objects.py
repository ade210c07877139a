"""Objects of images as readers find them: one list of rules for all, kept in about 70 bytes each."""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from shardfeed.annotations import IS_CROWD, OBJECTS, Keypoints
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.classes import Numbering
from shardfeed.converters.sources.files.parquet_file import BOX_KEYS
from shardfeed.converters.sources.options import Unit
from shardfeed.converters.sources.rows.columns import ClassTexts, Codes, as_array, repeated
from shardfeed.converters.sources.rows.object_table import ObjectTable, Outlines
from shardfeed.converters.sources.rows.roles import CLASS_KEYS
from shardfeed.converters.sources.source import Outline
from shardfeed.errors import UsageError, argument, escape
from shardfeed.kinds import KEYPOINTS, POINTS, RecordKind
from shardfeed.schema import is_plain
from shardfeed.text import number, some

_POINTS = [kind.word for kind in POINTS]
MOST = 1e9  # pixels: a larger coordinate is invalid, and would take pycocotools' memory
_MOST_AREA = 1e15  # pixels squared: representable in float32
_ENOUGH = 4  # boxes to tell sizes from corners; and a box in so many has to speak against sizes
_ROUNDING = 0.01  # of a side, by which a box may exceed its image
_TRIANGLE = 6  # numbers of the smallest polygon
_FAR = 2.0  # a fraction beyond it is invalid: rounding exceeds the image by less


def shown_value(value: Any) -> str:
    """A value in a message, shortly."""
    text = repr(value)
    return escape(text if len(text) <= 80 else f"{text[:77]}...")


def is_number(value: Any) -> bool:
    """Whether a value is a number, not a bool; NaN and infinity are for `ObjectGather` to judge."""
    if type(value) is float or type(value) is int:
        return True
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


class BadRowError(Exception):
    """The objects of a row cannot be separated: `count`, their apparent number, and why."""

    def __init__(self, count: int, reason: str) -> None:
        super().__init__(count, reason)
        self.count, self.reason = count, reason


@dataclass(frozen=True, eq=False)
class ObjectColumns:
    """The objects of one image, a value for each in every list.

    `corners`: left, top, right, bottom of each. `labels`: classes, numbers or texts; None where the source has
    none. `texts`: the text beside each number of a class. `flags`: 0 or 1 by feature key. `ids`: the source's own.
    `points`: by the word of their kind, x, y and perhaps visibility of each point. `outlines`: regions, or why there
    is none.
    """

    corners: Sequence[Sequence[float]]
    labels: Sequence[Any] | None = None
    texts: Sequence[str] | None = None
    areas: Sequence[float] | None = None
    flags: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ids: Sequence[int] | None = None
    points: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    outlines: Sequence[Outline | BadAnnotationError] | None = None

    def check(self) -> None:
        """Raise BadRowError if a list has more or fewer values than there are boxes."""
        count = len(self.corners)
        lists = {"classes": self.labels, "texts": self.texts, "areas": self.areas, "ids": self.ids, **self.flags}
        lists |= {**self.points, "masks": self.outlines}
        for name, values in lists.items():
            if values is not None and len(values) != count:
                raise BadRowError(
                    max(count, 1),
                    f"objects has {number(len(values), 'value')} of {name} for {number(count, 'box', 'boxes')}",
                )

    def one(self, place: int, texts: Sequence[str] | None) -> dict[str, Any]:
        """The values of one object, by the names of `ObjectGather.add`. `texts`: the classes of all."""
        label, area, own_id = (None if one is None else one[place] for one in (texts, self.areas, self.ids))
        flags = {key: values[place] for key, values in self.flags.items()}
        points = {word: values[place] for word, values in self.points.items()}
        outline = None if self.outlines is None else self.outlines[place]
        more = {"points": points, "outline": outline, "own_id": own_id}
        return {"box": self.corners[place], "label": label, "area": area, "flags": flags, **more}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects in one value of a column: a list with an object each, or an object of lists of equal length.

    Keys are those of COCO (`bbox`, `category`, `area`, `iscrowd` ...). Raises BadRowError for anything else.
    """
    if value is None or (isinstance(value, list | dict) and not value):
        return []
    if isinstance(value, list):
        if not all(isinstance(one, dict) for one in value):
            raise BadRowError(len(value), "objects is not a list of objects")
        return value
    if not isinstance(value, dict):
        raise BadRowError(1, f"got {type(value).__name__} in objects")
    key = next((key for key in BOX_KEYS if key in value), "")
    boxes = value.get(key)
    if not isinstance(boxes, list):
        raise BadRowError(1, "objects has no list bbox")
    known = (key, *CLASS_KEYS, "area", "iscrowd", "id", "segmentation", "keypoints")
    columns = {name: values for name, values in value.items() if name in known}
    for name, values in columns.items():
        if not isinstance(values, list) or len(values) != len(boxes):
            got = f"{len(values)} values of {escape(name)}" if isinstance(values, list) else f"no list {escape(name)}"
            raise BadRowError(max(len(boxes), 1), f"objects has {got} for {number(len(boxes), 'box', 'boxes')}")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def corners_of(box: Any) -> Any:
    """Left, top, right, bottom of [left, top, width, height]; anything else unchanged, for `ObjectGather` to refuse."""
    if isinstance(box, list | tuple) and len(box) == 4 and all(map(is_number, box)):
        left, top, width, height = map(_float, box)
        return left, top, left + width, top + height
    return box


def box_of(one: Mapping[str, Any]) -> Any:
    """Left, top, right, bottom of an object under COCO's keys; without a box, those around its outline, if it has one.

    Anything that is not four numbers is returned unchanged, for `ObjectGather` to refuse.
    """
    box = next((one[key] for key in BOX_KEYS if key in one), None)
    if box is not None and not (isinstance(box, list | tuple) and not box):
        return corners_of(box)
    around = _box_around(one.get("segmentation"))
    return box if around is None else around


def _box_around(outline: Any) -> tuple[float, ...] | None:
    """The box around polygons, or around a run-length code of numbers; None if there is none."""
    if isinstance(outline, dict):
        return _box_of_runs(outline.get("size"), outline.get("counts"))
    parts = outline if isinstance(outline, list) else []
    if not parts or not all(map(_is_polygon, parts)):
        return None
    x, y = (list(chain.from_iterable(part[axis::2] for part in parts)) for axis in (0, 1))
    return _float(min(x)), _float(min(y)), _float(max(x)), _float(max(y))


def _is_polygon(part: Any) -> bool:
    """Whether it is a list of x, y, x, y, ... of at least three corners."""
    pairs = isinstance(part, list) and len(part) >= _TRIANGLE and len(part) % 2 == 0
    return pairs and all(map(is_number, part))


def _box_of_runs(size: Any, counts: Any) -> tuple[float, ...] | None:
    """The box around the pixels of a run-length code; None if `counts` is a text, or they are not of this size."""
    whole = isinstance(size, list) and len(size) == 2 and isinstance(counts, list)
    if not whole or not all(type(n) is int and 0 <= n < MOST for n in (*size, *counts)):
        return None
    height, width = size
    ends = np.cumsum(counts)
    starts, stops = ends[0::2][: len(counts) // 2], ends[1::2]
    inside = stops > starts
    if not inside.any() or ends[-1] > height * width:
        return None
    return around_runs(starts[inside], stops[inside], height)


def around_runs(starts: np.ndarray, stops: np.ndarray, height: int) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of runs of pixels down the columns of an image of this height, counted from 0."""
    first, last = starts // height, (stops - 1) // height  # columns
    several = first < last  # the run reaches the lower end of its column, and continues in the next
    top = np.where(several, 0, starts % height).min()
    bottom = np.where(several, height, (stops - 1) % height + 1).max()
    return float(first.min()), float(top), float(last.max() + 1), float(bottom)


def class_text(value: Any) -> str:
    """A class as text: a name, or a number in digits; "" for null. Raises BadAnnotationError (E_CATEGORY)."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 2**63:
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    reason = f"got the class {shown_value(value)}, expected a name or an integer"
    raise BadAnnotationError(AnnotationCode.CATEGORY, reason)


def values_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object under COCO's keys, by the names of `ObjectGather.add`.

    "corners" takes precedence over its box, which is left, top, width, height; flags have their feature keys. Raises
    BadAnnotationError for an invalid class.
    """
    box = one.get("corners")
    if box is None:
        box = box_of(one)
    named = next((key for key in CLASS_KEYS if key in one), None)
    label = None if named is None else class_text(one[named])
    flags = {key: value for key, value in one.items() if key.startswith(OBJECTS)}
    flags |= {IS_CROWD: one["iscrowd"]} if one.get("iscrowd") is not None else {}
    return {"box": box, "label": label, "area": one.get("area"), "flags": flags, "own_id": one.get("id")}


class ObjectGather:
    """Collector of objects in any order, which checks each; `finish` makes the table of the valid ones.

    Args:
        what: the report's word for an object, before its number: "annotation", "line".
        unit: of boxes, points and outlines.
        upright: whether they refer to the upright image; None if the size of the image decides.
        keypoints: of each object; None without. The attribute may be set until `finish`, if names come last.
        masks: whether outlines are taken, to make masks of.
        flags: feature keys that exist even if no object has them.
    """

    def __init__(
        self,
        *,
        what: str = "object",
        unit: Unit = "pixels",
        upright: bool | None = None,
        keypoints: Keypoints | None = None,
        masks: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        self.what, self.upright, self.keypoints = what, upright, keypoints
        self.unit: Unit = unit
        self._images, self._numbers, self._hashes = array("i"), array("q"), array("q")
        self._boxes = array("d")
        self._classes = Codes()
        self._areas: array[float] | None = None  # from the first object that has an area
        self._points: dict[str, tuple[array[float], array[int]]] = {}  # by kind: values, and the end of each object's
        self.sized = False  # whether the format has boxes as left, top, width, height
        self._unnamed = False  # whether key points came as columns, which have no names for them
        self._flags: dict[str, array[int]] = {key: array("b") for key in flags}
        self._outlines = Outlines() if masks else None
        self._bare = 0  # objects that came as columns without outlines
        self._sizes: dict[int, tuple[int, int]] = {}
        self._same_sizes: dict[tuple[int, int], tuple[int, int]] = {}  # most images are as large as another
        self._largest, self._far, self._classed = 0.0, 0, 0
        self.beside: ClassTexts | None = None  # the texts beside numbers of classes, where objects come as columns
        self._class_texts: dict[Any, str] = {}

    def __len__(self) -> int:
        return len(self._images)

    @property
    def class_texts(self) -> list[str]:
        """Each different class that an object names, as it first came."""
        return [text for text in self._classes.values if text]

    @property
    def unmasked(self) -> int:
        """Objects that came as columns without outlines, if others have some: then none are taken."""
        return self._bare if self._outlines is not None else 0

    @property
    def largest(self) -> float:
        """The largest coordinate of a box so far, without its sign."""
        return self._largest

    @property
    def class_counts(self) -> dict[str, int]:
        """The number of objects of each class, by its text."""
        counts = np.bincount(self._classes.codes, minlength=len(self._classes.values))
        return {text: int(counts[code]) for text, code in self._classes.values.items()}

    def images(self) -> set[int]:
        """The images that have an object so far."""
        return set(self._images)

    def set_size(self, image: int, width: Any, height: Any) -> None:
        """Record the annotated size of an image in pixels, if both sides are integers of at least 1."""
        sides = [int(side) if is_number(side) and side == side and abs(side) < 2**31 else 0 for side in (width, height)]
        if all(side > 0 for side in sides) and sides == [width, height]:
            size = sides[0], sides[1]
            self._sizes[image] = self._same_sizes.setdefault(size, size)

    def size(self, image: int) -> tuple[int, int] | None:
        """The (width, height) that was noted; None without."""
        return self._sizes.get(image)

    def add(
        self,
        image: int,
        number: int,
        box: Sequence[Any] | None,
        label: str | None = None,
        *,
        area: Any = None,
        flags: Mapping[str, Any] | None = None,
        points: Mapping[str, Any] | None = None,
        outline: Any = None,
        own_id: Any = None,
    ) -> None:
        """Take one object of the image of that number.

        `number`: the object's number, for the report. `box`: left, top, right, bottom. `label`: its class as text, ""
        without one, None if the source has no classes. `flags`: 0 or 1 by feature key. `points`: by the word of their
        kind. `own_id`: the source's id, which distinguishes otherwise equal objects. Raises BadAnnotationError.
        """
        sides = _box(box)
        if area is not None:
            area = _area(area)
        flagged = {key: _flag(key, value) for key, value in flags.items()} if flags else {}
        for key in flagged:
            if not key.startswith("image/"):
                raise UsageError("flags", f"got {key!r}, expected a feature key", f'write "image/object/{key}"')
        if points and (unknown := points.keys() - {*_POINTS}):
            raise UsageError("points", f"got {unknown.pop()!r}, expected {' or '.join(_POINTS)}")
        placed = {word: _numbers(values) for word, values in points.items()} if points else {}
        masked = self._outlines is not None and not self._bare
        region = check_outline(outline) if masked else None
        # Everything is sound: from here on nothing raises.
        known = len(self._images)
        self._images.append(image)
        self._numbers.append(number)
        self._boxes.extend(sides)
        self._classes.add(label or "")
        self._classed += label is not None
        if area is not None and self._areas is None:
            self._areas = array("d", [math.nan]) * known
        if self._areas is not None:
            self._areas.append(math.nan if area is None else area)
        for key in flagged:
            if key not in self._flags:
                self._flags[key] = array("b", bytes(known))
        for key, values in self._flags.items():
            values.append(flagged.get(key, 0))
        for word in placed:
            if placed[word] and word not in self._points:
                self._points[word] = array("d"), array("q", bytes(8 * known))
        for word, (values, ends) in self._points.items():
            values.extend(placed.get(word, ()))
            ends.append(len(values))
        drawn = self._outlines.add(region) if self._outlines is not None and masked else 0
        same = (image, sides, label, area, tuple(flagged.items()), tuple(placed.items()), repr(own_id), drawn)
        self._hashes.append(hash(same))
        largest = max(map(abs, sides))
        self._largest, self._far = max(self._largest, largest), self._far + (largest > _FAR)

    def take(
        self, image: int, found: Sequence[Mapping[str, Any]] | ObjectColumns
    ) -> Iterator[tuple[AnnotationCode, str]]:
        """Take all objects of an image, from 0 on; yields the code and the reason of each that cannot be taken."""
        every: Iterable[Mapping[str, Any]] = found if not isinstance(found, ObjectColumns) else ()
        if isinstance(found, ObjectColumns):
            self.beside, texts = self.beside or ClassTexts(), None
            if found.labels is not None:
                known = self._class_texts
                texts = [known.get(one) or known.setdefault(one, class_text(one)) for one in found.labels]
                if found.texts is not None:
                    self.beside.add(found.labels, found.texts)
            if self._add_all(image, found, texts):
                return
            every = (found.one(i, texts) for i in range(len(found.corners)))
        for i, one in enumerate(every):
            try:
                self.add(image, i, **(one if isinstance(found, ObjectColumns) else values_of(one)))
            except BadAnnotationError as error:
                yield error.code, f"{self.what} {i}: {error.reason}"

    def _add_all(self, image: int, objects: ObjectColumns, labels: Sequence[str] | None) -> bool:
        """Add all objects of an image at once, with classes as text. If one is invalid, add none and return False."""
        if objects.outlines is None:
            self._bare += len(objects.corners)
        elif self._outlines is None:
            self._outlines = Outlines()
        self._unnamed |= KEYPOINTS.word in objects.points
        if objects.outlines is not None or objects.points:
            return False
        corners, areas, flags = objects.corners, objects.areas, objects.flags
        values = [*chain.from_iterable(corners)]
        largest = max(map(abs, values), default=0.0)
        sound = largest < MOST and all(right > left and bottom > top for left, top, right, bottom in corners)
        sound = sound and (areas is None or all(0 <= area < _MOST_AREA for area in areas))
        if not sound or not all({0, 1}.issuperset(values) for values in flags.values()):
            return False
        known, count = len(self._images), len(corners)
        self._images.extend([image] * count)
        self._numbers.extend(range(count))
        self._boxes.extend(values)
        texts = [""] * count if labels is None else labels
        for text in texts:
            self._classes.add(text)
        self._classed += 0 if labels is None else count
        if areas is not None and self._areas is None:
            self._areas = array("d", [math.nan]) * known
        if self._areas is not None:
            self._areas.extend([math.nan] * count if areas is None else areas)
        for of_kind, ends in self._points.values():
            ends.extend([len(of_kind)] * count)
        for key in flags:
            if key not in self._flags:
                self._flags[key] = array("b", bytes(known))
        for key, known_flags in self._flags.items():
            known_flags.extend(flags.get(key, [0] * count))
        parts = [[image] * count, map(tuple, corners), texts, areas, objects.ids, *flags.values()]
        self._hashes.extend(map(hash, zip(*(part for part in parts if part is not None), strict=True)))
        self._largest = max(self._largest, largest)
        self._far += sum(max(map(abs, box)) > _FAR for box in corners) if largest > _FAR else 0
        return True

    def contradiction(self, start: int = 0) -> str:
        """Describe how two objects with the same number differ, among the objects from `start` on; "" if none do."""
        numbers, hashes = as_array(self._numbers)[start:], as_array(self._hashes)[start:]
        twice = np.flatnonzero(np.isin(numbers, repeated(numbers)))
        order = twice[np.lexsort((hashes[twice], numbers[twice]))]
        again = numbers[order[1:]] == numbers[order[:-1]]
        found = np.flatnonzero(again & (hashes[order[1:]] != hashes[order[:-1]]))
        if not len(found):
            return ""
        i, j = (start + order[found[0] : found[0] + 2]).tolist()
        codes, boxes = self._classes.codes, self._boxes
        differing = {
            "image": self._images[i] != self._images[j],
            "class": codes[i] != codes[j],
            "box": boxes[4 * i : 4 * i + 4] != boxes[4 * j : 4 * j + 4],
        }
        parts = [name for name, differs in differing.items() if differs] or ["their attributes"]
        return f"two {self.what}s have the id {self._numbers[i]}, but differ in {', '.join(parts)}"

    def check_unit(self, place: object, unit: Unit | None, *, format_unit: Callable[[Unit], str] | None = None) -> None:
        """Raise UsageError if the boxes cannot be in the unit of the format.

        `unit`: given by the user. `format_unit`: formats a unit for a remedy, by default as the option `unit`.
        """
        if unit is not None:
            self.unit = unit
            return
        give = format_unit if format_unit is not None else lambda unit: argument("unit", unit)
        if self.unit == "pixels" and len(self) and self._largest <= 1:
            boxes = number(len(self), "box", "boxes")
            problem = f"no coordinate of its {boxes} is larger than {self._largest:g}, expected pixels"
            remedy = f"give {give('fractions')} if they are fractions of the image, else {give('pixels')}"
            raise UsageError(place, problem, remedy)
        if self.unit == "pixels" and self.sized and (beyond := self._corners_as_sizes()):
            problem = f"{beyond:,} of {number(len(self), 'box', 'boxes')} leave their images as [left, top, width, "
            problem += "height], and none does as [left, top, right, bottom]"
            raise UsageError(place, problem, "write left, top, width and height of each box, as the format has them")
        if self.unit == "fractions" and self._far * 2 > len(self):
            problem = f"{self._far:,} of {len(self):,} boxes have coordinates beyond {_FAR:g}, expected fractions"
            raise UsageError(place, problem, f"give {give('pixels')} if they are in pixels")

    def _corners_as_sizes(self) -> int:
        """Count boxes beyond their images, if all boxes are sound as corners: then corners were taken for sizes."""
        images, boxes = as_array(self._images), as_array(self._boxes).reshape(-1, 4)
        known = np.array([self._sizes.get(image, (0, 0)) for image in images.tolist()]).reshape(-1, 2)
        if len(images) < _ENOUGH or not known.all():
            return 0
        start, sizes = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
        most = known + np.maximum(1, known * _ROUNDING)
        beyond = (boxes[:, 2:] > most).any(axis=1)
        as_corners = (sizes > start).all() and (sizes <= most).all()
        return int(beyond.sum()) if as_corners and beyond.sum() * _ENOUGH > len(images) else 0

    def finish(
        self,
        classes: Numbering | None,
        places: np.ndarray | None,
        leave_out: Callable[[int, AnnotationCode, str], object],
    ) -> ObjectTable:
        """Make the table. `places`: int64 [images], the index of each image in the source, -1 if it is left out.

        `leave_out`: called with image, code and reason for each object that is left out.
        """
        images, codes, hashes = as_array(self._images), self._classes.codes, as_array(self._hashes)
        self._hashes = array("q")
        twins = [*self._twins(images, hashes)]
        del hashes  # gone before others are made
        labels = np.zeros(len(images), np.int32)
        faults: dict[int, tuple[AnnotationCode, str]] = {}
        if classes is not None:
            of_code = np.zeros(len(self._classes.values), np.int32)
            for text, code in self._classes.values.items():
                if text in classes.labels:
                    of_code[code] = classes.labels[text]
                    continue
                known = f"of {some(classes.names)}" if is_plain(text) else "that is plain text"
                reason = f"got the class '{escape(text)}', expected one {known}" if text else "it has no class"
                faults |= dict.fromkeys(np.flatnonzero(codes == code).tolist(), (AnnotationCode.CATEGORY, reason))
            labels = of_code[codes]
        for i in twins:
            faults.setdefault(i, (AnnotationCode.TWICE, "it is an exact duplicate"))
        if self._unnamed and KEYPOINTS.word in self._points:
            most = int(np.diff(as_array(self._points[KEYPOINTS.word][1]), prepend=0).max()) // 3
            self.keypoints = Keypoints(tuple(map(str, range(most))))
        points: dict[str, np.ndarray] = {}
        for kind in POINTS:
            if self.keypoints is None if kind is KEYPOINTS else kind.word not in self._points:
                continue
            points[kind.word] = found = self._points_of(kind)
            reason = f"its {kind.word} are not {found[:1].size} numbers: x, y{' and 0, 1 or 2' * kind.visible} of each"
            for i in np.flatnonzero(np.isnan(found).any(axis=(1, 2))).tolist():
                faults.setdefault(i, (AnnotationCode.KEYPOINTS, reason))
        place = images if places is None or not len(images) else places.astype(np.int32)[images]
        for i in np.flatnonzero(place < 0).tolist():
            faults[i] = (AnnotationCode.IMAGE, "its image was left out")
        for i, (code, reason) in sorted(faults.items()):
            leave_out(self._images[i], code, f"{self.what} {self._numbers[i]}: {reason}")
        kept = np.delete(np.arange(len(images)), list(faults)) if faults else slice(None)
        areas = None if self._areas is None else self._filled_areas()[kept]
        if self.unit == "fractions" and areas is not None and not areas.max(initial=0) > 1:
            areas = np.zeros(0)  # unknown, or not for all: areas of boxes or masks are used
        sizes = {image if places is None else int(places[image]): size for image, size in self._sizes.items()}
        return ObjectTable(
            place[kept],
            as_array(self._numbers)[kept],
            as_array(self._boxes).reshape(-1, 4)[kept],
            labels[kept],
            None if classes is None else classes.names,
            () if classes is None else classes.ids,
            self.what,
            self.unit,
            self.upright,
            {key: as_array(values)[kept] for key, values in self._flags.items()},
            areas,
            self.keypoints,
            {word: of_kind[kept] for word, of_kind in points.items()},
            None if self._outlines is None or self._bare else (self._outlines, np.arange(len(images))[kept]),
            {image: size for image, size in sizes.items() if image >= 0},
        )

    @property
    def classed(self) -> bool:
        """Whether the source has classes of objects."""
        return self._classed > 0

    def _filled_areas(self) -> np.ndarray:
        """Return areas, float64 [n]; a missing area is the area of the box in pixels, or NaN for a box in fractions."""
        assert self._areas is not None
        areas, boxes = as_array(self._areas), as_array(self._boxes).reshape(-1, 4)
        if self.unit == "fractions" or not np.isnan(areas).any():
            return areas
        return np.where(np.isnan(areas), (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), areas)

    def _points_of(self, kind: RecordKind) -> np.ndarray:
        """float64 [n, K, 2 or 3]: the points of each object; zeros if it has none, NaN if they are invalid."""
        count, shape = len(self._images), (kind.each(self.keypoints), len(kind.features))
        values, ends = self._points.get(kind.word) or (array("d"), array("q", bytes(8 * count)))
        lengths = np.diff(as_array(ends), prepend=0)
        points = np.zeros((count, *shape))
        whole = lengths == shape[0] * shape[1]
        points[whole] = as_array(values)[np.repeat(whole, lengths)].reshape(-1, *shape)
        sound = (np.abs(points) < MOST).all(axis=(1, 2))
        if kind.visible:
            sound &= np.isin(points[:, :, 2], (0, 1, 2)).all(axis=1)
        points[~sound | ~(whole | (lengths == 0))] = np.nan
        return points

    def _twins(self, images: np.ndarray, hashes: np.ndarray) -> Iterator[int]:
        """The objects that are the same in everything as one before them."""
        twice = np.flatnonzero(np.isin(hashes, repeated(hashes)))
        order = twice[np.argsort(hashes[twice], kind="stable")]
        boxes = as_array(self._boxes).reshape(-1, 4)
        for n in np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]]).tolist():
            i, j = order[n + 1], order[n]
            if images[i] == images[j] and (boxes[i] == boxes[j]).all():  # two hashes may be equal by chance
                yield int(i)


def _box(box: Sequence[Any] | None) -> tuple[float, float, float, float]:
    """Left, top, right, bottom. Raises BadAnnotationError."""
    sides = len(box) if isinstance(box, Sequence | np.ndarray) else -1
    if box is None or sides != 4 or not all(map(is_number, box)):
        code = AnnotationCode.BOX_EMPTY if box is None or not sides else AnnotationCode.LINE
        raise BadAnnotationError(code, f"its box is {shown_value(box)}, expected 4 numbers")
    left, top, right, bottom = map(_float, box)
    if left != left or top != top or right != right or bottom != bottom:
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "its box has no numbers: nan")
    if not max(abs(left), abs(top), abs(right), abs(bottom)) < MOST:
        reason = f"its box is {shown_value(list(box))}, expected numbers below {MOST:g}"
        raise BadAnnotationError(AnnotationCode.VALUE, reason)
    if right <= left or bottom <= top:
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"its box is {shown_value(list(box))}, without an area")
    return left, top, right, bottom


def _numbers(values: Any) -> tuple[float, ...]:
    """As floats; one NaN if they are no numbers."""
    if values is None:
        return ()
    sound = isinstance(values, Sequence) and not isinstance(values, str)
    return tuple(map(_float, values)) if sound and all(map(is_number, values)) else (math.nan,)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _area(value: Any) -> float:
    """Pixels squared. Raises BadAnnotationError."""
    found = _float(value) if is_number(value) else math.nan
    if not 0 <= found < _MOST_AREA:
        raise BadAnnotationError(AnnotationCode.VALUE, f"its area is {shown_value(value)}, expected 0 or more")
    return found


def _flag(key: str, value: Any) -> int:
    """0 or 1. Raises BadAnnotationError."""
    if value not in (None, 0, 1):  # False and True equal 0 and 1
        name = key.rpartition("/")[2]
        raise BadAnnotationError(AnnotationCode.VALUE, f"its {name} is {shown_value(value)}, expected 0 or 1")
    return int(value or 0)


def check_outline(found: Any) -> Outline:
    """A region as pycocotools takes it: polygons or a run-length code. Raises BadAnnotationError (E_OUTLINE)."""
    if isinstance(found, BadAnnotationError):  # a reader's
        raise found
    if isinstance(found, list) and found:
        if not all(isinstance(part, list) and _all_numbers(part) for part in found):
            raise BadAnnotationError(AnnotationCode.OUTLINE, f"{shown_value(found)}, expected lists of x, y, x, y, ...")
        return found
    if isinstance(found, dict):
        size, counts = found.get("size"), found.get("counts")
        pair = isinstance(size, list) and len(size) == 2 and all(type(side) is int for side in size)
        if pair and ((isinstance(counts, str) and counts.isascii()) or isinstance(counts, list)):
            return {"size": size, "counts": counts}
        raise BadAnnotationError(AnnotationCode.OUTLINE, f"{shown_value(found)}, expected a run-length code")
    why = "it has no region: segmentation is empty or missing; tasks without masks use only its box"
    raise BadAnnotationError(AnnotationCode.OUTLINE, why)


def _all_numbers(values: list[Any]) -> bool:
    """Whether all are numbers that a region may have."""
    try:
        known = set(map(type, values)) <= {int, float} and math.isfinite(sum(values))
        return known and (not values or (max(values) < MOST and min(values) > -MOST))
    except OverflowError:
        return False
