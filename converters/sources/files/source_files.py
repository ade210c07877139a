"""Which files a path means that may be one file, a folder of them, or a pattern with braces; and their splits."""

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, escape

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]{1,12})\.\.([0-9]{1,12})\Z")
_MOST_FILES = 1_000_000  # of a pattern
_LOOKED_AT, _FOLDERS = 1000, 20  # names in a folder, and folders among them, that tell what is in it
_BETWEEN = re.compile(r"[-._ 0-9]+")  # what stands around the name of a split in a file's name


@dataclass(frozen=True)
class SourceFiles:
    """Some files of one format, in their order: sorted, or as a pattern says. `names`: relative, for keys and errors.

    `folder`: the absolute path of the folder of which all were taken, else None. `skipped`, `notes`: for the report.
    `of_splits`: the split of each, where the format says it; default by their names.
    """

    files: Sequence[SourceFile]
    names: Sequence[str]
    folder: bytes | None = None
    skipped: Sequence[Skipped] = ()
    notes: Sequence[str] = ()
    of_splits: Sequence[str | None] | None = None

    def splits(self) -> list[str | None]:
        """The split of each file, by its name or that of a folder that it is in; None for all where none says one.

        Raises UsageError where a name says two, or some files have a split and others none.
        """
        if self.of_splits is not None:
            return [*self.of_splits]
        found = [_split_in(name) for name in self.names]
        if None in found and set(found) != {None}:
            problem = f"'{escape(self.names[found.index(None)])}' is of no split by its name, and others are"
            raise UsageError(self.place, problem, "rename it, such as train-0, validation-0 or test-0")
        return found

    @property
    def place(self) -> str:
        """Where they are, for errors."""
        return os.fsdecode(self.folder or self.files[0].path)


def names_files(path: str, ends: tuple[str, ...]) -> str:
    """The first file that a path means, by a quick look that walks no tree; "" where it means none.

    `ends`: of the names of such files, in lower case.
    """
    if os.path.isdir(path):
        return _first_in(path, ends, depth=2)  # data/train-0.parquet, default/train/0.parquet
    if os.path.isfile(path):
        return path
    expanded = expand_braces(path) if _BRACES.search(path) else []
    return expanded[0] if expanded and expanded[0].lower().endswith(ends) and os.path.isfile(expanded[0]) else ""


def _first_in(folder: str, ends: tuple[str, ...], depth: int) -> str:
    """The first file with one of these ends, right in a folder or in one of the first few in it; "" for none."""
    names = _names(folder)
    for name in names:
        if name.lower().endswith(ends) and os.path.isfile(name):
            return name
    folders = (name for name in names if depth and os.path.isdir(name) and not os.path.islink(name))
    inner = (_first_in(name, ends, depth - 1) for name in islice(folders, _FOLDERS))
    return next(filter(None, inner), "")


def find_files(path: str, ends: tuple[str, ...]) -> SourceFiles:
    """The files that a path means. Raises UsageError where it means none, or one of a pattern is not there."""
    if os.path.isdir(path):
        listing = list_files(path, include=[f"*{end}" for end in ends])
        if not len(listing):
            raise UsageError(path, f"no {' or '.join(ends)} file in it", "check the path")
        files = [listing.file(i) for i in range(len(listing))]
        return SourceFiles(files, [*map(os.fsdecode, listing)], listing.root, listing.skipped)
    paths = named_files(path)
    if len(set(paths)) < len(paths):
        raise UsageError(path, "it names a file twice", "name each once")
    files = [_file(path, one, len(paths)) for one in paths]
    root = os.path.commonpath([os.path.dirname(os.fsdecode(file.path)) for file in files])
    return SourceFiles(files, [os.path.relpath(os.fsdecode(file.path), root) for file in files])


def named_files(path: str) -> list[str]:
    """The paths that a pattern with braces means; of what is there under that very name itself."""
    return [path] if os.path.exists(path) else expand_braces(path)


def expand_braces(path: str) -> list[str]:
    """`a-{00..02}.tar` as `a-00.tar`, `a-01.tar`, `a-02.tar`; `{x,y}` as x and y. Raises UsageError for others."""
    braces = _BRACES.search(path)
    if braces is None:
        return [path]
    numbers = _RANGE.match(braces[1])
    if numbers:
        first, last = int(numbers[1]), int(numbers[2])
        if not 0 <= last - first < _MOST_FILES:
            problem = f"got the range {braces[0]}, expected one of 1 to {_MOST_FILES:,} files"
            raise UsageError(path, problem, "write it as {00000..00012}")
        parts = [str(i).zfill(len(numbers[1])) for i in range(first, last + 1)]
    else:
        parts = braces[1].split(",")
    rest = expand_braces(path[braces.end() :])
    if len(parts) * len(rest) > _MOST_FILES:
        raise UsageError(path, f"it names more than {_MOST_FILES:,} files", "correct the ranges")
    return [path[: braces.start()] + part + end for part in parts for end in rest]


def _file(pattern: str, path: str, count: int) -> SourceFile:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        of_pattern = f", one of {count:,} that {escape(pattern)} means" if count > 1 else ""
        raise UsageError(path, f"{reason}{of_pattern}", "check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(path, "not a regular file", "name a file, or a folder of them")
    return SourceFile(os.fsencode(os.path.abspath(path)), found.st_size, found.st_mtime_ns)


def _names(folder: str) -> list[str]:
    """Some paths right in a folder, sorted; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in islice(entries, _LOOKED_AT) if not entry.name.startswith("."))
    except OSError:
        return []


def _split_in(name: str) -> str | None:
    """The split that a file's name says, or else the nearest folder's; None where none does."""
    for part in reversed(name.split("/")):
        found = sorted({split for word in _BETWEEN.split(part) if (split := usual_split(word))})
        if len(found) > 1:
            raise UsageError(name, f"its name says two splits, {' and '.join(found)}", "rename it")
        if found:
            return found[0]
    return None
