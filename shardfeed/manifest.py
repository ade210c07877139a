"""manifest.json: the authority on a dataset. Written last; its presence means the dataset is complete.

Readers find files through it, never by glob. It is canonical JSON (the bytes are a function of the content) with a
CRC-32C of itself, so that any changed byte is detected. It holds neither times nor absolute paths: the same inputs give
the same file.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardfeed.errors import IntegrityError, NewerFormatError, ShardfeedError, UsageError, escape, name_bytes
from shardfeed.formats.format import ShardFormat, ShardInfo
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.naming import (
    CONTAINERS_VERSION,
    FORMAT_VERSION,
    MANIFEST,
    check_split_name,
    column_file,
    index_file,
    shard_file,
)
from shardfeed.schema import Schema
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.storage import LOCAL, FileInfo, Storage, whole

_REMEDY = "restore the file from a copy, or `shardfeed salvage DIR OUT` makes a dataset without it"
_CRC = re.compile(r"[0-9a-f]{8}\Z")
_SHOWN = 200  # characters of a faulty value in a message: a damaged manifest may hold any text


@dataclass(frozen=True)
class SplitInfo:
    """One split's shards in order, and the schema and class counts of its records.

    `class_counts[key][v]`: records (values, for ragged features) whose label feature `key` is `v`.
    `formats`: records by `image/format`; empty when unknown.
    `columns`: feature -> its column (see column.py); features without one are read from the records.
    `version`: number of the format on disk, which determines the files' locations. `format`: name of the shard format.
    """

    name: str
    shards: tuple[ShardInfo, ...]
    class_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    formats: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, FileInfo] = field(default_factory=dict)
    version: int = FORMAT_VERSION
    format: str = NATIVE.name

    @property
    def shard_format(self) -> ShardFormat:
        """The format that reads and writes the shards."""
        return FORMATS[self.format]

    @property
    def records(self) -> int:
        """Records in all shards."""
        return sum(shard.records for shard in self.shards)

    @property
    def size(self) -> int:
        """Bytes of all shards, without their indexes."""
        return sum(shard.data.size for shard in self.shards)

    def shard_file(self, shard: int) -> str:
        """The file of a shard, relative to the dataset's directory, like the two below."""
        return shard_file(self.name, shard, len(self.shards), self.format)

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
        rest = _canonical(content)
        # "crc32c" is the first of the sorted keys, so the rest is serialised only once.
        return b'{\n "crc32c": "%08x",' % crc32c(rest) + rest[1:]


def version_of(format: str) -> int:
    """Return the version of the format on disk for a new dataset with this shard format."""
    return FORMAT_VERSION if format == NATIVE.name else CONTAINERS_VERSION


def _canonical(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n").encode()


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


def _split_from_json(name: str, value: Mapping[str, Any], version: int, format: str) -> SplitInfo:
    shards = tuple(
        ShardInfo(
            _count(shard["records"]),
            _file_from_json(shard),
            FileInfo(_count(shard["index_bytes"]), _crc(shard["index_crc32c"])),
        )
        for shard in value["shards"]
    )
    for shard in shards:
        # Memory for these records is only allocated with files that hold them: sizes are compared when opening.
        if not FORMATS[format].may_hold(shard):
            raise ValueError(f"{shard.records} records do not match the sizes of a shard of {name}")
    counts = {key: tuple(map(_count, values)) for key, values in value["class_counts"].items()}
    columns = {key: _file_from_json(file) for key, file in value.get("columns", {}).items()}
    split = SplitInfo(check_split_name(name), shards, counts, _counts(value["formats"]), columns, version, format)
    _count(split.size)
    return split


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


def _file_name(value: str) -> str:
    parts = value.split("/")
    name_bytes(value)  # raises if no file can have this name
    if value == MANIFEST or "\0" in value or len(parts) > 2 or {"", ".", ".."}.intersection(parts):
        raise ValueError(f"{value!r} is not the name of a file in the dataset directory")
    return value


def _is_sound(content: dict[str, Any]) -> bool:
    """Whether a manifest of any version has the checksum of its content."""
    rest = {key: value for key, value in content.items() if key != "crc32c"}
    return content.get("crc32c") == f"{crc32c(_canonical(rest)):08x}"


def parse_manifest(data: bytes, place: object) -> Manifest:
    """Parse a manifest; `place` names the file in errors.

    Raises IntegrityError if it is truncated, changed in any byte, or of an unknown format version. A version counts as
    newer only if the checksum is right: otherwise it may be a changed digit.
    """
    try:
        content = json.loads(data)
        version = content["format_version"]
        format = content.get("shard_format", NATIVE.name)
        readable = version_of(format) if format in FORMATS else 0
        if type(version) is int and version > readable and _is_sound(content):
            shards = "" if format == NATIVE.name else f" with shards in {escape(format)}"
            problem = f"format version {version}{shards}, this release reads {readable or CONTAINERS_VERSION}"
            raise NewerFormatError(place, problem, "install a newer shardfeed")
        if type(version) is not int or version < 1:
            raise ValueError(f"{version!r} is not a format version")
        manifest = Manifest(
            name=_text(content["name"]),
            schema=Schema.from_json(content["features"]),
            splits={name: _split_from_json(name, value, version, format) for name, value in content["splits"].items()},
            sidecars={_file_name(name): _file_from_json(value) for name, value in content["sidecars"].items()},
            fingerprint=_text(content["fingerprint"]),
            options=content["options"],
            rejected=_counts(content["rejected"]),
            made_by={key: _text(value) for key, value in content["made_by"].items()},
            version=version,
            format=format,
        )
        whole = manifest.to_bytes() == data
    except IntegrityError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ShardfeedError) as error:
        problem = f"not a manifest: {type(error).__name__}: {escape(error)[:_SHOWN]}"
        raise IntegrityError(place, problem, _REMEDY) from None
    if not whole:
        raise IntegrityError(place, "changed since it was written: its checksum does not match", _REMEDY)
    return manifest


def has_manifest(directory: str) -> bool:
    """Whether a directory contains a shardfeed manifest, damaged or not: other programs use the name, too.

    Raises StorageError if it cannot be read.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        data = whole(LOCAL.open(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return any(word in data for word in (b'"format_version"', b'"fingerprint"', b'"crc32c"'))


def read_manifest(directory: str, storage: Storage = LOCAL) -> Manifest:
    """Read the manifest of a dataset directory.

    Raises UsageError if there is none (not a dataset, or an unfinished conversion), IntegrityError as `parse_manifest`.
    """
    path = os.path.join(directory, MANIFEST)
    try:
        data = whole(storage.open(path))
    except (FileNotFoundError, NotADirectoryError):
        what = f"no {MANIFEST} in it" if _is_directory(directory, storage) else "no such directory"
        raise UsageError(
            directory, f"not a dataset: {what}", "give the directory of a completed `shardfeed convert`"
        ) from None
    return parse_manifest(data, path)


def _is_directory(path: str, storage: Storage) -> bool:
    try:
        storage.entries(path)
    except OSError:
        return False
    return True
