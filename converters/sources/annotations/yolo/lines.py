"""Lines of labels: a class and numbers, fractions of the upright image, whose count tells what they mean."""

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from shardfeed.annotations import Keypoints
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.errors import escape

# What the lines of a dataset may be: boxes (5 numbers); polygons (a class, and x and y of three points or more);
# either of the two; corners of boxes that are turned (9); boxes and key points.
Shape = Literal["boxes", "polygons", "either", "corners", "keypoints"]

BOX, CORNERS = 5, 9  # numbers of a line
_LEAST_POLYGON = 7
_PIXEL = 2.0  # a coordinate beyond it is no fraction that is a little off
_PLAIN = re.compile(rb"[-+.0-9eE \t]*\Z")  # numbers as people write them: no "nan", no "1_000"


class LabelLine(NamedTuple):
    """`length`: how many numbers it has. `box`: left, top, right, bottom. `outline`: x, y, x, y, ..., of a polygon.

    `keypoints`: x, y, visibility of each.
    """

    length: int
    label: int
    box: tuple[float, float, float, float]
    outline: Sequence[float] = ()
    keypoints: Sequence[float] = ()


class PixelsError(BadAnnotationError):
    """A line whose numbers look like pixels."""


class LineReader:
    """Reads lines of one `shape`, of `classes` classes. `keypoints` and `dimensions` (2 or 3): of that shape.

    `last`: the numbers of the line that was read last, to tell whether one is there twice.
    """

    def __init__(self, shape: Shape, classes: int, keypoints: Keypoints | None = None, dimensions: int = 3) -> None:
        self.shape, self.classes = shape, classes
        self.dimensions = dimensions
        self.points = 0 if keypoints is None else len(keypoints.names)
        self.last: tuple[float, ...] = ()
        self._polygons = shape in ("polygons", "either")
        lengths = {"corners": CORNERS, "keypoints": BOX + self.points * dimensions, "polygons": 0}
        self._length = lengths.get(shape, BOX)  # that a line has

    def read(self, line: bytes) -> LabelLine:
        """What a line says. Raises BadAnnotationError, of which PixelsError is one."""
        words = line.split()
        count = len(words)
        self._check_count(count)
        numbers = _numbers(line, words)
        self.last = tuple(numbers)
        label = self._label(words[0], numbers[0])
        if self.shape == "keypoints":
            keypoints = self._keypoints(numbers[BOX:])
            seen = [side for i, side in enumerate(keypoints) if i % 3 < 2]
            _check_fractions([*numbers[1:BOX], *seen])
            return LabelLine(count, label, _box(numbers), keypoints=keypoints)
        _check_fractions(numbers[1:])
        if count == BOX:
            return LabelLine(count, label, _box(numbers))
        xs, ys = numbers[1::2], numbers[2::2]
        return LabelLine(count, label, (min(xs), min(ys), max(xs), max(ys)), numbers[1:])

    @property
    def expected(self) -> str:
        """The numbers that a line should have, in words."""
        return {
            "boxes": "5: class, x, y, width, height",
            "polygons": "a class and x and y of three points or more",
            "either": "5 (class, x, y, width, height), or a class and x and y of three points or more",
            "corners": "9: class, x and y of four corners",
            "keypoints": f"{self._length}: class, x, y, width, height, and {self.dimensions} "
            f"for each of {self.points} key points",
        }[self.shape]

    def _check_count(self, count: int) -> None:
        """Raises BadAnnotationError for a line that is not of the shape."""
        if count == self._length or (self._polygons and count >= _LEAST_POLYGON and count % 2):
            return
        hint = " (with a confidence, it is a prediction)" if count == BOX + 1 else ""
        raise BadAnnotationError(AnnotationCode.LINE, f"got {count} numbers{hint}, expected {self.expected}")

    def _label(self, word: bytes, number: float) -> int:
        """The class; it may be written as 3.0."""
        if number != int(number):
            reason = f"the class is {escape(word[:40])}, expected a whole number"
            raise BadAnnotationError(AnnotationCode.VALUE, reason)
        if not 0 <= number < self.classes:
            reason = f"the class is {int(number)}, expected 0 to {self.classes - 1}"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        return int(number)

    def _keypoints(self, numbers: Sequence[float]) -> list[float]:
        """x, y and visibility of each; where it is not said, 2 (visible), and 0 (not there) for 0, 0."""
        if self.dimensions == 3:
            return list(numbers)
        found: list[float] = []
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            found += (x, y, 2.0 if x or y else 0.0)
        return found


def _numbers(line: bytes, words: Sequence[bytes]) -> list[float]:
    """Finite ones. Raises BadAnnotationError."""
    try:
        if _PLAIN.match(line):
            numbers = [float(word) for word in words]
            if all(map(math.isfinite, numbers)):
                return numbers
    except ValueError:
        pass
    word = next(word for word in words if not is_number(word))
    raise BadAnnotationError(AnnotationCode.VALUE, f"got {escape(word[:40])!r}, expected a number")


def is_number(word: bytes) -> bool:
    """Whether it is a finite decimal number."""
    try:
        return _PLAIN.match(word) is not None and math.isfinite(float(word))
    except ValueError:
        return False


def _check_fractions(numbers: Sequence[float]) -> None:
    """Raises PixelsError. What is a little outside is the matter of who knows the image."""
    if max(numbers) > _PIXEL:
        reason = f"got {max(numbers):g}, which looks like pixels, expected fractions of the image from 0 to 1"
        raise PixelsError(AnnotationCode.VALUE, reason)


def _box(numbers: Sequence[float]) -> tuple[float, float, float, float]:
    """The sides, of a centre and a size."""
    x, y, width, height = numbers[1:BOX]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2
