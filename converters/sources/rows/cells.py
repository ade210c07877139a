"""Numbers and lists in cells of tables, in elements of XML and in words of text files."""

import functools
import json
import math
import re

from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.errors import escape

Cell = str | tuple[str, ...] | None  # text, a list of texts (JSON), or None for JSON that is neither

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")  # no nan, inf, digits of other scripts
_BETWEEN = re.compile(r"[\s,;]+")  # numbers of a list that is written in one cell
_ABSENT = frozenset(("", "na", "n/a", "nan", "null", "none"))  # as spreadsheets, pandas and databases write it


def is_absent(text: str) -> bool:
    """Whether a cell means a missing value."""
    return text.strip().casefold() in _ABSENT


def texts_of(cell: Cell) -> tuple[str, ...]:
    """The texts of a list, or the one of a cell that is none."""
    return cell if isinstance(cell, tuple) else (cell or "",)


def parts_of(text: str) -> tuple[str, ...]:
    """The words of a list that is written in one cell, as `[0 1 0]` or `0, 1, 0`."""
    return tuple(_BETWEEN.split(text.strip(" \t[]()")))


def list_in(cell: Cell) -> tuple[str, ...] | None:
    """The list that a text writes as Python, JSON or NumPy does: `['cat', 'dog']`, `[1 2]`; None for any other."""
    if not isinstance(cell, str) or cell[:1] + cell[-1:] != "[]":
        return None
    try:
        cell = ", ".join(cell.split()) if re.fullmatch(r"\[[\d\s]+\]", cell) else cell  # as NumPy prints it
        parts = json.loads(cell if '"' in cell else cell.replace("'", '"'))
    except (ValueError, RecursionError):
        return None
    return tuple(map(str, parts)) if all(isinstance(part, str | int) for part in parts) else None


def read_number(text: str | None, what: str) -> float:
    """Return the number in a cell or element; the caller checks for NaN and infinity.

    Raises BadAnnotationError: E_BOX_EMPTY if there is none, E_VALUE for anything else.
    """
    try:
        if text and "_" not in text and text.isascii():  # Python reads both as numbers, but they are not used in files
            value = float(text)
            if value == value:
                return value
    except ValueError:
        pass
    if text is None or is_absent(text):
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"no {what}")
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        return float(text)  # NaN, with a sign
    except ValueError:
        raise BadAnnotationError(AnnotationCode.VALUE, f"got {what} '{escape(text[:40])}', expected a number") from None


@functools.lru_cache(4096)  # few images differ in size
def _number_of_pixels(text: str | None) -> int | None:
    """Parse the side of an image in pixels; None if it is no positive integer."""
    try:
        side = read_number(text, "size")
    except BadAnnotationError:
        return None
    return int(side) if math.isfinite(side) and side >= 1 and side == int(side) else None


def read_size(width: str | None, height: str | None) -> tuple[int, int] | None:
    """(width, height) of an image, pixels; None if unusable: empty, 0, not whole numbers."""
    wide, high = _number_of_pixels(width), _number_of_pixels(height)
    return None if wide is None or high is None else (wide, high)
