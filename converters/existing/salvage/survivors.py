"""What is left of a damaged dataset: the files that are as they were written, and what they tell of the others."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardfeed.converters.existing.shard_names import find_splits
from shardfeed.errors import IntegrityError, NewerFormatError, UsageError, escape
from shardfeed.formats.tfrecord.index import Index
from shardfeed.label_column import column_name, parse_column
from shardfeed.manifest import FileInfo, Manifest, SplitInfo, parse_manifest
from shardfeed.naming import INDEX_SUFFIX, MANIFEST, RECORD_SUFFIX, TFDS_FILES, label_names_file
from shardfeed.schema import LABEL, is_plain
from shardfeed.storage.local import storage_error

_MOST_RECORDS = 1 << 20  # of a shard, by a file that no checksum vouches for
_MOST_BYTES = 256 << 20  # of a side file that no checksum vouches for


@dataclass
class Remnant:
    """A shard: `file` that holds its records, or None; `whole`: it is as written. `records`, `offsets`: if known."""

    file: str | None
    whole: bool = False
    records: int | None = None
    offsets: np.ndarray | None = None


@dataclass
class Remnants:
    """`shards[split]`: in order. `labels[split]`: of `image/class/label`, where the column is whole.

    `gaps`: at most so many places of the plan have no record; None where that is not known. `planned`: a plan made the
    dataset, so that records say their place in it, and each has a file name of its own. `distinct`: no two records of a
    split are equal. `kept`: side files that are whole. `notes`: what to tell people.
    """

    directory: str
    manifest: Manifest | None
    shards: dict[str, list[Remnant]]
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    gaps: int | None = None
    planned: bool = True
    distinct: bool = True
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def path(self, file: str) -> str:
        """Where one of its files lies."""
        return os.path.join(self.directory, file)


def look_for_remnants(directory: str, progress: Callable[[int], object]) -> Remnants:
    """What there is of the dataset in `directory`; reads every shard of the size it was written with.

    Raises UsageError where no file is a shard by its name, NewerFormatError, StorageError.
    """
    try:
        present = set(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such directory", "give the directory of a dataset") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error
    notes = []
    try:
        data = _read(os.path.join(directory, MANIFEST))
        manifest = None if data is None else parse_manifest(data, os.path.join(directory, MANIFEST))
        if data is None:
            notes.append(f"{MANIFEST} is missing: what it said is taken from the records")
    except NewerFormatError:
        raise
    except IntegrityError as error:
        manifest = None
        notes.append(f"{MANIFEST} is damaged ({error.problem}): what it said is taken from the records")
    if manifest is None:
        return _without_manifest(directory, present, notes)
    return _by_manifest(directory, manifest, present, notes, progress)


def _by_manifest(
    directory: str, manifest: Manifest, present: set[str], notes: list[str], progress: Callable[[int], object]
) -> Remnants:
    expected = manifest.files()
    sizes = {info.size for name, info in expected.items() if name.endswith(RECORD_SUFFIX)}
    by_content: dict[FileInfo, list[str]] = {}
    for name in sorted(present):
        path = os.path.join(directory, name)
        if name.endswith(RECORD_SUFFIX) and os.path.isfile(path) and os.path.getsize(path) in sizes:
            info = FileInfo.of_file(path)
            by_content.setdefault(info, []).append(name)
            progress(info.size)
    options = manifest.options
    earlier = options.get("gaps", 0)  # what an earlier salvage lost
    found = Remnants(
        directory,
        manifest,
        {split.name: _shards(directory, split, present, by_content, notes) for split in manifest.splits.values()},
        gaps=sum(manifest.rejected.values()) + earlier if isinstance(earlier, int) else None,
        planned=not options.get("adopted", False),
        distinct=bool(options.get("distinct", True)),
        notes=notes,
    )
    for split in manifest.splits.values():
        if (labels := _labels(directory, manifest, split)) is not None:
            found.labels[split.name] = labels
    made_again = TFDS_FILES | {label_names_file(key) for key in manifest.schema.class_names}
    for name in sorted(manifest.sidecars.keys() - made_again):
        data = _read(os.path.join(directory, name))
        if data is not None and FileInfo.of(data) == manifest.sidecars[name]:
            found.kept[name] = data
        else:
            notes.append(f"{escape(name)} is missing or damaged, and left out")
    used = {shard.file for shards in found.shards.values() for shard in shards}
    for name in sorted(present - expected.keys() - {MANIFEST}):
        if name not in used:
            notes.append(f"{escape(name)} is not part of the dataset, and not read")
    return found


def _shards(
    directory: str, split: SplitInfo, present: set[str], by_content: Mapping[FileInfo, list[str]], notes: list[str]
) -> list[Remnant]:
    """Each shard's file: the one that holds exactly its bytes, whatever its name, else the one of its name."""
    shards: list[Remnant] = []
    for number, info in enumerate(split.shards):
        name = split.stem(number) + RECORD_SUFFIX
        same = by_content.get(info.data, [])
        offsets = _offsets(directory, split, number)
        if same:
            file = name if name in same else same[0]
            if file != name:
                notes.append(f"{name} is what {file} holds")
            shards.append(Remnant(file, True, info.records, offsets))
        else:
            there = name in present and os.path.isfile(os.path.join(directory, name))
            shards.append(Remnant(name if there else None, False, info.records, offsets))
    return shards


