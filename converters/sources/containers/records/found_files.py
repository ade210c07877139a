"""Which files of a folder hold Examples, of which splits, what lies beside them; what a way to frame them must say."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.records.layout import Layout
from shardfeed.converters.sources.containers.records.numbering import Beside
from shardfeed.converters.sources.containers.records.shard_names import (
    FoundSplit,
    find_splits,
    looks_like_shard,
    splits_of_folders,
)
from shardfeed.converters.sources.containers.records.source import FoundFile
from shardfeed.converters.sources.rows.class_names import names_beside, read_named_classes
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import RecordError, UsageError, argument, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import listing

_NAMES_SEEN, _FOLDERS_SEEN = 1000, 64  # of a folder that may be anything: it may hold a million images


class Met(NamedTuple):
    """A record met on the way, or a place where none is: then `payload` is b"" and `problem` says what is wrong.

    `record`: from 0. `offset`, `size`: bytes in the file, with framing; both 0 where the format finds records itself.
    """

    record: int
    offset: int
    size: int
    payload: bytes
    problem: str = ""


@dataclass(frozen=True)
class ExampleFile(FoundFile):
    """`path`: the file to read, which has `size` bytes and `mtime_ns`; `problem`: what is lost at its end."""

    path: str
    size: int
    mtime_ns: int
    problem: str = ""


@dataclass(frozen=True)
class ExampleFormat:
    """One way to frame records.

    name, what: for `--from`, and for people. is_one: whether a file begins as one of the format. is_packed: whether its
    records cannot be read in any order. unpack: the path of a file in which they can, and what is lost at its end.
    records: all of a file. part: what gives the payload of one. stand_in: a file's name, as it would be were it a
    TFRecord's; "" where it is not one of these.
    """

    name: str
    what: str
    is_one: Callable[[str], bool]
    is_packed: Callable[[str], bool]
    unpack: Callable[[str, Unpacked], tuple[str, str]]
    records: Callable[[ExampleFile], Iterator[Met]]
    part: Callable[[ExampleFile, int, int, int], Callable[[], bytes]]
    stand_in: Callable[[str], str]


def may_hold_some(path: str, form: ExampleFormat) -> bool:
    """Whether some of the first names in a folder, or in its first folders, may be those of shards; or it is a file."""
    if not os.path.isdir(path):
        return os.path.isfile(path)
    try:
        with os.scandir(path) as entries:
            first = [(entry.name, entry.is_dir()) for entry in islice(entries, _NAMES_SEEN)]
        names = [name for name, is_folder in first if not is_folder]
        for folder in [name for name, is_folder in first if is_folder][:_FOLDERS_SEEN]:
            with os.scandir(os.path.join(path, folder)) as entries:
                names += [entry.name for entry in islice(entries, _FOLDERS_SEEN)]
    except OSError:
        return False
    stand_ins = [stand_in for name in names if (stand_in := form.stand_in(name))]
    return any(looks_like_shard(name) for name in stand_ins)


def find_files(path: str, form: ExampleFormat) -> list[FoundSplit]:
    """Splits and their files, relative to the folder `path`, or the file itself. Raises UsageError, StorageError."""
    if not os.path.exists(path):
        raise UsageError(path, "no such file or folder", "check the path")
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            raise UsageError(path, "neither a file nor a folder", "give a file")
        name = os.path.basename(path)
        stand_in = form.stand_in(name)
        named = find_splits(path, [stand_in] if stand_in else [])
        return [FoundSplit(named[0].name if named else "", (name,))]
    stand_ins = {stand_in: name for name in _files_of(path) if (stand_in := form.stand_in(name))}
    found = find_splits(path, stand_ins)
    if not found:
        folders = {folder: _files_of(os.path.join(path, folder)) for folder in _folders(path)}
        for folder, names in folders.items():
            stand_ins |= {f"{folder}/{s}": f"{folder}/{name}" for name in names if (s := form.stand_in(name))}
        by_folder = {folder: [s for name in names if (s := form.stand_in(name))] for folder, names in folders.items()}
        try:
            found = splits_of_folders(path, by_folder)
        except UsageError as error:
            raise UsageError(error.place, error.problem.replace("TFRecord", form.what), error.remedy) from None
    for split in found:
        if split.missing:
            numbers = listing([str(number) for number in split.missing])
            problem = f"split {split.name}: of {len(split.files)} shards these are not there: {numbers}"
            raise UsageError(path, problem, "get them, or give a folder of files that are not numbered so")
    return [FoundSplit(split.name, tuple(stand_ins[file] for file in split.files if file)) for split in found]


def _files_of(folder: str) -> list[str]:
    return _names(folder, os.DirEntry.is_file)


def _folders(folder: str) -> list[str]:
    return _names(folder, os.DirEntry.is_dir)


def _names(folder: str, fits: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    """Of what is in a folder and is not hidden, sorted. Raises StorageError."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and fits(entry))
    except OSError as error:
        raise storage_error(folder, "list", error) from error


