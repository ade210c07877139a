"""Splits by lists that the user gives: `--split-list train=train.txt`, or one table of names and splits.

It works for every source whose samples have names: its reader finds the samples, and here each gets its split.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing, split_named
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.rows import ColumnarSource, noted
from shardfeed.converters.sources.source import Skipped, Source
from shardfeed.converters.sources.splits.image_names import ImageNames
from shardfeed.converters.sources.splits.list_file import ListPart, ListRow, parts_of, split_of_key
from shardfeed.converters.sources.splits.matching import Matching, match, without_heading
from shardfeed.converters.sources.splits.row_splits import no_column, splits_by_column
from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_bytes, name_text
from shardfeed.text import counted, number, some

Path = str | os.PathLike[str]
SplitLists = Mapping[str, Path | Sequence[Path]] | Path  # a list, or some, of each split; or a table of all
REST = "rest"  # in place of a file: the images in no list
NONE = "none"  # in place of a split: images that are left out
_TRAINING = ("train", "trainval")
_SHOWN = 3
_ABOVE = 3  # folders above the source in which a list is looked for
_LONGEST = 80  # characters of a row, in a message


def typed_split_lists(texts: Sequence[str]) -> dict[str, Sequence[str]] | str:
    """The lists of `NAME=FILE`, repeated, or the table of one `FILE`. Raises UsageError for both at once."""
    lists: dict[str, list[str]] = {}
    tables = []
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or "/" in name or "." in name:
            tables.append(text)
        elif not name.strip() or not file:
            raise UsageError("split_list", f"got {escape(text)!r}, expected NAME=FILE", "write train=train.txt")
        else:
            lists.setdefault(name.strip(), []).append(file)
    if len(tables) > 1 or (tables and lists):
        problem = f"got {escape(tables[0])} without a name, a table of names and splits, with other lists"
        raise UsageError("split_list", problem, "write NAME=FILE for each list, or give the table alone")
    return tables[0] if tables else dict(lists)


def relocated(lists: SplitLists | None, to: Callable[[Path], Path]) -> SplitLists | None:
    """The lists at the places that `to` gives for their paths."""
    if lists is None or isinstance(lists, str | os.PathLike):
        return lists and to(lists)
    paths = {name: [one] if isinstance(one, str | os.PathLike) else one for name, one in lists.items()}
    return {name: [one if one == REST else to(one) for one in several] for name, several in paths.items()}


class _List(NamedTuple):
    """A file, and the split of all its names; "" for a table that says it."""

    split: str
    path: str


class _Entry(NamedTuple):
    """A row of a list: where it is, its name, its split, and the images that it may mean."""

    row: ListRow
    name: str
    split: str
    images: Sequence[int]


def with_split_lists(source: Source, lists: SplitLists, *folders: str, encoding: str | None = None) -> ColumnarSource:
    """The source with the images in the lists, each in the split of its list.

    `folders`: where paths of lists that are not found from the current directory may begin, in this order, and then in
    the folders above. Names that are no image's are in `findings.rejected`. Images in no list are left out and counted,
    or have the split of the list `rest`. Raises UsageError if samples have no names, or if it is not clear what images
    in no list are; LabelFileError for a list without the name of any image, an image in two splits, and a name that may
    be two images.
    """
    made = _columnar(source)
    rest, files = _checked(lists, [*_and_above(folders), *folders_of(made)])
    if not files:
        return _with_rest(made, rest)
    _check_named(made)
    rejected = made.findings.rejected
    names = ImageNames([*(made.keys[i] for i in _taken(made)), *(one.key for one in rejected)])
    assigned = _Assigned(made, names, len(rejected))
    assigned.add_lists(files, encoding)
    return assigned.source(rest, files)


def _columnar(source: Source) -> ColumnarSource:
    """The source, if it is one of our readers'. Raises UsageError for the user's own."""
    if not isinstance(source, ColumnarSource):
        problem = f"got a source of the class {escape(type(source).__name__)}, which states the splits of its samples"
        raise UsageError("split_list", problem, "set `split` of each Sample that it returns")
    return source


def _check_named(source: ColumnarSource) -> None:
    """Raise UsageError if samples have numbers in place of names."""
    if getattr(source.keys, "numbered", False):
        first = escape(source.keys[0])
        problem = f"is for images with names, and these have only numbers: the first is {first}"
        remedy = "leave it out, and write each split into a file of its own: train, validation, test"
        raise UsageError("split_list", problem, remedy)


def _with_rest(source: ColumnarSource, rest: str) -> ColumnarSource:
    """The source with the split `rest` for the samples that its own splits do not cover. Raises UsageError."""
    without = _without_split(source)
    if not len(without):
        problem = f"got {REST!r} and no list, and the source has no samples in no split beside others"
        raise UsageError("split_list", problem, "give a list of at least one split, NAME=FILE")
    assert source.splits is not None
    taken = np.array(_taken(source), np.int64)
    if rest == NONE:
        kept = taken[~np.isin(taken, without)]
        left = counted("images in no split, left out", [source.keys[i] for i in without[: _SHOWN + 1]], len(without))
        return noted(source.changed(taken=kept), left)
    names = [rest if name is None else name for name in source.splits.names]
    return source.changed(splits=Splits.coded(names, source.splits.numbers))


def _without_split(source: ColumnarSource) -> np.ndarray:
    """The numbers of the samples in no split, if others are in one: int64."""
    splits = source.splits
    if splits is None or None not in splits.names:
        return np.zeros(0, np.int64)
    taken = np.array(_taken(source), np.int64)
    without = taken[splits.numbers[taken] == splits.names.index(None)]
    return without if len(without) < len(taken) else without[:0]


def check_all_have_splits(source: Source) -> None:
    """Raise UsageError if some samples of a reader's source are in a split and others in none: which one is not known.

    A file called `data` beside files called `train` and `test` is not one of training because nothing says so.
    """
    if not isinstance(source, ColumnarSource) or source.splits is None or source.splits.unassigned:
        return  # the user's own source says by None that the plan decides
    without = _without_split(source)
    if not len(without):
        return
    named = some(name for name in source.splits.names if name is not None)
    first = [source.keys[i] for i in without[: _SHOWN + 1].tolist()]
    problem = f"{counted('images in no split', first, len(without))}, the others are in {named}"
    add, own, out = _of_rest("train", "extra", NONE)
    shares = argument("split", python="split={'train': 0.9, 'validation': 0.1}", typed="train=0.9,validation=0.1")
    remedy = f"give {add} to add them to train, {own} for a split of their own, {out} to leave them out"
    raise UsageError("split", problem, f"{remedy}, or {shares} to draw their splits")


def _of_rest(*names: str) -> list[str]:
    """The option that gives the images in no list each of these splits."""
    return [argument("split_list", python=f"split_list={{{name!r}: 'rest'}}", typed=f"{name}={REST}") for name in names]


def folders_of(source: ColumnarSource) -> Iterator[str]:
    """The folders that a source reads: that of its files, and of an archive that was unpacked."""
    if source.findings.folder is not None:
        yield name_text(source.findings.folder)
    kept = source.kept
    while isinstance(kept, tuple):
        unpacked, kept = kept
        if isinstance(folder := getattr(unpacked, "folder", None), str):
            yield folder


def _and_above(folders: Sequence[str]) -> Iterator[str]:
    """The folders, and some above them: a list lies beside the folder of images that is given."""
    for folder in folders:
        yield folder
        path = os.path.abspath(folder)
        for _ in range(_ABOVE):
            path = os.path.dirname(path)
            yield path


def _taken(source: ColumnarSource) -> range | list[int]:
    return range(len(source.keys)) if source.taken is None else source.taken.tolist()


def _checked(lists: SplitLists, folders: Sequence[str]) -> tuple[str, list[_List]]:
    """The split of images in no list, "" if none is given, and the lists. Raises UsageError, LabelFileError."""
    if isinstance(lists, str | os.PathLike):
        return "", [_List("", _path_of(lists, folders))]
    rest, files = "", list[_List]()
    for name, given in lists.items():
        split = name if name == NONE else split_named(name)
        for file in [given] if isinstance(given, str | os.PathLike) else given:
            if file != REST:
                files.append(_List(split, _path_of(file, folders)))
            elif rest:
                raise UsageError("split_list", f"got {REST!r} for {rest} and for {split}", "give it for one split")
            else:
                rest = split
    return rest, files


def _path_of(file: Path, folders: Sequence[str]) -> str:
    """The path of a list: as given, or in one of the folders. Raises LabelFileError."""
    path = os.fspath(file)
    tried = [path, *(os.path.join(folder, path) for folder in folders)]
    found = next((one for one in tried if os.path.isfile(one)), None)
    if found is None:
        places = f", neither in the current directory nor in {escape(folders[0])} or above it" if folders else ""
        raise LabelFileError(path, f"no such list of names{places}", "check the path")
    return found


def _entries(one: _List, parts: Sequence[ListPart], names: ImageNames) -> Iterator[_Entry]:
    """The entries of a list; none if no row has the name of an image. Raises LabelFileError if it is not clear."""
    used = _used(one, [(part, match(part, names, one.path)) for part in parts])
    keyed = any(split_of_key(part.key) for part, _ in used)
    for part, rule in _wanted(one, used) if keyed else used:
        yield from _part_entries(one, part, rule, names, keyed=keyed)


def _used(one: _List, rules: Sequence[tuple[ListPart, Matching | None]]) -> Sequence[tuple[ListPart, Matching]]:
    """The parts of a file whose rows are names of images. Raises LabelFileError if that is not clear."""
    found = [(part, rule) for part, rule in rules if rule is not None]
    named = [used for used in found if not used[1].numbers]
    found = named or found  # arrays of labels may be numbers, too
    of_splits = [used for used in found if split_of_key(used[0].key)]
    if of_splits:
        return of_splits
    if not named:
        _check_one_array(one, [part.key for part, _ in found])
    return _mostly_explained(found) or found[:1]


def _mostly_explained(found: Sequence[tuple[ListPart, Matching]]) -> Sequence[tuple[ListPart, Matching]]:
    return [(part, rule) for part, rule in found if 2 * rule.share >= 1]


def _check_one_array(one: _List, keys: Sequence[str]) -> None:
    """Raise LabelFileError for numbers under several keys."""
    if len(keys) > 1:
        problem = f"has numbers under {some(keys)}: which are those of the images of a split?"
        raise LabelFileError(one.path, problem, "write the names into a text file, one on each line")


def _wanted(one: _List, used: Sequence[tuple[ListPart, Matching]]) -> Sequence[tuple[ListPart, Matching]]:
    """The parts to read of a file with a key for each split: the one of the list's split. Raises LabelFileError."""
    splits = {str(split_of_key(part.key)) for part, _ in used}
    if not one.split or len(splits) < 2:
        return used
    wanted = [(part, rule) for part, rule in used if one.split in (split_of_key(part.key), part.key)]
    if wanted:
        return wanted
    problem = f"has names of {some(sorted(splits))}, and none of {escape(one.split)}"
    raise LabelFileError(one.path, problem, f"give {argument('split_list', one.path)} to read all of them")


