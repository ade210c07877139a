"""Search a damaged dataset, with or without its manifest, for undamaged shards and for the records in the others."""

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from shardfeed.converters.existing.record_schema import find_schema
from shardfeed.converters.sources.containers.records.features import FeatureLook
from shardfeed.converters.sources.containers.records.shard_names import find_splits
from shardfeed.errors import IntegrityError, NewerFormatError, UsageError, escape
from shardfeed.formats.example import decode
from shardfeed.formats.registry import NATIVE
from shardfeed.formats.tfrecord.scan import Piece, pieces
from shardfeed.manifest import Manifest, parse_manifest
from shardfeed.naming import INDEX_DIRECTORY, MANIFEST, TFDS_FILES, is_shard, label_names_file
from shardfeed.schema import Schema
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import disk_errors, storage_error
from shardfeed.storage.storage import LOCAL, FileInfo, sizes_by_name

_MOST_BYTES = 256 << 20  # of a side file that no checksum vouches for


@dataclass(frozen=True)
class SurvivingShard:
    """Shard `number` of `count` of a split, and the file at `path` that holds its records; None: it is missing.

    `whole`: the file equals `written`, the original shard. `written` and `records`: None if unknown.
    """

    split: str
    number: int
    count: int
    path: str | None
    whole: bool
    written: FileInfo | None
    records: int | None


@dataclass
class Survivors:
    """`manifest`: None if missing or damaged. `shards`: the shards of all `splits`, in order.

    `kept`: content of intact sidecar files. `notes`: remarks for the user.
    """

    schema: Schema
    manifest: Manifest | None
    splits: tuple[str, ...]
    shards: list[SurvivingShard]
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_side_file(path: str) -> bytes | None:
    """Read a side file; None if it is missing, or larger than any can be. Raise StorageError."""
    if not os.path.isfile(path):
        return None
    with disk_errors(path, "read"), open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    return data if len(data) <= _MOST_BYTES else None


def look_for_survivors(directory: str, progress: Callable[[int], object]) -> Survivors:
    """Find what can be recovered of the dataset in `directory`. `progress` is called with bytes read.

    With a manifest, read every shard whose size is in it; without one, all files that are shards by their names. Raise
    UsageError if there is no such file, NewerFormatError, or StorageError.
    """
    try:
        present = set(sizes_by_name(LOCAL, directory, [INDEX_DIRECTORY]))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such directory", "give the directory of a dataset") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error
    path = os.path.join(directory, MANIFEST)
    data = read_side_file(path)
    problem = "is missing"
    try:
        if data is not None:
            manifest = parse_manifest(data, path)
            if manifest.format != NATIVE.name:
                shards = f"its shards are in the format {manifest.format}"
                problem = f"{shards}, whose records cannot be found without an index"
                remedy = "`shardfeed reshard DIR OUT --max-bad N` keeps the intact records"
                remedy += "; if an index is lost, `shardfeed rebuild DIR` shows the next step"
                raise UsageError(directory, problem, remedy)
            return _listed(directory, manifest, present, progress)
    except NewerFormatError:
        raise
    except IntegrityError as error:
        problem = f"is damaged ({error.problem})"
    note = f"{MANIFEST} {problem}: its contents are inferred from the records"
    return unlisted_survivors(directory, present, note, progress)


