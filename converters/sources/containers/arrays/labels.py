"""Classes of samples from arrays of labels: numbers, texts, or a 0 or 1 for each class."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.arrays.pixels import Layout, shape_text
from shardfeed.converters.sources.rows.image_classes import CLASS, KnownClasses, Labels
from shardfeed.converters.sources.source import Content
from shardfeed.errors import UsageError, argument, escape

_AT_ONCE = 4 << 20  # bytes of labels that are examined at once
_MOST_CLASSES = 1 << 20  # different labels; with more, the values are not classes


class LabelArray(Protocol):
    """An array, [n, ...]; `named`: its name, for messages."""

    @property
    def named(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Some rows. Raises RejectedError."""
        ...


class Array(LabelArray, Protocol):
    """An array on disk; picklable."""

    def imaged(self) -> "tuple[Array, Layout | None, bytes, list[str]]":
        """Return the array to read images from, the pixel layout, the file extension, and notes. Raises UsageError."""
        ...

    def content(self, index: int, layout: Layout | None) -> Content:
        """A row as an image: plain pixels, or an encoded file."""
        ...

    def unpacked(self, folder: Unpacked) -> "Array":
        """The same array with random access to rows. Raises UsageError, StorageError."""
        ...


def read_labels(
    place: str, arrays: Sequence[LabelArray | int], known: KnownClasses | None = None, *, prefix: str = CLASS
) -> tuple[Labels, dict[int, str], list[str]]:
    """The labels of all samples of `arrays`, one after the other; samples without one, and why; and notes.

    An array is [n] or [n, 1] of integers, whole numbers or texts; or [n, K] of zeros and ones, one column per class:
    one class if every row has a single one, else a set. A number instead of an array: this many samples without labels.
    `known`, `prefix`: as of `Labels`. Raises UsageError for anything else.
    """
    there = [one for one in arrays if not isinstance(one, int)]
    widths = {_width(place, array) for array in there}
    texts = {array.dtype.kind in "SUO" for array in there}
    if len(widths) > 1 or len(texts) > 1:
        each = ", ".join(f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in there)
        raise UsageError(place, f"got labels of different kinds: {each}", "save the same kind in each split")
    width, first = widths.pop(), there[0]
    what = f"{escape(first.named)} is {shape_text(first.shape, first.dtype)}"
    known = replace(known or KnownClasses(), place=place, column=first.named, kind="array", what=what, by="name")
    labels = Labels("one" if width == 1 else "marks", known, prefix=prefix)
    notes, unlabelled, at = list[str](), dict[int, str](), 0
    for array in arrays:
        if isinstance(array, int):
            unlabelled |= dict.fromkeys(range(at, at + array), "it has no array of labels, but others have")
            at += array
            continue
        for part in _slices(place, array, width):
            if width > 1:
                labels.add_marks(*_marks(place, array, part), width)
            else:
                _add(labels, place, array, part, at, unlabelled)
            at += len(part)
        if array.dtype.kind == "f" and width == 1:
            notes.append(f"{escape(array.named)}: integers stored as floats, used as labels")
    return labels, unlabelled, notes


def _width(place: str, array: LabelArray) -> int:
    """Labels of a sample. Raises UsageError."""
    kind, sides = array.dtype.kind, [side for side in array.shape[1:] if side != 1]
    if kind not in "biufSUO" or len(sides) > 1 or (sides and kind in "SUO") or not array.shape or 0 in sides:
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)}"
        raise UsageError(place, f"{problem}, expected labels: [n], [n, 1], or [n, classes] of zeros and ones")
    return sides[0] if sides else 1


def _slices(place: str, array: LabelArray, width: int) -> Iterator[np.ndarray]:
    """The array in pieces, [m] or [m, width]; read when they are asked for."""
    step = max(1, _AT_ONCE // (max(array.dtype.itemsize, 1) * width))
    for start in range(0, array.shape[0], step):
        try:
            part = array.rows(start, min(start + step, array.shape[0]))
        except RejectedError as error:
            raise UsageError(place, f"cannot read {escape(array.named)}: {error.reason}", "save it again") from None
        yield part.reshape(-1) if width == 1 else part.reshape(-1, width)


def _add(labels: Labels, place: str, array: LabelArray, part: np.ndarray, at: int, unlabelled: dict[int, str]) -> None:
    """Append one label per sample; values that mean "no label" go to `unlabelled`. Raises UsageError."""
    values, places = np.unique(part, return_inverse=True)
    texts = [_text(place, array, value) for value in values.tolist()]
    none = [i for i, text in enumerate(texts) if text in ("-1", "")]
    if none:
        without = np.isin(places, none)
        for i in np.flatnonzero(without).tolist():
            got = "-1, which means no label" if texts[places[i]] else "got an empty value, expected a name or a number"
            unlabelled[at + i] = f"label from {escape(array.named)}: {got}"
        places = places[~without]
        kept = [i for i in range(len(texts)) if i not in none]
        texts, places = [texts[i] for i in kept], np.searchsorted(kept, places)
    labels.add_many(texts, places)
    if labels.different > _MOST_CLASSES:
        problem = f"{escape(array.named)} has more than {_MOST_CLASSES:,} different labels, too many for classes"
        raise UsageError(place, problem, f"name the array of labels with {argument('columns')}")


def _text(place: str, array: LabelArray, value: Any) -> str:
    """A label as text: a whole number, or a name; "" for NaN. Raises UsageError."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            problem = f"{escape(array.named)} has {value!r}, which is not UTF-8"
            raise UsageError(place, problem, "save the labels as UTF-8 text") from None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**53):
        return str(int(value))
    problem = f"{escape(array.named)} has {value!s}, expected labels: integers"
    raise UsageError(place, problem, "name the array of labels, or save them as integers")


def _marks(place: str, array: LabelArray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes marked 1 in rows of one 0 or 1 per class, and their number per row. Raises UsageError."""
    marks = part == 1
    if not (marks | (part == 0)).all():
        value = part[~(marks | (part == 0))][0]
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)} and has {value!s}, "
        problem += "expected one label per sample, or zeros and ones, one column per class"
        raise UsageError(place, problem, "save the labels in this form")
    return np.nonzero(marks)[1].astype(np.int32), marks.sum(axis=1).astype(np.int64)
