"""Checks of arguments by the types that a signature declares.

`@checked` above a public function or dataclass compares the arguments of each call with the annotations: an option is
declared once, where it is defined. `Annotated` adds what types cannot say: a `Range` of numbers, a remedy, or a
function of the name and the value that checks in place of the type.
"""

import operator
import os
import re
from collections import deque
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import cache, reduce, wraps
from inspect import Parameter, get_annotations, isclass, signature
from itertools import chain, repeat
from numbers import Real
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    is_typeddict,
)

import numpy as np

from shardfeed.errors import UsageError, escape

T = TypeVar("T", bound=Callable[..., Any])
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")


class Range(NamedTuple):
    """The least and the greatest number that an argument may be. NaN is in no range."""

    least: float
    most: float | None = None


class Typed(NamedTuple):
    """How an argument is typed on the command line. An argument with several of these is typed in one of these ways.

    `help`: "" for one that only messages and pages name. `flag`: another name of the option, or a letter and a name, as
    "o/output". An argument without this and without a default has no flag; nor has one that is `placed`, which may be
    left out. `read`: makes the value of a text, of each element of a list, or a mapping's name and value of each.
    `whole`: makes the value of all texts at once. `many`: the option may be repeated. `parts`: the argument is typed as
    several options, the arguments of this function or dataclass, which makes its value of them; `help` heads them.
    """

    help: str = ""
    metavar: str | None = None
    flag: str = ""
    read: Callable[[str], Any] | None = None
    whole: Callable[[Sequence[str]], Any] | None = None
    many: bool = False
    parts: Callable[..., Any] | None = None
    placed: bool = False


class Option(NamedTuple):
    """An argument that is typed: its name, how, its types other than None, and its default; it may have to be given."""

    name: str
    how: tuple[Typed, ...]
    types: list[Any]
    default: Any
    required: bool


Natural = Annotated[int, Range(0)]
Positive = Annotated[int, Range(1)]
Count = Annotated[int, Range(1, 2**63 - 1)]  # as arrays count
Fraction = Annotated[float, Range(0, 1)]
Seed = Annotated[int, Range(0, 2**63 - 1)]
Step = Annotated[int, Range(0, 2**63 - 1)]

_WORDS = {int: "an integer", float: "a number", bool: "True or False", str: "text", Mapping: "a mapping"}
_WORDS |= {NoneType: "None", os.PathLike: "a path", Callable: "a function"}
_LISTS = (Sequence, Collection, Iterable)
_OWN = {int, float, str, bool, NoneType}  # types of values that are passed on as they are
_LONGEST_NAME = 255  # bytes, of a file or a folder
_SHOWN = 100  # characters of a value in a message


def checked(made: T) -> T:
    """Return the function or dataclass, with the arguments of each call checked by their annotations.

    It raises UsageError, whose place is the argument's name, for a value of another type or out of its range, for empty
    text, and for a path that no file can have; also for elements of lists and mappings. What a type admits is passed on
    as the type itself: numbers of NumPy and PyTorch as Python's, a list or an array as a tuple, an enum's text as text.
    """
    if isclass(made):
        made.__init__ = checked(made.__init__)
        return made  # type: ignore[return-value]  # the same class
    positional = made.__code__.co_varnames[: made.__code__.co_argcount]
    vars(made)["declared"] = get_annotations(made)
    made.__annotations__ = {name: _bare(hint) for name, hint in made.__annotations__.items()}  # `help` shows `int`

    @wraps(made)
    def call(*given: Any, **named: Any) -> Any:
        hints = declared_hints(made)
        found = [
            _checked(name, value, hints) for name, value in zip(chain(positional, repeat("")), given, strict=False)
        ]
        return made(*found, **{name: _checked(name, value, hints) for name, value in named.items()})

    return call  # type: ignore[return-value]  # it takes and returns the same


def _bare(hint: Any) -> Any:
    """Return a type without what `Annotated` adds to it and to its parts."""
    if get_origin(hint) is Annotated:
        return _bare(hint.__origin__)
    bare = tuple(map(_bare, get_args(hint)))
    if bare == get_args(hint):
        return hint
    return reduce(operator.or_, bare) if get_origin(hint) in (Union, UnionType) else _origin(hint)[bare]