def _part_entries(one: _List, part: ListPart, rule: Matching, names: ImageNames, *, keyed: bool) -> Iterator[_Entry]:
    """The entries of a part. Raises LabelFileError for a table that contradicts the split of the list, or has none."""
    heading, part = without_heading(part, rule)
    split = one.split or (split_of_key(part.key) if keyed else None) or None
    splits = None if keyed else splits_by_column(one.path, part, rule, heading)
    if split is None and splits is None:
        raise no_column(one.path, part, rule)
    if split is not None and heading:
        _check_one_split(one, splits)
    for row, of_row in zip(part.rows, splits or repeat(""), strict=False):
        into = split or of_row
        yield _Entry(row, rule.view.name(row), into, names.of_split(rule.found(row), into))


def _check_one_split(one: _List, splits: Sequence[str] | None) -> None:
    """Raise LabelFileError if the column of splits of a list of one split has several."""
    several = sorted({*(splits or ())})
    if len(several) > 1:
        problem = f"is a table of several splits ({some(several)}), expected names of {escape(one.split)}"
        raise LabelFileError(one.path, problem, f"give {argument('split_list', one.path)}, without a name")


def _of_other_names(files: Sequence[_List], rows: Sequence[ListRow], names: ImageNames) -> LabelFileError:
    """The error for lists of which no row is the name of an image, with the first row."""
    if not rows:
        return LabelFileError(files[0].path, "the lists are empty", "check that they are complete")
    name = escape(next(iter(rows[0].cells), ""))[:_LONGEST]
    problem = f"'{name}' is the name of no image, nor is any of {number(len(rows), 'row')}"
    problem += f"; images are for example {_examples(names)}"
    return LabelFileError(rows[0].place, problem, "check that this is a list of these images")


