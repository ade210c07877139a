"""manifest.json: the authority on a dataset. Written last; its presence means the dataset is complete.

Readers find files through it, never by glob. It is canonical JSON (the bytes are a function of the content) with a
CRC-32C of itself, so that any changed byte is detected. It holds neither times nor absolute paths: the same inputs give
the same file. Opening compares the checksum of the bytes; `verify` also compares them with the bytes that the content
should have.
"""

import json
import os
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from shardfeed.errors import (
    IntegrityError,
    NewerFormatError,
    StorageError,
    UsageError,
    escape,
    name_bytes,
)
from shardfeed.formats.format import ShardFormat
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.naming import CONTAINERS_VERSION, FORMAT_VERSION, MANIFEST, check_split_name, column_file, index_file
from shardfeed.read_back import READERS_ERRORS, unwritable
from shardfeed.schema import Schema
from shardfeed.shard_table import ShardTable, checksum_problem, manifest_text, take_shards
from shardfeed.storage.local import storage_error, write_file
from shardfeed.storage.storage import LOCAL, FileInfo, Storage, open_side_file

_REMEDY = "restore the file from a copy, or `shardfeed salvage DIR OUT` makes a dataset without it"
_CORRECT = "correct the source that gave this value, and run the same command again"
_CRC = re.compile(r"[0-9a-f]{8}\Z")
_Read = TypeVar("_Read")
_SHOWN = 200  # characters of a faulty value in a message: a damaged manifest may hold any text


@dataclass(frozen=True)
class SplitInfo:
    """One split's shards in order, and the schema and class counts of its records.

    `class_counts[key][v]`: records (values, for ragged features) whose label feature `key` is `v`.
    `formats`: records by `image/format`; empty when unknown.
    `columns`: feature -> its column (see column.py); features without one are read from the records.
    `version`: number of the format on disk, which determines the files' locations. `format`: name of the shard format.
    `checked`: whether all images were decoded when they were stored, by the manifest's options.
    """

    name: str
    shards: ShardTable
    class_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    formats: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, FileInfo] = field(default_factory=dict)
    version: int = FORMAT_VERSION
    format: str = NATIVE.name
    checked: bool = False

    @property
    def shard_format(self) -> ShardFormat:
        """The format that reads and writes the shards."""
        return FORMATS[self.format]

    @property
    def records(self) -> int:
        """Records in all shards."""
        return int(self.shards.records.sum())

    @property
    def size(self) -> int:
        """Bytes of all shards, without their indexes."""
        return int(self.shards.sizes.sum())

    def shard_file(self, shard: int) -> str:
        """The file of a shard, relative to the dataset's directory, like the two below."""
        return self.shard_format.shard_file(self.name, shard, len(self.shards))

    def index_file(self, shard: int) -> str:
        """The index of a shard."""
        return index_file(self.name, shard, len(self.shards), self.version, self.format)

    def column_file(self, key: str) -> str:
        """The column of a feature."""
        return column_file(self.name, key, self.version)