def folder_of(path: str) -> str:
    """The folder that `path` is, or is in."""
    return path if os.path.isdir(path) else os.path.dirname(path) or "."


def path_of(path: str, name: str) -> str:
    """Of a file in the folder `path`; or of that itself, where it is no folder."""
    return os.path.join(path, name) if os.path.isdir(path) else path


def opened(path: str, found: Sequence[FoundSplit], form: ExampleFormat, unpacked: Unpacked) -> list[ExampleFile]:
    """All files, those that are compressed unpacked. Their names say a split where one of them is a usual one."""
    usual = any(usual_split(split.name) or split.name in ("dev", "eval") for split in found)
    files: list[ExampleFile] = []
    for split in found:
        name = (usual_split(split.name) or split.name) if usual else None
        for file in split.files:
            at = path_of(path, file or "")
            try:
                ready, problem = form.unpack(at, unpacked) if form.is_packed(at) else (at, "")
                state = os.stat(ready)
            except RecordError as error:
                raise not_one(at, form, error.problem) from None
            except OSError as error:
                raise storage_error(at, "read", error) from error
            size, mtime = state.st_size, state.st_mtime_ns
            files.append(ExampleFile(file or "", name, os.path.abspath(ready), size, mtime, problem))
    return files


def not_one(path: str, form: ExampleFormat, problem: str) -> UsageError:
    """The error to raise for a file that is none of the format, or of which nothing is left."""
    return UsageError(
        path, f"no {form.what} file, or nothing of it is whole: {problem}", "move it away, or get it again"
    )


def names_around(path: str, files: Sequence[ExampleFile], layout: Layout) -> dict[str, Beside]:
    """What lies beside the files and names classes, by feature; "": a label map, or a plain list.

    Raises LabelFileError for a label map that cannot be read, UsageError where two differ.
    """
    root = folder_of(path)
    found: dict[str, Beside] = {}
    for folder in sorted({os.path.dirname(file.name) for file in files}):
        names = _files_of(os.path.join(root, folder))
        for name in names:
            if name.endswith(".pbtxt") and "label" in name:
                here = Beside(os.path.join(folder, name), read_named_classes(os.path.join(root, folder, name)), True)
                if "" in found and found[""].names != here.names:
                    problem = f"{escape(here.file)} and {escape(found[''].file)} name other classes"
                    raise UsageError(path, problem, f"give the right one: {argument('label_map', typed='FILE')}")
                found.setdefault("", here)
    plain = [name for name in _files_of(root) if not name.endswith(".pbtxt")]
    keys = [layout.label, layout.objects.columns.get(OBJECT_LABEL, "") if layout.objects else ""]
    keys = [key for key in keys if key]
    for key in keys:
        if there := names_beside(root, plain, key, images=key == keys[0] and "" not in found):
            found[key] = Beside(*there)
    return found
