"""Lines of labels: a class, and fractions of the upright image; the number of values gives the kind of object."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.yolo_data_yaml import DataYaml
from shardfeed.errors import LabelFileError, argument, escape

# Kinds of lines in a dataset: boxes (5 numbers); polygons (a class, and x and y of three points or more); either of
# these; corners of rotated boxes (9); boxes and keypoints.
Shape = Literal["boxes", "polygons", "either", "corners", "keypoints"]

_BOX, _CORNERS = 5, 9  # numbers of a line
_SCORED, _TRACKED = _BOX + 1, _BOX + 2  # of a box with a confidence, and with a track, too: tools save predictions so
_LEAST_POLYGON = 7
_OFF = 0.01  # by which a box may leave the image
_POINTS = "kpt_shape: [K, 3] (x, y, visibility), or [K, 2]"
_WHOLE = 2**53  # no class has a number that large
_PLAIN = re.compile(rb"[-+.0-9eE \t]*\Z")  # numbers in the usual notation: no "nan", no "1_000"
_MEANING: dict[Shape, str] = {
    "boxes": "class and box",
    "polygons": "class and outline",
    "either": "class, and box or outline",
    "corners": "class and four corners",
    "keypoints": "class, box and key points",
}


class LabelLine(NamedTuple):
    """`label`: the number of the class. `box`: left, top, right, bottom. `outline`: x, y, x, y, ..., of a polygon.

    `points`: x, y and perhaps visibility of each, by their kind. `is_unclear`: whether it may also be a box with a
    confidence and a track, or with key points; `as_box` returns it.
    """

    label: str
    box: tuple[float, float, float, float]
    outline: Sequence[float] | None = None
    points: Mapping[str, Sequence[float]] | None = None
    is_unclear: bool = False

    def as_box(self) -> "LabelLine":
        """The line with its first four numbers as the box, and without the others."""
        assert self.outline is not None
        x, y, wide, high = self.outline[:4]
        return LabelLine(self.label, (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2))


class LabelLines:
    """Parser of lines of one `shape`. Their meaning is known only once all are read: `check` decides it then."""

    def __init__(self, shape: Shape, data_yaml: DataYaml | None, *, asked: bool = False) -> None:
        self.data_yaml, self._asked = data_yaml, asked
        self._shape: Shape = shape
        self._dimensions = 3 if data_yaml is None else data_yaml.dimensions
        self._points = 0 if data_yaml is None or data_yaml.keypoints is None else len(data_yaml.keypoints.names)
        of_points = _BOX + self._points * self._dimensions
        self._length = {"corners": _CORNERS, "keypoints": of_points, "polygons": 0}.get(shape, _BOX)
        self._counts: Counter[int] = Counter()  # by number of values, accepted lines
        self._places: dict[int, tuple[str, int]] = {}  # by number of values, the first accepted line
        self._misfits: dict[int, tuple[str, int]] = {}  # the same for lines of another shape
        self._unclear: Counter[int] = Counter()  # by number of values, lines that are unclear
        self._posed: Counter[int] = Counter()  # lines that may be boxes with key points
        self._ended = 0  # lines of outlines that end in an integer
        self._last = 0.0  # the largest of these integers
        self._scored = 0  # boxes with a confidence
        self._bad = False  # whether a line of this shape has a bad number

    def read(self, text: bytes, place: tuple[str, int]) -> LabelLine:
        """Parse a line. `place`: its file and line number. Raises BadAnnotationError."""
        words = text.split()
        count = len(words)
        polygon = self._shape in ("polygons", "either") and count >= _LEAST_POLYGON and count % 2
        scored = self._asked and self._shape in ("boxes", "either") and count in (_SCORED, _TRACKED) and not polygon
        if count != self._length and not polygon and not scored:
            self._misfits.setdefault(count, place)
            if count == 1 and _is_number(words[0]):
                raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "it has a class but no numbers")
            hint = " (with a confidence, as in predictions)" if count == _SCORED else ""
            hint += f"; {ask_for('boxes')} converts its box" if hint and self._length == _BOX else ""
            raise BadAnnotationError(AnnotationCode.LINE, f"got {count} numbers, expected {self._expected}{hint}")
        self._bad = True
        numbers = _numbers(text, words)
        label, rest = _label(words[0], numbers[0]), numbers[_BOX:]
        self._bad = False
        self._counts[count] += 1
        self._places.setdefault(count, place)
        x, y, wide, high = numbers[1:_BOX]
        box = (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        self._scored += scored
        if self._shape == "keypoints" or count == _BOX or scored:
            if self._dimensions == 2:  # visibility is not given: 2 (visible), and 0 (missing) for 0, 0
                pairs = zip(rest[::2], rest[1::2], strict=True)
                rest = [value for x, y in pairs for value in (x, y, 2.0 if x or y else 0.0)]
            return LabelLine(label, box, points={"keypoints": rest} if rest and not scored else None)
        xs, ys = numbers[1::2], numbers[2::2]
        likely = min(box) >= -_OFF and max(box) <= 1 + _OFF and wide > 0 and high > 0
        ends = numbers[-1].is_integer() and 0 <= numbers[-2] <= 1 and numbers[-1] >= 0
        seen = likely and len(rest) % 3 == 0 and all(value in (0, 1, 2) for value in rest[2::3])
        self._ended += ends
        self._last = max(self._last, numbers[-1] if ends else 0)
        left, top, right, bottom = box
        points = zip(rest[::2], rest[1::2], strict=False)
        inside = ((left <= x <= right and top <= y <= bottom) or x == y == 0 for x, y in points)  # 0 and 0: missing
        self._posed[count] += seen or (likely and len(rest) % 2 == 0 and all(inside))
        unclear = self._shape == "either" and (seen or (ends and likely and count == _TRACKED))
        self._unclear[count] += unclear
        around = (min(xs), min(ys), max(xs), max(ys))
        return LabelLine(label, around, outline=numbers[1:], is_unclear=unclear)

    @property
    def are_boxes(self) -> bool:
        """Whether all lines that may be outlines may be boxes with a confidence and a track, or with key points."""
        outlines = self._counts.keys() - {_BOX, _SCORED}
        return len(outlines) == 1 and all(self._unclear[count] == self._counts[count] for count in outlines)

    @property
    def _expected(self) -> str:
        """The numbers that a line should have, in words."""
        of_points = f"{self._dimensions} for each of {self._points} key points"
        return {
            "boxes": "5: class, x, y, width, height",
            "polygons": "a class and x and y of three points or more",
            "either": "5 (class, x, y, width, height), or a class and x and y of three points or more",
            "corners": "9: class, x and y of four corners",
            "keypoints": f"{self._length}: class, x, y, width, height, and {of_points}",
        }[self._shape]

    def check(self) -> None:
        """Raise LabelFileError if all lines have another shape, or are ambiguous and boxes were not asked for.

        Polygons of a dataset differ in their number of points: if all lines have the same number of values, the lines
        alone do not show whether they are polygons.
        """
        if not self._counts and not self._bad and len(self._misfits) == 1:
            ((count, place),) = self._misfits.items()
            without_rest = f"{ask_for('boxes')} converts the boxes, and leaves out what follows them"
            if self._shape != "either" and count >= _BOX:
                problem = f"all lines have {count} numbers, expected {self._expected}"
                other = f"request other {ask_for()}, or correct data.yaml"
                raise _unclear(place, problem, without_rest if count in (_SCORED, _TRACKED) else other)
            if count == _SCORED:
                raise _unclear(place, f"all lines have {count} numbers: boxes with a confidence?", without_rest)
            if self._shape == "either" and count >= _BOX + 3:
                problem = f"all lines have {count} numbers, possibly key points"
                raise _unclear(place, problem, f"write {_POINTS} into data.yaml")
        outlines = sorted(self._counts.keys() - {_BOX, _SCORED})
        if self._shape != "either" or self._asked or not outlines or (self._are_tracks and self._last > 1):
            return
        boxes, masks = ask_for("boxes"), ask_for("boxes", "masks")
        if self._are_tracks:
            problem = (
                f"all lines have {_TRACKED} numbers: boxes with confidence and track, or outlines of three points?"
            )
            remedy = f"{boxes} converts the boxes, {masks} the outlines"
        elif _BOX in self._counts:
            file, number = self._places[_BOX]
            one = f"one of {_BOX} at {escape(file)}:{number}"
            problem = f"got a line of {outlines[0]} numbers, and {one}: outlines or boxes?"
            remedy = f"{boxes} converts the box of each; {masks} converts outlines and lists the other lines"
        elif outlines == [_CORNERS]:
            problem = f"all lines have {_CORNERS} numbers: rotated boxes or outlines of four points?"
            remedy = f"{ask_for('rotated')} converts rotated boxes, {masks} outlines, {boxes} the box around each"
        elif len(outlines) == 1 and (self.data_yaml is None or self._posed == self._counts):
            problem = f"all lines have {outlines[0]} numbers: outlines or boxes with key points?"
            remedy = f"{masks} converts them as outlines; for key points give a data.yaml with {_POINTS}"
        elif self._ended == self._counts.total() and self._last > 1:
            problem = f"all lines end in an integer, up to {self._last:g}, which is no coordinate"
            remedy = "remove what follows the coordinates, such as a track"
        else:
            return
        raise _unclear(self._places[outlines[0]], problem, remedy)

    @property
    def notes(self) -> list[str]:
        """A sentence for the report on values that are not read."""
        count = self._scored + (self._unclear.total() if self.are_boxes else 0)
        what = "lines of a box and more, such as a confidence, a track or key points, which are not read"
        return [f"{what}: {count:,}"] if count else []

    @property
    def _are_tracks(self) -> bool:
        return self.are_boxes and self._unclear[_TRACKED] > 0

    @property
    def meaning(self) -> str:
        """Name the shape of the lines that were accepted, in words."""
        shape = self._shape
        if shape == "either" and self._counts:
            boxes = {_BOX, _SCORED, *(self._unclear if self.are_boxes else ())}
            shape = "boxes" if self._counts.keys() <= boxes else "either" if _BOX in self._counts else "polygons"
        return _MEANING[shape]

    @property
    def outlines(self) -> int:
        """Number of lines with an outline."""
        if self._shape in ("boxes", "keypoints") or self.are_boxes:
            return 0
        return sum(n for length, n in self._counts.items() if length not in (_BOX, _SCORED))


def _unclear(place: tuple[str, int], problem: str, remedy: str) -> LabelFileError:
    return LabelFileError(f"{place[0]}:{place[1]}", problem, remedy)


def ask_for(*tasks: str) -> str:
    """The argument that asks for these tasks, or for any, in a message."""
    return argument("tasks", python=f"tasks={list(tasks)}" if tasks else "", typed=",".join(tasks))


def _label(word: bytes, number: float) -> str:
    """The class, in digits; it may be written as 3.0. Raises BadAnnotationError."""
    if number != int(number):
        reason = f"the class is {escape(word[:40])}, expected an integer"
        raise BadAnnotationError(AnnotationCode.VALUE, reason)
    return str(int(number)) if abs(number) < _WHOLE else f"{number:g}"


def _numbers(line: bytes, words: Sequence[bytes]) -> list[float]:
    """Parse finite numbers. Raises BadAnnotationError."""
    try:
        if _PLAIN.match(line):
            numbers = [float(word) for word in words]
            if all(map(math.isfinite, numbers)):
                return numbers
    except ValueError:
        pass
    word = next(word for word in words if not _is_number(word))
    raise BadAnnotationError(AnnotationCode.VALUE, f"got {escape(word[:40])!r}, expected a number")


def _is_number(word: bytes) -> bool:
    try:
        return _PLAIN.match(word) is not None and math.isfinite(float(word))
    except ValueError:
        return False


def looks_like_label(line: bytes) -> bool:
    """Whether a line is a class and four numbers or more."""
    words = line.split()
    return len(words) >= _BOX and words[0].isdigit() and all(map(_is_number, words))
