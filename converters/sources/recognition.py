"""Recognition of a format: the evidence of a reader, and the first bytes of its files."""

import os
import re
from dataclasses import dataclass, field
from typing import Any

from shardfeed.converters.sources.look import Look
from shardfeed.errors import ShardfeedError, escape


@dataclass(frozen=True)
class Evidence:
    """Evidence that a path fits a reader.

    `found`: what was found, as text. `missing`: files or options that are still needed, as text. `name`: the reader's
    name, as in `--reader`. `sure`: whether the evidence excludes all other readers, whatever they find.
    `parsed`: what `recognise` has parsed, if reading goes on from it: the third argument of the reader's `read`.

    Example:
        def recognise(look, options):
            return Evidence("boxes", "lines of an image and its boxes") if look.first((".boxes",)) else None
    """

    name: str
    found: str
    missing: str = ""
    sure: bool = False
    parsed: Any = field(default=None, repr=False, compare=False)


def missing_of(error: ShardfeedError) -> str:
    """Return problem and remedy of the error of an unreadable input, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: its arguments are formatted later, for Python or the command line
    return f"{problem}; {remedy}" if remedy else problem


@dataclass(frozen=True)
class Marks:
    """The beginning of a reader's files: `begins` matches their first bytes.

    `found`: the evidence in words, with {} for the name of such a file, where that is enough to know the reader.
    `beside`: name of a folder that must be next to the file, if a folder is read. `inside`: name of the folder of the
    file.
    """

    begins: re.Pattern[bytes]
    found: str = ""
    beside: str = ""
    inside: str = ""

    def first(self, look: Look, suffixes: tuple[str, ...]) -> str:
        """Return the path of the first matching file; "" if there is none."""
        for name in look.files(suffixes):
            inside = not self.inside or os.path.basename(os.path.dirname(name)) == self.inside
            if inside and self.begins.match(look.head(look.full(name))):
                return look.full(name)
        return ""

    def evidence(self, name: str, look: Look, suffixes: tuple[str, ...]) -> Evidence | None:
        """Evidence for the reader `name`, by its first file; None without such a file."""
        path = self.first(look, suffixes)
        alone = self.beside and not os.path.isdir(os.path.join(os.path.dirname(path), self.beside))
        if not path or (alone and look.is_folder):
            return None
        return Evidence(name, self.found.format(escape(os.path.basename(path))))


def marks_of(found: str, *words: bytes, begins: bytes = b"", beside: str = "", inside: str = "") -> Marks:
    """Marks of a file that begins so, and has each of these words, or of `a|b` one, somewhere in its first bytes."""
    every = b"".join(b"(?=.*(?:%s))" % word for word in words)
    return Marks(re.compile(b"(?:%s)%s" % (begins, every), re.DOTALL), found, beside, inside)