@cache
def declared_hints(function: Any) -> dict[str, Any]:
    """The type of each argument of a `checked` function, and of each option in a TypedDict, with its `Annotated`."""
    hints = dict(function.declared)
    hints.pop("return", None)
    for hint in list(hints.values()):
        if get_origin(hint) is Unpack:
            hints |= get_annotations(get_args(hint)[0])
    return hints


def _checked(name: str, value: Any, hints: Mapping[str, Any]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if name in hints:
        check(name, value, hints[name])
        value = _as_declared(value, hints[name])
        if isinstance(value, Iterator):
            return _each_checked(name, value, hints[name])
    return value


def _each_checked(name: str, values: Iterator[Any], hint: Any) -> Iterator[Any]:
    """Values that can be read only once, checked as they are read."""
    inner = next((_parts(kind)[1] for kind in _kinds(hint) if _origin(kind) is Iterable), (Any,))
    return values if inner[0] is Any else (_element(name, value, inner[0]) for value in values)


def _element(name: str, value: Any, hint: Any) -> Any:
    if not _admits(hint, value):
        raise UsageError(name, _element_fault(value, hint))
    return value


def _as_declared(value: Any, hint: Any) -> Any:
    """A value that was admitted, as its type is declared; the value itself if nothing in it is of another type."""
    kinds = _kinds(hint)
    kind: Any = kinds[0] if len(kinds) == 1 else next((kind for kind in kinds if _is_a(kind, value)), Any)
    kind = kind.__origin__ if _origin(kind) is Annotated else kind
    origin, inner = _parts(kind)
    if origin is int:
        return operator.index(_number(value))
    if origin is float:
        number = _number(value)
        return number if isinstance(number, int | float) else float(number)
    if origin is Literal:
        return next(choice for choice in inner if choice == value)
    if origin is Mapping:
        values = {name: _as_declared(one, inner[1]) for name, one in value.items()}
        return value if all(values[name] is one for name, one in value.items()) else values
    if origin is tuple:
        kinds = repeat(inner[0]) if Ellipsis in inner else inner
        values = tuple(map(_as_declared, value, kinds))
        return value if isinstance(value, tuple) and all(map(operator.is_, values, value)) else values
    if origin is not Sequence:
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, KeysView | ValuesView | ItemsView | deque):
        value = list(value)
    if not _is_converted(inner[0]) or {*map(type, value)} <= _OWN:
        return value
    values = [_as_declared(one, inner[0]) for one in value]
    if all(map(operator.is_, values, value)):
        return value
    return tuple(values) if isinstance(value, tuple) else values


@cache
def _is_converted(hint: Any) -> bool:
    """Whether values that a type admits may have to be converted: elements of others are not looked at again."""
    kinds = [(kind.__origin__, ()) if _origin(kind) is Annotated else _parts(kind) for kind in _kinds(hint)]
    return any(
        origin in (int, float, Literal) or (origin in (tuple, Sequence, Mapping) and any(map(_is_converted, inner)))
        for origin, inner in kinds
    )


def _number(value: Any) -> Any:
    """A number of NumPy or PyTorch, also one in an array without dimensions, as Python's."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def typed(*owners: Any) -> Iterator[Option]:
    """Yield the arguments of functions, dataclasses (not of their bases) and TypedDicts that are typed."""
    for owner in owners:
        hints = vars(owner).get("declared") or get_annotations(owner)
        taken = {} if is_typeddict(owner) else signature(owner).parameters
        for name, hint in hints.items():
            if how := tuple(extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Typed)):
                kinds = [kind for kind in _kinds(hint) if kind is not NoneType]
                types = [kind.__origin__ if _origin(kind) is Annotated else kind for kind in kinds]
                default = taken[name].default if name in taken else None
                yield Option(name, how, types, default, default is Parameter.empty)


def taking(arguments: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Give a function the arguments of a dataclass, of which it gets an object."""

    def with_them(made: Callable[[A], R]) -> Callable[P, R]:
        @wraps(made)
        def call(*given: P.args, **named: P.kwargs) -> R:
            try:
                shown.bind(*given, **named)
            except TypeError as error:  # which would name the dataclass
                raise TypeError(f"{made.__name__}() {error}") from None
            return made(arguments(*given, **named))

        shown = signature(arguments).replace(return_annotation=made.__annotations__["return"])
        vars(call).update(__signature__=shown, declared=vars(arguments.__init__)["declared"])  # type: ignore[misc]
        del vars(call)["__wrapped__"]
        return call

    return with_them


