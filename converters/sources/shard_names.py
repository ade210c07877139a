"""Recognise the shards of a folder and their splits by file names; files of Spark without a suffix by content, too.

`train-00003-of-00008.tfrecord`, the Model Garden's `train-00003-of-01024`, TFDS's
`mnist-train.tfrecord-00000-of-00001`, Kaggle's `train00-2071.tfrec`, Spark's `part-00003-UUID-c000.tfrecord` and
`part-r-00003`, files that are only numbered (`part_12.tfrec`) or not even that (`birds.tfrecords`).
"""

import glob
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from shardfeed.converters.sources.files.listing import split_in_name, split_words_in
from shardfeed.converters.sources.files.unpack import DamagedStreamError, compression, inflated
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import RecordError, UsageError, argument, escape
from shardfeed.formats.tfrecord import HEADER_BYTES, payload_length
from shardfeed.naming import check_split_name, shard_file
from shardfeed.split_words import usual_split
from shardfeed.storage.local import storage_error
from shardfeed.text import counted

_PACKED = r"(?:\.(?:gz|gzip|zlib|zst|bz2|xz))?"
_ARRAY_RECORD = re.compile(r"array_?record", re.IGNORECASE)
_SPARK = re.compile(r"(?P<stem>part)-(?:[rm]-)?(?P<number>\d{5,})(?:-[0-9a-f-]+)?(?:[-.]c\d+)?" + _PACKED + r"\Z")
# Kaggle's: the shard's number, perhaps the images' size, and how many records: `00-224x224-798`, `train00-2071`.
_COUNTING = (
    re.compile(r"(?P<stem>.*?)[-_]?(?P<number>\d+)-\d+x\d+-\d+\Z", re.DOTALL),
    re.compile(r"(?P<stem>(?:.*[a-zA-Z](?<!\dx))?)(?P<number>\d{2,3})-[1-9]\d*\Z", re.DOTALL),
    _SPARK,
)
_NUMBERED = re.compile(r"(?:(?P<stem>.+?)[-_. ]+)?(?P<number>\d+)\Z")
_Placed = tuple[int | None, int | None, str]  # number of shards, number of this one, file name
_HEAD = 64
_MOST_SHARDS = 1_000_000  # a name with more words means something else


class ShardNames:
    """Naming scheme of the files of a format. `what`: such a file, for messages. `suffix`: a pattern of their ends.

    `begins`: whether the file at a path begins as one; then Spark's files need no suffix.
    """

    def __init__(self, what: str, suffix: str, begins: Callable[[str], bool] | None = None) -> None:
        self.what, self._of_arrays, self._begins = what, bool(_ARRAY_RECORD.fullmatch(what)), begins
        counted = rf"(?P<stem>.+?)(?:{suffix})?[-_.](?P<number>\d+)[-_]of[-_](?P<count>\d+)(?:{suffix})?{_PACKED}\Z"
        self._counted = re.compile(counted, re.IGNORECASE)
        self._named = re.compile(rf"(?P<stem>.+?){suffix}{_PACKED}\Z", re.IGNORECASE)

    def in_folder(self, folder: str) -> list[str]:
        """The names of the files in a folder, without those of Spark that are something else, by one with content."""
        names = list_names(folder, os.DirEntry.is_file)
        bare = [name for name in names if _SPARK.match(name)] if self._begins is not None else []
        try:
            paths = (os.path.join(folder, name) for name in bare)
            first = next((path for path in paths if os.path.getsize(path)), "")
            if bare and not (first and self._begins is not None and self._begins(first)):
                return [name for name in names if name not in bare]
        except OSError as error:
            raise storage_error(folder, "read", error) from error
        return names

    def place(self, name: str) -> tuple[str, int | None, int | None] | None:
        """(stem, number, count) by a file's name; None for a file that is no shard of the format."""
        if name.startswith(".") or bool(_ARRAY_RECORD.search(name)) != self._of_arrays:
            return None
        if match := self._counted.match(name):
            number, count = int(match["number"]), int(match["count"])
            if number < count <= _MOST_SHARDS:
                return match["stem"], number, count
        if match := self._named.match(name):
            stem = match["stem"]
            if numbered := next(filter(None, (form.match(stem) for form in (*_COUNTING, _NUMBERED))), None):
                return numbered["stem"] or "", int(numbered["number"]), None
            return stem, None, None
        if self._begins is not None and (match := _SPARK.match(name)):
            return match["stem"], int(match["number"]), None
        return None


