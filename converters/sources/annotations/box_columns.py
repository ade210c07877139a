"""Tables of boxes: the meaning of columns, by the header, or without one by the shape of the rows."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Literal, NamedTuple

import numpy as np

from shardfeed.annotations import OBJECTS
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.options import Unit
from shardfeed.converters.sources.rows.cells import is_absent, read_number
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.objects import around_runs
from shardfeed.converters.sources.rows.roles import CLASS_KEYS, WORDS
from shardfeed.errors import escape, name_bytes
from shardfeed.text import some

Box = tuple[float, float, float, float]
# Content of the columns of a box: left, top, right, bottom; left, top, width, height; x and y of the centre, width and
# height, one cell each; [left, top, width, height] in one cell; x and y of four corners, of which two may be empty; or
# runs of pixels, start and length, in one cell.
Place = Literal["sides", "sizes", "middle", "list", "corners", "runs"]

_CLASS = ("class_name", "label_name", "category_name", "labelname")
_CLASS += (*(key for key in CLASS_KEYS if not key.endswith("_id")), "name", "classid", "class_id", "category_id")
_PREFIXES = ("roi.", "bbox_", "bbox.", "box_", "box.")
_PAIRS = (("min", "max"), ("_min", "_max"), ("1", "2"), ("_1", "_2"), ("0", "1"))
_SIDES = tuple(tuple(f"{axis}{mark}" for mark in marks for axis in "xy") for marks in _PAIRS)
_SIDES += (("left", "top", "right", "bottom"),)
_STARTS = (("x", "y"), ("left", "top"), *(sides[:2] for sides in _SIDES[:4]))
_MIDDLES = (("x_center", "y_center"), ("xcenter", "ycenter"), ("center_x", "center_y"), ("cx", "cy"), ("xc", "yc"))
_EXTENTS = (("w", "h"), ("width", "height"))
_SIZES = (("image_width", "image_height"), ("img_width", "img_height"), ("width", "height"))
_FLAGS = ("occluded", "truncated", "groupof", "depiction", "inside")  # Open Images: IsOccluded, ...
_USES = ("train", "training", "validation", "validate", "test", "unassigned", "")  # AutoML's ML_USE, without case
_LOOKED_AT = 50  # rows that show the dialect
_BETWEEN = re.compile(r"[\s,;]+")
_GROUP = re.compile(r"-?\d+(?:\.\d+)?(?:,-?\d+(?:\.\d+)?){3},\d+\Z")  # keras-yolo3: left,top,right,bottom,class
_FACES = "bbx_gt.txt"  # WIDER FACE


@dataclass(frozen=True)
class Dialect:
    """Meaning of each column, from 0. `name`: for people. `width`: cells of every row; None where some may lack.

    `place`, `columns`: of the box, or of the region. `flags`: by feature key. `unused`: names of the other columns,
    `fields`: and which these are, where rows have them.
    `expand`: makes rows with an object each of a row with several. `numbers`: whether classes are numbers that the
    table names nowhere. `doubt`: why fractions would be unclear.
    """

    name: str
    place: Place
    columns: tuple[int, ...]
    image: int = 0
    header: bool = False
    unit: Unit = "pixels"
    label: int | None = None
    split: int | None = None
    size: tuple[int, int] | None = None
    flags: Mapping[str, int] = field(default_factory=dict)
    width: int | None = None
    unused: tuple[str, ...] = ()
    fields: Mapping[str, int] = field(default_factory=dict)
    expand: Callable[[list[str]], list[list[str]]] | None = None
    numbers: bool = False
    doubt: str = ""

    def cells(self, row: Sequence[str]) -> list[str]:
        """The cells of the box, stripped of blanks; "" for cells that a short row lacks."""
        return [row[column].strip() if column < len(row) else "" for column in self.columns]

    def box(self, row: Sequence[str]) -> Box:
        """Left, top, right, bottom, of a row that is not empty. Raises BadAnnotationError."""
        cells = self.cells(row)
        if self.place == "list":
            cells = _BETWEEN.split(cells[0].strip("[](){} \t"))
            if len(cells) != 4:
                reason = f"got {len(cells)} numbers, expected left, top, width, height"
                raise BadAnnotationError(AnnotationCode.LINE, reason)
        if self.place == "corners":
            return _box_of_corners(cells)
        left, top, right, bottom = (read_number(cell, "side of the box") for cell in cells)
        if self.place == "middle":
            return left - right / 2, top - bottom / 2, left + right / 2, top + bottom / 2
        return (left, top, right, bottom) if self.place == "sides" else (left, top, left + right, top + bottom)

    def empty(self, row: Sequence[str]) -> bool:
        """Whether a row describes an image without objects."""
        cells = (row[column] for column in self.columns if column < len(row))
        if self.place in ("list", "runs"):
            return all(is_absent(cell) or cell.strip() in ("[]", "-1") for cell in cells)
        return all(map(is_absent, cells))

    def rows(self, table: LabelTable) -> Iterator[tuple[int, list[str], str]]:
        """Line, cells, and why the row cannot be read; "" if it can."""
        if table.path.endswith(_FACES):
            yield from _faces(table)
            return
        for record in islice(table, int(self.header), None):
            cells = [str(cell) for cell in record.cells]
            problem = ""
            if self.width is not None and len(cells) != self.width:
                problem = f"got {len(cells)} cells, expected {self.width}"
            elif self.expand is not None:
                try:
                    yield from ((record.line, row, "") for row in self.expand(cells))
                    continue
                except ValueError as error:
                    problem = str(error)
            if not problem and not (self.image < len(cells) and cells[self.image].strip()):
                problem = "it has no image"
            yield record.line, cells, problem


def _box_of_corners(cells: Sequence[str]) -> Box:
    """The box of two corners, the left upper and the right lower one, or of all four, in any order."""
    pairs = [cells[i : i + 2] for i in range(0, 8, 2)]
    points = [[read_number(cell, "x or y") for cell in pair] for pair in pairs if not all(map(is_absent, pair))]
    if len(points) == 2:
        (left, top), (right, bottom) = points
        return left, top, right, bottom
    x, y = zip(*points, strict=True)
    if len(points) != 4 or len({*x}) > 2 or len({*y}) > 2:
        reason = f"got {len(points)} corners that are not an upright box, expected two or four"
        raise BadAnnotationError(AnnotationCode.LINE, reason)
    return min(x), min(y), max(x), max(y)


def _predictions(cells: list[str]) -> list[list[str]]:
    """ImageNet's `n01751748 111 108 260 307 n01751748 ...` after the image, one row per image. Raises ValueError."""
    image, numbers = cells[0].strip(), cells[1].split()
    if len(numbers) % 5 or any(not _is_number(cell) for i, cell in enumerate(numbers) if i % 5):
        raise ValueError(f"got '{escape(cells[1][:40])}', expected the class and four numbers per box")
    return [[image, *numbers[i : i + 5]] for i in range(0, len(numbers), 5)] or [[image]]


