"""Tables that define the values or the colours of masks: files next to the masks.

name,r,g,b            CamVid's class_dict.csv, or any CSV file: a header, then a row a class
64 128 64    Animal   CamVid's label_colors.txt: red, green and blue, then the name
cat:128,0,0::         CVAT's labelmap.txt: name, colour, parts, actions
Pixel Value, Class    Roboflow's _classes.csv: a header, then the value of each class
"""

import csv
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.reading import read_whole
from shardfeed.errors import LabelFileError, escape
from shardfeed.schema import is_plain

_MAX_BYTES = 1 << 20
_NAMES = {"name", "class", "class_name", "class name", "label", "category"}
_VALUES = {"pixel value", "value", "id", "index", "class_id", "class id", "label_id"}
_RGB = ({"r", "red"}, {"g", "green"}, {"b", "blue"})
_COLOUR_FIRST = re.compile(r"(?P<r>\d+)[ \t]+(?P<g>\d+)[ \t]+(?P<b>\d+)[ \t]+(?P<name>.+)")
_LABEL_MAP = re.compile(r"(?P<name>[^:]+):(?P<r>\d+),(?P<g>\d+),(?P<b>\d+):[^:]*:[^:]*")
_REMEDY = "write a header `name,r,g,b` and one row per class, or lines of `64 128 64 name`"
_OF_NO_CLASS = {"void", "ignore", "ignored", "unlabeled", "unlabelled"}


class ClassRow(NamedTuple):
    """A class: its name, and its colour (red, green, blue) or the value that masks have for it."""

    name: str
    colour: tuple[int, int, int] | None
    value: int | None

    @property
    def is_void(self) -> bool:
        """Whether its name means pixels without a class."""
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
    lines = [(f"{path}:{number}", line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(place, line) for place, line in lines if line and not line.startswith("#")]
    rows: list[ClassRow] = []
    seen: dict[tuple[str, object], str] = {}
    for place, name, numbers in _cells(lines):
        if not is_plain(name):
            raise LabelFileError(place, f"got the class name '{escape(name)}', expected text", "name the class")
        red, *rest = (_number(place, text, 255 if len(numbers) > 1 else 65535) for text in numbers)
        row = ClassRow(name, (red, rest[0], rest[1]), None) if rest else ClassRow(name, None, red)
        for what, cell in row._asdict().items():
            before = place if cell is None else seen.setdefault((what, cell), place)
            if before != place:
                problem = f"the {what} {escape(cell)} is already on line {before.rpartition(':')[2]}"
                raise LabelFileError(place, problem, f"give each class a unique {what}")
        rows.append(row)
    if not rows:
        raise LabelFileError(path, "a header without classes" if lines else "got no class", _REMEDY)
    return rows


def _cells(lines: list[tuple[str, str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Place, name, and red, green and blue or one value, of each class; `lines`: with the place of each."""
    pattern = next((one for one in (_COLOUR_FIRST, _LABEL_MAP) if lines and one.fullmatch(lines[0][1])), None)
    for place, line in lines if pattern else ():
        found = pattern.fullmatch(line) if pattern else None
        if found is None:
            raise LabelFileError(place, f"got {escape(line[:60])!r}, unlike line 1", _REMEDY)
        yield place, found["name"].strip(), [found[side] for side in "rgb"]
    if pattern or not lines:
        return
    delimiter = next((mark for mark in ",;\t" if mark in lines[0][1]), ",")
    header: list[str] = []
    columns: list[int] = []
    for place, line in lines:
        try:
            cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        except csv.Error as error:
            raise LabelFileError(place, f"not a table row: {error}", _REMEDY) from None
        cells = [cell.strip() for cell in cells]
        if header and len(cells) != len(header):
            raise LabelFileError(place, f"got {len(cells)} cells, the header has {len(header)}", _REMEDY)
        if header:
            yield place, cells[columns[0]], [cells[i] for i in columns[1:]]
            continue
        header = [cell.casefold() for cell in cells]
        columns = [next((i for i, cell in enumerate(header) if cell in words), -1) for words in (_NAMES, *_RGB)]
        if min(columns[1:]) < 0:
            columns[1:] = [next((i for i, cell in enumerate(header) if cell in _VALUES), -1)]
        if min(columns) < 0:
            problem = f"got the columns {escape(', '.join(cells))[:80]}, expected name, r, g, b"
            raise LabelFileError(place, problem, _REMEDY)


def _number(place: str, text: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise LabelFileError(place, f"got {escape(text)!r}, expected a number from 0 to {most}", "correct the table")
    return int(text)


def is_class_table(look: Look, path: str) -> bool:
    """Whether a file among masks defines their values: by its name, or for a CSV file by its header."""
    name = os.path.basename(path).lower()
    if name in ("class_dict.csv", "label_colors.txt", "label_colours.txt", "labelmap.txt"):
        return True
    header = look.head(path).partition(b"\n")[0][:1000].decode("utf-8-sig", "replace") if name.endswith(".csv") else ""
    called = {cell.strip(' "\r').casefold() for cell in re.split("[,;\t]", header)}
    return bool(called & _NAMES) and ("pixel value" in called or all(called & words for words in _RGB))
