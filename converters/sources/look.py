"""One look at a path, shared by all readers: its type, the names in its folders, the first bytes of its files.

Also the files at a path that may be one file, a folder of files, or a pattern with braces; and their splits.
`Evidence`: what a reader recognised there.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from shardfeed.converters.sources.files.listing import (
    Choice,
    Globs,
    Listing,
    is_hidden,
    names_archive,
    names_image,
    split_in_name,
    split_in_path,
)
from shardfeed.converters.sources.files.tar import BLOCK, looks_like_header
from shardfeed.converters.sources.files.text import head_as_utf8
from shardfeed.converters.sources.files.walk import list_files, some_files
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.errors import ShardfeedError, UsageError, escape
from shardfeed.text import counted, some

_MOST_NAMES = 2000  # files of one extension in a folder; more files would show nothing new
_FOLDERS, _DEPTH = 64, 3  # folders of a folder that are examined, and their depth
HEAD = 65_536  # bytes of a file that are enough to recognise its type
_ARCHIVES = 20  # of a folder, that are compared with what lies beside them
_HEADS = 200  # files with cached first bytes
_NUMBER_BYTES = 12  # at the beginning of a record, which may look like a bracket
_END = re.compile(r"([-_.][a-z]+)?\.[a-z0-9]+\Z")  # the last word of a name, and its extension
# Signatures of file types and their offsets: LMDB's in its first page, HDF5's perhaps after a user block.
_MAGIC = (
    *(("parquet", 0, b"PAR1"), ("zip", 0, b"PK\x03\x04"), ("lmdb", 16, b"\xde\xc0\xef\xbe")),
    *(("hdf5", at, b"\x89HDF\r\n\x1a\n") for at in (0, 512, 1024, 2048)),
)
_PART = re.compile(r"\d\Z|=")
_SMALL = re.compile("[a-z]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]{1,12})\.\.([0-9]{1,12})\Z")
_MOST_FILES = 1_000_000  # of a pattern


class Look:
    """A view of the files at `path` for recognising formats. It reads lazily and caches what it reads.

    `include`, `exclude`, `follow_links`: the files to use, as in `list_files`. Only some files of each kind in a folder
    are examined, and no hidden files; the chosen reader then lists all files.

    Example:
        look = Look("photos")
        print(look.is_folder, look.first((".csv",)))
    """

    def __init__(self, path: str, include: Globs = (), exclude: Globs = (), follow_links: bool = False) -> None:
        self.path, self.include, self.exclude, self.follow_links = only_match(path), include, exclude, follow_links
        self._names: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._heads: dict[str, bytes] = {}
        self._listings: dict[tuple[str, bool], Listing] = {}

    @cached_property
    def is_folder(self) -> bool:
        """True if the path is a folder."""
        return os.path.isdir(self.path)

    @cached_property
    def is_file(self) -> bool:
        """True if the path is a regular file."""
        return os.path.isfile(self.path)

    @cached_property
    def paths(self) -> Sequence[str]:
        """The files that match a pattern with braces (`train-{000..012}.tar`); for any other path, the path itself."""
        return named_files(self.path)

    @property
    def folder(self) -> str:
        """The path itself if it is a folder, otherwise the folder that contains it."""
        return self.path if self.is_folder else os.path.dirname(self.path) or "."

    def names(self, folder: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the folders and files directly in `folder`: only some of each kind, sorted; empty if there are none."""
        if folder not in self._names:
            folders: list[str] = []
            files: list[str] = []
            of_kind: Counter[str] = Counter()
            try:
                with os.scandir(os.path.join(self.path, folder)) as entries:
                    for entry in entries:
                        is_folder = entry.is_dir()
                        if not (is_folder or entry.is_file() or entry.is_symlink()):
                            continue  # a pipe or a device is not an input
                        kind = "/" if is_folder else os.path.splitext(entry.name)[1]
                        of_kind[kind] += 1
                        if of_kind[kind] <= _MOST_NAMES and not is_hidden(os.fsencode(entry.name)):
                            (folders if is_folder else files).append(entry.name)
            except (OSError, ValueError):  # ValueError: a NUL; the chosen reader reports the fault
                pass
            files = self._without_unpacked(folder, files)
            self._names[folder] = tuple(sorted(folders)), tuple(sorted(files))
        return self._names[folder]

    def _without_unpacked(self, folder: str, files: list[str]) -> list[str]:
        """Files without the archives that have been unpacked beside them."""
        archives = [name for name in files if names_archive(name)]
        if not archives:
            return files
        from shardfeed.converters.sources.files.set_aside import is_unpacked_beside  # not above: most have no archive

        place = os.path.join(self.path, folder)
        left = {name for name in archives[:_ARCHIVES] if is_unpacked_beside(place, name)}
        return [name for name in files if name not in left]

    def files(self, suffixes: tuple[str, ...] = ("",), depth: int = _DEPTH, folder: str = "") -> Iterator[str]:
        """Yield names of files in `folder` with these suffixes (lower case), relative to `path`, top folders first.

        If `path` is a file, yields its name; if `path` is a pattern, the name of the first file that matches.
        """
        if not self.is_folder:
            names = [os.path.basename(path) for path in self.paths[:1] if os.path.isfile(path)]
            yield from (name for name in names if name.lower().endswith(suffixes))
            return
        level = [folder]
        for _ in range(depth):
            deeper: list[str] = []
            for inside in level:
                folders, names = self.names(inside)
                yield from (os.path.join(inside, name) for name in names if name.lower().endswith(suffixes))
                deeper += [os.path.join(inside, name) for name in folders[:_FOLDERS]]
            level = deeper

    def first(self, suffixes: tuple[str, ...], depth: int = _DEPTH) -> str:
        """Return the path of the first file with one of the suffixes; "" if there is none."""
        found = next(self.files(suffixes, depth), "")
        return self.full(found) if found else ""

    def full(self, name: str) -> str:
        """Return the path of a file that `files` returned."""
        return os.path.join(self.path, name) if self.is_folder else self.paths[0]

    def head(self, path: str) -> bytes:
        """Return the first bytes of a file, at most 65,536, of UTF-16 as UTF-8; empty if it cannot be read."""
        if path not in self._heads:
            if len(self._heads) == _HEADS:
                self._heads.clear()
            try:
                with open_regular(path) as file:
                    self._heads[path] = head_as_utf8(file.read(HEAD))
            except (OSError, ValueError):
                self._heads[path] = b""
        return self._heads[path]

    @cached_property
    def kind(self) -> str:
        """Type of the file at the path, or of the first file that a pattern matches."""
        return self.kind_of(self.paths[0])

    def kind_of(self, path: str) -> str:
        """Return the type of a file by its content: "tar", "parquet", "hdf5", "lmdb", "zip", "json", else "other"."""
        head = self.head(path)
        if looks_like_header(head[:BLOCK]):
            return "tar"
        is_text = b"\0" not in head[:_NUMBER_BYTES]
        json = is_text and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
        known = (kind for kind, at, magic in _MAGIC if head.startswith(magic, at))
        return next(known, "json" if json else "other")

    @cached_property
    def suffixes(self) -> frozenset[str]:
        """Names of files and folders, or their ends, in lower case.

        Images are listed by the last word of their name and the extension (`_mask.png`), other files by their name,
        folders by their name and "/".
        """
        files = self.files(depth=_DEPTH + 1)  # such as leftImg8bit/train/bonn/1.png
        names = (name.rpartition("/")[2].lower() for name in files)
        ends = {found[0] if (found := _END.search(name)) and _names_image(found[0]) else name for name in names}
        return frozenset(ends.union(f"{name.lower()}/" for folders, _ in self._names.values() for name in folders))

    @cached_property
    def holds_only_images(self) -> bool:
        """True if the path is a folder whose files, also in subfolders, all have image extensions."""
        files = (end for end in self.suffixes if not end.endswith("/"))
        return self.is_folder and all(map(_names_image, files))

    @cached_property
    def image(self) -> str:
        """The first image file in the folder or its subfolders, recognised by its name; "" if there is none."""
        return next((name for name in self.files() if names_image(os.fsencode(name))), "") if self.is_folder else ""

    @cached_property
    def is_flat(self) -> bool:
        """True if the folder contains files and no subfolders, so that only file names can carry labels."""
        folders, files = self.names()
        return bool(files) and not folders

    def list_files(self, root: str | None = None, *, chosen: bool = True) -> Listing:
        """List the files below `root` (default: the path's folder) that the patterns select; all files if not `chosen`.

        Each listing is created once, and used for recognising and for reading. Raises UsageError if there is no file.
        """
        place, choosing = self.folder if root is None else root, chosen and bool(self.include or self.exclude)
        if (place, choosing) not in self._listings:
            include, exclude = (self.include, self.exclude) if choosing else ((), ())
            listing = some_files(place, include=include, exclude=exclude, follow_links=self.follow_links)
            self._listings[place, choosing] = listing
        return self._listings[place, choosing]

    def list_images(self, root: str | None = None, files: Listing | None = None) -> tuple[Listing, Listing]:
        """List all files below `root`, and the images that the patterns select: patterns apply to images only.

        `files`: the listing, if it exists already. Raises UsageError if there is no file, or no image is selected.
        """
        files = self.list_files(root, chosen=False) if files is None else files
        choice = Choice.of(self.include, self.exclude)
        images = [i for i, key in enumerate(files) if names_image(key)]
        wanted = [i for i in images if choice.wants(files.key(i))] if choice else images
        notes = [*files.notes, *choice.unused()]
        if len(wanted) < len(images):
            unwanted = [files.key(i) for i in sorted(set(images).difference(wanted))]
            notes.append(counted("images left out by include and exclude", unwanted, len(unwanted)))
            if not wanted:
                problem = f"no matching image in it ({len(unwanted)} left out)"
                raise UsageError(files.root, problem, "change include or exclude")
        return files, replace(files.take(np.array(wanted, np.int64)), choice=choice, notes=tuple(notes))


