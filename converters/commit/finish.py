"""What every way of making a dataset ends with: columns, sidecars and the manifest, written beside its shards."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from shardfeed.column import column_dtype, column_keys, join_columns
from shardfeed.converters.commit.tfds_view import TFDS_FORMATS, tfds_files
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.report import Noticed, counts_by_code, left_out_lines, noted_lines, unasked
from shardfeed.converters.shards.task import Receipt
from shardfeed.formats.format import Described
from shardfeed.formats.native import NATIVE, shard_format
from shardfeed.manifest import Manifest, SplitInfo, version_of
from shardfeed.naming import INDEX_DIRECTORY, LEFT_OUT, MANIFEST, NORMALISED, REJECTED, column_file, dataset_name
from shardfeed.schema import Schema
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local import NewFile, fsync_directory, remove_file, remove_tree, write_file
from shardfeed.storage.local_reading import LOCAL
from shardfeed.storage.storage import sizes_by_name


def finish(out: str, plan: Plan, receipts: Sequence[Receipt], noticed: Noticed, directory: str) -> Manifest:
    """Write columns, sidecars and manifest into `directory`, and remove what is not part of the dataset."""
    splits: dict[str, SplitInfo] = {}
    for split in plan.split_sizes():
        of_split = [receipt for receipt in receipts if receipt.split == split]
        splits[split] = split_info(directory, split, plan.schema, of_split, plan.options.to)
    name = dataset_name(out)
    described = Described(name, plan.schema, {split: info.shards for split, info in splits.items()})
    sidecars = dict(shard_format(plan.options.to).describe(described))
    if plan.options.to in TFDS_FORMATS:
        sidecars |= tfds_files(name, plan.schema, splits, plan.options.image, plan.options.to)
    if noticed.rejected:
        sidecars[REJECTED] = noted_lines(noticed.rejected)
    if changed := unasked(noticed.normalised):
        sidecars[NORMALISED] = noted_lines(changed)
    if noticed.account and noticed.account.left_out:
        sidecars[LEFT_OUT] = left_out_lines(noticed.account.left_out)
    return stage_manifest(
        directory,
        name=name,
        schema=plan.schema,
        splits=splits,
        sidecars=sidecars,
        fingerprint=plan.fingerprint,
        options=plan.options.to_json(),
        rejected=counts_by_code(noticed.rejected),
        made_by=plan.made_by,
        format=plan.options.to,
    )


def split_info(
    directory: str, name: str, schema: Schema, receipts: Sequence[Receipt], format: str = NATIVE.name
) -> SplitInfo:
    """What the manifest says of a split, by the receipts of its shards in order; its columns are written."""
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
    of_classes = {key: tuple(values) for key, values in counts.items()}
    return SplitInfo(name, shards, of_classes, formats, columns, version_of(format), format)


def _write_columns(directory: str, split: str, schema: Schema, receipts: Sequence[Receipt]) -> dict[str, FileInfo]:
    """The columns of a split, put together from its shards'; none for a split without records.

    A feature that the receipts have no column of goes without, too.
    """
    records = [receipt.info.records for receipt in receipts]
    infos: dict[str, FileInfo] = {}
    for key in column_keys(split, schema) if sum(records) else ():
        if all(key in receipt.columns for receipt in receipts):
            path = os.path.join(directory, column_file(split, key))
            with NewFile(path, sync_directory=False) as file:
                pieces = partial(_of_shards, receipts, key)
                for part in join_columns(pieces, records, column_dtype(schema, key)):
                    file.write([part])
            infos[key] = FileInfo(file.size, file.crc32c)
    if infos:
        fsync_directory(os.path.join(directory, INDEX_DIRECTORY))
    return infos


def _of_shards(receipts: Sequence[Receipt], key: str) -> Iterator[bytes]:
    return (receipt.columns[key] for receipt in receipts)


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
    """Write sidecars and manifest into `directory`, where the shards, indexes and columns are.

    `kept`: files that are there and become sidecars as they are. Without it the directory is ours alone: whatever is
    not part of the dataset is removed.
    """
    infos = {file: FileInfo(*write_file(os.path.join(directory, file), data)) for file, data in sidecars.items()}
    files = {**(kept or {}), **infos}
    version = version_of(format)
    manifest = Manifest(name, schema, splits, files, fingerprint, options, rejected, made_by, version, format)
    if kept is None:
        folders = manifest.folders()
        present = sizes_by_name(LOCAL, directory, folders)
        for file in present.keys() - manifest.files().keys():
            remove = remove_tree if present[file] < 0 else remove_file  # a split that there was, and is no more
            remove(os.path.join(directory, file))
        for folder in folders:
            fsync_directory(os.path.join(directory, folder))
    write_file(os.path.join(directory, MANIFEST), manifest.to_bytes())
    return manifest
