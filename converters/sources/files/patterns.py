"""Which files of a folder are wanted: `include` and `exclude`, patterns of their relative paths."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed.errors import UsageError, escape

Globs = str | Sequence[str]  # one pattern, or some


class Patterns:
    """Shell patterns of paths relative to a root, with "/" between folders. Upper and lower case differ.

    `*` is any part of a name, `?` any character of one, `[abc]`, `[a-z]` and `[!abc]` one of some or of all others.
    `**` between slashes is any number of folders, also none. A pattern without a "/" fits names in every folder; one
    with a "/" begins at the root. A pattern that fits a folder fits all that is in it; one that ends in "/" fits
    folders only.
    """

    def __init__(self, option: str, globs: Globs) -> None:
        self.globs = (globs,) if isinstance(globs, str) else tuple(globs)
        self._fits = [_compiled(option, glob) for glob in self.globs]
        self._used: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.globs)

    def match(self, key: bytes) -> bool:
        """Whether any pattern fits `key`: a relative path, of a folder with "/" at its end."""
        text = key.decode("utf-8", "surrogateescape")
        found = False
        for i, fits in enumerate(self._fits):
            if (not found or i not in self._used) and fits.fullmatch(text):
                self._used.add(i)
                found = True
        return found

    def unused(self) -> list[str]:
        """The patterns that have fitted nothing so far."""
        return [glob for i, glob in enumerate(self.globs) if i not in self._used]


@dataclass(frozen=True, eq=False)
class Choice:
    """A file is wanted when a pattern of `include` fits it, or there is none, and no pattern of `exclude` does."""

    include: Patterns
    exclude: Patterns

    @classmethod
    def of(cls, include: Globs, exclude: Globs) -> "Choice":
        """Raises UsageError for what is no pattern."""
        return cls(Patterns("include", include), Patterns("exclude", exclude))

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def wants(self, key: bytes) -> bool:
        """Whether the file `key` is wanted."""
        return not self.leaves_out(key) and (not self.include or self.include.match(key))

    def leaves_out(self, key: bytes) -> bool:
        """Whether `exclude` fits `key`: a file, or with "/" at its end a folder, and then all that is in it."""
        return bool(self.exclude) and self.exclude.match(key)

    def unused(self) -> list[str]:
        """A sentence for the report on each pattern that has fitted nothing so far."""
        both = (("include", self.include), ("exclude", self.exclude))
        return [f"nothing matched the {name} pattern {escape(glob)!r}" for name, some in both for glob in some.unused()]


def _compiled(option: str, glob: str) -> re.Pattern[str]:
    """Raises UsageError for what is no pattern, or one that fits nothing."""
    try:
        if isinstance(glob, str) and glob.strip("/."):
            return re.compile(_expression(glob), re.DOTALL)
    except re.error:  # a range from a later letter to an earlier one
        pass
    raise UsageError(option, f"got the pattern {glob!r}", "write it like '*.png' or 'train/**'")


def _expression(glob: str) -> str:
    """The regular expression of paths that are fitted, or that lie in a folder that is."""
    rooted, folders_only = "/" in glob[:-1], glob.endswith("/")
    parts = glob.removeprefix("./").strip("/").split("/")
    written = "" if rooted else "(?:.*/)?"
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            written += ".*" if last else "(?:.*/)?"
        else:
            written += _name(part) + ("" if last else "/")
    return written + ("/.*" if folders_only else "(?:/.*)?")


def _name(glob: str) -> str:
    """The regular expression of a pattern of one name."""
    written, at = "", 0
    while at < len(glob):
        char, at = glob[at], at + 1
        end = glob.find("]", at + 1 + (glob[at : at + 1] == "!")) if char == "[" else -1
        if char == "*":
            written += "[^/]*"
        elif char == "?":
            written += "[^/]"
        elif end > 0:
            chosen, at = glob[at:end], end + 1
            ranges = re.sub(r"([\\^\[\]&~|])", r"\\\1", chosen.removeprefix("!"))
            written += f"(?!/)[{'^' if chosen.startswith('!') else ''}{ranges}]"
        else:
            written += re.escape(char)
    return written