def _listed(directory: str, manifest: Manifest, present: set[str], progress: Callable[[int], object]) -> Survivors:
    """Find the file of each shard: the one with its bytes, whatever its name; otherwise the one with its name."""
    expected = manifest.files()
    sizes = {info.size for name, info in expected.items() if is_shard(name)}
    by_content: dict[FileInfo, list[str]] = {}
    for name in sorted(present):
        path = os.path.join(directory, name)
        if is_shard(name) and os.path.isfile(path) and os.path.getsize(path) in sizes:
            info = FileInfo.of_file(path)
            by_content.setdefault(info, []).append(name)
            progress(info.size)
    # A file equal to another shard, byte for byte, is not a remainder of the shard that its name claims.
    listed = {info.data for split in manifest.splits.values() for info in split.shards}
    elsewhere = {name for info, names in by_content.items() if info in listed for name in names}
    found = Survivors(manifest.schema, manifest, tuple(manifest.splits), [])
    used: set[str] = set()
    for split in manifest.splits.values():
        for number, info in enumerate(split.shards):
            name = split.shard_file(number)
            same = by_content.get(info.data, [])
            file = name if name in same or not same else same[0]
            if file != name:
                found.notes.append(f"{name} is taken from {escape(file)}")
            used.add(file)
            path = os.path.join(directory, file)
            there = path if os.path.isfile(path) and (same or name not in elsewhere) else None
            shard = SurvivingShard(split.name, number, len(split.shards), there, bool(same), info.data, info.records)
            found.shards.append(shard)
    made_again = TFDS_FILES | {label_names_file(key) for key in manifest.schema.class_names}
    for name in sorted(manifest.sidecars.keys() - made_again):
        data = read_side_file(os.path.join(directory, name))
        if data is not None and FileInfo.of(data) == manifest.sidecars[name]:
            found.kept[name] = data
        else:
            found.notes.append(f"{escape(name)} is missing or damaged, and left out")
    for name in sorted(present - expected.keys() - {MANIFEST} - used):
        found.notes.append(f"{escape(name)} is not part of the dataset, and not read")
    return found


def unlisted_survivors(
    directory: str, present: Collection[str], note: str, progress: Callable[[int], object]
) -> Survivors:
    """Find the shards in `directory`; their schema is what all intact records have in common. `note`: for the user.

    Image, label and class names are those that `adopt` would find; TFDS's files say which features are sequences.
    Raises UsageError if no file has a shard's name, StorageError.
    """
    splits = find_splits(directory, sorted(name for name in present if os.path.isfile(os.path.join(directory, name))))
    if not splits:
        raise UsageError(directory, "no file in it is named like a shard", "give the directory of a dataset")
    lengths = _shard_lengths(directory)
    look = FeatureLook()
    shards: list[SurvivingShard] = []
    for split in splits:
        counts = lengths.get(split.name, [])
        for number, file in enumerate(split.files):
            path = None if file is None else os.path.join(directory, file)
            records = counts[number] if len(counts) == len(split.files) else None
            content = None if path is None else _content(path, records, look, progress)
            whole = content is not None
            shards.append(SurvivingShard(split.name, number, len(split.files), path, whole, content, records))
    found = find_schema(look, directory, splits, ragged=_ragged_beside(directory))
    return Survivors(found.schema, None, tuple(split.name for split in splits), shards, notes=[note])


def pieces_of(path: str) -> Iterator[Piece]:
    """Yield the pieces of a shard's file. Raise StorageError."""
    with disk_errors(path, "read"):
        yield from pieces(path)


def _content(path: str, records: int | None, look: FeatureLook, progress: Callable[[int], object]) -> FileInfo | None:
    """Size and CRC-32C of an undamaged file of Examples, `records` of them if that is known; None if it is damaged."""
    size = crc = count = 0
    whole = True
    for piece in pieces_of(path):
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
    return FileInfo(size, crc) if whole and records in (None, count) else None


def _shard_lengths(directory: str) -> dict[str, list[int]]:
    """Records of each shard from TFDS's dataset_info.json, by split; empty if it cannot be read."""
    value: Any = _json(os.path.join(directory, "dataset_info.json"))
    try:
        lengths = {str(split["name"]): [int(n) for n in split["shardLengths"]] for split in value["splits"]}
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}
    return {name: counts for name, counts in lengths.items() if min(counts, default=0) >= 0}


def _ragged_beside(directory: str) -> set[str]:
    """The features that TFDS's features.json lists as sequences; empty if it cannot be read."""
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