@lru_cache(1000)  # names have few ends
def _names_image(end: str) -> bool:
    return names_image(os.fsencode("x" + end))


@dataclass(frozen=True)
class SourceFiles:
    """Some files of one format, in order: sorted, or as in a pattern. `names`: relative, for keys and errors.

    `folder`: the absolute path of the folder if all its files were taken, else None. `skipped`, `notes`: for the
    report. `of_splits`: the split of each, if the format defines it; default: by their names.
    """

    files: Sequence[SourceFile]
    names: Sequence[str]
    folder: bytes | None = None
    skipped: Sequence[Skipped] = ()
    notes: Sequence[str] = ()
    of_splits: Sequence[str | None] | None = None

    def splits(self) -> list[str | None]:
        """Return the split of each file, by its name or a folder's; None if no file has one.

        Raises UsageError if a name contains two splits, or only some files have one.
        """
        if self.of_splits is not None:
            return [*self.of_splits]
        found = [split_in_path(name) for name in self.names]
        if None in found and set(found) != {None}:
            problem = f"'{escape(self.names[found.index(None)])}' has no split in its name, but others have"
            raise UsageError(self.place, problem, "rename it, such as train-0, validation-0 or test-0")
        return found

    @property
    def place(self) -> str:
        """Path of the folder or of the first file, for errors."""
        return os.fsdecode(self.folder or self.files[0].path)