def _offsets(directory: str, split: SplitInfo, number: int) -> np.ndarray | None:
    info = split.shards[number]
    path = os.path.join(directory, split.stem(number) + INDEX_SUFFIX)
    data = _read(path)
    if data is None or FileInfo.of(data) != info.index:
        return None
    return Index.parse(data, path).offsets


def _labels(directory: str, manifest: Manifest, split: SplitInfo) -> np.ndarray | None:
    info = split.columns.get(LABEL)
    path = os.path.join(directory, column_name(split.name, LABEL))
    names = manifest.schema.class_names.get(LABEL)
    data = _read(path) if info and names else None
    if not names or data is None or FileInfo.of(data) != info:
        return None
    return parse_column(data, split.records, len(names), path)


def _without_manifest(directory: str, present: set[str], notes: list[str]) -> Remnants:
    splits = find_splits(directory, sorted(name for name in present if os.path.isfile(os.path.join(directory, name))))
    if not splits:
        raise UsageError(directory, "no shard in it, by the names of its files", "give the directory of a dataset")
    lengths = _shard_lengths(directory)
    shards: dict[str, list[Remnant]] = {}
    for split in splits:
        told = lengths.get(split.name, [])
        counts: list[int | None] = [*told] if len(told) == len(split.files) else [None] * len(split.files)
        shards[split.name] = [Remnant(file, records=n) for file, n in zip(split.files, counts, strict=True)]
    return Remnants(directory, None, shards, notes=notes)


def _shard_lengths(directory: str) -> dict[str, list[int]]:
    """Records of each shard as TFDS's dataset_info.json says, by split; empty where it cannot be read."""
    value: Any = _json(os.path.join(directory, "dataset_info.json"))
    try:
        lengths = {str(split["name"]): [int(n) for n in split["shardLengths"]] for split in value["splits"]}
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}
    # Nothing vouches for these numbers, and of every record that is lost something is kept.
    return {name: counts for name, counts in lengths.items() if all(0 <= n <= _MOST_RECORDS for n in counts)}


def names_beside(directory: str, key: str) -> tuple[str, ...] | None:
    """The class names in the file that TFDS reads them from; None where there is none, or it cannot be right."""
    data = _read(os.path.join(directory, label_names_file(key)))
    try:
        names = tuple((data or b"").decode().split("\n"))
    except UnicodeDecodeError:
        return None
    names, end = names[:-1], names[-1]
    return names if names and not end and all(map(is_plain, names)) and len(set(names)) == len(names) else None


def ragged_beside(directory: str) -> set[str]:
    """The features that TFDS's features.json says are sequences; empty where it cannot be read."""
    try:
        features = _json(os.path.join(directory, "features.json"))["featuresDict"]["features"]
        return {key for key, value in features.items() if value["pythonClassName"].endswith(".Sequence")}
    except (KeyError, TypeError, AttributeError):
        return set()


def _json(path: str) -> Any:
    try:
        return json.loads(_read(path) or b"null")
    except (ValueError, RecursionError):
        return None


def _read(path: str) -> bytes | None:
    """A side file's content; None where it is not there, or is larger than any."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return data if len(data) <= _MOST_BYTES else None