def named_once(option: str, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The names and values of an option as a mapping. Raises UsageError for a name that is given twice."""
    values: dict[Any, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(option, f"got {escape(name)!r} twice", "give each name once")
        values[name] = value
    return values


def assignments(option: str, given: str | Sequence[str], kind: Callable[[str], Any]) -> dict[str, Any]:
    """Parse `train=0.9,validation=0.1`, or its parts, into a mapping. Raises UsageError with `option` as its place."""

    def pair(part: str) -> tuple[str, Any]:
        name, _, value = part.strip().partition("=")
        try:
            if name.strip() and value:
                return name.strip(), kind(value)
        except ValueError:
            pass
        raise UsageError(option, f"got {escape(part)!r}, expected NAME=VALUE")

    return named_once(option, map(pair, given.split(",") if isinstance(given, str) else given))


def check(name: str, value: Any, hint: Any) -> None:
    """Raise UsageError, whose place is `name`, unless `value` is of the type `hint`."""
    extras = [extra for one in (hint, *get_args(hint)) for extra in getattr(one, "__metadata__", ())]
    if own := next((extra for extra in extras if isinstance(extra, FunctionType)), None):
        own(name, _number(value))
    elif not _admits(hint, value):
        problem = _fault(hint, value)
        remedy = next((extra for extra in extras if isinstance(extra, str)), "")
        if isinstance(value, str) and value and "expected a list" in problem:
            remedy = remedy or "put it in brackets"
        raise UsageError(name, problem, remedy)


def _fault(hint: Any, value: Any) -> str:
    """Describe what is wrong with a value, or with the first of its elements that is wrong."""
    for kind in _kinds(hint):
        inner = get_args(kind)
        if _origin(kind) is Mapping and isinstance(value, Mapping):
            for name, one in value.items():
                if not _admits(inner[0], name):
                    return f"got the key {_shown(name)}, expected {_element_words(inner[0])}{_unless_empty(name)}"
                if not _admits(inner[1], one):
                    expected = f"{_element_words(inner[1])}{_unless_empty(one)}"
                    return f"got {_shown(one)} for {_shown(name)}, expected {expected}"
        if _origin(kind) in _LISTS and isinstance(value, list | tuple):
            return _element_fault(next(one for one in value if not _admits(inner[0], one)), inner[0])
    return f"got {_shown(value)}, expected {_words(hint)}{_unless_empty(value)}"


def _element_fault(value: Any, hint: Any) -> str:
    return f"got {_shown(value)} in the list, expected {_element_words(hint)}{_unless_empty(value)}"


def _unless_empty(value: Any) -> str:
    return " that is not empty" if _is_empty(value) else ""


def _is_empty(value: Any) -> bool:
    return isinstance(value, str | bytes) and not value


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# What typing answers is kept: a list of a million dicts asks a million times.
@cache
def _kinds(hint: Any) -> list[Any]:
    """The types of a union; a type is one of itself."""
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Any
    if get_origin(hint) is Annotated and not isinstance(hint.__metadata__[0], Range):
        hint = hint.__origin__
    return (
        [kind for one in get_args(hint) for kind in _kinds(one)] if get_origin(hint) in (Union, UnionType) else [hint]
    )


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind) or kind, get_args(kind)


def _origin(kind: Any) -> Any:
    return _parts(kind)[0]


@cache
def _takes_paths(hint: Any) -> bool:
    return os.PathLike in map(_origin, _kinds(hint))


@cache
def _plain(hint: Any) -> tuple[type, ...]:
    """The classes of a type that `isinstance` alone decides; () if it takes more."""
    kinds = [object if kind is Any else kind for kind in _kinds(hint)]
    if all(isclass(kind) and kind not in (int, float) and not getattr(kind, "_is_protocol", False) for kind in kinds):
        return () if any(get_args(kind) for kind in kinds) else tuple(kinds)
    return ()


def _all(hint: Any, values: Iterable[Any]) -> bool:
    """Whether each value is of a type."""
    classes = _plain(hint)
    if object in classes:
        return True
    return all(isinstance(one, classes) and not _is_empty(one) if classes else _admits(hint, one) for one in values)


def _admits(hint: Any, value: Any) -> bool:
    """Whether a value is of a type; also its elements, unless they can be read only once. Only a Literal may be ""."""
    kinds = _kinds(hint)
    if _takes_paths(hint) and isinstance(value, str | bytes | os.PathLike):
        try:
            path = os.fsencode(value)
        except (TypeError, UnicodeEncodeError):
            return False
        possible = b"://" in path or all(len(part) <= _LONGEST_NAME for part in path.split(b"/"))
        return possible and path != b"" and b"\0" not in path and (bytes in kinds or not isinstance(value, bytes))
    return any(_is_a(kind, value) for kind in kinds)


def _is_a(kind: Any, value: Any) -> bool:
    """Whether a value is of a type that is not a union."""
    origin, inner = _parts(kind)
    if _is_empty(value):
        return origin is Literal and value in inner
    if origin is Annotated:
        least, most = kind.__metadata__[0]
        if not _is_a(kind.__origin__, value):
            return False
        number = _as_declared(value, kind.__origin__)
        return number >= least and (most is None or number <= most)
    if origin is Literal:
        alike = (choice for choice in inner if isinstance(value, type(choice)) and value == choice)
        return any(isinstance(value, bool) == isinstance(choice, bool) for choice in alike)  # False is no 0
    if origin in (int, float):
        value = _number(value)
    if origin is int:
        try:
            return not isinstance(value, bool) and isinstance(operator.index(value), int)
        except TypeError:
            return False
    if origin is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if origin is tuple:
        several = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
        alike = several and (len(value) == len(inner) or Ellipsis in inner)
        return alike and all(_admits(inner[0 if Ellipsis in inner else at], one) for at, one in enumerate(value))
    if origin is Mapping:
        sound = isinstance(value, Mapping)
        return sound and _all(inner[0], value) and _all(inner[1], value.values())
    if origin in _LISTS:
        if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
            return False
        if not isinstance(value, Collection):
            return origin is Iterable
        unordered = origin is Sequence and isinstance(value, set | frozenset)
        return not unordered and getattr(value, "ndim", 1) > 0 and _all(inner[0], value)
    if origin is Callable:
        return callable(value)
    if getattr(origin, "_is_protocol", False) and not getattr(origin, "_is_runtime_protocol", False):
        return True
    if origin is np.ndarray and inner and isinstance(value, np.ndarray):
        return np.issubdtype(value.dtype, get_args(inner[1])[0])
    return origin is Any or not isclass(origin) or isinstance(value, origin)


def _words(hint: Any) -> str:
    """A type, as messages name it. None is the default, which says the same as leaving the argument out."""
    kinds = _kinds(hint)
    if _takes_paths(hint):
        kinds = [kind for kind in kinds if kind not in (str, bytes)]
    return " or ".join(dict.fromkeys(_word(kind) for kind in kinds if kind is not NoneType or len(kinds) == 1))


def _element_words(hint: Any) -> str:
    """As `_words`, text first: `list[int | str]` and `list[str | int]` are one object, of what was imported first."""
    return _words(reduce(operator.or_, sorted(_kinds(hint), key=lambda kind: kind is not str)))


def _several(hint: Any) -> str:
    return re.sub(r"^an? (\w+)", r"\1s", _element_words(hint))


def _word(kind: Any) -> str:
    origin, inner = _origin(kind), get_args(kind)
    if origin is Annotated:
        least, most = kind.__metadata__[0]
        return f"{_word(kind.__origin__)} " + (f"of at least {least}" if most is None else f"from {least} to {most:,}")
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in _LISTS or Ellipsis in inner:
        return "a list" if inner[0] is Any else f"a list of {_several(inner[0])}"
    if origin is tuple:
        return f"({', '.join(map(_words, inner))})" if len({*inner}) > 1 else f"{len(inner)} {_several(inner[0])}"
    return _WORDS.get(origin) or getattr(origin, "__name__", str(origin))
