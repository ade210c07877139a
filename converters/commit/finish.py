"""Last steps of every operation that makes a dataset: write columns, sidecars and the manifest."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shardfeed.column import column_dtype, column_keys, join_columns
from shardfeed.converters.commit.tfds_view import TFDS_FORMATS, tfds_files
from shardfeed.converters.counted_ids import COUNTED_IDS
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.append_target import AppendTarget
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.rejects import NOTHING
from shardfeed.converters.report import Remarks, counts_by_code, noted_lines, unrequested
from shardfeed.converters.shards.task import Receipt, noted_of
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.formats.format import Described
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.manifest import Manifest, SplitInfo, version_of, write_manifest, written_manifest
from shardfeed.naming import (
    CLIPPED,
    INDEX_DIRECTORY,
    LEFT_OUT,
    NORMALISED,
    REJECTED,
    column_file,
    dataset_name,
)
from shardfeed.schema import Schema
from shardfeed.shard_table import ShardTable
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import NewFile, disk_errors, fsync_directory, remove_file, remove_tree, write_file
from shardfeed.storage.storage import LOCAL, FileInfo, sizes_by_name

_PIECE = 1 << 20  # bytes of a column that are held
_FINGERPRINT = re.compile(r"[0-9a-f]{32}\Z")
_SHOWN = 100  # characters of a fingerprint in a message


def check_readable(out: str, plan: Plan) -> None:
    """Check before the first image is converted that readers will open the dataset of a plan.

    `finish` checks the whole manifest, after hours perhaps. What a source of one's own gives is in the plan already:
    the fingerprint, options, features and class names. Raises as `written_manifest`.
    """
    options, format = plan.options.to_json(), plan.options.to
    given = (dataset_name(out), plan.schema, {}, {}, plan.fingerprint, options, {}, plan.made_by)
    written_manifest(Manifest(*given, version_of(format), format), "the dataset's manifest")
    if not _FINGERPRINT.match(plan.fingerprint):  # the manifest's reader takes any text: earlier datasets may have it
        problem = f"got {escape(plan.fingerprint)[:_SHOWN]!r}, expected a hash of 32 hex digits"
        raise UsageError("fingerprint", problem, "leave it out of the source's SourceInfo, or give such a hash")


def finish(out: str, plan: Plan, receipts: Sequence[Receipt], noticed: Remarks, directory: str) -> Manifest:
    """Write columns, sidecars and manifest into `directory`, and remove what is not part of the dataset.

    Raises StorageError, IntegrityError for a dataset that is appended to and has changed, and as `write_manifest`.
    """
    name = dataset_name(out)
    options = plan.options.to_json()
    splits = _splits(plan, receipts, directory)
    lists = _lists(noticed)
    rejected = counts_by_code(noticed.rejected)
    onto = plan.options.onto
    if onto is not None:
        lists = _continued_lists(onto, lists)
        rejected = dict(sorted((Counter(onto.manifest.rejected) + Counter(rejected)).items()))
        options["appended"][-1]["records"] = _new_records(receipts)
    options[COUNTED_IDS] = _counted_splits(plan, splits)
    return stage_manifest(
        directory,
        name=name,
        schema=plan.schema,
        splits=splits,
        sidecars={**_described(name, plan, splits), **lists},
        fingerprint=plan.fingerprint,
        options=options,
        rejected=rejected,
        made_by=plan.made_by,
        format=plan.options.to,
    )


def _splits(plan: Plan, receipts: Sequence[Receipt], directory: str) -> dict[str, SplitInfo]:
    """The entries of all splits in the manifest; writes their columns."""
    onto = plan.options.onto
    earlier = onto.manifest.splits if onto is not None else {}
    splits: dict[str, SplitInfo] = {}
    for name in sorted({*plan.split_sizes(), *earlier}):
        of_split = [receipt for receipt in receipts if receipt.split == name]
        before = Before(onto.directory, earlier[name]) if onto and onto.shards(name) else None
        splits[name] = split_info(directory, name, plan.schema, of_split, plan.options.to, before)
    return splits


def _described(name: str, plan: Plan, splits: Mapping[str, SplitInfo]) -> dict[str, bytes]:
    """The files by which other programs read the dataset."""
    shards = {split: info.shards for split, info in splits.items()}
    described = dict(shard_format(plan.options.to).describe(Described(name, plan.schema, shards)))
    if plan.options.to not in TFDS_FORMATS:
        return described
    image = ImageOptions.from_json(plan.options.to_json())  # as records that are there were stored, too
    return described | tfds_files(name, plan.schema, splits, image, plan.options.to)


def _lists(noticed: Remarks) -> dict[str, bytes]:
    """The lists of what was left out or changed; none that is empty."""
    account = noticed.account or NOTHING
    lists = {
        REJECTED: noticed.rejected,
        NORMALISED: unrequested(noticed.normalised),
        LEFT_OUT: noted_of(account.left_out),
        CLIPPED: noted_of(account.clips),
    }
    return {file: noted_lines(noted) for file, noted in lists.items() if noted}


def _continued_lists(onto: AppendTarget, lists: Mapping[str, bytes]) -> dict[str, bytes]:
    """The lists of a dataset that is appended to, followed by the new ones."""
    continued = dict(lists)
    for file in (REJECTED, NORMALISED, LEFT_OUT, CLIPPED):
        if file in onto.manifest.sidecars:
            continued[file] = onto.content(file, onto.manifest.sidecars[file]) + continued.get(file, b"")
    return continued


def _new_records(receipts: Sequence[Receipt]) -> dict[str, int]:
    """Number of records that were appended to each split."""
    records = Counter[str]()
    for receipt in receipts:
        records[receipt.split] += receipt.info.records
    return dict(records)


def _counted_splits(plan: Plan, splits: Iterable[str]) -> list[str]:
    """The splits in which no record has an id of its source."""
    planned = plan.split_sizes()
    counted = [split for split in splits if split in plan.counted or split not in planned]
    onto = plan.options.onto
    if onto is None:
        return counted
    return [split for split in counted if not onto.shards(split) or split in onto.counted]  # nor one before them


class Before(NamedTuple):
    """A split that is appended to: its dataset's directory, and its entry in the manifest."""

    directory: str
    info: SplitInfo