def _groups(cells: list[str]) -> list[list[str]]:
    """keras-yolo3's `path left,top,right,bottom,class ...`, a row each. Raises ValueError."""
    path, *groups = cells[0].split()
    while groups and not _GROUP.match(groups[0]):
        path += " " + groups.pop(0)  # a path may have blanks
    if not all(map(_GROUP.match, groups)) or not _is_image(path):
        raise ValueError("expected the image path, and left,top,right,bottom,class per box")
    return [[path, *group.split(",")] for group in groups] or [[path]]


def _dicts(image: int, column: int) -> Callable[[list[str]], list[list[str]]]:
    """Rows of a cell like `[{'x': 4, 'y': 5, 'width': 36, 'height': 25}]`."""

    def expand(cells: list[str]) -> list[list[str]]:
        try:
            found = json.loads(cells[column].replace("'", '"'))
            sides = [[str(one[key]) for key in ("x", "y", "width", "height")] for one in found]
            return [[cells[image], *box] for box in sides or [[]]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("expected a list of {'x': ..., 'y': ..., 'width': ..., 'height': ...}") from None

    return expand


def _faces(table: LabelTable) -> Iterator[tuple[int, list[str], str]]:
    """WIDER FACE: the path of an image, its number of faces, a line for each; a line of zeros if there are none."""
    image, left = "", 0  # left: lines of faces to come; -1: the number comes
    for line, (text,) in table.texts():
        cells = text.split()
        if left > 0:
            left -= 1
            yield line, [image, *cells], "" if len(cells) == 10 else f"got {len(cells)} numbers, expected 10"
        elif left < 0 and text.isdecimal() and len(text) < 7:
            left = int(text)
            if not left:
                yield line, [image], ""
        elif left == 0 and _is_image(text):
            image, left = text, -1
        elif left < 0 or {*cells} != {"0"}:
            image, left = text, -1 if _is_image(text) else 0
            yield line, [], "expected the image path, the number of faces, and one line per face"


class Region(NamedTuple):
    """Pixels of an image: a run-length code as COCO has it, their extent, and how many they are."""

    outline: dict[str, Any]
    box: Box
    area: float


class DisorderedRunsError(BadAnnotationError):
    """Runs of pixels that overlap, or that are not in the order of their starts."""


def region_of(cell: str, size: tuple[int, int]) -> Region:
    """The region of `start length start length ...`, with starts from 1, down the columns; `size`: (width, height).

    Runs out of order are not put in order: their starts may be relative to the run before. Raises
    BadAnnotationError, E_OUTLINE.
    """
    width, height = size
    try:
        numbers = np.array(cell.split(), np.int64) if cell.isascii() and "_" not in cell else None
    except (ValueError, OverflowError):
        numbers = None
    if numbers is None or not len(numbers) or len(numbers) % 2:
        reason = f"got '{escape(cell[:40])}', expected pairs of integers: start and length"
        raise BadAnnotationError(AnnotationCode.OUTLINE, reason)
    starts, lengths = numbers[0::2] - 1, numbers[1::2]
    if (starts < 0).any() or (lengths <= 0).any():
        raise BadAnnotationError(AnnotationCode.OUTLINE, "a start or a length below 1")
    pixels = width * height
    if (starts > pixels).any() or (lengths > pixels).any() or (starts + lengths > pixels).any():
        raise BadAnnotationError(AnnotationCode.OUTLINE, f"runs beyond the {width} x {height} pixels of the image")
    ends = starts + lengths
    if (ends[:-1] > starts[1:]).any():
        reason = "a run starts before the end of the run before it: are its starts relative to that end?"
        raise DisorderedRunsError(AnnotationCode.OUTLINE, reason)
    before = np.concatenate([[0], ends[:-1]])
    counts = np.stack([starts - before, lengths], axis=1).ravel().tolist()
    rest = pixels - int(ends[-1])
    counts += [rest] if rest else []
    return Region({"size": [height, width], "counts": counts}, around_runs(starts, ends, height), float(lengths.sum()))


def dialect_of(table: LabelTable) -> Dialect | str | None:
    """Return the dialect of a table, or a text that names the missing column, or None if it has no dialect.

    Raises LabelFileError if it is not a table.
    """
    rows = [cells for _, cells in islice(table.texts(), _LOOKED_AT)]
    if not rows:
        return None
    if table.format == "text":
        return _of_lines(table, [row[0] for row in rows])
    header = [name.casefold().replace(" ", "_") for name in rows[0]]
    if len({*header}) == len(header):
        found = _by_header(rows, header)
        if found is not None:
            return found
    return _by_shape(rows)


def _of_lines(table: LabelTable, lines: Sequence[str]) -> Dialect | None:
    """The dialect of lines of text."""
    if table.path.endswith(_FACES) and len(lines) > 1 and _is_image(lines[0]) and lines[1].isdecimal():
        names = ("blur", "expression", "illumination", "occlusion", "pose")
        flags = {f"{OBJECTS}invalid": 8}
        return Dialect("WIDER FACE's, in pixels", "sizes", (1, 2, 3, 4), flags=flags, unused=names)
    grouped = [_GROUP.match(line.split()[-1]) is not None for line in lines]
    if any(grouped) and all(boxed or _is_image(line) for boxed, line in zip(grouped, lines, strict=True)):
        name = "keras-yolo3's, in pixels: path left,top,right,bottom,class ..."
        return Dialect(name, "sides", (1, 2, 3, 4), label=5, expand=_groups, numbers=True)
    return None


def _by_header(rows: Sequence[Sequence[str]], header: Sequence[str]) -> Dialect | str | None:
    """As `dialect_of`; `header`: the first row without case."""
    names = rows[0]
    place = {name: i for i, name in enumerate(header)}
    whole = [row for row in rows[1:] if len(row) == len(header)]
    own = {name.removeprefix(prefix): i for prefix in _PREFIXES for name, i in place.items() if name.startswith(prefix)}
    image = next((place[word] for word in WORDS["path"] if word in place), None)

    def made(name: str, kind: Place, columns: Sequence[int], unit: Unit = "pixels", **more: Any) -> Dialect:
        label = next((place[word] for word in _CLASS if word in place and place[word] not in columns), None)
        size = next((tuple(map(place.get, pair)) for pair in _SIZES if all(word in place for word in pair)), None)
        size = None if size is None or not {*columns}.isdisjoint(size) or unit == "fractions" else size
        flags = {f"{OBJECTS}{flag.replace('groupof', 'group_of')}": place.get(f"is{flag}") for flag in _FLAGS}
        flags = {key: i for key, i in flags.items() if i is not None and unit == "fractions"}
        split = place.get("split")
        used = {image, *columns, *(size or ()), *flags.values(), label, split}
        fields = {name: i for i, name in enumerate(names) if i not in used}
        known = {"label": label, "split": split, "size": size, "flags": flags, "fields": fields, **more}
        known |= {"width": len(header), "unused": tuple(fields)}
        return Dialect(name, kind, tuple(columns), image or 0, True, unit, **known)

    if "encodedpixels" in place and image is not None:
        return made("Kaggle's, with runs of pixels", "runs", [place["encodedpixels"]])
    if "bbox" in place and image is not None:
        return made("Kaggle's, with [left, top, width, height] in pixels", "list", [place["bbox"]])
    if header == ["imageid", "predictionstring"] and all(len(row[1].split()) % 5 == 0 for row in whole):
        return Dialect("ImageNet's, in pixels", "sides", (2, 3, 4, 5), 0, True, label=1, width=2, expand=_predictions)
    if "annotations" in place and image is not None and any(row[place["annotations"]][:2] == "[{" for row in whole):
        expand = _dicts(image, place["annotations"])
        unused = tuple(name for i, name in enumerate(names) if i not in (image, place["annotations"]))
        name = "a list of boxes in a cell, in pixels"
        return Dialect(name, "sizes", (1, 2, 3, 4), 0, True, width=len(header), unused=unused, expand=expand)
    if {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= place.keys():
        columns = [place[word] for word in ("xmin", "ymin", "xmax", "ymax")]
        return made("Open Images', in fractions", "sides", columns, unit="fractions", label=place["labelname"])
    no_image = f"no column with the image of each row, such as filename (got {some(names)})"
    near = ""
    for there, sides in product((own, place), _SIDES):
        found = [side for side in sides if side in there]
        if len(found) == 4:
            if image is None:
                return no_image
            return made("corners in pixels", "sides", [there[side] for side in sides])
        if len(found) > 1 and image is not None and not near:
            near = f"no column {', '.join(side for side in sides if side not in there)}"
    kinds: Sequence[tuple[Place, Sequence[tuple[str, ...]]]] = (("middle", _MIDDLES), ("sizes", _STARTS))
    for there, (kind, starts) in product((own, place), kinds):
        for start, extent in product(starts, _EXTENTS):
            if not all(side in there for side in (*start, *extent)):
                continue
            if image is None:
                return no_image
            columns = [there[side] for side in (*start, *extent)]
            if there is place and extent == ("width", "height") and columns[2] < columns[0]:
                return f"{names[columns[2]]} may be of the box or the image: rename it to box_width or image_width"
            doubt = "x and y may be the center of a box or its corner" if start == ("x", "y") else ""
            meaning = "left, top, width, height" if kind == "sizes" else "center, width and height"
            return made(f"{meaning} in pixels", kind, columns, doubt=doubt)
    return near or None


def _by_shape(rows: Sequence[Sequence[str]]) -> Dialect | None:
    """The dialect of a table without a header, which fits all of its first rows."""
    if all(_retinanet(row) and len(row) == len(rows[0]) for row in rows):
        size = (6, 7) if len(rows[0]) == 8 else None
        name = f"corners in pixels: path,x1,y1,x2,y2,class{',width,height' if size else ''}"
        return Dialect(name, "sides", (1, 2, 3, 4), label=5, width=len(rows[0]), size=size)
    for first in (1, 0):  # the column of the path: AutoML's tables may be without ML_USE
        if any(len(row) >= first + 8 for row in rows) and all(_automl(row, first) for row in rows):
            columns = tuple(range(first + 2, first + 10))
            name, split = "AutoML's and Vertex AI's, in fractions", 0 if first else None
            return Dialect(name, "corners", columns, first, unit="fractions", label=first + 1, split=split)
    return None


def _retinanet(row: Sequence[str]) -> bool:
    if len(row) not in (6, 8) or not _is_image(row[0]) or not all(map(_is_number, row[6:])):
        return False
    sides = row[1:5]
    return all(map(_is_number, sides)) or all(map(is_absent, sides))


def _automl(row: Sequence[str], first: int) -> bool:
    if not first < len(row) <= first + 10 or not _is_image(row[first]):
        return False
    used = row[0].casefold() in _USES if first else row[0].startswith("gs://")
    return used and all(is_absent(cell) or _is_number(cell) for cell in row[first + 2 :])


def _is_image(cell: str) -> bool:
    return names_image(name_bytes(cell))


def _is_number(cell: str) -> bool:
    try:
        read_number(cell, "")
    except BadAnnotationError:
        return False
    return True
