"""Shapes: the types of arguments that a signature declares, as objects that compare, convert and name values.

`shape_of` makes the shape of a type once. A new kind of type is a class here, and a line in `_SHAPE_OF`.
"""

import operator
import os
import re
from collections import deque
from collections.abc import Callable, Collection, ItemsView, Iterable, KeysView, Mapping, Sequence, ValuesView
from functools import cache
from inspect import isclass
from itertools import islice
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

from shardfeed.errors import shown

_LISTS = (Sequence, Collection, Iterable)
_UNCHANGED = {int, float, str, bool, NoneType}  # types of values that are passed on as they are
_LONGEST_NAME = 255  # bytes, of a file or a folder
_MOST_DIGITS = 63  # of an integer: Python refuses to write thousands of them, as a message would
_LARGEST = 10**_MOST_DIGITS
_ANY = "a value"
_OF_PYTHON = {list, tuple, dict, range, str, bytes}  # whose length is what they say
_NAMES = {bool: "True or False", str: "text", NoneType: "None"}

# Scalars of NumPy whose item() is no longer a time: None for NaT, a number for nanoseconds.
TIMES = (np.datetime64, np.timedelta64)


class Range(NamedTuple):
    """The least and the greatest number that an argument may be. NaN is in no range."""

    least: float
    most: float | None = None


class Longest(NamedTuple):
    """The most elements that a list may have. Those of a longer list are not looked at."""

    elements: int


class Storable(NamedTuple):
    """Text that a file can store and an address can have: UTF-8 without NUL."""


_LIMITS = (Range, Longest, Storable)


class ArgumentShape:
    """A type of a signature.

    `words`: its name in messages. `classes`: if they decide alone, the classes of its values. `converts`: whether
    `convert` may return another object than it gets.
    """

    words = ""
    classes: tuple[type, ...] = ()
    converts = False

    def admits(self, value: Any) -> bool:
        """Whether a value is of this type, with its elements, unless they can be read only once.

        Empty text is of no type, but for a Literal that names it.
        """
        raise NotImplementedError

    def admits_all(self, values: Iterable[Any]) -> bool:
        """Whether each value is of this type."""
        if self.classes:
            return all(isinstance(value, self.classes) and not is_empty(value) for value in values)
        return all(map(self.admits, values))

    def convert(self, value: Any) -> Any:
        """Return an admitted value as its type is declared; the value itself if it is of that type already."""
        return value

    def fault(self, value: Any) -> str:
        """Describe what is wrong with a value, or with the first of its elements that is wrong."""
        return self.fault_inside(value) or f"got {shown(value)}, expected {self.expected(value)}"

    def fault_inside(self, value: Any) -> str:
        """Describe what is wrong with the first wrong element of a value; "" if there is none."""
        del value
        return ""

    def fault_of_element(self, value: Any) -> str:
        """Describe what is wrong with a value of this type in a list."""
        return f"got {shown(value)} in the list, expected {self.expected(value)}"

    def expected(self, value: Any) -> str:
        """Name what a message expects in place of a value."""
        return self.words + (" that is not empty" if is_empty(value) else "")


class Anything(ArgumentShape):
    """Any value: what cannot be compared, too, such as a protocol that only type checkers know."""

    def __init__(self, words: str = _ANY) -> None:
        self.words = words

    def admits(self, value: Any) -> bool:
        return not is_empty(value)

    def admits_all(self, values: Iterable[Any]) -> bool:
        del values
        return True


class InstanceOf(ArgumentShape):
    """An object of a class."""

    def __init__(self, kind: type) -> None:
        self.classes = (kind,)
        self.words = _NAMES.get(kind, kind.__name__)

    def admits(self, value: Any) -> bool:
        return isinstance(value, self.classes) and not is_empty(value)


class StorableText(ArgumentShape):
    """Text that a file can store and an address can have. Half a surrogate pair is a byte of a shell, or of a name."""

    words = "text"

    def admits(self, value: Any) -> bool:
        return isinstance(value, str) and value != "" and not self._breaks(value)

    def expected(self, value: Any) -> str:
        return "text in UTF-8 without NUL" if self._breaks(value) else super().expected(value)

    def fault_inside(self, value: Any) -> str:
        return f"got {shown(value)}, expected {self.expected(value)}" if self._breaks(value) else ""

    @staticmethod
    def _breaks(value: Any) -> bool:
        return isinstance(value, str) and re.search(r"[\0\ud800-\udfff]", value) is not None


