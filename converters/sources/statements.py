"""Statements of a source about itself: checks of each, and the error for what the source raises in place of them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from shardfeed.declared import check
from shardfeed.errors import ShardfeedError, UsageError, escape
from shardfeed.foreign import is_stop, words

_FINGERPRINT = re.compile(r"[0-9a-f]{32}\Z")


def check_text(name: str, value: object) -> None:
    """Raise UsageError unless `value` is text, which may be empty."""
    if not isinstance(value, str):
        raise UsageError(name, f"got {type(value).__name__}, expected text")


def check_texts(name: str, values: object) -> None:
    """Raise UsageError unless `values` is a list of texts."""
    check(name, values, Sequence[Any])
    for value in values:  # type: ignore[attr-defined]  # it is a sequence
        check_text(name, value)


def check_fingerprint(name: str, value: object) -> None:
    """Raise UsageError for a fingerprint that no manifest has."""
    if value is not None and not (isinstance(value, str) and _FINGERPRINT.match(value)):
        problem = f"got {escape(repr(value))[:100]}, expected 32 hexadecimal digits, in lower case"
        raise UsageError(name, problem, "hashlib.blake2b(data, digest_size=16).hexdigest() gives them")


def check_made_with(name: str, value: object) -> None:
    """Raise UsageError for options that no manifest can hold."""
    if value is None:
        return
    check(name, value, Mapping[str, Any])
    try:
        json.dumps(dict(value), allow_nan=False, sort_keys=True)  # type: ignore[call-overload]  # it is a mapping
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"cannot be written as JSON: {words(error)}"
        raise UsageError(name, problem, "give numbers that are finite, text, lists and dicts") from None


def check_onto(name: str, value: object) -> None:
    """Raise UsageError for what is no AppendTarget, which only `append` makes."""
    if value is not None and not is_ours(value):
        raise UsageError(name, f"got {escape(type(value).__name__)}, expected None, or an AppendTarget of `append`")


def class_of(source: object) -> str:
    """Return the name of a source's class, for a message."""
    return escape(type(source).__name__)


def is_ours(source: object) -> bool:
    """Return whether a source is of a class of this package."""
    return type(source).__module__.startswith("shardfeed.")


def raise_source_error(source: object, member: str, error: BaseException) -> NoReturn:
    """Raise UsageError for what the `schema`, `info` or `__len__` of a user's source raised.

    Signals, our own errors other than a plain UsageError, and whatever a source of ours raises are raised as they are.
    """
    if is_ours(source) or is_stop(error):
        raise error
    if type(error) is UsageError:  # of an argument: the message is to say whose
        problem = f"{class_of(source)}.{member}: {escape(error.place)}: {error.problem}"
        raise UsageError("source", problem, error.remedy) from error
    if isinstance(error, ShardfeedError):
        raise error
    raise UsageError("source", f"{class_of(source)}.{member} raised {words(error)}", "correct the source") from error
