"""Whether a dataset still is what its manifest says: every file, every byte, and with a check every record.

A file whose size and CRC-32C are the manifest's is as it was written. Only where they differ are the records walked,
to name the shard, the record and the offset of the damage.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shardfeed.errors import IntegrityError, ShardfeedError, escape
from shardfeed.formats.tfrecord.scan import walk_records
from shardfeed.manifest import FileInfo, SplitInfo, read_manifest
from shardfeed.naming import INDEX_SUFFIX, MANIFEST, RECORD_SUFFIX
from shardfeed.readers.shards import read_index

_DAMAGES_SHOWN = 20  # damaged records listed for one shard before they are only counted


@dataclass(frozen=True)
class Damage:
    """One finding: the file's name, what is wrong, and for a record its number in the shard and offset in bytes."""

    file: str
    problem: str
    record: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.record is None else f", record {self.record}, offset {self.offset}"
        return f"{escape(self.file)}{where}: {self.problem}"


@dataclass
class Verified:
    """What was looked at, and what was found: `damages` empty means all is as it was written."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    damages: list[Damage] = field(default_factory=list)


def verify(
    path: str | os.PathLike[str],
    check_record: Callable[[bytes], object] | None = None,
    progress: Callable[[int], object] = lambda size: None,
) -> Verified:
    """Read every byte of a dataset and compare it with the manifest.

    `check_record` is called with each record's payload (`--deep`); a ShardfeedError it raises is damage at that record.
    `progress` is called with the bytes of each file when it is done.
    Raises UsageError when `path` is no dataset, StorageError when a file cannot be read. A damaged manifest is in the
    result: nothing else can be said then.
    """
    directory = os.path.abspath(os.fspath(path))
    result = Verified()
    try:
        manifest = read_manifest(directory)
    except IntegrityError as error:
        result.damages.append(Damage(MANIFEST, error.problem))
        return result
    expected = manifest.files()
    present = set(os.listdir(directory)) - {MANIFEST}
    result.damages += [Damage(name, "missing") for name in sorted(expected.keys() - present)]
    result.damages += [Damage(name, "not part of the dataset") for name in sorted(present - expected.keys())]
    strange = {name for name in expected.keys() & present if not os.path.isfile(os.path.join(directory, name))}
    result.damages += [Damage(name, "not a file") for name in sorted(strange)]
    present -= strange  # a pipe would be waited for
    damaged: set[str] = set()
    for name in sorted(expected.keys() & present):
        found = FileInfo.of_file(os.path.join(directory, name))
        result.files += 1
        result.bytes += found.size
        progress(found.size)
        if found != expected[name]:
            damaged.add(name)
            if not name.endswith(RECORD_SUFFIX):
                result.damages.append(Damage(name, expected[name].difference(found)))
    for split in manifest.splits.values():
        for shard, info in enumerate(split.shards):
            name = split.stem(shard) + RECORD_SUFFIX
            if name not in present:
                continue
            result.records += info.records
            if name in damaged:
                result.damages += _locate(directory, split, shard)
            elif check_record is not None:
                result.damages += _check_records(directory, split, shard, check_record)
    return result


def _locate(directory: str, split: SplitInfo, shard: int) -> list[Damage]:
    """The damaged records of a shard whose checksum is wrong."""
    name = split.stem(shard) + RECORD_SUFFIX
    path = os.path.join(directory, name)
    damages = [Damage(name, split.shards[shard].data.difference(FileInfo.of_file(path)))]
    for _, record, offset, error in walk_records(path, *_starts(directory, split, shard)):
        if error is not None:
            damages.append(Damage(name, error.problem, record, offset))
    if len(damages) > _DAMAGES_SHOWN:
        more = len(damages) - _DAMAGES_SHOWN
        damages = [*damages[:_DAMAGES_SHOWN], Damage(name, f"{more} more damaged records")]
    return damages


def _starts(directory: str, split: SplitInfo, shard: int) -> tuple[list[int] | None, int]:
    """Offsets of the records by the index, when that is sound, and how many records there should be."""
    try:
        index = read_index(os.path.join(directory, split.stem(shard) + INDEX_SUFFIX), split, shard)
    except (OSError, IntegrityError):
        return None, split.shards[shard].records
    return index.offsets[:-1].tolist(), len(index)


def _check_records(directory: str, split: SplitInfo, shard: int, check: Callable[[bytes], object]) -> Iterator[Damage]:
    name = split.stem(shard) + RECORD_SUFFIX
    for payload, record, offset, damage in walk_records(
        os.path.join(directory, name), *_starts(directory, split, shard)
    ):
        try:
            if damage is not None:
                raise damage
            check(payload)
        except ShardfeedError as error:
            yield Damage(name, error.problem, record, offset)