def _examples(names: ImageNames) -> str:
    count = len(names.keys)
    return some([names.keys[i] for i in sorted({0, count // 2, count - 1})])


class _Assigned:
    """The split of each image by the lists so far; `rejected` of the names are of images that cannot be used."""

    def __init__(self, source: ColumnarSource, names: ImageNames, rejected: int) -> None:
        self.made, self.names = source, names
        self.count = len(names.keys) - rejected
        self.splits: list[str] = []
        self.split_of = np.full(len(names.keys), -1, np.int64)
        self.row_of: dict[int, ListRow] = {}
        self.missing: list[tuple[str, str]] = []  # name and place
        self.twice: list[tuple[int, ListRow, ListRow]] = []
        self.unclear: list[_Entry] = []

    def add_lists(self, files: Sequence[_List], encoding: str | None) -> None:
        """Take the entries of lists. Raises LabelFileError if no row of any is the name of an image."""
        unlike = list[ListRow]()
        for one in files:
            parts = [part for part in parts_of(one.path, encoding) if part.rows]
            entries = [*_entries(one, parts, self.names)]
            for entry in entries:
                self.add(entry)
            if not entries:
                unlike += [row for part in parts for row in part.rows]
        if not self.row_of:
            raise _of_other_names(files, unlike, self.names)
        for row in unlike:  # such as those of a split that has not been downloaded
            self.add(_Entry(row, row.cells[0], "", ()))

    def add(self, entry: _Entry) -> None:
        """Take an entry of a list."""
        if not entry.images:
            self.missing.append((entry.name or entry.row.cells[0], entry.row.place))
            return
        if len(entry.images) > 1:
            self.unclear.append(entry)
            return
        if entry.split not in self.splits:
            self.splits.append(entry.split)
        split, image = self.splits.index(entry.split), entry.images[0]
        if self.split_of[image] not in (-1, split):
            self.twice.append((image, self.row_of[image], entry.row))
            return
        self.split_of[image] = split
        self.row_of[image] = entry.row

    def source(self, rest: str, files: Sequence[_List]) -> ColumnarSource:
        """The source of the images in lists. Raises LabelFileError, UsageError."""
        self._check()
        unlisted = np.flatnonzero(self.split_of[: self.count] < 0)
        notes = self._take_rest(unlisted, rest, files)
        out = self.splits.index(NONE) if NONE in self.splits else -1
        kept = np.flatnonzero((self.split_of[: self.count] >= 0) & (self.split_of[: self.count] != out))
        if not len(kept):
            raise LabelFileError(files[0].path, "no image is in a split by the lists", "check the lists")
        numbers = self.split_of[kept]
        said = [self._said(files, numbers), *notes, *self._left_out(out)]
        findings = self.made.findings
        if self.made.splits is not None:
            said.append("splits of the source itself are not used, as lists are given")
        rejected = [*self._rejected_in_lists(), *self._missing(said, files)]
        places = kept if self.made.taken is None else self.made.taken[kept]
        every = np.zeros(len(self.made.keys), np.int64)
        every[places] = numbers
        return self.made.changed(
            taken=places,
            splits=Splits.coded([None if split == NONE else split for split in self.splits], every),
            findings=replace(findings, rejected=rejected, notes=[*findings.notes, *said]),
        )

    def _check(self) -> None:
        """Raise LabelFileError for names that may be two images, and for images in two splits."""
        if self.unclear:
            first = self.unclear[0]
            images = " or ".join(f"'{escape(self.names.keys[image])}'" for image in first.images[:_SHOWN])
            problem = f"'{escape(first.name)}' may be {images} ({number(len(self.unclear), 'such name')})"
            raise LabelFileError(first.row.place, problem, "write the folders and the extension of these images, too")
        if self.twice:
            image, one, other = self.twice[0]
            name = escape(self.names.keys[image])
            problem = f"'{name}' is also in another split, at {one.place} ({number(len(self.twice), 'such image')})"
            raise LabelFileError(other.place, problem, "leave it out of one of the lists, or give fewer lists")

    def _take_rest(self, unlisted: np.ndarray, rest: str, files: Sequence[_List]) -> list[str]:
        """Give the images in no list their split, or a note. Raises UsageError if it is not clear what they are."""
        if not len(unlisted):
            return [f"no image is in no list: {REST!r} means none"] if rest else []
        keys = [self.names.keys[i] for i in unlisted[: _SHOWN + 1].tolist()]
        if rest:
            if rest not in self.splits:
                self.splits.append(rest)
            self.split_of[unlisted] = self.splits.index(rest)
            return []
        if not self._are_complete(files):
            problem = f"{counted('images in no list', keys, len(unlisted))}; the lists are of {some(self.splits)}"
            others, out = _of_rest("train", NONE)
            raise UsageError("split_list", problem, f"add {others} for their split, or {out} to leave them out")
        return [counted("images in no list, left out", keys, len(unlisted))]

    def _are_complete(self, files: Sequence[_List]) -> bool:
        """Whether the lists are those of a whole dataset: of a split for training, and of another one."""
        splits = {*self.splits, *(one.split for one in files)} - {""}
        return NONE in splits or (not splits.isdisjoint(_TRAINING) and len(splits) > 1)

    def _said(self, files: Sequence[_List], numbers: np.ndarray) -> str:
        """The sentence on the splits that were made."""
        paths = dict.fromkeys(os.path.basename(one.path) for one in files)
        counts = [f"{split} {np.count_nonzero(numbers == i):,}" for i, split in enumerate(self.splits) if split != NONE]
        return f"splits from {', '.join(map(escape, paths))}: {', '.join(counts)}"

    def _left_out(self, out: int) -> list[str]:
        left = np.flatnonzero(self.split_of[: self.count] == out) if out >= 0 else []
        keys = [self.names.keys[i] for i in left[: _SHOWN + 1]]
        return [counted(f"images left out, as lists of {NONE!r} ask", keys, len(left))] if len(left) else []

    def _rejected_in_lists(self) -> list[Skipped]:
        """The rejected inputs of the reader that the lists name; a name that is in no list is left out like others."""
        marks = self.split_of[self.count :] >= 0
        return [one for one, named in zip(self.made.findings.rejected, marks.tolist(), strict=True) if named]

    def _missing(self, said: list[str], files: Sequence[_List]) -> list[Skipped]:
        """Names without an image, as rejected inputs; only counted, in `said`, if patterns may have left them out."""
        choice = self.made.keys.choice if isinstance(self.made.keys, Listing) else None
        if choice and self.missing:
            names = [name for name, _ in self.missing]
            said.append(counted("names in lists without an image, perhaps left out by patterns", names, len(names)))
            return []
        folders = {os.path.dirname(one.path) for one in files} - {""}
        code, missing = RejectCode.MISSING.value, list[Skipped]()
        for name, place in dict(reversed(self.missing)).items():
            folder = next((folder for folder in folders if place.startswith(folder + os.sep)), "")
            within = place[len(folder) + 1 :] if folder else place  # the report says nothing of this machine
            missing.append(Skipped(name_bytes(name), code, f"{escape(within)}: no image has this name"))
        return missing
