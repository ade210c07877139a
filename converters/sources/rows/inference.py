"""Find what a column is, by its values, their types and its name: classes, sets, marks, numbers, places or texts.

A value that fits no meaning raises an error; if another meaning is possible, a note reports it.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, Numbering, is_integer, number_classes
from shardfeed.converters.sources.rows.cells import NUMBER, Cell, is_absent, list_in, parts_of, texts_of
from shardfeed.converters.sources.rows.columns import (
    ClassColumn,
    ClassMarks,
    NumberColumn,
    TextColumn,
    UnlikeError,
    Values,
    feature_key,
    ragged,
)
from shardfeed.converters.sources.rows.evidence import By, check_classes, combined
from shardfeed.errors import argument, escape
from shardfeed.schema import Feature

_MARKS = {text: int(float(text)) for text in ("0", "0.", "0.0", "1", "1.", "1.0", "-1", "-1.0")} | {
    "false": 0,
    "true": 1,
}
# One word of a column's name is enough: TensorFlow's (object/bbox/xmin), and common names.
_PLACE_WORDS = {"bbox", "bboxes", "box", "boxes", "xmin", "xmax", "ymin", "ymax", "mask", "masks", "segmentation"}
_PLACE_WORDS |= {"keypoint", "keypoints", "polygon", "polygons"}
_BOX_WORDS = _PLACE_WORDS | {"x", "y", "w", "h", "x1", "x2", "y1", "y2", "left", "top", "right", "bottom"}


@dataclass(frozen=True)
class Distinct:
    """A column of n samples: sample i has `values[codes[i]]`; `values` in the order in which they first appear."""

    values: Sequence[Cell]
    codes: np.ndarray

    def mapped(self, change: Callable[[Cell], Cell]) -> "Distinct":
        """The same with other values."""
        return Distinct([change(value) for value in self.values], self.codes)

    def listed(self) -> "Distinct":
        """The same with lists in the place of texts that all write one: `['cat', 'dog']`, `[0 1 0]`, `0 1 0`."""
        lists = [parts_of(value) if isinstance(value, str) else () for value in self.values]
        if not _marks_in(lists).fits:
            lists = [*map(list_in, self.values)]
        return self if None in lists else Distinct(lists, self.codes)

    def first(self, value: Cell) -> int:
        """The first sample that has a value, or a list with it."""
        codes = (code for code, one in enumerate(self.values) if one == value or value in texts_of(one))
        return int(np.argmax(self.codes == next(codes, 0)))

    def counts(self) -> dict[str, int]:
        """Every text, in the order in which they first appear, and the number of samples that have it."""
        counts: dict[str, int] = {}
        for value, count in zip(self.values, np.bincount(self.codes, minlength=len(self.values)).tolist(), strict=True):
            for text in dict.fromkeys(value) if isinstance(value, tuple) else texts_of(value):
                counts[text] = counts.get(text, 0) + count
        return counts

    def are_lists(self, *, empty_allowed: bool = False) -> bool:
        """Whether values are lists. Raises BadLabelError unless all are, or none; and for one that is empty."""
        lists = [isinstance(value, tuple) for value in self.values]
        for value in self.values:
            if value is None:
                problem = "got an object or a list in a list, expected a value or a list of values"
                raise BadLabelError(value, problem, "flatten it, or leave the column out")
            if not empty_allowed and "" in texts_of(value):
                remedy = f"fill it in, leave the row out, or give {argument('missing')}"
                if (others := self.counts().keys() - {""}) and all(_kind(text) != "word" for text in others):
                    remedy += f"; for numeric values {argument('number_columns')} and {argument('missing')}"
                raise BadLabelError("", "got an empty cell, expected a label", remedy)
        if any(lists) and not all(lists):
            listed = 2 * np.count_nonzero(np.array(lists)[self.codes]) > len(self.codes)
            got, expected = ("a value", "a list") if listed else ("a list", "a value")
            problem = f"got {got}, expected {expected} as in other rows"
            raise BadLabelError(self.values[lists.index(not listed)], problem, "write all rows in the same form")
        if any(lists) and not any(self.values):
            raise BadLabelError((), "every list is empty", "leave the column out")
        return any(lists)


def _marks_in(lists: Iterable[Sequence[str]]) -> ClassMarks:
    """Lists as marks, if they have a 0 or 1 for each class, instead of classes."""
    marks = ClassMarks()
    for parts in lists:
        marks.add([str(_MARKS.get(part.casefold(), part)) for part in parts])
    return marks


def has_box_columns(name: str) -> bool:
    """Whether a column of this name has places of boxes and the like."""
    return bool(_BOX_WORDS.intersection(re.split("[/_ ]", name.lower())))


def _kind_of(name: str) -> Literal["number", "place"]:
    return "place" if _PLACE_WORDS.intersection(re.split("[/_]", name.lower())) else "number"


def holds_places(name: str, column: Distinct) -> bool:
    """Whether a column is called like places, and holds numbers that are no classes: a `mask` may be worn, or not."""
    if _kind_of(name) != "place":
        return False
    texts = [text for text in column.counts() if text]
    kinds = {*map(_kind, texts)}
    if "word" in kinds or not kinds:
        return False
    several = any(isinstance(value, tuple) for value in column.values)
    return several or "fraction" in kinds or {*map(int, texts)} != {*range(len(texts))}


def label_column(
    column: Distinct,
    name: str,
    *,
    main: bool,
    given: tuple[str, ...] | None,
    split: bool = False,
    objects: bool = False,
    by: By = "user",
    number: int | None = None,
    offset: int | None = None,
    label_map: str | os.PathLike[str] | None = None,
) -> tuple[ClassColumn | NumberColumn, tuple[str, ...]]:
    """The feature or features of each distinct value of a column of labels, and notes for the report.

    The main column holds classes (`image/class`), or, if all its values are numbers and at least half have a point or
    exponent, float32 `image/class/value`. Another column C holds classes (`image/C`) if its values are texts or the
    integers 0 to K-1, and else numbers, `image/C`: int64, or float32 if one has a point or exponent. Lists of integers
    are numbers unless in the main column. Numbers are places if the column is named like one. `split`: whether lists
    are texts that a separator split; they are classes then. `objects`: whether lists are of objects, one value each.
    Else lists of the main column, and texts that were split, are sets: repeated classes in a value are ignored, and a
    note says how many such values there are. `by`: who says that these are labels. `number`: that of the column, if it
    has no name. `offset`, `label_map`: as of `number_classes`. Raises BadLabelError.
    """
    lists, counts = column.are_lists(), column.counts()
    numbered = bool(given or offset or label_map)
    if main and lists and not split and not objects and not (offset or label_map):
        marks = _marks_in(map(texts_of, column.values))
        if marks.doubtful:
            odd = next(value for value in column.values if len({*texts_of(value)}) < len(texts_of(value)))
            problem = "got a list of 0 and 1 that repeats one, and lists of other lengths"
            raise BadLabelError(odd, problem, "write a 0 or 1 for every class in each row, or each class once")
        if marks.fits:
            made, note = marked_column(marks, given or [*map(str, range(marks.width))])
            return made, (f"column {escape(name)}, lists of 0 and 1: {note}",)
    try:
        meaning = "classes" if numbered or split else _meaning(counts, main=main, lists=lists)
        if meaning == "classes":
            looked_at = not numbered and not split and (not lists or by in ("rest", "place"))
            hints = check_classes(name, counts, by, column=number) if looked_at else ()
            numbering = number_classes(counts, given, offset=offset, label_map=label_map)
            prefix = "image/class" if main else feature_key(name)
            prefix = prefix.removesuffix("/label").removesuffix("/text") if "/" in name else prefix
            tags = lists and (main or split) and not (objects or prefix.startswith("image/object/"))
            made, again = _class_column(column, prefix, numbering, lists=lists, tags=tags)
            note = f"column {escape(name)}: {again} of {len(column.codes)} cells repeat a class, which is stored once"
            return made, (*numbering.notes, *([note] if again else []), *hints)
    except BadLabelError as error:
        if separator := "" if given or lists else combined(counts):
            error.remedy += f"; several labels in a cell: give {argument('label_separator', separator)}"
        elif all(map(is_integer, counts)):
            error.remedy += f"; for numeric values give {argument('number_columns')}"
        raise
    note = f"column {escape(name)}: integers that are not 0 to K-1 are stored as numbers, not as classes"
    key = "image/class/value" if main else feature_key(name)
    numbers = _values(column, Values(key, floats=meaning == "fractions"), _number, "round it, or correct it")
    return replace(numbers, kind=_kind_of(name)), (note,) if meaning == "integers" and not lists else ()


def _class_column(
    column: Distinct, prefix: str, numbering: Numbering, *, lists: bool, tags: bool
) -> tuple[ClassColumn, int]:
    """The classes of each distinct value; and the number of samples that repeat one, where those are a set (`tags`)."""
    labels = [[numbering.labels[text] for text in texts_of(value)] for value in column.values]
    sets = [[*dict.fromkeys(of_value)] for of_value in labels] if tags else labels
    shorter = [len(one) < len(other) for one, other in zip(sets, labels, strict=True)]
    numbers, ends = ragged(sets, np.int64)
    made = ClassColumn(prefix, numbering.names, numbers, ends if lists else None, tags, numbering.ids)
    return made, int(np.array(shorter, bool)[column.codes].sum())


def _meaning(counts: Mapping[str, int], *, main: bool, lists: bool) -> Literal["classes", "integers", "fractions"]:
    """Decide the type of a column without a class list. Raises BadLabelError for the first text unlike the others."""
    kinds = {text: _kind(text) for text in counts}
    rows: Counter[str] = Counter()
    for text, kind in kinds.items():
        rows[kind] += counts[text]
    if "word" in rows and len(rows) > 1:
        words = 2 * rows["word"] > rows.total()
        odd = next(text for text, kind in kinds.items() if words != (kind == "word"))
        expected = "a name" if words else "a number" if "fraction" in rows else "an integer"
        remedy = f"correct it, or give {argument('class_names')} with all names"
        if is_absent(odd):
            remedy = f"if some numbers are missing, give {argument('number_columns')}"
            remedy += f" instead of {argument('label_columns')}"
        raise BadLabelError(odd, f"got '{escape(odd)}', expected {expected} as in other rows", remedy)
    if "word" in rows:
        return "classes"
    if "fraction" in rows:
        if main and rows["integer"] > rows["fraction"]:
            odd = next(text for text, kind in kinds.items() if kind == "fraction")
            remedy = f"correct it; give {argument('number_columns')} for numeric values"
            raise BadLabelError(odd, f"got {odd!r}, expected an integer", remedy)
        return "fractions"
    whole = {*map(int, kinds)}
    return "classes" if main or (not lists and min(whole) == 0 and max(whole) == len(whole) - 1) else "integers"


def text_column(column: Distinct, name: str) -> tuple[TextColumn, tuple[str, ...]]:
    """The feature of each distinct value of a column of texts, unchanged, also empty ones. Raises BadLabelError."""
    column.are_lists(empty_allowed=True)
    remedy = f"give {argument('encoding', 'latin-1')}, or another encoding"
    return _values(column, Values(feature_key(name)), str, remedy), ()


def number_column(
    column: Distinct, name: str, asked: Feature | None = None, missing: str | None = None
) -> tuple[NumberColumn, tuple[str, ...]]:
    """The feature of each distinct value of a column of numbers, and notes for the report.

    int64, or float32 if a value has a point or exponent, unless `asked` gives the dtype; a fixed number per row if
    `asked` gives the shape. A value without a number (empty, NA, nan, null) gets the value `missing`. Raises
    BadLabelError.
    """
    count = asked.shape[0] if asked and asked.shape else None
    if count is not None:
        column = column.mapped(lambda value: parts_of(value) if isinstance(value, str) else value)
    column.are_lists(empty_allowed=True)
    whole = asked is not None and asked.dtype == "int64"

    def number(text: str) -> int | float:
        used = missing if missing is not None and is_absent(text) else text
        if (is_absent(text) and missing is None) or (_kind(used) == "word" and used.casefold() != "nan"):
            value = argument("missing", python=f"missing={{{name!r}: 'nan'}}", typed=shlex.quote(f"{name}=nan"))
            remedy = f"give {value}, or another number than nan, for empty cells" if is_absent(text) else "correct it"
            got = f"got '{escape(text[:40])}'" if text else "got an empty cell"
            raise BadLabelError(text, f"{got}, expected a number", remedy)
        try:
            return _number(used, whole=whole)
        except UnlikeError as error:
            raise BadLabelError(text, str(error), "correct it") from None

    numbers = {text: number(text) for text in column.counts()}
    floats = not whole and (asked is not None or any(isinstance(one, float) for one in numbers.values()))
    made = _values(column, Values(feature_key(name), floats=floats), numbers.__getitem__, "round it, or correct it")
    for value in column.values if count is not None else ():
        if len(texts_of(value)) != count:
            raise BadLabelError(value, f"got {len(texts_of(value))} numbers, expected {count}", "correct the row")
    kind = asked.kind if asked and asked.kind else _kind_of(name)
    absent = np.array([any(map(is_absent, texts_of(value))) for value in column.values], bool)[column.codes].sum()
    notes = (f"column {escape(name)}: {absent} empty cells are set to {missing}",) if absent else ()
    return replace(made, kind="place" if kind == "place" else "number", count=count), notes


def _kind(text: str) -> Literal["integer", "fraction", "word"]:
    return "integer" if is_integer(text) else "fraction" if NUMBER.match(text) else "word"


def _number(text: str, *, whole: bool = False) -> int | float:
    """The number in a text; if it must be `whole`, 3 for `3.0`. Raises UnlikeError."""
    if is_integer(text):
        return int(text)
    number = float(text)
    if not whole:
        return number
    if not number.is_integer():
        raise UnlikeError(f"got {text[:40]}, expected a number that fits int64")
    return int(number)


def _values(column: Distinct, values: Values, read: Callable[[str], Any], remedy: str) -> Any:
    """The feature of each distinct value, whose texts `read` makes texts or numbers. Raises BadLabelError."""
    for value in column.values:
        try:
            values.add(read(value) if isinstance(value, str) else [*map(read, texts_of(value))])
        except UnlikeError as error:
            raise BadLabelError(value, str(error), remedy) from None
    return values.column()


def mark_of_none(columns: Iterable[Distinct]) -> int:
    """The mark for no class in columns of marks: -1 if there is no 0, with which it may mean "unknown"; else 0."""
    marks = {_MARKS.get(value) for column in columns for value in column.values if isinstance(value, str)}
    return -1 if marks <= {-1, 1} else 0


def marks_of(column: Distinct, none: int) -> np.ndarray:
    """bool [n]: whether each sample has a mark: 1 or true, not `none` (as of `mark_of_none`). Raises BadLabelError."""
    marks = [_MARKS.get(value.casefold()) if isinstance(value, str) else None for value in column.values]
    if odd := [value for value, mark in zip(column.values, marks, strict=True) if mark not in (none, 1)]:
        got = f"'{escape(odd[0])}'" if isinstance(odd[0], str) else "a list"
        raise BadLabelError(odd[0], f"got {got}, expected 0 or 1", "correct it, or leave the column out")
    return np.array([mark == 1 for mark in marks], bool)[column.codes]


def marked_column(marks: ClassMarks, names: Sequence[str]) -> tuple[ClassColumn, str]:
    """The class or classes of samples with marks, and a note on them. Raises BadLabelError."""
    if len(names) != marks.width:
        problem = f"got {marks.width} numbers of 0 and 1 for {len(names)} class names"
        raise BadLabelError("", problem, "name each class, in the order of the numbers")
    codes, note = marks.codes()
    sets = codes.ends is not None
    return ClassColumn("image/class", tuple(names), codes.codes.astype(np.int64), codes.ends, sets), note
