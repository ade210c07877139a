"""Advice in the message of a refusal: the clauses of a remedy, and the change of the request that each asks for.

A remedy is a sentence for people, in which arguments are marked (`errors.argument`). So what a clause would have a user
type is known without parsing words: `--unlabelled with --exclude masks` is one change, `{"unlabelled": True, "exclude":
"masks"}`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.sources.options import CLASSES
from shardfeed.errors import SOURCE, UsageError, marked_arguments

_CLAUSE = re.compile("(?:; |, )(?:or |else |and )?(?!with |unless |such as |if )")
_OPENING = ("reader", "include", "exclude", "follow_links", SOURCE)
_PATH = "path"  # words for the argument itself: "as SOURCE"
# What stands for a value that the user knows and the message does not.
_PLACEHOLDER = re.compile(r"\b(?:NAME|COLUMN|FILE|DIR|REGEX|KEY|PATTERN|MARK|CODE|N|FOLDER)\b|\.\.\.")


@dataclass(frozen=True)
class Clause:
    """A part of a remedy. `change`: what it adds to the request; None where it is for the user to do or to fill in."""

    text: str
    change: Mapping[str, Any] | None = None


def clauses_of(error: UsageError) -> Iterator[Clause]:
    """Yield the clauses of an error's remedy, in order."""
    remedy = error.args[2]
    for text in _divided(remedy):
        yield Clause(text, _change(text))


def _divided(remedy: str) -> Iterator[str]:
    """Divide a remedy at its commas and semicolons, not at those within an argument."""
    arguments = [(found.start, found.end) for found in marked_arguments(remedy)]
    start = 0
    for mark in _CLAUSE.finditer(remedy):
        if any(begin < mark.start() < end for begin, end in arguments):
            continue
        yield remedy[start : mark.start()]
        start = mark.end()
    if remedy[start:]:
        yield remedy[start:]


def _change(clause: str) -> Mapping[str, Any] | None:
    """What the arguments of a clause add to a request; None if there are none, or one has no value yet."""
    change: dict[str, Any] = {}
    for one in marked_arguments(clause):
        if one.name == _PATH:
            continue
        if one.name not in _known():
            return None
        value = _value(one.name, one.python, one.typed)
        if value is None:
            return None
        change[one.name] = value
    return change or None


def _known() -> frozenset[str]:
    """The names of all arguments that a request has."""
    return frozenset((*_OPENING, *(name for kind in CLASSES for name in kind.__dataclass_fields__)))


def _is_flag(name: str) -> bool:
    """Whether an argument is true or false."""
    return name == "follow_links" or any(getattr(kind(), name, None) is False for kind in CLASSES)


def _value(name: str, python: str, typed: str) -> Any:
    """The value of an argument in a message; None for one that the user is to fill in."""
    if name == SOURCE:
        return typed
    if not typed:
        return True if _is_flag(name) else None
    if _PLACEHOLDER.search(typed):
        return None
    try:
        return ast.literal_eval(python.removeprefix(f"{name}="))
    except (ValueError, SyntaxError):
        return None
