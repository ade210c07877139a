"""A dataset without its manifest: shards by the names of files, the schema by the records, counts by TFDS's files."""

import json
import os
from collections.abc import Callable, Collection
from typing import Any

from shardfeed.converters.existing.record_schema import class_names, could_name
from shardfeed.converters.existing.salvage.survivors import SurvivingShard, Survivors, read_side_file
from shardfeed.converters.sources.containers.records.features import FeatureLook
from shardfeed.converters.sources.containers.records.shard_names import find_splits
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.example import decode
from shardfeed.formats.tfrecord.scan import pieces
from shardfeed.naming import label_names_file
from shardfeed.schema import Schema, is_plain
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.local_reading import FileInfo


def unlisted_survivors(
    directory: str, present: Collection[str], note: str, progress: Callable[[int], object]
) -> Survivors:
    """The shards in `directory`; their schema is what all whole records have in common. `note`: what to tell people.

    Class names and which features are sequences come from TFDS's files where they fit. Raises UsageError where no file
    is a shard by its name, StorageError.
    """
    splits = find_splits(directory, sorted(name for name in present if os.path.isfile(os.path.join(directory, name))))
    if not splits:
        raise UsageError(directory, "no shard in it, by the names of its files", "give the directory of a dataset")
    lengths = _shard_lengths(directory)
    look = FeatureLook()
    shards: list[SurvivingShard] = []
    for split in splits:
        told = lengths.get(split.name, [])
        for number, file in enumerate(split.files):
            path = None if file is None else os.path.join(directory, file)
            records = told[number] if len(told) == len(split.files) else None
            content = None if path is None else _content(path, records, look, progress)
            whole = content is not None
            shards.append(SurvivingShard(split.name, number, len(split.files), path, whole, content, records))
    features = look.features(_ragged_beside(directory))
    names = class_names(look)
    for key, feature in features.items():
        beside = _names_beside(directory, key) if feature.dtype == "int64" else None
        if beside is not None and could_name(look, key, beside):
            names[key] = beside
    schema = Schema(features, names).stated()
    return Survivors(schema, None, tuple(split.name for split in splits), shards, notes=[note])


def _content(path: str, records: int | None, look: FeatureLook, progress: Callable[[int], object]) -> FileInfo | None:
    """Of a file in which nothing speaks of damage: all of it are Examples, `records` of them where that is known."""
    size = crc = count = 0
    whole = True
    try:
        for piece in pieces(path):
            progress(piece.end - piece.start)
            if piece.framed is None:
                whole = False
                continue
            try:
                look.add(decode(piece.payload), f"{path}, offset {piece.start}")
            except IntegrityError:
                whole = False
            size += len(piece.framed)
            crc = extend_crc32c(crc, piece.framed)
            count += 1
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return FileInfo(size, crc) if whole and records in (None, count) else None


def _shard_lengths(directory: str) -> dict[str, list[int]]:
    """Records of each shard as TFDS's dataset_info.json says, by split; empty where it cannot be read."""
    value: Any = _json(os.path.join(directory, "dataset_info.json"))
    try:
        lengths = {str(split["name"]): [int(n) for n in split["shardLengths"]] for split in value["splits"]}
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}
    return {name: counts for name, counts in lengths.items() if min(counts, default=0) >= 0}


def _names_beside(directory: str, key: str) -> tuple[str, ...] | None:
    """The class names in the file that TFDS reads them from; None where there is none, or it cannot be right."""
    data = read_side_file(os.path.join(directory, label_names_file(key)))
    try:
        names = tuple((data or b"").decode().split("\n"))
    except UnicodeDecodeError:
        return None
    names, end = names[:-1], names[-1]
    return names if names and not end and all(map(is_plain, names)) and len(set(names)) == len(names) else None


def _ragged_beside(directory: str) -> set[str]:
    """The features that TFDS's features.json says are sequences; empty where it cannot be read."""
    try:
        features = _json(os.path.join(directory, "features.json"))["featuresDict"]["features"]
        return {key for key, value in features.items() if value["pythonClassName"].endswith(".Sequence")}
    except (KeyError, TypeError, AttributeError):
        return set()


def _json(path: str) -> Any:
    try:
        return json.loads(read_side_file(path) or b"null")
    except (ValueError, RecursionError):
        return None