def is_tfrecord(path: str) -> bool:
    """Whether a file begins with a record's length and its CRC, compressed or not. Raises OSError."""
    with open_regular(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(_HEAD)
        if compression(head):
            file.seek(0)
            try:
                head, size = next(inflated(file), b""), sys.maxsize
            except DamagedStreamError:
                return False
    try:
        payload_length(head[:HEADER_BYTES], size - HEADER_BYTES, path)
    except RecordError:
        return False
    return True


TFRECORD = ShardNames("TFRecord", r"\.(?:tfrecords?|tfrec|tfr|records?)", is_tfrecord)
ARRAY_RECORD = ShardNames("ArrayRecord", r"[-_.]?array_?record")


@dataclass(frozen=True)
class FoundSplit:
    """The files of one split in shard order; None for a shard that should be there by the others' names."""

    name: str
    files: tuple[str | None, ...]

    @property
    def missing(self) -> list[int]:
        """Numbers of the missing shards."""
        return [number for number, file in enumerate(self.files) if file is None]

    @property
    def has_standard_names(self) -> bool:
        """Whether every file has the name that the contract on disk gives it."""
        count = len(self.files)
        return all(file == shard_file(self.name, i, count) for i, file in enumerate(self.files))


def find_splits(
    directory: str, names: Iterable[str], split_name: str | None = None, shards: ShardNames = TFRECORD
) -> list[FoundSplit]:
    """The splits that `names`, the files of a folder, are shards of; sorted by name. Names of other files are ignored.

    `split_name`: all files are shards of this one split. Raises UsageError where the files of a split contradict each
    other: shards of 8 beside shards of 16, or one number twice.
    """
    by_stem: dict[str, list[_Placed]] = {}
    for name in names:
        placed = shards.place(name)
        if placed is not None:
            stem, number, count = placed
            by_stem.setdefault(stem, []).append((count, number, name))
    if split_name is not None:
        if len(by_stem) == 1:
            (files,) = by_stem.values()
            return [_split(directory, split_name, files)]
        everything: list[_Placed] = [(None, None, name) for files in by_stem.values() for _, _, name in files]
        return [_split(directory, split_name, everything)] if everything else []
    own = {
        stem
        for stem, files in by_stem.items()
        if all(count and name == shard_file(stem, number or 0, count) for count, number, name in files)
    }
    found = [_split(directory, name, by_stem[stem]) for stem, name in _split_names(by_stem, own).items()]
    return sorted(found, key=lambda split: split.name)


def splits_of_folders(directory: str, shards: ShardNames = TFRECORD) -> list[FoundSplit]:
    """One split for the files of each folder in `directory`, named like the folder; folders without shards are ignored.

    Raises UsageError as `find_splits`, StorageError.
    """
    found: list[FoundSplit] = []
    files_of = {}
    for folder in list_names(directory, os.DirEntry.is_dir):
        place = os.path.join(directory, folder)
        names = shards.in_folder(place)
        if any(shards.place(name) for name in names):
            files_of[folder] = names
    for folder, split_name in _split_names(files_of).items():
        for split in find_splits(os.path.join(directory, folder), files_of[folder], split_name, shards):
            files = tuple(None if file is None else f"{folder}/{file}" for file in split.files)
            found.append(FoundSplit(split.name, files))
    return sorted(found, key=lambda split: split.name)


def usual_splits(found: Iterable[FoundSplit]) -> list[FoundSplit]:
    """Return the same files, in splits by the words in their names; without a word for a split, all are in one, "".

    Raises UsageError for a name with the words of two splits.
    """
    words = {split: split_in_name(split.name) for split in found}
    files_of: dict[str, tuple[str | None, ...]] = {}
    for split, word in words.items():
        name = (word or split.name) if any(words.values()) else ""
        files_of[name] = files_of.get(name, ()) + split.files
    return [FoundSplit(name, files) for name, files in files_of.items()]


@dataclass(frozen=True)
class ShardFiles:
    """The shards at a path: `splits`, with files relative to the folder `root`; `notes` for the report."""

    root: str
    splits: list[FoundSplit]
    notes: tuple[str, ...] = ()


def find_shards(path: str, split_name: str | None = None, shards: ShardNames = TFRECORD) -> ShardFiles:
    """Find the shards in the folder `path`; else in its subfolders, which then are splits.

    Beside shards, only subfolders named like splits are read; a note names the others that have some. If exactly one
    subfolder contains shards, and it is not named like a split, it is used instead: TFDS has one for each version.
    Raises UsageError, StorageError.
    """
    names = shards.in_folder(path)
    if found := find_splits(path, names, split_name, shards):
        beside = splits_of_folders(path, shards) if split_name is None else []
        known, passed = {split.name for split in found}, []
        for split in beside:
            if twice := known.intersection({split.name}):
                problem = f"the split {twice.pop()} is in its files and in a folder"
                raise UsageError(path, problem, "move one of the two away")
            (found if split_words_in(split.name) else passed).append(split)
        note = counted("folders with shards that are not read", [split.name for split in passed], len(passed))
        return ShardFiles(path, sorted(found, key=lambda split: split.name), (note,) if passed else ())
    found = splits_of_folders(path, shards)
    if len(found) == 1 and not split_words_in(found[0].name):
        folder = next(file for file in found[0].files if file is not None).partition("/")[0]
        inner = find_shards(os.path.join(path, folder), split_name, shards)
        return ShardFiles(inner.root, inner.splits, (f"the files are in the folder {escape(folder)}", *inner.notes))
    if split_name is not None and found:
        found = [FoundSplit(split_name, tuple(file for split in found for file in split.files))]
    return ShardFiles(path, found)


def list_names(folder: str, fits: Callable[[os.DirEntry[str]], bool], *, hidden: bool = False) -> list[str]:
    """The names in a folder that fit, sorted; only with `hidden` those that begin with a dot.

    Raises UsageError, StorageError.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if fits(entry) and (hidden or entry.name[0] != "."))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(folder, "no such folder", "give the folder that holds the TFRecord files") from None
    except OSError as error:
        raise storage_error(folder, "list", error) from error


def splits_by_pattern(directory: str, patterns: Mapping[str, str]) -> list[FoundSplit]:
    """The splits with files given by patterns (of `glob`, relative to `directory`), with any suffix.

    Raises UsageError if a pattern matches no file, or two match the same one.
    """
    taken: dict[str, str] = {}
    found: list[FoundSplit] = []
    for name, pattern in sorted(patterns.items()):
        place = f"{argument('splits')} {check_split_name(name)}={pattern}"
        matched = glob.glob(pattern, root_dir=directory, recursive=True)
        names = sorted((file for file in matched if os.path.isfile(os.path.join(directory, file))), key=natural)
        if not names:
            problem = f"matches no file in {escape(directory)}"
            raise UsageError(place, problem, "quote it, and make it relative to that folder")
        for file in names:
            if file in taken:
                problem = f"matches {escape(file)}, which {taken[file]} also matches"
                raise UsageError(place, problem, "change one of them")
            taken[file] = name
        found.append(FoundSplit(name, tuple(names)))
    return found


def _split_names(stems: Iterable[str], own: Collection[str] = ()) -> dict[str, str]:
    """Return a split name for each stem: its word for a split if it has one, and it remains unique.

    `own`: stems of files that are named as the contract on disk names those of a split; there, only a last word counts.
    """
    words = {stem: _word(stem, is_own=stem in own) for stem in stems}
    names = {stem: word if list(words.values()).count(word) == 1 else stem for stem, word in words.items()}
    fit = {stem: _fit(name) for stem, name in names.items()}
    taken: set[str] = set()
    for stem in sorted(fit):
        while fit[stem] in taken:  # `a-b` and `a_b`
            fit[stem] += "_"
        taken.add(fit[stem])
    return fit


def _word(stem: str, *, is_own: bool) -> str:
    """The usual word for a split, `validation` for `val`, if a stem has one; its own word if it is a split's name."""
    found = {word for word in split_words_in(stem) if not is_own or stem.endswith(word)}
    word = found.pop() if len(found) == 1 else stem
    return word if is_own else usual_split(word) or word


def _fit(name: str) -> str:
    """A name that a split may have: other characters become '_'; no name at all is `train`."""
    word = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return (word if word[0].isalpha() else f"split_{word}") if word else "train"


def _split(directory: str, name: str, found: list[_Placed]) -> FoundSplit:
    counts = sorted({count for count, _, _ in found if count is not None})
    if not counts:
        return FoundSplit(name, tuple(sorted((file for _, _, file in found), key=natural)))
    if len(counts) > 1 or any(count is None for count, _, _ in found):
        kinds = ", ".join(f"-of-{count:05d}" for count in counts)
        others = " and files without a shard count" if any(count is None for count, _, _ in found) else ""
        problem = f"split {name} has files with different shard counts: {kinds}{others}"
        raise UsageError(directory, problem, "move the files away that do not belong to it")
    files: list[str | None] = [None] * counts[0]
    for _, number, file in found:
        assert number is not None, "a count comes with a number"
        if files[number] is not None:
            problem = f"shard {number} of split {name} appears twice: {escape(files[number])} and {escape(file)}"
            raise UsageError(directory, problem, "move one away")
        files[number] = file
    return FoundSplit(name, tuple(files))


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which `part_2` comes before `part_10`."""
    return [
        (int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in re.split(r"([0-9]+)", name)
    ]
