"""Checks of arguments by the types that a signature declares.

`@checked` above a public function or dataclass compares the arguments of each call with the annotations: an option is
declared once, where it is defined. `Annotated` adds what types cannot say: a `Range` of numbers, the `Longest` list, a
remedy, or a function of the name and the value that checks in place of the type. `shapes.py` has the types, `typed.py`
the options of the command line.
"""

import operator
from collections.abc import Callable, Iterator
from functools import cache, cached_property, reduce, wraps
from inspect import get_annotations, isclass, signature
from itertools import chain, repeat
from types import CodeType, FunctionType, UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin

import numpy as np

from shardfeed.errors import ShardfeedError, UsageError, shown
from shardfeed.shapes import (
    TIMES,
    ArgumentShape,
    ListOf,
    Longest,
    OneOf,
    Range,
    Storable,
    length_problem,
    plain_number,
    shape_of,
    takes_anything,
)
from shardfeed.typed import Option, Typed, assignments, named_once, typed

__all__ = [
    "Count", "Epoch", "Fraction", "Int64", "Longest", "Natural", "Option", "Positive", "Range", "Seed", "Step", "Text",
    "Typed", "assignments", "check", "checked", "declared_hints", "named_once", "taking", "typed",
]  # fmt: skip

T = TypeVar("T", bound=Callable[..., Any])
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

Natural = Annotated[int, Range(0)]
Positive = Annotated[int, Range(1)]
Classes = Annotated[int, Range(1, 10**8)]  # a vector of one label has as many numbers
Count = Annotated[int, Range(1, 2**63 - 1)]  # as arrays count
Fraction = Annotated[float, Range(0, 1)]
Seed = Annotated[int, Range(0, 2**63 - 1)]
Step = Annotated[int, Range(0, 2**63 - 1)]
Epoch = Annotated[int, Range(0, 2**31 - 1)]  # times the steps of one, it is still a step
Int64 = Annotated[int, Range(-(2**63), 2**63 - 1)]  # as records and arrays have them
Text = Annotated[str, Storable()]  # for a file or an address

_NO_COLUMNS = 13  # the kind of an entry in a code's table of lines that has a line only: see CPython's locations.md


def checked(made: T) -> T:
    """Return the function or dataclass, with the arguments of each call checked by their annotations.

    It raises UsageError, whose place is the argument's name, for a value of another type or out of its range, for empty
    text, and for a path that no file can have; also for elements of lists and mappings. What a type admits is passed on
    as the type itself: numbers of NumPy and PyTorch as Python's, a list or an array as a tuple, an enum's text as text.
    """
    if isclass(made):
        made.__init__ = checked(made.__init__)
        return made  # type: ignore[return-value]  # the same class
    vars(made)["declared"] = get_annotations(made)
    arguments = _Arguments(made)
    made.__annotations__ = {name: _bare(hint) for name, hint in made.__annotations__.items()}  # `help` shows `int`

    @wraps(made)
    def call(*given: Any, **named: Any) -> Any:
        try:
            values, named = arguments.checked(given, named)
        except UsageError as error:
            raise error.with_traceback(None) from error.__cause__  # without the frames of this file
        return made(*values, **named)

    return _seen_as(made, call)  # type: ignore[return-value]  # it takes and returns the same


def _seen_as(made: Any, function: Any) -> Any:
    """Return a function of this file such that tracebacks, and debuggers, show its frames as the first line of `made`.

    A user who gives a wrong argument sees the function that was called last, and never this file.
    """
    code: CodeType = function.__code__
    units = len(code.co_code) // 2
    lines = b"".join(bytes([0x80 | _NO_COLUMNS << 3 | min(7, units - 1 - at), 0]) for at in range(0, units, 8))
    own: CodeType = made.__code__
    function.__code__ = code.replace(
        co_filename=own.co_filename,
        co_firstlineno=own.co_firstlineno,
        co_linetable=lines,
        co_name=own.co_name,
        co_qualname=own.co_qualname,
    )
    return function