def split_info(
    directory: str,
    name: str,
    schema: Schema,
    receipts: Sequence[Receipt],
    format: str = NATIVE.name,
    before: Before | None = None,
) -> SplitInfo:
    """Build a split's manifest entry from the receipts of its shards, in order, and write its columns.

    `before`: the existing split to which those shards are appended.
    """
    counts: dict[str, list[int]] = {}
    formats: dict[str, int] = {}
    for part in [*([before.info] if before is not None else []), *receipts]:
        for key, values in part.class_counts.items():
            # There may be more classes now than there were before.
            totals = counts.setdefault(key, [0] * len(schema.class_names.get(key, values)))
            totals[: len(values)] = [a + b for a, b in zip(totals, values, strict=False)]
        for kind, number in part.formats.items():
            formats[kind] = formats.get(kind, 0) + number
    there = before.info.shards if before is not None else ()
    shards = ShardTable.of([*there, *(receipt.info for receipt in receipts)])
    columns = _write_columns(directory, name, schema, receipts, before)
    of_classes = {key: tuple(values) for key, values in counts.items()}
    return SplitInfo(name, shards, of_classes, formats, columns, version_of(format), format)


def _write_columns(
    directory: str, split: str, schema: Schema, receipts: Sequence[Receipt], before: Before | None
) -> dict[str, FileInfo]:
    """Write the columns of a split, joined from those of `before` and of its shards; none for a split without records.

    A feature that lacks a column in a receipt or in `before` gets none.
    """
    columns = [receipt.columns for receipt in receipts]
    records = [receipt.info.records for receipt in receipts]
    there = 0 if before is None else before.info.records
    if not sum(records) + there:
        return {}
    infos: dict[str, FileInfo] = {}
    for key in column_keys(split, schema):
        if not (_has_column(before, key) and all(key in of_shard for of_shard in columns)):
            continue
        path = os.path.join(directory, column_file(split, key))
        with NewFile(path, sync_directory=False) as file:
            old = _column_before(before, key) if before is not None and there else ()
            file.write_all(join_columns(key, columns, records, column_dtype(schema, key), old, there))
        infos[key] = FileInfo(file.size, file.crc32c)
    if infos:
        fsync_directory(os.path.join(directory, INDEX_DIRECTORY))
    return infos


def _has_column(before: Before | None, key: str) -> bool:
    """Whether the records of an existing split, if there are any, have a column of this feature."""
    return before is None or not before.info.records or key in before.info.columns


def _column_before(before: Before, key: str) -> Iterator[bytes]:
    """Read the bytes of an existing column. Raise IntegrityError if they differ from its checksum, or StorageError."""
    path = os.path.join(before.directory, before.info.column_file(key))
    info, crc, at = before.info.columns[key], 0, 0
    with disk_errors(path, "read"):
        file = LOCAL.open(path)
        while piece := file.read(at, _PIECE):
            crc = extend_crc32c(crc, piece)
            at += len(piece)
            if at >= info.size and (problem := info.difference(FileInfo(file.size, crc))):
                raise IntegrityError(path, problem, "`shardfeed rebuild DIR` restores it")
            yield piece
    if at < info.size:
        raise IntegrityError(path, f"got {at} bytes, expected {info.size}", "`shardfeed rebuild DIR` makes it")


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
    format: str = NATIVE.name,
) -> Manifest:
    """Write sidecars and manifest into `directory`, which holds the shards, indexes and columns.

    `kept`: existing files that become sidecars unchanged. Without it, all files that are not part of the dataset are
    removed.

    Raises StorageError, and UsageError as `write_manifest`.
    """
    infos = {file: FileInfo(*write_file(os.path.join(directory, file), data)) for file, data in sidecars.items()}
    files = {**(kept or {}), **infos}
    version = version_of(format)
    manifest = Manifest(name, schema, splits, files, fingerprint, options, rejected, made_by, version, format)
    if kept is None:
        _remove_others(directory, manifest)
    write_manifest(directory, manifest)
    return manifest


def _remove_others(directory: str, manifest: Manifest) -> None:
    """Remove from a directory that is being made all that is not part of its dataset."""
    folders = manifest.folders()
    present = sizes_by_name(LOCAL, directory, folders)
    for file in present.keys() - manifest.files().keys():
        remove = remove_tree if present[file] < 0 else remove_file  # a split that no longer exists
        remove(os.path.join(directory, file))
    for folder in folders:
        fsync_directory(os.path.join(directory, folder))