class ArrayOf(ArgumentShape):
    """A NumPy array of a dtype, such as `np.integer`, and of one dimension."""

    words = "ndarray of one dimension"

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def admits(self, value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.ndim == 1 and np.issubdtype(value.dtype, self.dtype)


class FunctionShape(ArgumentShape):
    """A function, or another object that can be called."""

    words = "a function"

    def admits(self, value: Any) -> bool:
        return callable(value)


class Integer(ArgumentShape):
    """An integer that a message can show, also of NumPy or PyTorch, but no bool."""

    words = "an integer"
    converts = True

    def admits(self, value: Any) -> bool:
        if type(value) is int:
            return not _is_long(value)
        number = plain_number(value)
        try:
            index = operator.index(number)
        except TypeError:
            return False
        return not isinstance(number, bool) and not _is_long(index)

    def convert(self, value: Any) -> int:
        return operator.index(plain_number(value))

    def expected(self, value: Any) -> str:
        return self.words + (f" of at most {_MOST_DIGITS} digits" if _is_long(value) else "")


class Number(ArgumentShape):
    """A real number that a float can hold, perhaps inf or NaN, also of NumPy or PyTorch, but no bool."""

    words = "a number"
    converts = True

    def admits(self, value: Any) -> bool:
        if type(value) is float:
            return True
        number = plain_number(value)
        if isinstance(number, bool) or not isinstance(number, Real):
            return False
        try:
            float(number)
        except OverflowError:
            return False
        return True

    def convert(self, value: Any) -> int | float:
        number = plain_number(value)
        return number if isinstance(number, int | float) else float(number)


class InRange(ArgumentShape):
    """A number from the least to the greatest."""

    converts = True

    def __init__(self, number: Integer | Number, limits: Range) -> None:
        self.number = number
        self.limits = limits
        self.words = f"{number.words} of at least {limits.least}"
        if limits.most is not None:
            self.words = f"{number.words} from {limits.least:,} to {limits.most:,}"

    def admits(self, value: Any) -> bool:
        if not self.number.admits(value):
            return False
        number = self.number.convert(value)
        return number >= self.limits.least and (self.limits.most is None or number <= self.limits.most)

    def convert(self, value: Any) -> int | float:
        return self.number.convert(value)

    def expected(self, value: Any) -> str:
        if self.limits.most is None and _is_long(value):
            return f"{self.words}, and of at most {_MOST_DIGITS} digits"
        return self.words


class ChosenValue(ArgumentShape):
    """One of a few values. False is no 0."""

    converts = True

    def __init__(self, choices: tuple[Any, ...]) -> None:
        self.choices = choices
        self.words = " or ".join(map(repr, choices))

    def admits(self, value: Any) -> bool:
        return any(self._is_same(choice, value) for choice in self.choices)

    def convert(self, value: Any) -> Any:
        return next(choice for choice in self.choices if self._is_same(choice, value))

    @staticmethod
    def _is_same(choice: Any, value: Any) -> bool:
        alike = isinstance(value, type(choice)) and isinstance(value, bool) == isinstance(choice, bool)
        return alike and bool(value == choice)


class PathShape(ArgumentShape):
    """A path that a file can have, or a URL, as text or as an object; with `bytes`, also as bytes."""

    words = "a path"

    def __init__(self, *, as_bytes: bool) -> None:
        self.as_bytes = as_bytes

    def admits(self, value: Any) -> bool:
        if not isinstance(value, str | bytes | os.PathLike) or (isinstance(value, bytes) and not self.as_bytes):
            return False
        try:
            path = os.fsencode(value)
        except (TypeError, UnicodeEncodeError):
            return False
        if path == b"" or b"\0" in path:
            return False
        return b"://" in path or all(len(part) <= _LONGEST_NAME for part in path.split(b"/"))


class MapOf(ArgumentShape):
    """A mapping whose keys and values have shapes. Keys are not converted."""

    words = "a mapping"

    def __init__(self, key: ArgumentShape, value: ArgumentShape) -> None:
        self.key = key
        self.value = value
        self.converts = value.converts

    def admits(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or length_problem(value):
            return False
        return self.key.admits_all(value) and self.value.admits_all(value.values())

    def convert(self, value: Any) -> Any:
        if not self.converts:
            return value
        values = {name: self.value.convert(each) for name, each in value.items()}
        return value if all(values[name] is each for name, each in value.items()) else values

    def fault_inside(self, value: Any) -> str:
        if not isinstance(value, Mapping):
            return ""
        for name, each in value.items():
            if not self.key.admits(name):
                return f"got the key {shown(name)}, expected {self.key.expected(name)}"
            if not self.value.admits(each):
                return f"got {shown(each)} for {shown(name)}, expected {self.value.expected(each)}"
        return length_problem(value)


class TupleOf(ArgumentShape):
    """A tuple of a shape for each place, also given as a list or an array."""

    converts = True

    def __init__(self, places: tuple[ArgumentShape, ...]) -> None:
        self.places = places
        names = [place.words for place in places]
        self.words = f"({', '.join(names)})" if len({*names}) > 1 else f"{len(names)} {several(places[0])}"

    def admits(self, value: Any) -> bool:
        if not _is_row(value) or len(value) != len(self.places):
            return False
        return all(place.admits(each) for place, each in zip(self.places, value, strict=True))

    def convert(self, value: Any) -> tuple[Any, ...]:
        values = tuple(place.convert(each) for place, each in zip(self.places, value, strict=True))
        return value if isinstance(value, tuple) and all(map(operator.is_, values, value)) else values


class LongTuple(ArgumentShape):
    """A tuple of any length, also given as a list or an array."""

    converts = True

    def __init__(self, element: ArgumentShape) -> None:
        self.element = element
        self.words = f"a list of {several(element)}"

    def admits(self, value: Any) -> bool:
        return _is_row(value) and self.element.admits_all(value)

    def convert(self, value: Any) -> tuple[Any, ...]:
        values = tuple(map(self.element.convert, value))
        return value if isinstance(value, tuple) and all(map(operator.is_, values, value)) else values


class ListOf(ArgumentShape):
    """A list, an array or another row of values of a shape: a Sequence has an order, an Iterable may be read once."""

    def __init__(self, element: ArgumentShape, kind: Any) -> None:
        self.element = element
        self.ordered = kind is Sequence
        self.once = kind is Iterable
        self.converts = self.ordered
        self.words = "a list" if takes_anything(element) else f"a list of {several(element)}"

    def admits(self, value: Any) -> bool:
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
            return False
        if not isinstance(value, Collection):
            return self.once
        if self.ordered and isinstance(value, set | frozenset):
            return False
        return getattr(value, "ndim", 1) > 0 and not length_problem(value) and self.element.admits_all(value)

    def convert(self, value: Any) -> Any:
        if not self.ordered:
            return value
        if isinstance(value, np.ndarray):
            value = value.tolist()
        elif isinstance(value, KeysView | ValuesView | ItemsView | deque):
            value = list(value)
        if not self.element.converts or {*map(type, value)} <= _UNCHANGED:
            return value
        values = [self.element.convert(each) for each in value]
        if all(map(operator.is_, values, value)):
            return value
        return tuple(values) if isinstance(value, tuple) else values

    def fault_inside(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            for each in value:
                if not self.element.admits(each):
                    return self.element.fault_of_element(each)
        return length_problem(value)


class ShortList(ArgumentShape):
    """A list of at most so many elements."""

    def __init__(self, row: ArgumentShape, limit: Longest) -> None:
        self.row = row
        self.limit = limit
        self.words = row.words
        self.converts = row.converts

    def admits(self, value: Any) -> bool:
        return not self._is_longer(value) and self.row.admits(value)

    def convert(self, value: Any) -> Any:
        return self.row.convert(value)

    def fault_inside(self, value: Any) -> str:
        if self._is_longer(value):
            return f"got a list of {len(value):,}, expected at most {self.limit.elements:,}"
        return self.row.fault_inside(value)

    def _is_longer(self, value: Any) -> bool:
        return isinstance(value, Sequence) and len(value) > self.limit.elements


class OneOf(ArgumentShape):
    """A value of the first of several shapes that admits it."""

    def __init__(self, shapes: Sequence[ArgumentShape]) -> None:
        self.shapes = shapes
        self.converts = any(shape.converts for shape in shapes)
        if all(shape.classes for shape in shapes):
            self.classes = tuple(kind for shape in shapes for kind in shape.classes)
        # None is the default, which says the same as leaving the argument out. Text comes first: `int | str` and
        # `str | int` are one object, that of the module that was imported first.
        named = [shape.words for shape in shapes if shape.words != "None"]
        self.words = " or ".join(dict.fromkeys(sorted(named, key=lambda words: words != "text")))

    def admits(self, value: Any) -> bool:
        return any(shape.admits(value) for shape in self.shapes)

    def convert(self, value: Any) -> Any:
        return next((shape.convert(value) for shape in self.shapes if shape.admits(value)), value)

    def fault_inside(self, value: Any) -> str:
        return next(filter(None, (shape.fault_inside(value) for shape in self.shapes)), "")


def length_problem(value: Any) -> str:
    """Describe how a sequence or mapping of the user's own class has another length than it says; "" if it has not.

    At most one element more than it says is read: its elements may have no end.
    """
    kind = type(value)
    if kind in _OF_PYTHON or kind.__module__.startswith("shardfeed.") or not isinstance(value, Sequence | Mapping):
        return ""
    said = len(value)
    found = sum(1 for _ in islice(value, said + 1))
    if found == said:
        return ""
    elements = f"more than {said:,}" if found > said else f"{found:,}"
    return f"got {elements} elements of a {kind.__name__} whose length is {said:,}, expected as many as it says"


def takes_anything(shape: ArgumentShape) -> bool:
    """Whether a shape admits whatever it is."""
    return shape.words == _ANY


def is_empty(value: Any) -> bool:
    """Whether a value is text or bytes without a character."""
    return isinstance(value, str | bytes) and not value


def plain_number(value: Any) -> Any:
    """A number of NumPy or PyTorch, also one in an array without dimensions, as Python's."""
    if isinstance(value, TIMES):
        return value
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def several(shape: ArgumentShape) -> str:
    """The name of a shape, of several values: "integers" of "an integer"."""
    return re.sub(r"^an? (\w+)", r"\1s", shape.words)


@cache
def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types of a union; a type is one of itself. What `Annotated` adds to them is dropped, but for limits."""
    hint = _without_alias(hint)
    if isinstance(hint, TypeVar):
        return kinds_of(hint.__bound__ or Any)
    if get_origin(hint) is Annotated and not isinstance(hint.__metadata__[0], _LIMITS):
        return kinds_of(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for each in get_args(hint) for kind in kinds_of(each))
    return (hint,)


def _without_alias(hint: Any) -> Any:
    """Return the type that an alias stands for, such as NumPy's NDArray where Python has `type` statements (3.12)."""
    alias, inner = get_origin(hint) or hint, get_args(hint)
    if type(alias).__name__ != "TypeAliasType":
        return hint
    return alias.__value__[inner] if inner else alias.__value__


@cache
def shape_of(hint: Any) -> ArgumentShape:
    """Return the shape of a type. It is made once: to ask `typing` takes 20 µs, a list of a million dicts 20 s."""
    kinds = kinds_of(hint)
    is_path = {kind: (get_origin(kind) or kind) is os.PathLike for kind in kinds}
    if any(is_path.values()):
        kinds = tuple(kind for kind in kinds if kind not in (str, bytes))
    shapes = [PathShape(as_bytes=bytes in is_path) if is_path[kind] else _shape_of_kind(kind) for kind in kinds]
    return shapes[0] if len(shapes) == 1 else OneOf(shapes)


def _shape_of_kind(kind: Any) -> ArgumentShape:
    """The shape of a type that is no union."""
    if get_origin(kind) is Annotated:
        limit = kind.__metadata__[0]
        return _LIMITED[type(limit)](shape_of(kind.__origin__), limit)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in _SHAPE_OF:
        return _SHAPE_OF[origin](inner)
    if origin in _LISTS:
        return ListOf(_first(inner), origin)
    if not isclass(origin):
        return Anything(getattr(origin, "__name__", str(origin)))
    if getattr(origin, "_is_protocol", False) and not getattr(origin, "_is_runtime_protocol", False):
        return Anything(origin.__name__)  # only type checkers can compare it
    return InstanceOf(origin)


def _first(inner: tuple[Any, ...]) -> ArgumentShape:
    return shape_of(inner[0]) if inner else Anything()


def _tuple(inner: tuple[Any, ...]) -> ArgumentShape:
    if not inner:
        return InstanceOf(tuple)
    return LongTuple(shape_of(inner[0])) if Ellipsis in inner else TupleOf(tuple(map(shape_of, inner)))


_SHAPE_OF: dict[Any, Callable[[tuple[Any, ...]], ArgumentShape]] = {
    int: lambda inner: Integer(),
    float: lambda inner: Number(),
    Any: lambda inner: Anything(),
    Literal: ChosenValue,
    Callable: lambda inner: FunctionShape(),
    Mapping: lambda inner: MapOf(_first(inner), shape_of(inner[1]) if inner else Anything()),
    tuple: _tuple,
    np.ndarray: lambda inner: ArrayOf(get_args(inner[1])[0]) if inner else InstanceOf(np.ndarray),
}


_LIMITED: dict[type, Callable[[Any, Any], ArgumentShape]] = {
    Range: InRange,
    Longest: ShortList,
    Storable: lambda text, limit: StorableText(),
}


def _is_long(value: Any) -> bool:
    """Whether a value is an integer of more digits than a message shows."""
    return isinstance(value, int) and not -_LARGEST < value < _LARGEST


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
