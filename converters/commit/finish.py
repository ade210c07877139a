"""What every way of making a dataset ends with: label columns, sidecars and the manifest, written beside its shards."""

import hashlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.commit.tfds_view import tfds_files
from shardfeed.converters.existing.tally import ShardTally, image_options
from shardfeed.converters.shards.write_shard import Receipt
from shardfeed.errors import OutputExistsError, StorageError, UsageError
from shardfeed.label_column import column_header, column_keys, column_name
from shardfeed.manifest import FileInfo, Manifest, SplitInfo
from shardfeed.naming import MANIFEST
from shardfeed.schema import ENCODED, Schema
from shardfeed.storage.local import Lock, NewFile, make_directory, publish, remove_file, remove_tree, write_file


@contextmanager
def new_dataset(out: str) -> Iterator[str]:
    """A directory to build a dataset in, which becomes `out` (absolute) by one rename when the block ends.

    When it ends by an exception, nothing stays. What a run that was killed left is removed by the next one. Raises
    UsageError, OutputExistsError, StorageError where `out` cannot be created, BusyError where another run makes it.
    """
    check_new_output(out)
    parent, name = os.path.split(out)
    building = os.path.join(parent, f".{name}.building")
    lock = Lock(Staging(out).lock, owner())
    try:
        check_new_output(out)  # another run may have made it since
        remove_tree(building)
        make_directory(building)
        try:
            yield building
            _publish(building, out)
        except BaseException:
            with suppress(StorageError):
                remove_tree(building)
            raise
    finally:
        lock.release()


def _publish(building: str, out: str) -> None:
    """As `publish`, with an error of its own where the name is there already: the same command could not run again."""
    try:
        publish(building, out)
    except StorageError as error:
        if os.path.lexists(building) or not os.path.lexists(out):
            raise
        problem = f"is complete, but a power cut now may lose its name: {error.problem}"
        raise StorageError(out, problem, "look after the disk; `sync` and `shardfeed verify` say more") from error


def owner() -> str:
    """What a lock says of its owner."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def check_new_output(out: str) -> None:
    """Raises UsageError, OutputExistsError or StorageError where the directory `out` (absolute) cannot be created."""
    if os.path.lexists(out):
        raise OutputExistsError(out, "exists already", "choose another name")
    check_parent(out)


def check_parent(out: str) -> None:
    """Raises UsageError or StorageError where nothing can be created beside `out` (absolute)."""
    parent = os.path.dirname(out)
    if not os.path.isdir(parent):
        raise UsageError(out, "its parent directory does not exist", f"create {parent} first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(parent, "cannot be written", "choose another place, or change its permissions")


def split_info(directory: str, name: str, schema: Schema, receipts: Sequence[Receipt]) -> SplitInfo:
    """What the manifest says of a split, by the receipts of its shards in order; its label columns are written."""
    counts: dict[str, list[int]] = {}
    formats: dict[str, int] = {}
    for receipt in receipts:
        for key, values in receipt.class_counts.items():
            totals = counts.setdefault(key, [0] * len(values))
            totals[:] = [a + b for a, b in zip(totals, values, strict=True)]
        for kind, number in receipt.formats.items():
            formats[kind] = formats.get(kind, 0) + number
    shards = tuple(receipt.info for receipt in receipts)
    columns = _write_columns(directory, name, schema, receipts)
    return SplitInfo(name, shards, {key: tuple(values) for key, values in counts.items()}, formats, columns)


def _write_columns(directory: str, split: str, schema: Schema, receipts: Sequence[Receipt]) -> dict[str, FileInfo]:
    """The label columns of a split, put together from its shards'; none for a split without records."""
    records = sum(receipt.info.records for receipt in receipts)
    columns: dict[str, FileInfo] = {}
    for key in column_keys(split, schema) if records else ():
        with NewFile(os.path.join(directory, column_name(split, key))) as file:
            file.write([column_header(records)])
            for receipt in receipts:
                file.write([receipt.columns[key]])
        columns[key] = FileInfo(file.size, file.crc32c)
    return columns


def shards_fingerprint(how: bytes, shards: Mapping[str, Sequence[FileInfo]]) -> str:
    """The manifest's fingerprint of a dataset that no plan made: of `how`, and of each split's shards in order."""
    digest = hashlib.blake2b(how, digest_size=16)
    for split, of_split in sorted(shards.items()):
        digest.update(split.encode())
        for info in of_split:
            digest.update(struct.pack("<QI", info.size, info.crc32c))
    return digest.hexdigest()


def tfds_view(
    name: str, schema: Schema, splits: Mapping[str, SplitInfo], tallies: Iterable[ShardTally]
) -> dict[str, bytes]:
    """TFDS's files by the records that were met; none where a record may have no image, or several.

    TFDS has no feature for those.
    """
    encoded = schema.features.get(ENCODED)
    if encoded is not None and (encoded.ragged or encoded.dtype != "bytes"):
        return {}
    return tfds_files(name, schema, splits, image_options(tallies))


def stage_manifest(
    directory: str,
    *,
    name: str,
    schema: Schema,
    splits: Mapping[str, SplitInfo],
    sidecars: Mapping[str, bytes],
    fingerprint: str,
    options: Mapping[str, Any],
    rejected: Mapping[str, int],
    made_by: Mapping[str, str],
    kept: Mapping[str, FileInfo] | None = None,
) -> Manifest:
    """Write sidecars and manifest into `directory`, where the shards, indexes and columns are.

    `kept`: files that are there and become sidecars as they are. Without it the directory is ours alone: whatever is
    not part of the dataset is removed.
    """
    infos = {file: FileInfo(*write_file(os.path.join(directory, file), data)) for file, data in sidecars.items()}
    manifest = Manifest(name, schema, splits, {**(kept or {}), **infos}, fingerprint, options, rejected, made_by)
    if kept is None:
        for file in set(os.listdir(directory)) - manifest.files().keys():
            remove_file(os.path.join(directory, file))
    write_file(os.path.join(directory, MANIFEST), manifest.to_bytes())
    return manifest