@dataclass(frozen=True)
class Manifest:
    """The content of a dataset's manifest.

    `sidecars`: every other file of the directory by name (TFDS's view, the rejected list).
    `fingerprint`: a hash of the plan: inputs (key, size) and every option that changes bytes; 32 hex digits. `options`:
    the options that made it, as given; `made_by`: versions of the packages that decide its bytes. `rejected`: inputs
    that were left out, by code. `version`, `format`: the version of the format on disk and the name of the shard
    format, the same in all splits.
    """

    name: str
    schema: Schema
    splits: Mapping[str, SplitInfo]
    sidecars: Mapping[str, FileInfo]
    fingerprint: str
    options: Mapping[str, Any]
    rejected: Mapping[str, int]
    made_by: Mapping[str, str]
    version: int = FORMAT_VERSION
    format: str = NATIVE.name

    def files(self) -> dict[str, FileInfo]:
        """Every file of the dataset except the manifest itself, by name."""
        files = dict(self.sidecars)
        for split in self.splits.values():
            for number, shard in enumerate(split.shards):
                files[split.shard_file(number)] = shard.data
                files[split.index_file(number)] = shard.index
            files |= {split.column_file(key): file for key, file in split.columns.items()}
        return files

    def sizes(self) -> dict[str, int]:
        """Bytes of every shard and index, by name."""
        sizes: dict[str, int] = {}
        for split in self.splits.values():
            numbers = range(len(split.shards))
            sizes |= zip(map(split.shard_file, numbers), split.shards.sizes.tolist(), strict=True)
            sizes |= zip(map(split.index_file, numbers), split.shards.index_sizes.tolist(), strict=True)
        return sizes

    def folders(self) -> list[str]:
        """The subfolders that contain files of the dataset, sorted."""
        return sorted({os.path.dirname(name) for name in self.files()} - {""})

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        content = {
            "format_version": self.version,
            "name": self.name,
            "features": self.schema.to_json(),
            "splits": {name: _split_to_json(split) for name, split in self.splits.items()},
            "sidecars": {name: _file_to_json(file) for name, file in self.sidecars.items()},
            "fingerprint": self.fingerprint,
            "options": dict(self.options),
            "rejected": dict(self.rejected),
            "made_by": dict(self.made_by),
        }
        if self.format != NATIVE.name:  # left out for the default, so that older manifests keep their bytes
            content["shard_format"] = self.format
        return manifest_text(content)


def version_of(format: str) -> int:
    """Return the version of the format on disk for a new dataset with this shard format."""
    return FORMAT_VERSION if format == NATIVE.name else CONTAINERS_VERSION


def _file_to_json(file: FileInfo) -> dict[str, Any]:
    return {"bytes": file.size, "crc32c": f"{file.crc32c:08x}"}


def _file_from_json(value: Mapping[str, Any]) -> FileInfo:
    return FileInfo(_count(value["bytes"]), _crc(value["crc32c"]))


def _split_to_json(split: SplitInfo) -> dict[str, Any]:
    shards = [
        {
            "file": split.shard_file(number),
            "records": shard.records,
            **_file_to_json(shard.data),
            "index_bytes": shard.index.size,
            "index_crc32c": f"{shard.index.crc32c:08x}",
        }
        for number, shard in enumerate(split.shards)
    ]
    content = {
        "records": split.records,
        "bytes": split.size,
        "class_counts": {key: list(counts) for key, counts in split.class_counts.items()},
        "formats": dict(split.formats),
        "shards": shards,
    }
    if split.columns:  # datasets that were made before there were columns keep their manifest's bytes
        content["columns"] = {
            key: {"file": split.column_file(key), **_file_to_json(file)} for key, file in split.columns.items()
        }
    return content


def _split_from_json(name: str, value: Mapping[str, Any], shards: ShardTable, version: int, format: str) -> SplitInfo:
    # Memory for these records is only allocated with files that hold them: sizes are compared when opening.
    if not FORMATS[format].may_hold(shards.records, shards.sizes, shards.index_sizes).all():
        raise ValueError(f"the numbers of records do not match the sizes of the shards of {name}")
    _count(sum(shards.sizes.tolist()))
    counts = {key: tuple(map(_count, values)) for key, values in value["class_counts"].items()}
    columns = {key: _file_from_json(file) for key, file in value.get("columns", {}).items()}
    return SplitInfo(check_split_name(name), shards, counts, _counts(value["formats"]), columns, version, format)


