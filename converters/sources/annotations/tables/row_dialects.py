"""Tables with one row an object: which columns say what, told by the header, or without one by the shape of rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from shardfeed.annotations import OBJECTS
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.gathering import is_absent, read_number
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.options import Unit
from shardfeed.errors import escape
from shardfeed.text import some

Box = tuple[float, float, float, float]
# What the columns of a place hold: left, top, right, bottom, a cell each; [left, top, width, height] in one cell;
# x and y of four corners, of which two may be empty; or runs of pixels, start and length, in one cell.
Place = Literal["sides", "list", "corners", "runs"]

# Names of columns, compared without case; the first one that is there is taken.
_IMAGE = ("filename", "file_name", "image_path", "filepath", "path", "image_name", "image", "file", "img", "image_id")
_IMAGE += ("imageid", "img_id", "img_path")
_CLASS = ("class_name", "label_name", "category_name", "class", "label", "category", "name", "classid", "class_id")
_BOXES = tuple(
    tuple(f"{axis}{mark}" for mark in marks for axis in "xy") for marks in (("min", "max"), ("_min", "_max"), "12")
)
_SIZES = (("width", "height"), ("image_width", "image_height"), ("img_width", "img_height"))
_OPEN_IMAGES = ("imageid", "labelname", "xmin", "ymin", "xmax", "ymax")
_FLAGS = ("occluded", "truncated", "groupof", "depiction", "inside")  # Open Images: IsOccluded, ...
_USES = ("train", "training", "validation", "validate", "test", "unassigned", "")  # AutoML's ML_USE, without case
_LOOKED_AT = 50  # rows without a header that tell the dialect
_BETWEEN = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class Dialect:
    """Which columns, from 0, say what. `name`: for people. `width`: cells of every row; None where some may lack.

    `place`, `columns`: of the box, or of the region. `flags`: by feature key. `unused`: names of the other columns.
    """

    name: str
    header: bool
    unit: Unit
    image: int
    place: Place
    columns: tuple[int, ...]
    label: int | None = None
    split: int | None = None
    size: tuple[int, int] | None = None
    flags: Mapping[str, int] = field(default_factory=dict)
    width: int | None = None
    unused: tuple[str, ...] = ()

    def cells(self, row: Sequence[str]) -> list[str]:
        """The cells of the place, without blanks at their ends; "" for those that a short row lacks."""
        return [row[column].strip() if column < len(row) else "" for column in self.columns]

    def box(self, row: Sequence[str]) -> Box:
        """Left, top, right, bottom, of a row that is not empty. Raises BadAnnotationError."""
        cells = self.cells(row)
        if self.place == "list":
            parts = _BETWEEN.split(cells[0].strip("[](){} \t"))
            if len(parts) != 4:
                reason = f"got {len(parts)} numbers, expected left, top, width, height"
                raise BadAnnotationError(AnnotationCode.LINE, reason)
            left, top, width, height = (read_number(part, "number") for part in parts)
            return left, top, left + width, top + height
        if self.place == "corners":
            return _box_of_corners(cells)
        left, top, right, bottom = (read_number(cell, "side of the box") for cell in cells)
        return left, top, right, bottom

    def empty(self, row: Sequence[str]) -> bool:
        """Whether a row says that there is no object."""
        cells = (row[column] for column in self.columns if column < len(row))
        if self.place in ("list", "runs"):
            return all(is_absent(cell) or cell.strip() in ("[]", "-1") for cell in cells)
        return all(map(is_absent, cells))


def _box_of_corners(cells: Sequence[str]) -> Box:
    """The box of two corners, the left upper and the right lower one, or of all four, in any order."""
    pairs = [cells[i : i + 2] for i in range(0, 8, 2)]
    points = [[read_number(cell, "x or y") for cell in pair] for pair in pairs if not all(map(is_absent, pair))]
    if len(points) == 2:
        (left, top), (right, bottom) = points
        return left, top, right, bottom
    x, y = zip(*points, strict=True)
    if len(points) != 4 or len({*x}) > 2 or len({*y}) > 2:
        reason = f"got {len(points)} corners that make no upright box, expected two or four"
        raise BadAnnotationError(AnnotationCode.LINE, reason)
    return min(x), min(y), max(x), max(y)


class Region(NamedTuple):
    """Pixels of an image: a run-length code as COCO has it, their extent, and how many they are."""

    outline: dict[str, Any]
    box: Box
    area: float


def region_of(cell: str, size: tuple[int, int]) -> Region:
    """The region that `start length start length ...` says, starts from 1, down the columns; `size`: (width, height).

    Raises BadAnnotationError, E_OUTLINE.
    """
    width, height = size
    try:
        numbers = np.array(cell.split(), np.int64) if cell.isascii() and "_" not in cell else None
    except (ValueError, OverflowError):
        numbers = None
    if numbers is None or not len(numbers) or len(numbers) % 2:
        raise _no_runs(f"got '{escape(cell[:40])}', expected pairs of whole numbers: start and length")
    starts, lengths = numbers[0::2] - 1, numbers[1::2]
    order = np.argsort(starts, kind="stable")
    starts, lengths = starts[order], lengths[order]
    if starts[0] < 0 or (lengths <= 0).any():
        raise _no_runs("a start or a length below 1")
    pixels = width * height
    if (starts > pixels).any() or (lengths > pixels).any() or (starts + lengths > pixels).any():
        raise _no_runs(f"runs beyond the {width} x {height} pixels of the image")
    ends = starts + lengths
    if (ends[:-1] > starts[1:]).any():
        raise _no_runs("runs that overlap")
    before = np.concatenate([[0], ends[:-1]])
    counts = np.stack([starts - before, lengths], axis=1).ravel().tolist()
    rest = pixels - int(ends[-1])
    counts += [rest] if rest else []
    first, last = starts // height, (ends - 1) // height  # columns
    several = first < last  # such a run reaches the lower end of its first column, and begins the next one
    top = np.where(several, 0, starts % height).min()
    bottom = np.where(several, height, (ends - 1) % height + 1).max()
    box = (float(first.min()), float(top), float(last.max() + 1), float(bottom))
    return Region({"size": [height, width], "counts": counts}, box, float(lengths.sum()))


def _no_runs(reason: str) -> BadAnnotationError:
    return BadAnnotationError(AnnotationCode.OUTLINE, reason)


def dialect_of(table: LabelTable) -> Dialect | str | None:
    """The dialect of a table; in words what it lacks to be of one, where it almost is; None where it is of none.

    Raises LabelFileError for what is no table.
    """
    if table.format not in ("csv", "tsv"):
        return None
    rows = [[str(cell).strip() for cell in record.cells] for record in islice(table, _LOOKED_AT)]
    if not rows:
        return None
    header = [name.casefold() for name in rows[0]]
    if len({*header}) == len(header):
        found = _by_header(rows[0], header)
        if found is not None:
            return found
    return _by_shape(rows)


def _by_header(names: Sequence[str], header: Sequence[str]) -> Dialect | str | None:
    """As `dialect_of`; `header`: `names` without case."""
    place = {name: i for i, name in enumerate(header)}

    def made(name: str, place_is: Place, columns: Sequence[str], *, image: str, unit: Unit = "pixels") -> Dialect:
        label = next((word for word in _CLASS if word in place), None)
        size = next((pair for pair in _SIZES if all(word in place for word in pair)), None)
        flags = {}
        if unit == "fractions":
            label, size = "labelname", None
            flags = {f"{OBJECTS}{flag.replace('groupof', 'group_of')}": f"is{flag}" for flag in _FLAGS}
            flags = {key: word for key, word in flags.items() if word in place}
        used = {image, *columns, *(size or ()), *flags.values(), label, "split"}
        return Dialect(
            name,
            True,
            unit,
            place[image],
            place_is,
            tuple(place[column] for column in columns),
            None if label is None else place[label],
            place.get("split"),
            None if size is None else (place[size[0]], place[size[1]]),
            {key: place[word] for key, word in flags.items()},
            len(header),
            tuple(name for name, word in zip(names, header, strict=True) if word not in used),
        )

    image = next((word for word in _IMAGE if word in place), None)
    if "encodedpixels" in place and image:
        return made("Kaggle's, with runs of pixels", "runs", ["encodedpixels"], image=image)
    if "bbox" in place and image:
        return made("Kaggle's, with [left, top, width, height] in pixels", "list", ["bbox"], image=image)
    if {"imageid", "labelname"} <= place.keys():
        lacking = [word for word in ("XMin", "XMax", "YMin", "YMax") if word.casefold() not in place]
        if not lacking:
            columns = ["xmin", "ymin", "xmax", "ymax"]
            return made("Open Images', in fractions", "sides", columns, image="imageid", unit="fractions")
        if {"source", "confidence"} <= place.keys():
            return f"no columns {', '.join(lacking)}: these are Open Images' classes of whole images"
    for sides in _BOXES:
        there = [side for side in sides if side in place]
        if len(there) == 4 and image:
            return made("the TensorFlow tutorial's, in pixels", "sides", sides, image=image)
        if len(there) == 4:
            return f"no column with the image of each row, such as filename (got {some(names)})"
        if len(there) > 1 and image:
            return f"no column {', '.join(side for side in sides if side not in place)}"
    return None


def _by_shape(rows: Sequence[Sequence[str]]) -> Dialect | None:
    """The dialect of a table without a header, of which all its first rows are."""
    if all(_retinanet(row) for row in rows):
        name = "keras-retinanet's, in pixels: path,x1,y1,x2,y2,class"
        return Dialect(name, False, "pixels", 0, "sides", (1, 2, 3, 4), 5, width=6)
    for first in (1, 0):  # the column of the path: AutoML's tables may be without ML_USE
        if any(len(row) >= first + 8 for row in rows) and all(_automl(row, first) for row in rows):
            name = "AutoML's and Vertex AI's, in fractions"
            columns = tuple(range(first + 2, first + 10))
            return Dialect(name, False, "fractions", first, "corners", columns, first + 1, 0 if first else None)
    return None


def _retinanet(row: Sequence[str]) -> bool:
    if len(row) != 6 or not _is_image(row[0]):
        return False
    sides = row[1:5]
    return all(map(_is_number, sides)) or all(map(is_absent, sides))


def _automl(row: Sequence[str], first: int) -> bool:
    if not first < len(row) <= first + 10 or not _is_image(row[first]):
        return False
    used = row[0].casefold() in _USES if first else row[0].startswith("gs://")
    return used and all(is_absent(cell) or _is_number(cell) for cell in row[first + 2 :])


def _is_image(cell: str) -> bool:
    return names_image(cell.encode("utf-8", "surrogateescape"))


def _is_number(cell: str) -> bool:
    try:
        read_number(cell, "")
    except BadAnnotationError:
        return False
    return True
