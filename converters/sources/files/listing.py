"""Files by number, sorted by the bytes of their relative path, in about 24 bytes and a path's length each.

Which of them are wanted: `include` and `exclude`, patterns of their relative paths. The split in the name of a file.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.source import Skipped, SourceFile
from shardfeed.errors import UsageError, escape, shown
from shardfeed.naming import check_split_name
from shardfeed.split_words import usual_split

Globs = str | Sequence[str]  # one pattern, or some
# Left behind by file managers, archivers and notebooks; compared in lower case. Names that start with "." too.
_HIDDEN = frozenset(
    {b"thumbs.db", b"ehthumbs.db", b"desktop.ini", b"icon\r", b"__macosx", b"@eadir", b"$recycle.bin"}
    | {b"system volume information", b"lost+found"}
)
_IMAGE_EXTENSIONS = frozenset(
    b"jpg jpeg jpe jfif png gif bmp dib tif tiff webp avif heic heif mpo tga ico".split()
    + b"jp2 j2k j2c jpc jpf jpx jxl ppm pgm pbm pnm".split()
)
ARCHIVE = re.compile(r"\.(?:zip|tar(?:\.(?:gz|bz2|xz|zst))?|tgz|tbz2?|txz|7z|rar)\Z", re.IGNORECASE)
# Names of folders, in lower case, that hold images of all classes.
IMAGE_FOLDERS = frozenset(
    b"images image imgs img jpegimages leftimg8bit original originals photos pictures rgb input inputs".split()
)
# Words for masks, in lower case: the name of a folder, or added to that of another folder or of an image, as in
# `train_masks`, `trainannot` and `0001_mask.png`.
MASK_WORDS = frozenset(
    b"mask masks label labels labelids labeltrainids annot annots annotation annotations seg segs segmentation "
    b"segmentations segmentationclass segmentationclassaug gt gtfine gtcoarse groundtruth ground_truth ground-truth "
    b"trimap trimaps matte mattes".split()
)
MASK_WORD = b"|".join(map(re.escape, sorted(MASK_WORDS)))  # a regular expression of any of them
# Names of folders of masks; those that are no words for masks do not mark what they are added to.
MASK_FOLDERS = MASK_WORDS | frozenset(b"target targets 1st_manual manual1".split())

# Names of folders of small copies of the images.
COPY_FOLDERS = frozenset(b"thumbnail thumbnails thumb thumbs preview previews".split())


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
    """A file is selected if a pattern of `include` matches it, or there is none, and no pattern of `exclude` does."""

    include: Patterns
    exclude: Patterns

    @classmethod
    def of(cls, include: Globs, exclude: Globs) -> "Choice":
        """Compile the patterns. Raises UsageError for an invalid one."""
        return cls(Patterns("include", include), Patterns("exclude", exclude))

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def wants(self, key: bytes) -> bool:
        """Whether the file `key` is wanted."""
        return not self.leaves_out(key) and (not self.include or self.include.match(key))

    def leaves_out(self, key: bytes) -> bool:
        """Whether `exclude` fits `key`: a file, or with "/" at its end a folder, and then all that is in it."""
        return bool(self.exclude) and self.exclude.match(key)

    def takes(self, key: bytes) -> bool:
        """Whether to list the file `key`, or, with "/" at its end, to walk that folder."""
        return not self.leaves_out(key) if key.endswith(b"/") else self.wants(key)

    def unused(self) -> list[str]:
        """A sentence for the report on each pattern that has fitted nothing so far."""
        both = (("include", self.include), ("exclude", self.exclude))
        return [f"nothing matched the {name} pattern {escape(glob)!r}" for name, some in both for glob in some.unused()]


def _compiled(option: str, glob: str) -> re.Pattern[str]:
    """Compile a pattern. Raises UsageError if it is invalid or can match nothing."""
    try:
        if isinstance(glob, str) and glob.strip("/."):
            return re.compile(_expression(glob), re.DOTALL)
    except (re.error, OverflowError, RecursionError):  # such as a range from a later letter to an earlier one
        pass
    raise UsageError(option, f"got the pattern {shown(glob)}", "write it like '*.png' or 'train/**'")


def _expression(glob: str) -> str:
    """Return a regular expression for matching paths, and for all paths in matching folders.

    Names between two `**` are matched at the first folder where they fit, and the parts of a name at the first place:
    later ones are never better. So the parts are atomic, and the time is no power of the number of stars.
    """
    anywhere, folders_only = "/" not in glob[:-1], glob.endswith("/")
    parts = glob.removeprefix("./").strip("/").split("/")
    runs = [(is_deep, list(names)) for is_deep, names in groupby(parts, "**".__eq__)]
    written = ""
    for i, (is_deep, names) in enumerate(runs):
        if is_deep:
            anywhere = True
            continue
        ends = r"(?=/|\Z)" if i == len(runs) - 1 and not folders_only else "/"
        before = "(?:[^/]*/)*?" if anywhere else ""
        written += f"(?>{before}{'/'.join(map(_name, names))}{ends})"
        anywhere = False
    if runs[-1][0]:
        written += ".*/" if folders_only else ""
        return written + ".*"
    return written + (".*" if folders_only else "(?:/.*)?")


def _name(glob: str) -> str:
    """The regular expression of a pattern of one name."""
    first, *parts = _between_stars(glob)
    if not parts:
        return first
    *middle, last = parts
    found = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    return rf"{first}{found}(?>[^/]*{last}(?=/|\Z))"


def _between_stars(glob: str) -> list[str]:
    """The regular expressions of the parts of a name's pattern between its stars, which may be empty."""
    parts, at = [""], 0
    while at < len(glob):
        char, at = glob[at], at + 1
        end = glob.find("]", at + 1 + (glob[at : at + 1] == "!")) if char == "[" else -1
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif end > 0:
            parts[-1] += _one_of(glob[at:end])
            at = end + 1
        else:
            parts[-1] += re.escape(char)
    return parts