def find_files(path: str, ends: tuple[str, ...]) -> SourceFiles:
    """Find the files at a path or pattern. Raises UsageError if there are none, or if a pattern names a missing file.

    Example:
        files = find_files("shards/{000..003}.tar", (".tar",))
        for one in files.files:
            print(one.path, one.size)
    """
    if os.path.isdir(path):
        include = ["*" + _SMALL.sub(lambda one: f"[{one[0]}{one[0].upper()}]", end) for end in ends]
        listing = list_files(path, include=include)
        if not len(listing):
            raise UsageError(path, f"no {' or '.join(ends)} file in it", "check the path")
        files, names = [listing.file(i) for i in range(len(listing))], [*map(os.fsdecode, listing)]
        _refuse_configurations(path, names)
        return SourceFiles(files, names, listing.root, listing.skipped)
    paths = named_files(path)
    if len(set(paths)) < len(paths):
        raise UsageError(path, "it lists a file twice", "list each file once")
    files = [_file(path, one, len(paths)) for one in paths]
    root = os.path.commonpath([os.path.dirname(os.fsdecode(file.path)) for file in files])
    return SourceFiles(files, [os.path.relpath(os.fsdecode(file.path), root) for file in files])


def _refuse_configurations(path: str, names: Sequence[str]) -> None:
    """Raise UsageError if two folders have files of the same split, as the configurations of a dataset of the Hub.

    Numbered folders (`part-0`, `2019`) and those of a partition (`day=1`) are parts of one dataset.
    """
    splits: dict[str, set[str]] = {}
    for name in names:
        folder, inside, rest = name.partition("/")
        if inside and not _PART.search(folder) and split_in_name(folder) is None and (split := split_in_path(rest)):
            splits.setdefault(folder, set()).add(split)
    twice = [split for split, count in Counter(chain.from_iterable(splits.values())).items() if count > 1]
    if twice:
        problem = (
            f"its folders {some(splits)} have files of the split {twice[0]} each, as configurations of one dataset"
        )
        remedy = f"give one of them: {' or '.join(escape(os.path.join(path, folder)) for folder in [*splits][:3])}"
        raise UsageError(path, problem, remedy)


