"""Tables that say what the values or the colours of masks mean: the files that lie beside masks.

name,r,g,b            CamVid's class_dict.csv, or any CSV file: a header, then a row a class
64 128 64    Animal   CamVid's label_colors.txt: red, green and blue, then the name
cat:128,0,0::         CVAT's labelmap.txt: name, colour, parts, actions
Pixel Value, Class    Roboflow's _classes.csv: a header, then the value of each class
"""

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from shardfeed.converters.sources.reading import read_whole
from shardfeed.errors import LabelFileError, escape
from shardfeed.schema import is_plain

_MAX_BYTES = 1 << 20
_NAMES = {"name", "class", "class_name", "class name", "label", "category"}
_VALUES = {"pixel value", "value", "id", "index", "class_id", "class id", "label_id"}
_RGB = ({"r", "red"}, {"g", "green"}, {"b", "blue"})
_COLOUR_FIRST = re.compile(r"(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t]+(.+)")
_LABEL_MAP = re.compile(r"([^:]+):(\d+),(\d+),(\d+):[^:]*:[^:]*")
_REMEDY = "write a header `name,r,g,b` and a row a class, or lines of `64 128 64 name`"
_OF_NO_CLASS = {"void", "ignore", "ignored", "unlabeled", "unlabelled"}


class ClassRow(NamedTuple):
    """A class: its name, and its colour (red, green, blue) or the value that masks have for it."""

    name: str
    colour: tuple[int, int, int] | None
    value: int | None

    @property
    def is_void(self) -> bool:
        """Whether its name says that its pixels are of no class."""
        return self.name.casefold() in _OF_NO_CLASS

    def has(self, value: object) -> bool:
        """Whether masks have this value for it."""
        return self.value is not None and self.value == value


def read_class_table(path: str) -> list[ClassRow]:
    """The classes of a table, in its order. Raises LabelFileError with file and line."""
    try:
        text = read_whole(path, _MAX_BYTES, _REMEDY).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelFileError(path, "not UTF-8", "save the table as UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    if not lines:
        raise LabelFileError(path, "no class is named", _REMEDY)
    rows = list(_parsed(path, lines))
    for what in ("name", "colour", "value"):
        seen: dict[object, int] = {}
        for number, row in rows:
            cell = getattr(row, what)
            if cell is not None and seen.setdefault(cell, number) != number:
                problem = f"the {what} {escape(cell)} is on line {seen[cell]} already"
                raise LabelFileError(f"{path}:{number}", problem, f"give each class its own {what}")
    return [row for _, row in rows]


def _parsed(path: str, lines: list[tuple[int, str]]) -> Iterator[tuple[int, ClassRow]]:
    first = lines[0][1]
    for pattern, name_group in ((_COLOUR_FIRST, 4), (_LABEL_MAP, 1)):
        if pattern.fullmatch(first.strip()):
            for number, line in lines:
                found = pattern.fullmatch(line.strip())
                if found is None:
                    raise LabelFileError(f"{path}:{number}", f"got {escape(line[:60])!r}, not as line 1 is", _REMEDY)
                colour = [found[group] for group in range(1, 5) if group != name_group]
                yield number, _row(path, number, found[name_group], colour, None)
            return
    yield from _with_header(path, lines)


def _with_header(path: str, lines: list[tuple[int, str]]) -> Iterator[tuple[int, ClassRow]]:
    delimiter = next((mark for mark in (",", ";", "\t") if mark in lines[0][1]), ",")
    header, *rows = (_cells(f"{path}:{number}", line, delimiter) for number, line in lines)
    called = [cell.strip().casefold() for cell in header]
    name, value, *rgb = (
        next((i for i, cell in enumerate(called) if cell in words), -1) for words in (_NAMES, _VALUES, *_RGB)
    )
    coloured = min(rgb) >= 0
    if name < 0 or not (coloured or value >= 0):
        problem = f"got the columns {escape(', '.join(header))[:80]}, expected name, r, g, b"
        raise LabelFileError(f"{path}:{lines[0][0]}", problem, _REMEDY)
    for (number, _), cells in zip(lines[1:], rows, strict=True):
        if len(cells) != len(header):
            problem = f"got {len(cells)} cells, the header has {len(header)}"
            raise LabelFileError(f"{path}:{number}", problem, _REMEDY)
        colour = [cells[i] for i in rgb] if coloured else None
        yield number, _row(path, number, cells[name], colour, None if coloured else cells[value])
    if not rows:
        raise LabelFileError(path, "a header, and no class", _REMEDY)


def _cells(place: str, line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise LabelFileError(place, f"no row of a table: {error}", _REMEDY) from None


def _row(path: str, number: int, name: str, colour: list[str] | None, value: str | None) -> ClassRow:
    place, name = f"{path}:{number}", name.strip()
    if not is_plain(name):
        raise LabelFileError(place, f"got the class name '{escape(name)}', expected text", "name the class")
    if colour is None:
        return ClassRow(name, None, _number(place, value or "", 65535))
    red, green, blue = (_number(place, cell, 255) for cell in colour)
    return ClassRow(name, (red, green, blue), None)


def _number(place: str, cell: str, most: int) -> int:
    text = cell.strip()
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise LabelFileError(place, f"got {escape(text)!r}, expected a number from 0 to {most}", "correct the table")
    return int(text)


def is_class_table(path: bytes) -> bool:
    """Whether a file that lies among masks says what they mean: by its name, or a CSV file by its header."""
    name = path.rpartition(b"/")[2].lower()
    if name in (b"class_dict.csv", b"label_colors.txt", b"label_colours.txt", b"labelmap.txt"):
        return True
    if not name.endswith(b".csv"):
        return False
    try:
        with open(path, "rb") as file:
            header = file.readline(1000).decode("utf-8-sig", "replace")
    except OSError:
        return False
    called = {cell.strip(' "\r\n').casefold() for cell in re.split("[,;\t]", header)}
    return bool(called & _NAMES) and ("pixel value" in called or all(called & words for words in _RGB))
