"""What the cells of a label column mean: classes, or numbers that are no classes, one or several for each sample."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shardfeed.converters.sources.classes import BadLabelError, is_integer, number_classes
from shardfeed.converters.sources.files.listed_source import ClassColumn, NumberColumn
from shardfeed.converters.sources.labels.table import Cell
from shardfeed.errors import escape

_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z"
)  # no nan, no inf, no digits of other scripts
_INT64 = range(-(2**63), 2**63)
# One word of a column's name is enough: TensorFlow's (object/bbox/xmin) and what people call columns of their own.
_PLACE_WORDS = {"bbox", "bboxes", "box", "boxes", "xmin", "xmax", "ymin", "ymax", "mask", "masks", "segmentation"}
_PLACE_WORDS |= {"keypoint", "keypoints", "polygon", "polygons"}


@dataclass(frozen=True)
class Cells:
    """A column of n rows: row i says `values[codes[i]]`; `values` in the order in which they first appear."""

    values: Sequence[Cell]
    codes: np.ndarray


class BadCellError(Exception):
    """A cell that cannot be meant: its `code`, for the caller to say where it stands."""

    def __init__(self, code: int, problem: str, remedy: str) -> None:
        super().__init__(code, problem, remedy)
        self.code, self.problem, self.remedy = code, problem, remedy


def label_column(
    cells: Cells, rows: np.ndarray, name: str, *, main: bool, given: tuple[str, ...] | None
) -> tuple[ClassColumn | NumberColumn, tuple[str, ...]]:
    """The feature or features of one column for `rows` (int64 [m]), and notes for the report.

    All rows have a say in what the column means, `rows` are those with a file. The main column holds classes
    (`image/class`), or, where at least half of its cells are numbers with a point or exponent and all are numbers,
    float32 `image/class/value`. Another column C holds classes (`image/C`) where its cells are texts or the integers
    0 to K-1, and else numbers, `image/C`: int64, or float32 when one has a point or exponent.
    Lists of integers are numbers unless in the main column. Numbers mean places where the column is called like one.
    Raises BadCellError.
    """
    lists = _check_cells(cells)
    first_code: dict[str, int] = {}  # every text with the first cell that has it
    for code, cell in enumerate(cells.values):
        for text in _texts(cell):
            first_code.setdefault(text, code)
    try:
        meaning = "classes" if given else _meaning(cells, first_code, main=main, lists=lists)
        if meaning == "classes":
            numbering = number_classes(first_code, given)
            prefix = "image/class" if main else f"image/{name}"
            spread = _spread(cells, rows, numbering.labels, np.int64, lists)
            return ClassColumn(prefix, numbering.names, *spread), (*numbering.notes, *_surprise(cells, name))
        dtype = np.int64 if meaning == "integers" else np.float32
        numbers = {text: _number(text, dtype) for text in first_code}
    except BadLabelError as error:
        raise BadCellError(first_code[error.value], error.problem, error.remedy) from None
    note = f"column {escape(name)}: integers that are not 0 to K-1 are stored as numbers, not as classes"
    notes = (note,) if meaning == "integers" and not lists else ()
    key = "image/class/value" if main else f"image/{name}"
    kind = "place" if _PLACE_WORDS.intersection(re.split("[/_]", name.lower())) else "number"
    return NumberColumn(key, *_spread(cells, rows, numbers, dtype, lists), kind), notes


def _texts(cell: Cell) -> tuple[str, ...]:
    return cell if isinstance(cell, tuple) else (cell or "",)


def _check_cells(cells: Cells) -> bool:
    """Whether cells are lists. All must be, or none."""
    lists = [code for code, cell in enumerate(cells.values) if isinstance(cell, tuple)]
    single = [code for code, cell in enumerate(cells.values) if not isinstance(cell, tuple)]
    for code, cell in enumerate(cells.values):
        if cell is None:
            problem = "got an object or a list in a list, expected a value or a list of values"
            raise BadCellError(code, problem, "flatten it, or leave the column out")
        if cell == "" or (isinstance(cell, tuple) and "" in cell):
            raise BadCellError(code, "got an empty cell, expected a label", "fill it in, or leave the row out")
    if lists and single:
        counts = np.bincount(cells.codes, minlength=len(cells.values))
        listed = counts[lists].sum() > counts[single].sum()
        code = single[0] if listed else lists[0]
        got, expected = ("a value", "a list") if listed else ("a list", "a value")
        raise BadCellError(code, f"got {got}, expected {expected} as in other rows", "write all rows alike")
    if lists and not any(cells.values):
        raise BadCellError(lists[0], "every list is empty", "leave the column out")
    return bool(lists)


def _meaning(
    cells: Cells, first_code: Mapping[str, int], *, main: bool, lists: bool
) -> Literal["classes", "integers", "fractions"]:
    """What a column without a class list holds. Raises BadLabelError for the first text that is not like the others."""
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
        raise BadLabelError(odd, problem, "correct it, or give class_names with every name in it")
    if "word" in first:
        return "classes"
    if "fraction" in first:
        if main and rows["integer"] > rows["fraction"]:
            remedy = "correct it; to train on numbers that are no classes, write each with a point"
            raise BadLabelError(first["fraction"], f"got {first['fraction']!r}, expected an integer", remedy)
        return "fractions"
    labels = {int(text) for text in kinds}
    return "classes" if main or (not lists and min(labels) == 0 and max(labels) == len(labels) - 1) else "integers"


def _kind(text: str) -> Literal["integer", "fraction", "word"]:
    return "integer" if is_integer(text) else "fraction" if _NUMBER.match(text) else "word"


def _number(text: str, dtype: type[np.int64] | type[np.float32]) -> int | float:
    number = int(text) if dtype is np.int64 else float(text)
    if number in _INT64 if dtype is np.int64 else abs(number) <= float(np.finfo(np.float32).max):
        return number
    raise BadLabelError(text, f"got {text[:40]}, expected a number that fits {dtype.__name__}", "correct it")


def _surprise(cells: Cells, name: str) -> tuple[str, ...]:
    """A note where a column of captions or numbers of samples was taken for classes."""
    if len(cells.codes) > 20 and len(cells.values) == len(cells.codes):
        return (f"column {escape(name)}: each of {len(cells.codes)} rows has a class of its own",)
    return ()


def _spread(
    cells: Cells, rows: np.ndarray, numbers: Mapping[str, int | float], dtype: type[np.generic], lists: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers of each row and, for lists, where each row's end."""
    codes = cells.codes[rows]
    if not lists:
        return np.array([numbers[str(cell)] for cell in cells.values], dtype)[codes], None
    flat = [np.array([numbers[text] for text in _texts(cell)], dtype) for cell in cells.values]
    ends = np.concatenate([[0], np.cumsum([len(flat[code]) for code in codes])]).astype(np.int64)
    return np.concatenate([np.empty(0, dtype), *(flat[code] for code in codes)]), ends
