"""Arrays of labels: numbers, texts, or a 0 or 1 for each class. From those the classes of samples."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.classes import BadLabelError, class_list, number_classes
from shardfeed.converters.sources.containers.arrays.pixels import shape_text
from shardfeed.converters.sources.containers.class_numbers import numbered_classes
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.rows.columns import ClassColumn
from shardfeed.errors import UsageError, argument, escape

_AT_ONCE = 4 << 20  # bytes of labels that are looked at together
_TEXTS = 65_536  # different texts; more are no classes


class Rows(Protocol):
    """An array on disk, [n, ...]; `named`: what it is called in messages."""

    @property
    def named(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def rows(self, start: int, stop: int) -> np.ndarray: ...


def classes_of(
    place: str,
    arrays: Sequence[Rows],
    options: ContainerOptions,
    named: tuple[str, ...] | None = None,
    prefix: str = "image/class",
) -> tuple[ClassColumn, list[str]]:
    """The classes of all samples of `arrays`, one behind the other, and notes on what was taken for what.

    An array is [n] or [n, 1] of integers, whole numbers or texts; or [n, K] of zeros and ones, one column a class: one
    class where every row has a single one, else a set. `named`, `prefix`: as of `numbered_classes`.
    Raises UsageError for anything else.
    """
    widths = {_width(place, array) for array in arrays}
    texts = {array.dtype.kind in "SUO" for array in arrays}
    if len(widths) > 1 or len(texts) > 1:
        each = ", ".join(f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in arrays)
        raise UsageError(place, f"got labels of different kinds: {each}", "save them alike in each split")
    width = widths.pop()
    if width > 1:
        return _of_marks(place, arrays, width, options, named, prefix)
    if texts.pop():
        return _of_texts(place, arrays, options, named, prefix), []
    parts = [_integers(place, array, part) for array in arrays for part in _slices(place, array, 1)]
    numbers = np.concatenate([np.empty(0, np.int64), *parts])
    column = numbered_classes(place, numbers, options, named, prefix)
    floats = [array.named for array in arrays if array.dtype.kind == "f"]
    return column, [f"{escape(name)}: whole numbers with a point, taken for labels" for name in floats]


def _width(place: str, array: Rows) -> int:
    """Labels of a sample. Raises UsageError."""
    kind, sides = array.dtype.kind, [side for side in array.shape[1:] if side != 1]
    if kind not in "biufSUO" or len(sides) > 1 or (sides and kind in "SUO") or not array.shape:
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)}"
        raise UsageError(place, f"{problem}, expected labels: [n], [n, 1], or [n, classes] of zeros and ones")
    return sides[0] if sides else 1


def _slices(place: str, array: Rows, width: int) -> Iterator[np.ndarray]:
    """The array in pieces, [m] or [m, width]; read when they are asked for."""

    def read(start: int, stop: int) -> np.ndarray:
        try:
            part = array.rows(start, stop)
        except RejectedError as error:
            raise UsageError(place, f"cannot read {escape(array.named)}: {error.reason}", "save it again") from None
        return part.reshape(-1) if width == 1 else part.reshape(-1, width)

    step = max(1, _AT_ONCE // (max(array.dtype.itemsize, 1) * width))
    count = array.shape[0]
    return (read(start, min(start + step, count)) for start in range(0, count, step))


def _integers(place: str, array: Rows, part: np.ndarray) -> np.ndarray:
    """`part`, int64 [m]. Raises UsageError for a number that is not whole."""
    exact = np.isfinite(part) & (np.abs(part) < 2**53) if part.dtype.kind == "f" else True
    whole = np.where(exact, part, 0).astype(np.int64)
    wrong = part[whole != part]
    if len(wrong):
        problem = f"{escape(array.named)} has {wrong[0]!s}, expected labels: whole numbers"
        raise UsageError(place, problem, "name the array of labels, or save them as integers")
    return whole


def _of_texts(
    place: str,
    arrays: Sequence[Rows],
    options: ContainerOptions,
    named: tuple[str, ...] | None,
    prefix: str,
) -> ClassColumn:
    if options.label_offset:
        raise _no_offset(place, options, f"{escape(arrays[0].named)} has texts")
    code_of: dict[str, int] = {}
    codes = []
    for array in arrays:
        for part in _slices(place, array, 1):
            found = [_text(place, array, value) for value in part.tolist()]
            codes.append(np.array([code_of.setdefault(text, len(code_of)) for text in found], np.int64))
            if len(code_of) > _TEXTS:
                problem = f"{escape(array.named)} has more than {_TEXTS} different texts, which are no classes"
                raise UsageError(place, problem, f"name the labels by {argument('columns')}")
    try:
        numbering = number_classes(code_of, class_list(options.class_names) or named)
    except BadLabelError as error:
        raise UsageError(place, error.problem, error.remedy) from None
    label_of = np.array([numbering.labels[text] for text in code_of], np.int64)
    return ClassColumn(prefix, numbering.names, label_of[np.concatenate(codes)])


def _text(place: str, array: Rows, value: object) -> str:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        problem = f"{escape(array.named)} has {value!r}, which is not UTF-8"
        raise UsageError(place, problem, "save the labels as UTF-8 text") from None


def _of_marks(
    place: str,
    arrays: Sequence[Rows],
    width: int,
    options: ContainerOptions,
    named: tuple[str, ...] | None,
    prefix: str,
) -> tuple[ClassColumn, list[str]]:
    """The classes of samples that have a 0 or a 1 for each of `width` classes."""
    first = arrays[0]
    what = f"{escape(first.named)} is {shape_text(first.shape, first.dtype)}"
    if options.label_offset:
        raise _no_offset(place, options, what)
    names = class_list(options.class_names) or named or tuple(map(str, range(width)))
    if len(names) != width:
        names_text = argument("class_names", typed="FILE")
        raise UsageError(place, f"{what}, and {len(names)} classes are named", f"name {width} in {names_text}")
    numbers, counts = [np.empty(0, np.int64)], [np.zeros(1, np.int64)]
    for array in arrays:
        for part in _slices(place, array, width):
            marks = part == 1
            if not (marks | (part == 0)).all():
                value = part[~(marks | (part == 0))][0]
                problem = f"{what} and has {value!s}, expected one label a sample, or zeros and ones, a column a class"
                raise UsageError(place, problem, "save the labels so")
            numbers.append(np.nonzero(marks)[1].astype(np.int64))
            counts.append(marks.sum(axis=1).astype(np.int64))
    numbers, counts = np.concatenate(numbers), np.concatenate(counts)
    if (counts[1:] == 1).all():
        return ClassColumn(prefix, names, numbers), [f"{what}: one-hot, so a sample's label is the column with its one"]
    low, high = int(counts[1:].min()), int(counts[1:].max())
    note = f"{what}: {low} to {high} ones in a row, so a sample has a set of classes, one for each column with a one"
    return ClassColumn(prefix, names, numbers, np.cumsum(counts), tags=True), [note]


def _no_offset(place: str, options: ContainerOptions, what: str) -> UsageError:
    problem = f"{what}, from which {argument('label_offset', options.label_offset)} cannot be subtracted"
    return UsageError(place, problem, "leave it out")