def _check_class_counts(split: SplitInfo, schema: Schema) -> None:
    """Raise ValueError unless the counts of classes fit the class names and the records of the split."""
    for key, counts in split.class_counts.items():
        place = f"class_counts of {key!r} in {split.name}"
        if key not in schema.class_names:
            raise ValueError(f"{place}: no feature with class names, expected one of {[*schema.class_names]}")
        if len(counts) != (classes := len(schema.class_names[key])):
            raise ValueError(f"{place}: {len(counts)} counts, expected {classes}, one for each class name")
        is_single = schema.features[key].shape == ()
        if is_single and sum(counts) > split.records:  # a ragged feature has several values in a record
            raise ValueError(f"{place}: their sum is {sum(counts)}, expected at most {split.records}, its records")


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not a count")
    return value


def _counts(value: Mapping[str, Any]) -> dict[str, int]:
    return {key: _count(count) for key, count in value.items()}


def _crc(value: Any) -> int:
    if not _CRC.match(value):
        raise ValueError(f"{value!r} is not a CRC-32C")
    return int(value, 16)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(text) for key, text in value.items()}


def _files(value: Mapping[str, Any]) -> dict[str, FileInfo]:
    return {_file_name(name): _file_from_json(file) for name, file in value.items()}


def _file_name(value: str) -> str:
    parts = value.split("/")
    name_bytes(value)  # raises if no file can have this name
    if value == MANIFEST or "\0" in value or len(parts) > 2 or {"", ".", ".."}.intersection(parts):
        raise ValueError(f"{value!r} is not the name of a file in the dataset directory")
    return value


def parse_manifest(data: bytes, place: object, *, exact: bool = False) -> Manifest:
    """Parse a manifest; `place` names the file in errors.

    `exact`: compare its bytes with the bytes that its content should have, besides their checksum.

    Raises IntegrityError if it is truncated, changed in any byte, or of an unknown format version. A version counts as
    newer only if the checksum is right: otherwise it may be a changed digit.
    """
    if problem := checksum_problem(data):
        raise IntegrityError(place, problem, _REMEDY)
    content = _Content()
    try:
        manifest = _parsed(data, content, place)
        same = not exact or manifest.to_bytes() == data
    except IntegrityError:
        raise
    except READERS_ERRORS as error:
        field = f"its {content.field}: " if content.field else ""
        problem = f"not a manifest: {field}{type(error).__name__}: {escape(error)[:_SHOWN]}"
        raise IntegrityError(place, problem, _REMEDY) from None
    if not same:
        raise IntegrityError(place, "changed since it was written: its content belongs in other bytes", _REMEDY)
    return manifest


class _Content:
    """The JSON of a manifest. `field`: the one that is being read, for messages; "" while there is none."""

    def __init__(self) -> None:
        self.values: Mapping[str, Any] = {}
        self.field = ""

    def read(self, field: str, reader: Callable[[Any], _Read]) -> _Read:
        self.field = field
        return reader(self.values[field])


def _parsed(data: bytes, content: _Content, place: object) -> Manifest:
    """The manifest in bytes whose checksum is right. Raises NewerFormatError, and READERS_ERRORS."""
    rest, tables = take_shards(data)
    content.values = json.loads(rest)
    version, format = _format_of(content, place)

    def splits_of(value: Mapping[str, Any]) -> dict[str, SplitInfo]:
        return {
            name: _split_from_json(name, of_split, shards, version, format)
            for (name, of_split), shards in zip(value.items(), tables, strict=True)
        }

    name, schema = content.read("name", _text), content.read("features", Schema.from_json)
    splits = content.read("splits", splits_of)
    for split in splits.values():
        _check_class_counts(split, schema)
    return Manifest(
        name=name,
        schema=schema,
        splits=splits,
        sidecars=content.read("sidecars", _files),
        fingerprint=content.read("fingerprint", _text),
        options=content.read("options", dict),
        rejected=content.read("rejected", _counts),
        made_by=content.read("made_by", _texts),
        version=version,
        format=format,
    )


