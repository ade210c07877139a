"""What every way of making a dataset ends with: label columns, sidecars and the manifest, written beside its shards."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shardfeed.converters.shards.task import Receipt
from shardfeed.label_column import column_header, column_keys, column_name
from shardfeed.manifest import FileInfo, Manifest, SplitInfo
from shardfeed.naming import MANIFEST
from shardfeed.schema import Schema
from shardfeed.storage.local import NewFile, remove_file, write_file


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
