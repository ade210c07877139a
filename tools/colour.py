"""Colour on a terminal: headings, errors and notes stand out. Files and pipes, or `NO_COLOR` with a value, get none."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_CODES = {"heading": "1", "command": "36", "error": "1;31", "warning": "1;33", "note": "1;36"}


def coloured(text: str, role: str, stream: TextIO) -> str:
    """Return `text` in the colour of its role where `stream` is a terminal that shows it, else `text` itself."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_CODES[role]}m{text}\x1b[0m"


def warn(message: object, *where: object) -> None:
    """Print a warning to stderr, without the line of code that it comes from: also for `warnings.showwarning`."""
    print(f"shardfeed: {coloured('warning:', 'warning', sys.stderr)} {message}", file=sys.stderr)


@contextmanager
def warnings_on_one_line() -> Iterator[None]:
    """A block in which warnings are printed by `warn`, those of other threads, too."""
    before = warnings.showwarning
    warnings.showwarning = warn
    try:
        yield
    finally:
        warnings.showwarning = before