def _one_of(chosen: str) -> str:
    """The regular expression of what is between brackets."""
    ranges = re.sub(r"([\\^\[\]&~|])", r"\\\1", chosen.removeprefix("!"))
    return f"(?!/)[{'^' if chosen.startswith('!') else ''}{ranges}]"


def is_hidden(name: bytes) -> bool:
    """Whether `name` (one name, not a path) is the system's business: `.x`, `Thumbs.db`, `__MACOSX`, ..."""
    return name.startswith(b".") or name.lower() in _HIDDEN


def names_archive(name: str) -> bool:
    """Whether a file is named like an archive."""
    return ARCHIVE.search(name) is not None


def names_image(key: bytes) -> bool:
    """Whether the extension is that of an image. The content may differ: this is the intended type."""
    return os.path.splitext(key)[1][1:].lower() in _IMAGE_EXTENSIONS


@dataclass(frozen=True, eq=False)
class Listing:
    """Files by number, sorted by key; a key is the path relative to `root` with "/", as the disk has it.

    Iterating gives the keys. `root` is absolute. `blob` bytes: all keys one after the other; `ends` int64 [n + 1]: key
    i is `blob[ends[i]:ends[i + 1]]`. `sizes` int64 [n] in bytes; `mtimes` int64 [n] in nanoseconds. `skipped`: inputs
    that cannot be used. `bare`: keys of folders without a listed file. `hidden`: number of hidden names skipped.
    `aliases`: (key of a link to a folder, key of that folder). `notes`: sentences for the report. `choice`: the
    selection of files.
    """

    root: bytes
    blob: bytes
    ends: np.ndarray
    sizes: np.ndarray
    mtimes: np.ndarray
    skipped: tuple[Skipped, ...] = ()
    bare: tuple[bytes, ...] = ()
    hidden: int = 0
    aliases: tuple[tuple[bytes, bytes], ...] = ()
    notes: tuple[str, ...] = ()
    choice: Choice = field(default_factory=lambda: Choice.of((), ()))

    def __post_init__(self) -> None:
        for numbers in (self.ends, self.sizes, self.mtimes):
            numbers.setflags(write=False)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for end in self.ends.data[1:]:  # a view gives plain ints one by one, faster than numpy's scalars
            yield self.blob[start:end]
            start = end

    def __getitem__(self, index: int, /) -> bytes:
        return self.key(index)

    def key(self, index: int) -> bytes:
        """The key of file `index`, 0 to n - 1."""
        return self.blob[self.ends.item(index) : self.ends.item(index + 1)]

    def file(self, index: int) -> SourceFile:
        """Return path, size and modification time of file `index`, 0 to n - 1: all that a worker needs to read it."""
        path = self.root.rstrip(b"/") + b"/" + self.key(index)
        return SourceFile(path, self.sizes.item(index), self.mtimes.item(index))

    def find(self, key: bytes, guess: int = 0) -> int:
        """The number of the file `key`, or -1. `guess` is tried first: the number after the last one found."""
        if 0 <= guess < len(self) and self.key(guess) == key:
            return guess
        place = self._place(key)
        return place if place < len(self) and self.key(place) == key else -1

    def skipped_at(self, key: bytes) -> Skipped | None:
        """Return the skipped input in place of the file `key`: that file, or a folder above it; None without."""
        parts = key.split(b"/")
        above = (b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)) if self.skipped else ()
        return next((self._skipped[path] for path in above if path in self._skipped), None)

    @cached_property
    def _skipped(self) -> dict[bytes, Skipped]:
        return {skipped.key: skipped for skipped in self.skipped}

    def missing(self, key: bytes, hint: str = "") -> Skipped:
        """Explain why `key` is not in the listing. `hint` is appended if no better reason is known."""
        skipped = self.skipped_at(key)
        if skipped is not None:
            return Skipped(key, skipped.code, skipped.reason)
        hidden = any(map(is_hidden, key.split(b"/")))
        reason = "hidden names are ignored" if hidden else f"no such file{hint}"
        return Skipped(key, RejectCode.MISSING.value, reason)

    def _place(self, key: bytes) -> int:
        """Number of files that come before `key`."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def children(self, folder: bytes = b"") -> tuple[list[bytes], list[bytes]]:
        """Return the names of the folders right in `folder` that hold a file at any depth, and the keys of its files.

        Both are sorted. `folder` is empty for the root, else ends in "/". The content of these folders is skipped.
        """
        folders, files = [], []
        place, stop = self._range(folder)
        while place < stop:
            key = self.key(place)
            slash = key.find(b"/", len(folder))
            if slash < 0:
                files.append(key)
                place += 1
            else:
                folders.append(key[len(folder) : slash])
                place = self._range(key[: slash + 1])[1]
        return sorted(folders), files

    def inside(self, folder: bytes) -> Iterator[bytes]:
        """The keys of the files in `folder` and the folders in it; `folder` as of `children`."""
        return map(self.key, range(*self._range(folder)))

    def images_inside(self, folder: bytes, most: int) -> list[bytes]:
        """Return the first keys of images in `folder` and the folders in it."""
        return [*islice(filter(names_image, self.inside(folder)), most)]

    def _range(self, folder: bytes) -> tuple[int, int]:
        """The numbers of the first file in `folder`, which is as of `children`, and of the first one after it."""
        if not folder:
            return 0, len(self)
        return self._place(folder), self._place(folder[:-1] + bytes([folder[-1] + 1]))

    def take(self, indices: np.ndarray) -> "Listing":
        """The listing of these files only; `indices` int64 [m], increasing."""
        if len(indices) == len(self):
            return self
        lengths = (self.ends[1:] - self.ends[:-1])[indices]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        blob = b"".join(map(self.key, indices.tolist()))
        sizes, mtimes = self.sizes[indices], self.mtimes[indices]
        return replace(self, blob=blob, ends=ends, sizes=sizes, mtimes=mtimes)


def joined(root: bytes, parts: Iterable[Listing]) -> Listing:
    """The files of several listings, all below `root`, as one; a file that is in two of them once."""
    files: dict[bytes, tuple[int, int]] = {}
    skipped: dict[bytes, Skipped] = {}
    notes: list[str] = []
    for part in parts:
        before = os.path.relpath(part.root, root) + b"/" if part.root != root else b""
        for i, key in enumerate(part):
            files[before + key] = part.sizes.item(i), part.mtimes.item(i)
        skipped |= {before + one.key: replace(one, key=before + one.key) for one in part.skipped}
        notes += part.notes
    keys = sorted(files)
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    sizes, mtimes = (np.array([files[key][i] for key in keys], np.int64) for i in (0, 1))
    in_order = tuple(skipped[key] for key in sorted(skipped))
    return Listing(root, b"".join(keys), ends, sizes, mtimes, in_order, notes=tuple(notes))


_OWN = ("dev", "eval", "evaluation", "holdout", "trainval", "minival")  # words for a split that keeps this name
_BETWEEN = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")  # around the words of a name
# A fold's number, as spreadsheets write a column of whole numbers that has gaps elsewhere, too: 3.0.
_FOLD = re.compile(r"0*([0-9]{1,9})(\.0*)?\Z")


def split_in_name(name: str) -> str | None:
    """The split that a word in the name of a file or folder means (`cats_train_v1`, `Split-eval`); None without one.

    Raises UsageError for words of two splits.
    """
    found = sorted({usual_split(word) or word.casefold() for word in split_words_in(name)})
    if len(found) > 1:
        raise UsageError(name, f"the name {escape(name)} contains two splits, {' and '.join(found)}", "rename it")
    return found[0] if found else None


def split_in_path(path: str) -> str | None:
    """The split in the name of a file, or else in that of its nearest folder; None if there is none."""
    return next(filter(None, map(split_in_name, reversed(path.split("/")))), None)


def split_words_in(name: str) -> list[str]:
    """The words in a name that mean a split, as they are written."""
    return [word for word in _BETWEEN.split(name) if usual_split(word) or word.casefold() in _OWN]


def split_in_cell(text: str) -> str:
    """The split in a cell of a label file: `fold_3` for the number 3, else the result of `split_named`.

    Raises UsageError when it cannot name a split's files.
    """
    fold = _FOLD.match(text)
    return f"fold_{fold[1]}" if fold else split_named(text)


def split_named(name: str) -> str:
    """The split that a cell or a file name asks for: a usual word's one name, any other as it stands.

    Raises UsageError when it cannot name a split's files.
    """
    return usual_split(name) or check_split_name(name)


def top_folders(listing: Listing, inside: bytes = b"") -> list[bytes]:
    """The visible folders in the root, or in the folder `inside` ("/" at its end), sorted, empty ones too."""
    tops = {bare.removeprefix(inside).partition(b"/")[0] for bare in listing.bare if bare.startswith(inside)}
    tops.update(listing.children(inside)[0])
    return sorted(tops)


def folder_splits(listing: Listing, inside: bytes = b"") -> dict[bytes, str]:
    """The split by folder where every folder in the root, or in `inside`, has a split's name; else nothing.

    One of them must be usual: `train` and `holdout`. Raises UsageError when two folders mean the same split.
    """
    splits: dict[bytes, str] = {}
    filled = listing.children(inside)[0]
    named = [top for top in filled if usual_split(top)]
    # An empty folder beside splits is no split, and no class.
    tops = filled if named and len(named) == len(filled) else top_folders(listing, inside)
    if not any(map(usual_split, tops)):
        return {}
    for top in tops:
        split = usual_split(top) or os.fsdecode(top).casefold()
        if not usual_split(top) and split not in _OWN:
            return {}
        if split in splits.values():
            raise UsageError(listing.root, f"more than one folder is the split {split!r}", "rename or merge them")
        splits[top] = split
    return splits


def split_level(paths: Sequence[Sequence[str]]) -> int | None:
    """The level of folders at which each is named like one split, and not all like the same; None if there is none.

    `paths`: the folders of each image, from the top. `trainA`, `trainB`, `testA` are such folders.
    """
    for level in range(min(map(len, paths), default=0)):
        named = [splits_meant(name) for name in {path[level] for path in paths}]
        if all(len(splits) == 1 for splits in named) and len(set().union(*named)) > 1:
            return level
    return None


def splits_meant(name: str) -> set[str]:
    """The splits that words in a name mean: `validation` for `val_256`."""
    return {usual_split(word) or word.casefold() for word in split_words_in(name)}


def splits_by_folder(listing: Listing, keys: Iterable[bytes]) -> list[str | None]:
    """Return, for each key, the split named by its folder in the root, by the rules of `folder_splits`."""
    folders = folder_splits(listing)
    return [folders.get(key.partition(b"/")[0]) if b"/" in key else None for key in keys]
