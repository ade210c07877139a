"""Colour on a terminal: headings, errors and notes stand out; files, pipes and `NO_COLOR` get plain text."""

import os
from typing import TextIO

_CODES = {"heading": "1", "command": "36", "error": "1;31", "warning": "1;33", "note": "1;36"}


def coloured(text: str, role: str, stream: TextIO) -> str:
    """Return `text` in the colour of its role where `stream` is a terminal that shows it, else `text` itself."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_CODES[role]}m{text}\x1b[0m"
