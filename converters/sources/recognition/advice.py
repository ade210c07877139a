"""Advice in the message of a refusal: the clauses of a remedy, and the change of the request that each asks for.

A remedy is a sentence for people, in which arguments are marked (`errors.argument`). So what a clause would have a user
type is known without parsing words: `--unlabelled with --exclude masks` is one change, `{"unlabelled": True, "exclude":
"masks"}`.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.sources.options import CLASSES
from shardfeed.errors import SOURCE, UsageError, marked_arguments

_BETWEEN = re.compile("(?:; |, )(?:or |else |and )?(?!with |unless |such as |if |so )")
_OPENING = ("reader", "include", "exclude", "follow_links", SOURCE)
_PATH = "path"  # words for the argument itself: "as SOURCE"
# What stands for a value that the user knows and the message does not.
_PLACEHOLDER = re.compile(r"\b(?:NAME|COLUMN|FILE|DIR|REGEX|KEY|PATTERN|MARK|CODE|N|FOLDER)\b|\.\.\.")


@dataclass(frozen=True)
class Clause:
    """A part of a remedy. `change`: what it adds to the request; None where it is for the user to do or to fill in.

    `before`: what stands between it and the clause before it.
    """

    before: str
    text: str
    change: Mapping[str, Any] | None = None


def clauses_of(error: UsageError) -> Iterator[Clause]:
    """Yield the clauses of an error's remedy, in order."""
    remedy, start, before = error.args[2], 0, ""
    for mark in (*_marks(remedy), None):
        text = remedy[start : mark.start() if mark else None]
        if mark and text.startswith("if "):
            continue  # a condition belongs to what follows
        if text:
            yield Clause(before, text, _change(text))
        if mark:
            start, before = mark.end(), mark[0]


def joined(clauses: Iterable[Clause]) -> str:
    """A remedy of some clauses of a remedy."""
    text = ""
    for clause in clauses:
        text += (clause.before if text else "") + clause.text
    return text


def _marks(remedy: str) -> Iterator[re.Match[str]]:
    """Find what divides clauses: commas and semicolons, not those within an argument."""
    arguments = [(found.start, found.end) for found in marked_arguments(remedy)]
    for mark in _BETWEEN.finditer(remedy):
        if not any(begin < mark.start() < end for begin, end in arguments):
            yield mark


def _change(clause: str) -> Mapping[str, Any] | None:
    """Return what the arguments of a clause add to a request; None if there are none, or one has no value yet."""
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
