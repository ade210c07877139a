"""Verification of a dataset against its manifest: every file, every byte, and optionally every record.

A file with the size and CRC-32C of the manifest is unchanged. Only if they differ are its records read one by one, to
name the shard, the record and the offset of the damage.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from errno import ENOENT
from io import UnsupportedOperation

from shardfeed.declared import checked
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, escape
from shardfeed.formats.format import Walked
from shardfeed.manifest import SplitInfo, read_manifest
from shardfeed.naming import CARD, CROISSANT, MANIFEST, is_dataset_file, is_shard
from shardfeed.readers.shards import open_shard, read_view
from shardfeed.storage.address import located
from shardfeed.storage.storage import LOCAL, FileInfo, Storage, not_a_file, sizes_by_name

_DAMAGES_SHOWN = 20  # damaged records listed for one shard before they are only counted


@dataclass(frozen=True)
class Damage:
    """One finding: the file's name, the problem, and for a record its number in the shard and offset in bytes."""

    file: str
    problem: str
    record: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.record is None else f", record {self.record}, offset {self.offset}"
        return f"{escape(self.file)}{where}: {self.problem}"


@dataclass
class Verified:
    """Result of a verification: counts of what was checked, and `damages`, which is empty if nothing has changed.

    `strangers`: names of other files in the directory (a README, .DS_Store). They are not damage, as no reader opens
    them; an extra file with a name that a conversion could make is.
    """

    files: int = 0
    records: int = 0
    bytes: int = 0
    damages: list[Damage] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)


@checked
def verify(
    path: str | os.PathLike[str],
    check_record: Callable[[bytes], object] | None = None,
    progress: Callable[[int], object] = lambda size: None,
    storage: Storage = LOCAL,
) -> Verified:
    """Read every byte of a dataset and compare it with the manifest.

    `check_record` is called with each record's payload (`--deep`); a ShardfeedError that it raises is reported as
    damage to that record. `progress` is called with the size of each file in bytes once the file is read. Raises
    UsageError if `path` is not a dataset, StorageError when a file cannot be read. A damaged manifest is reported in
    the result, without further checks.

    Example:
        for damage in verify("flowers").damages:
            print(damage)
    """
    storage, directory = located(path, storage)
    result = Verified()
    try:
        manifest = read_manifest(directory, storage, exact=True)
    except IntegrityError as error:
        result.damages.append(Damage(MANIFEST, error.problem))
        return result
    expected = manifest.files()
    try:
        found = sizes_by_name(storage, directory, sorted({os.path.dirname(name) for name in expected} - {""}))
    except UnsupportedOperation:  # a web server: each file is requested
        found = {name: file.size for name, file in expected.items()}
    present = found.keys() - {MANIFEST}
    result.damages += [Damage(name, "missing") for name in sorted(expected.keys() - present)]
    for name in sorted(present - expected.keys()):
        if is_dataset_file(name):
            result.damages.append(Damage(name, "not part of the dataset"))
        elif name != CROISSANT and (name != CARD or CROISSANT not in present):
            result.strangers.append(name)
    strange = {name for name in expected.keys() & present if found[name] < 0}
    result.damages += [Damage(name, not_a_file(directory, name)) for name in sorted(strange)]
    present -= strange  # opening a pipe would block
    damaged: set[str] = set()
    for name in sorted(expected.keys() & present):
        try:
            info = FileInfo.of_file(os.path.join(directory, name), storage)
        except StorageError as error:
            if error.errno != ENOENT:
                raise
            result.damages.append(Damage(name, "missing"))  # a storage without listings does not report it
            present.discard(name)
            continue
        result.files += 1
        result.bytes += info.size
        progress(info.size)
        if info != expected[name]:
            damaged.add(name)
            if not is_shard(name):
                result.damages.append(Damage(name, expected[name].difference(info)))
    for split in manifest.splits.values():
        for shard, info in enumerate(split.shards):
            name = split.shard_file(shard)
            if name not in present:
                continue
            result.records += info.records
            if name in damaged:
                result.damages += _locate(directory, split, shard, storage)
            elif check_record is not None:
                result.damages += _check_records(directory, split, shard, storage, check_record)
    return result


def _locate(directory: str, split: SplitInfo, shard: int, storage: Storage) -> list[Damage]:
    """The damaged records of a shard whose checksum is wrong."""
    name = split.shard_file(shard)
    path = os.path.join(directory, name)
    problem = split.shards[shard].data.difference(FileInfo.of_file(path, storage))
    damages = [Damage(name, problem or "changes while it is read")]
    try:
        for _, record, offset, error in _walk(directory, split, shard, storage):
            if error is not None:
                damages.append(Damage(name, error.problem, record, offset))
    except IntegrityError as error:  # another file in a bucket: its records are not those of the manifest
        damages += [Damage(name, error.problem)] if error.problem != problem else []
    if len(damages) > _DAMAGES_SHOWN:
        more = len(damages) - _DAMAGES_SHOWN
        damages = [*damages[:_DAMAGES_SHOWN], Damage(name, f"{more} more damaged records")]
    return damages


def _walk(directory: str, split: SplitInfo, shard: int, storage: Storage) -> Iterator[Walked]:
    """The records of a shard, including damaged ones; by the index, if that is intact."""
    try:
        view = read_view(directory, split, shard, storage)
    except (OSError, IntegrityError):
        view = None
    file = open_shard(directory, split, shard, storage)
    return split.shard_format.walk(file, view, split.shards[shard].records)


def _check_records(
    directory: str, split: SplitInfo, shard: int, storage: Storage, check: Callable[[bytes], object]
) -> Iterator[Damage]:
    for payload, record, offset, damage in _walk(directory, split, shard, storage):
        try:
            if damage is not None:
                raise damage
            check(payload)
        except ShardfeedError as error:
            yield Damage(split.shard_file(shard), error.problem, record, offset)
