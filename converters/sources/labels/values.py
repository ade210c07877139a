"""Interpret the cells of a column as classes, numbers or texts, one or several for each sample.

A cell that fits no meaning raises an error; if another meaning is possible, a note reports it.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, is_integer, number_classes
from shardfeed.converters.sources.labels.table import Cell
from shardfeed.converters.sources.rows.cells import is_absent
from shardfeed.converters.sources.rows.columns import ClassColumn, ClassMarks, NumberColumn, TextColumn
from shardfeed.converters.sources.rows.evidence import By, check_classes, combined
from shardfeed.errors import argument, escape
from shardfeed.schema import Feature

_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z"
)  # no nan, no inf, no digits of other scripts
_LARGE = 2.0**63  # above, messages name float32's own limit
_INT64 = range(-(2**63), 2**63)
_MARKS = {text: text.startswith(("1", "t")) for text in ("0", "0.", "0.0", "false", "1", "1.", "1.0", "true")}
_SIGNED = {"-1": False, "-1.0": False, "1": True, "1.0": True}
_BETWEEN = re.compile(r"[\s,;]+")  # numbers of a list that is written in one cell
# One word of a column's name is enough: TensorFlow's (object/bbox/xmin), and common names.
_PLACE_WORDS = {"bbox", "bboxes", "box", "boxes", "xmin", "xmax", "ymin", "ymax", "mask", "masks", "segmentation"}
_PLACE_WORDS |= {"keypoint", "keypoints", "polygon", "polygons"}
_BOX_WORDS = _PLACE_WORDS | {"x", "y", "w", "h", "x1", "x2", "y1", "y2", "left", "top", "right", "bottom"}


@dataclass(frozen=True)
class Cells:
    """A column of n rows: row i contains `values[codes[i]]`; `values` in the order in which they first appear."""

    values: Sequence[Cell]
    codes: np.ndarray

    def filled(self, text: str) -> "Cells":
        """The same with `text` in cells, and in places of lists, that are empty."""
        return Cells([_filled(cell, text) for cell in self.values], self.codes)

    def listed(self) -> "Cells":
        """The same with lists in the place of texts that all write one: `['cat', 'dog']`, `[0 1 0]`, `0 1 0`."""
        texts = [cell for cell in self.values if isinstance(cell, str)]
        marks = [tuple(_BETWEEN.split(text.strip("[]() "))) for text in texts]
        if len(texts) == len(self.values) and _are_marks(marks):
            return Cells(marks, self.codes)
        if not all(isinstance(cell, str) and cell[:1] + cell[-1:] == "[]" for cell in self.values):
            return self
        values = []
        for cell in map(str, self.values):
            try:
                cell = ", ".join(cell.split()) if re.fullmatch(r"\[[\d\s]+\]", cell) else cell  # as numpy prints it
                parts = json.loads(cell if '"' in cell else cell.replace("'", '"'))
            except (ValueError, RecursionError):
                return self
            if not all(isinstance(part, str | int) for part in parts):
                return self
            values.append(tuple(map(str, parts)))
        return Cells(values, self.codes)

    def split_at(self, separator: str) -> "Cells":
        """The same with lists in the place of texts, which the separator splits; of an empty cell an empty one."""
        values = []
        separator = separator.strip() or separator  # cells have no blanks at their ends
        for cell in self.values:
            parts = cell.split(separator) if isinstance(cell, str) else cell
            values.append(parts if parts is None else tuple(part.strip() for part in parts if part.strip()))
        return Cells(values, self.codes)


class BadCellError(Exception):
    """An invalid cell: its `code`; the caller adds the location."""

    def __init__(self, code: int, problem: str, remedy: str) -> None:
        super().__init__(code, problem, remedy)
        self.code, self.problem, self.remedy = code, problem, remedy


def _are_marks(lists: Sequence[Sequence[str]]) -> bool:
    """Whether lists have a 0 or 1 for each class, instead of classes."""
    marks = ClassMarks()
    for parts in lists:
        marks.add([str(int(_MARKS[mark])) if (mark := part.casefold()) in _MARKS else part for part in parts])
    return marks.fits and marks.width > 0


def has_box_columns(name: str) -> bool:
    """Whether a column of this name has places of boxes and the like."""
    return bool(_BOX_WORDS.intersection(re.split("[/_ ]", name.lower())))


def feature_key(name: str) -> str:
    """The feature of a column: `image/` and its name, which may have the `image/` already."""
    return f"image/{name.removeprefix('image/')}"


def is_class_of_image(columns: Sequence[tuple[str, Cells]]) -> bool:
    """Whether the first label column is the class of the image, `image/class`.

    It is not if it is named like a feature of objects (`object/class`) or holds places, or if all columns are lists and
    one holds places: then they describe objects.
    """
    first, cells = columns[0]
    if first.removeprefix("image/").startswith("object/") or _holds_places(first, cells):
        return False
    lists = all(any(isinstance(cell, tuple) for cell in cells.values) for _, cells in columns)
    return not (lists and any(_holds_places(name, cells) for name, cells in columns))


def has_object_columns(name: str, cells: Cells) -> bool:
    """Whether a column has lists of positions: other lists then describe objects, not the image."""
    return any(isinstance(cell, tuple) for cell in cells.values) and _holds_places(name, cells)


def _holds_places(name: str, cells: Cells) -> bool:
    """Whether a column is called like places, and holds numbers that are no classes: a `mask` may be worn, or not."""
    if not _is_place(name):
        return False
    texts = _first_codes(cells)
    kinds = {_kind(text) for text in texts if text}
    if "word" in kinds or not kinds:
        return False
    several = any(isinstance(cell, tuple) for cell in cells.values)
    return several or "fraction" in kinds or {int(text) for text in texts if text} != set(range(len(texts)))


def label_column(
    cells: Cells,
    rows: np.ndarray,
    name: str,
    *,
    main: bool,
    given: tuple[str, ...] | None,
    split: bool = False,
    objects: bool = False,
    by: By = "user",
    column: int | None = None,
    offset: int | None = None,
    label_map: str | os.PathLike[str] | None = None,
) -> tuple[ClassColumn | NumberColumn, tuple[str, ...]]:
    """The feature or features of one column for `rows` (int64 [m]), and notes for the report.

    All rows decide the meaning of the column; `rows` are the rows with a file. The main column holds classes
    (`image/class`), or, if all its cells are numbers and at least half have a point or exponent, float32
    `image/class/value`. Another column C holds classes (`image/C`) if its cells are texts or the integers 0 to K-1, and
    else numbers, `image/C`: int64, or float32 if one has a point or exponent. Lists of integers are numbers unless in
    the main column. Numbers are places if the column is named like one. `split`: whether lists are texts that a
    separator split; they are classes then. `objects`: whether lists are of objects, one value each. Else lists of the
    main column, and texts that were split, are sets: repeated classes in a cell are ignored, and a note says how
    many such cells there are. `by`: who says that these are labels. `column`: its number, if it has no name.
    `offset`, `label_map`: as of `number_classes`. Raises BadCellError.
    """
    lists = _check_cells(cells)
    first_code = _first_codes(cells)
    numbered = bool(given or offset or label_map)
    if (
        main
        and lists
        and not split
        and not objects
        and not (offset or label_map)
        and {text.casefold() for text in first_code} <= _MARKS.keys()
    ):
        if _are_marks(found := [_texts(cell) for cell in cells.values]):
            names = given or tuple(map(str, range(len(found[0]))))
            if len(names) != len(found[0]):
                problem = f"got {len(found[0])} numbers of 0 and 1 for {len(names)} class names"
                raise BadCellError(0, problem, "name each class, in the order of the numbers")
            hot = np.array([[_MARKS[part.casefold()] for part in parts] for parts in found])[cells.codes]
            marks = list(hot.T)
            made, notes = one_hot_column(names, marks, rows)
            return made, (f"column {escape(name)}: a 0 or 1 for each of {len(names)} classes", *notes)
        if (code := next((i for i, parts in enumerate(found) if len({*parts}) < len(parts)), None)) is not None:
            problem = "got a list of 0 and 1 that repeats one, and lists of other lengths"
            raise BadCellError(code, problem, "write a 0 or 1 for every class in each row, or each class once")
    try:
        meaning = "classes" if numbered or split else _meaning(cells, first_code, main=main, lists=lists)
        if meaning == "classes":
            counts = np.bincount(cells.codes, minlength=len(cells.values)).tolist()
            of_text: Counter[str] = Counter()
            for cell, count in zip(cells.values, counts, strict=True):
                of_text.update(dict.fromkeys(_texts(cell), count))
            looked_at = not numbered and not split and (not lists or by in ("rest", "place"))
            hints = check_classes(name, of_text, by, column=column) if looked_at else ()
            numbering = number_classes(first_code, given, offset=offset, label_map=label_map)
            prefix = "image/class" if main else _class_prefix(name)
            tags = lists and (main or split) and not (objects or prefix.startswith("image/object/"))
            several, again = _without_duplicates(cells, rows, numbering.labels, name) if tags else (cells, ())
            spread = _spread(several, rows, numbering.labels, np.int64, lists)
            return ClassColumn(prefix, numbering.names, *spread, tags, numbering.ids), (
                *numbering.notes,
                *again,
                *hints,
            )
        dtype = np.int64 if meaning == "integers" else np.float32
        numbers = {text: _number(text, dtype) for text in first_code}
    except BadLabelError as error:
        separator = "" if given or lists else combined(first_code)
        remedy = error.remedy
        if separator:
            remedy += f"; several labels in a cell: give {argument('label_separator', separator)}"
        elif all(map(is_integer, first_code)):
            remedy += f"; for numeric values give {argument('number_columns')}"
        raise BadCellError(first_code[error.value], error.problem, remedy) from None
    note = f"column {escape(name)}: integers that are not 0 to K-1 are stored as numbers, not as classes"
    notes = (note,) if meaning == "integers" and not lists else ()
    key = "image/class/value" if main else feature_key(name)
    kind = "place" if _is_place(name) else "number"
    return NumberColumn(key, *_spread(cells, rows, numbers, dtype, lists), kind), notes


def _without_duplicates(
    cells: Cells, rows: np.ndarray, labels: Mapping[str, int], name: str
) -> tuple[Cells, tuple[str, ...]]:
    """Return the lists without duplicates, and a note if any of `rows` had some."""
    sets = []
    for cell in cells.values:
        first: dict[int, str] = {}
        for text in _texts(cell):
            first.setdefault(labels[text], text)
        sets.append(tuple(first.values()))
    shorter = [len(found) < len(_texts(cell)) for found, cell in zip(sets, cells.values, strict=True)]
    count = int(np.array(shorter, bool)[cells.codes[rows]].sum())
    note = f"column {escape(name)}: {count} of {len(rows)} cells repeat a class, which is stored once"
    return Cells(sets, cells.codes), (note,) if count else ()


def text_column(cells: Cells, rows: np.ndarray, name: str) -> TextColumn:
    """Return the feature of a column of texts for `rows` (int64 [m]): its cells unchanged, also empty ones.

    Raises BadCellError.
    """
    lists = _check_cells(cells, empty_allowed=True)
    first_code = _first_codes(cells)
    for text, code in first_code.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            remedy = f"give {argument('encoding', 'latin-1')}, or another encoding"
            raise BadCellError(code, f"got '{escape(text[:40])}', which is not UTF-8", remedy) from None
    places = {text: i for i, text in enumerate(first_code)}
    texts = [text.encode("utf-8") for text in first_code]
    return TextColumn(feature_key(name), texts, *_spread(cells, rows, places, np.int64, lists))


def number_column(
    cells: Cells, rows: np.ndarray, name: str, asked: Feature | None, missing: str | None
) -> tuple[NumberColumn, tuple[str, ...]]:
    """Return the feature of a column of numbers for `rows` (int64 [m]), and notes for the report.

    int64, or float32 if a cell has a point or exponent, unless `asked` gives the dtype; a fixed number per row if
    `asked` gives the shape. A cell without a number (empty, NA, nan, null) gets the value `missing`. Raises
    BadCellError.
    """
    count = asked.shape[0] if asked and asked.shape else None
    if count is not None:
        values = [_BETWEEN.split(cell.strip(" \t[]()")) if isinstance(cell, str) else cell for cell in cells.values]
        cells = Cells([tuple(cell) if isinstance(cell, list) else cell for cell in values], cells.codes)
    lists = _check_cells(cells, empty_allowed=True)
    first_code = _first_codes(cells)
    absent = {text for text in first_code if is_absent(text)}
    read = {text: missing if text in absent and missing is not None else text for text in first_code}
    for text, number in read.items():
        if (text in absent and missing is None) or (_kind(number) == "word" and number.casefold() != "nan"):
            got = f"got '{escape(text[:40])}'" if text else "got an empty cell"
            value = argument("missing", python=f"missing={{{name!r}: 'nan'}}", typed=f"{name}=nan")
            remedy = f"give {value}, or another number than nan, for empty cells"
            raise BadCellError(
                first_code[text], f"{got}, expected a number", remedy if text in absent else "correct it"
            )
    if asked is not None:
        dtype = np.int64 if asked.dtype == "int64" else np.float32
    else:
        dtype = np.int64 if all(map(is_integer, read.values())) else np.float32
    try:
        numbers = {text: _number(number, dtype) for text, number in read.items()}
    except BadLabelError as error:
        code = next(first_code[text] for text, number in read.items() if number == error.value)
        raise BadCellError(code, error.problem, error.remedy) from None
    for code, cell in enumerate(cells.values):
        if count is not None and len(_texts(cell)) != count:
            raise BadCellError(code, f"got {len(_texts(cell))} numbers, expected {count}", "correct the row")
    kind = asked.kind if asked and asked.kind else "place" if _is_place(name) else "number"
    made = NumberColumn(
        feature_key(name), *_spread(cells, rows, numbers, dtype, lists), "place" if kind == "place" else "number", count
    )
    lacking = sum(
        bool(absent.intersection(_texts(cell))) for cell in (cells.values[code] for code in cells.codes[rows])
    )
    return made, ((f"column {escape(name)}: {lacking} empty cells are set to {missing}",) if lacking else ())


def are_signed(columns: Iterable[Cells]) -> bool:
    """Whether columns of marks have only 1 and -1: with a 0, that may mean "no", and -1 "unknown"."""
    return all(cell in _SIGNED for cells in columns for cell in cells.values if isinstance(cell, str))


def marks_of(cells: Cells, signed: bool) -> np.ndarray:
    """bool [n]: whether each row has a mark: 1 or true, not 0, false or, where they are `signed`, -1.

    Raises BadCellError.
    """
    meaning = _SIGNED if signed else _MARKS
    truths = [meaning.get(cell.casefold()) if isinstance(cell, str) else None for cell in cells.values]
    if None in truths:
        cell = cells.values[code := truths.index(None)]
        got = f"'{escape(cell)}'" if isinstance(cell, str) else "a list"
        raise BadCellError(code, f"got {got}, expected 0 or 1", "correct it, or leave the column out")
    return np.array(truths, bool)[cells.codes]


def one_hot_column(
    names: Sequence[str], marks: Sequence[np.ndarray], rows: np.ndarray
) -> tuple[ClassColumn, tuple[str, ...]]:
    """The class or classes of `rows` (int64 [m]), one where every row of the table has exactly one mark; and a note.

    `marks`: bool [n] of each class.
    """
    every = np.stack(marks, axis=1)
    counts = every.sum(axis=1)
    chosen = every[rows]
    numbers = np.nonzero(chosen)[1].astype(np.int64)
    if (counts == 1).all():
        return ClassColumn("image/class", tuple(names), numbers), ()
    ends = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int64)
    note = f"rows have {counts.min()} to {counts.max()} of the {len(names)} classes, so image/class/label is a list"
    return ClassColumn("image/class", tuple(names), numbers, ends, tags=True), (note,)


def _is_place(name: str) -> bool:
    return bool(_PLACE_WORDS.intersection(re.split("[/_]", name.lower())))


def _class_prefix(name: str) -> str:
    """Return the prefix of the keys `.../label` and `.../text` of a column of classes; its name may end in either."""
    key = feature_key(name)
    return key.removesuffix("/label").removesuffix("/text") if "/" in name else key


def _filled(cell: Cell, text: str) -> Cell:
    return tuple(part or text for part in cell) if isinstance(cell, tuple) else text if cell == "" else cell


def _texts(cell: Cell) -> tuple[str, ...]:
    return cell if isinstance(cell, tuple) else (cell or "",)


def _first_codes(cells: Cells) -> dict[str, int]:
    """Every text with the first cell that has it."""
    first_code: dict[str, int] = {}
    for code, cell in enumerate(cells.values):
        for text in _texts(cell):
            first_code.setdefault(text, code)
    return first_code


def _check_cells(cells: Cells, *, empty_allowed: bool = False) -> bool:
    """Whether cells are lists. All must be, or none."""
    lists = [code for code, cell in enumerate(cells.values) if isinstance(cell, tuple)]
    single = [code for code, cell in enumerate(cells.values) if not isinstance(cell, tuple)]
    for code, cell in enumerate(cells.values):
        if cell is None:
            problem = "got an object or a list in a list, expected a value or a list of values"
            raise BadCellError(code, problem, "flatten it, or leave the column out")
        if not empty_allowed and (cell == "" or (isinstance(cell, tuple) and "" in cell)):
            remedy = f"fill it in, leave the row out, or give {argument('missing')}"
            others = [text for text in _first_codes(cells) if text]
            if others and all(_kind(text) != "word" for text in others):
                remedy += f"; for numeric values {argument('number_columns')} and {argument('missing')}"
            raise BadCellError(code, "got an empty cell, expected a label", remedy)
    if lists and single:
        counts = np.bincount(cells.codes, minlength=len(cells.values))
        listed = counts[lists].sum() > counts[single].sum()
        code = single[0] if listed else lists[0]
        got, expected = ("a value", "a list") if listed else ("a list", "a value")
        raise BadCellError(code, f"got {got}, expected {expected} as in other rows", "write all rows in the same form")
    if lists and not any(cells.values):
        raise BadCellError(lists[0], "every list is empty", "leave the column out")
    return bool(lists)


def _meaning(
    cells: Cells, first_code: Mapping[str, int], *, main: bool, lists: bool
) -> Literal["classes", "integers", "fractions"]:
    """Decide the type of a column without a class list. Raises BadLabelError for the first text unlike the others."""
    kinds = {text: _kind(text) for text in first_code}
    first = {kind: text for text, kind in reversed(kinds.items())}
    counts = np.bincount(cells.codes, minlength=len(cells.values)).tolist()
    rows: Counter[str] = Counter()
    for cell, count in zip(cells.values, counts, strict=True):
        for text in _texts(cell):
            rows[kinds[text]] += count
    if "word" in first and len(first) > 1:
        if rows["word"] > rows["integer"] + rows["fraction"]:
            numbers = [text for kind, text in first.items() if kind != "word"]
            odd, expected = min(numbers, key=lambda text: first_code[text]), "a name"
        else:
            odd, expected = first["word"], "a number" if "fraction" in first else "an integer"
        problem = f"got '{escape(odd)}', expected {expected} as in other rows"
        remedy = f"correct it, or give {argument('class_names')} with all names"
        if is_absent(odd):
            remedy = f"if some numbers are missing, give {argument('number_columns')}"
            remedy += f" instead of {argument('label_columns')}"
        raise BadLabelError(odd, problem, remedy)
    if "word" in first:
        return "classes"
    if "fraction" in first:
        if main and rows["integer"] > rows["fraction"]:
            remedy = f"correct it; give {argument('number_columns')} for numeric values"
            raise BadLabelError(first["fraction"], f"got {first['fraction']!r}, expected an integer", remedy)
        return "fractions"
    labels = {int(text) for text in kinds}
    return "classes" if main or (not lists and min(labels) == 0 and max(labels) == len(labels) - 1) else "integers"


def _kind(text: str) -> Literal["integer", "fraction", "word"]:
    return "integer" if is_integer(text) else "fraction" if _NUMBER.match(text) else "word"


def _number(text: str, dtype: type[np.int64] | type[np.float32]) -> int | float:
    """The number in a text; a whole number with a point (`3.0`) is an int64, too. Raises BadLabelError."""
    if dtype is np.float32:
        number = float(text)
        if is_integer(text) and abs(number) < _LARGE and int(np.float32(number)) != int(text):
            raise BadLabelError(
                text, f"got {text[:40]} among fractions, which float32 cannot represent exactly", "round it"
            )
        if not abs(number) > float(np.finfo(np.float32).max):  # nan is not, either
            return number
    else:
        whole = is_integer(text) or float(text).is_integer()
        number = int(text) if is_integer(text) else float(text)
        if whole and int(number) in _INT64:
            return int(number)
    raise BadLabelError(text, f"got {text[:40]}, expected a number that fits {dtype.__name__}", "correct it")


def _spread(
    cells: Cells, rows: np.ndarray, numbers: Mapping[str, int | float], dtype: type[np.generic], lists: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the numbers of the rows and, for lists, the end offset of each row."""
    codes = cells.codes[rows]
    if not lists:
        return np.array([numbers[str(cell)] for cell in cells.values], dtype)[codes], None
    flat = [np.array([numbers[text] for text in _texts(cell)], dtype) for cell in cells.values]
    ends = np.concatenate([[0], np.cumsum([len(flat[code]) for code in codes])]).astype(np.int64)
    return np.concatenate([np.empty(0, dtype), *(flat[code] for code in codes)]), ends