def named_files(path: str) -> list[str]:
    """The paths that match a pattern with braces; the path itself, if it exists under this exact name."""
    return [path] if os.path.exists(path) else expand_braces(path)


def only_match(path: str) -> str:
    """The only path that a pattern with braces matches, such as a folder; any other path unchanged."""
    matches = named_files(path)
    return matches[0] if len(matches) == 1 else path


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
        raise UsageError(path, f"it matches more than {_MOST_FILES:,} files", "correct the ranges")
    return [path[: braces.start()] + part + end for part in parts for end in rest]


def _file(pattern: str, path: str, count: int) -> SourceFile:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        of_pattern = f", one of {count:,} that {escape(pattern)} matches" if count > 1 else ""
        raise UsageError(path, f"{reason}{of_pattern}", "check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(path, "not a regular file", "give a file, or a folder of files")
    return SourceFile(os.fsencode(os.path.abspath(path)), found.st_size, found.st_mtime_ns)


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

    @property
    def texts(self) -> tuple[str, str, str]:
        """Its fields that are text."""
        return self.name, self.found, self.missing


def missing_of(error: ShardfeedError) -> str:
    """Return problem and remedy of the error of an unreadable input, for `Evidence.missing`."""
    _, problem, remedy = error.args  # not .problem: its arguments are formatted later, for Python or the command line
    return f"{problem}; {remedy}" if remedy else problem


@dataclass(frozen=True)
class Signature:
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


def signature_of(found: str, *words: bytes, begins: bytes = b"", beside: str = "", inside: str = "") -> Signature:
    """Signature of a file that begins so, and has each of these words, or of `a|b` one, in its first bytes."""
    every = b"".join(b"(?=.*(?:%s))" % word for word in words)
    return Signature(re.compile(b"(?:%s)%s" % (begins, every), re.DOTALL), found, beside, inside)
