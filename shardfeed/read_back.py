"""The rule that what is written is read back by its own reader before it counts.

Text that a reader of ours will judge is made by `checked_text` before the rename, or before it is returned. A value
that the file cannot keep then stops the writer, who can still do something about it, and not the reader, weeks later.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shardfeed.errors import ShardfeedError, UsageError, escape

Written = TypeVar("Written", str, bytes)

# Errors of `json` and of readers, for content of wrong types or values.
READERS_ERRORS = (ShardfeedError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

_SHOWN = 200  # characters of a reader's problem in a message
_CORRECT = "correct the source or the argument that gave this value"


def checked_text(
    place: object, write: Callable[[], Written], read: Callable[[Written], Any], value: Any = None
) -> Written:
    """Return the text that `write` makes of `value`, if `read`, the function that reads it later, gives `value` back.

    Without a `value`, `read` writes again what it has read, and the text must be the same. `place`: of the file or the
    state, for the error. Raises UsageError otherwise.
    """
    try:
        text = write()
    except UsageError:
        raise
    except READERS_ERRORS as error:
        raise UsageError(place, f"cannot be written: {_problem(error)}", _CORRECT) from None
    try:
        again = read(text)
    except READERS_ERRORS as error:
        raise UsageError(place, f"could not be read back: {_problem(error)}", _CORRECT) from None
    if again != (text if value is None else value):
        raise UsageError(place, "would be read back as another value", _CORRECT)
    return text


def json_text(place: object, content: Mapping[str, Any], *, allow_nan: bool = False) -> str:
    """Return `content` as JSON on one line, with sorted keys.

    Raises UsageError, which names the first entry at fault, for anything that JSON cannot keep: NaN, an object, keys of
    several types, lists nested too deep.
    """
    try:
        return json.dumps(content, sort_keys=True, allow_nan=allow_nan)
    except READERS_ERRORS as error:
        found = unwritable(content)
        entry = f"its {escape(found)} " if found else ""
        raise UsageError(place, f"{entry}cannot be written as JSON: {_problem(error)}", _CORRECT) from None


def unwritable(content: Mapping[str, Any]) -> str:
    """The first key whose value is not JSON; "" if each value is."""
    for key, value in content.items():
        try:
            json.dumps(value, sort_keys=True, allow_nan=False)
        except READERS_ERRORS:
            return key
    return ""


def _problem(error: Exception) -> str:
    if isinstance(error, ShardfeedError):
        return escape(error.problem)[:_SHOWN]
    return f"{type(error).__name__}: {escape(error)[:_SHOWN]}"
