"""How the arguments of functions and dataclasses are typed on the command line: declared beside each argument."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, get_annotations, signature
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_origin, is_typeddict

from shardfeed.errors import UsageError, shown
from shardfeed.shapes import kinds_of


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


def typed(*owners: Any) -> Iterator[Option]:
    """Yield the arguments of functions, dataclasses (not of their bases) and TypedDicts that are typed."""
    for owner in owners:
        hints: Mapping[str, Any] = vars(owner).get("declared") or get_annotations(owner)
        parameters = {} if is_typeddict(owner) else signature(owner).parameters
        for name, hint in hints.items():
            how = tuple(extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Typed))
            if how:
                default = parameters[name].default if name in parameters else None
                yield Option(name, how, _types(hint), default, default is Parameter.empty)


def _types(hint: Any) -> list[Any]:
    """The types of an argument other than None, without their ranges."""
    kinds = [kind for kind in kinds_of(hint) if kind is not NoneType]
    return [kind.__origin__ if get_origin(kind) is Annotated else kind for kind in kinds]


def named_once(option: str, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The names and values of an option as a mapping. Raises UsageError for a name that is given twice."""
    values: dict[Any, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(option, f"got {shown(name)} twice", "give each name once")
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
        raise UsageError(option, f"got {shown(part)}, expected NAME=VALUE")

    return named_once(option, map(pair, given.split(",") if isinstance(given, str) else given))