class _Arguments:
    """The arguments of a function, as it declares them."""

    def __init__(self, function: Any) -> None:
        self.function = function
        code = function.__code__
        self.positional = code.co_varnames[: code.co_argcount]

    @cached_property
    def declarations(self) -> dict[str, "_Declaration"]:
        """Return the declaration of each; made at the first call, when the names of a TypedDict are known."""
        return {name: _declaration(hint) for name, hint in declared_hints(self.function).items()}

    def checked(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a call as their types are declared. Raises UsageError."""
        names = chain(self.positional, repeat(""))
        values = [self._value(name, value) for name, value in zip(names, given, strict=False)]
        return values, {name: self._value(name, value) for name, value in named.items()}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, np.generic) and not isinstance(value, TIMES):
            value = value.item()
        declaration = self.declarations.get(name)
        if declaration is None:
            return value
        value = declaration.checked(name, value)
        if isinstance(value, Iterator) and declaration.element is not None:
            return self._each_checked(name, value, declaration.element)
        return value

    @cached_property
    def _each_checked(self) -> Callable[[str, Iterator[Any], ArgumentShape], Iterator[Any]]:
        """A generator of values that can be read only once, which are checked as they are read."""

        def each_checked(name: str, values: Iterator[Any], element: ArgumentShape) -> Iterator[Any]:
            for value in values:
                if not element.admits(value):
                    raise UsageError(name, element.fault_of_element(value))
                yield value

        return _seen_as(self.function, each_checked)


class _Declaration:
    """The declaration of one argument: its shape, a remedy, and perhaps a check of its own in place of the shape's."""

    def __init__(self, hint: Any) -> None:
        extras = [extra for each in (hint, *get_args(hint)) for extra in getattr(each, "__metadata__", ())]
        self.shape = shape_of(hint)
        self.own: Any = next((extra for extra in extras if isinstance(extra, FunctionType)), None)
        self.remedy = next((extra for extra in extras if isinstance(extra, str)), "")
        self.element = _element_read_once(self.shape)

    def checked(self, name: str, value: Any) -> Any:
        """Return a value as its type is declared. Raises UsageError, whose place is `name`, for a value of another.

        The object may be anybody's: if its own methods fail while it is looked at, it is of another type.
        """
        try:
            if self.own is not None:
                self.own(name, plain_number(value))
                return self.shape.convert(value)
            if self.shape.admits(value):
                return self.shape.convert(value)
            problem = self.shape.fault(value)
        except ShardfeedError:
            raise
        except Exception:
            problem = f"got {shown(value)}, expected {self.shape.words}"
        raise UsageError(name, problem, self._remedy(value, problem))

    def _remedy(self, value: Any, problem: str) -> str:
        if self.remedy or not isinstance(value, str) or not value:
            return self.remedy
        return "put it in brackets" if "expected a list" in problem else ""


def _element_read_once(shape: ArgumentShape) -> ArgumentShape | None:
    """The shape of the elements, of a type that admits values that can be read only once, unless they may be any."""
    shapes = shape.shapes if isinstance(shape, OneOf) else (shape,)
    elements = (each.element for each in shapes if isinstance(each, ListOf) and each.once)
    return next((element for element in elements if not takes_anything(element)), None)


@cache
def _declaration(hint: Any) -> _Declaration:
    return _Declaration(hint)


def check(name: str, value: Any, hint: Any) -> None:
    """Raise UsageError, whose place is `name`, unless `value` is of the type `hint`."""
    _declaration(hint).checked(name, value)


def check_length(name: str, value: Any) -> None:
    """Raise UsageError, whose place is `name`, for a sequence with another number of elements than it says."""
    try:
        problem = length_problem(value)
    except Exception:  # of its own methods
        problem = f"got {shown(value)}, whose elements cannot be read"
    if problem:
        raise UsageError(name, problem, "give a list")


def _bare(hint: Any) -> Any:
    """Return a type without what `Annotated` adds to it and to its parts."""
    if get_origin(hint) is Annotated:
        return _bare(hint.__origin__)
    bare = tuple(map(_bare, get_args(hint)))
    if bare == get_args(hint):
        return hint
    return reduce(operator.or_, bare) if get_origin(hint) in (Union, UnionType) else get_origin(hint)[bare]


@cache
def declared_hints(function: Any) -> dict[str, Any]:
    """The type of each argument of a `checked` function, and of each option in a TypedDict, with its `Annotated`."""
    hints = dict(function.declared)
    hints.pop("return", None)
    for hint in list(hints.values()):
        if get_origin(hint) is Unpack:
            hints |= get_annotations(get_args(hint)[0])
    return hints


def taking(arguments: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Give a function the arguments of a dataclass, of which it gets an object."""

    def with_them(made: Callable[[A], R]) -> Callable[P, R]:
        @wraps(made)
        def call(*given: P.args, **named: P.kwargs) -> R:
            try:
                shown_signature.bind(*given, **named)
            except TypeError as error:  # which would name the dataclass
                raise TypeError(f"{made.__name__}() {error}") from None
            return made(arguments(*given, **named))

        shown_signature = signature(arguments).replace(return_annotation=made.__annotations__["return"])
        vars(call).update(__signature__=shown_signature, declared=vars(arguments.__init__)["declared"])  # type: ignore[misc]
        del vars(call)["__wrapped__"]
        return _seen_as(made, call)

    return with_them