def _format_of(content: _Content, place: object) -> tuple[int, str]:
    """The version of the format and the name of the shard format. Raises NewerFormatError, ValueError, KeyError."""
    version = content.read("format_version", _as_it_is)
    format = content.values.get("shard_format", NATIVE.name)
    readable = version_of(format) if format in FORMATS else 0
    if type(version) is int and version > readable:
        shards = "" if format == NATIVE.name else f" with shards in {escape(format)}"
        problem = f"format version {version}{shards}, this release reads {readable or CONTAINERS_VERSION}"
        raise NewerFormatError(place, problem, "install a newer shardfeed")
    if type(version) is not int or version < 1:
        raise ValueError(f"{version!r} is not a format version")
    return version, format


def written_manifest(manifest: Manifest, place: object = MANIFEST) -> bytes:
    """The bytes of a manifest for a file, which `parse_manifest` has read back.

    This is the only way to a manifest's file. Raises UsageError, which names the field, for a manifest that no reader
    would open: a source of one's own may have given anything.
    """
    try:
        data = manifest.to_bytes()
    except READERS_ERRORS as error:
        entry = unwritable(vars(manifest) | dict.fromkeys(("schema", "splits", "sidecars")))
        problem = f"its {entry or 'schema'} cannot be written as JSON: {type(error).__name__}: {escape(error)[:_SHOWN]}"
        raise UsageError(place, problem, _CORRECT) from None
    try:
        parse_manifest(data, place, exact=True)
    except IntegrityError as error:
        raise UsageError(place, f"nobody could open the dataset: {error.problem}", _CORRECT) from None
    return data


def write_manifest(directory: str, manifest: Manifest) -> None:
    """Write the manifest of a dataset directory, which completes it. Raises StorageError; as `written_manifest`."""
    path = os.path.join(directory, MANIFEST)
    write_file(path, written_manifest(manifest, path))


def has_manifest(directory: str) -> bool:
    """Whether a directory contains a shardfeed manifest, damaged or not: other programs use the name, too.

    Raises StorageError if it cannot be read.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        _, data = open_side_file(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return any(word in data for word in (b'"format_version"', b'"fingerprint"', b'"crc32c"'))


def read_manifest(directory: str, storage: Storage = LOCAL, *, exact: bool = False) -> Manifest:
    """Read the manifest of a dataset directory; `exact` as for `parse_manifest`.

    Raises UsageError if there is none (not a dataset, or an unfinished conversion), IntegrityError as `parse_manifest`.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        file, data = open_side_file(path, storage)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if isinstance(error, IsADirectoryError):
            what = f"its {MANIFEST} is a directory"
        else:
            what = f"no {MANIFEST} in it" if _is_directory(directory, storage) else "no such directory"
        problem = f"not a dataset: {what}"
        raise UsageError(directory, problem, "give the directory of a completed `shardfeed convert`") from None
    manifest = parse_manifest(data, path, exact=exact)
    for name, split in manifest.splits.items():
        split.shards.found_in(SplitOfManifest(directory, name, storage), file.version)
    return manifest


@dataclass(frozen=True)
class SplitOfManifest:
    """A split in the manifest of a directory: see `StoredTable`."""

    directory: str
    split: str
    storage: Storage

    def version(self) -> Hashable:
        """The current version of the manifest; None if there is none."""
        try:
            return self.storage.version(os.path.join(self.directory, MANIFEST))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, digest: bytes) -> tuple[np.ndarray, Hashable]:
        """Read the rows of the table with this digest, and the version of the manifest. Raises IntegrityError."""
        try:
            file, data = open_side_file(os.path.join(self.directory, MANIFEST), self.storage)
        except (FileNotFoundError, NotADirectoryError):
            problem = "its manifest was deleted since it was opened"
            raise IntegrityError(self.directory, problem, "open it again") from None
        found = parse_manifest(data, file.path).splits.get(self.split)
        if found is None or found.shards.digest != digest:
            raise IntegrityError(self.directory, "replaced by another dataset since it was opened", "open it again")
        return found.shards.rows, file.version


def _is_directory(path: str, storage: Storage) -> bool:
    try:
        storage.entries(path)
    except OSError:
        return False
    return True
