"""Last steps of every operation that makes a dataset: write columns, sidecars and the manifest.

Some sidecars are what TensorFlow Datasets reads: `tfds_files`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shardfeed.annotations import RASTER
from shardfeed.column import column_dtype, column_keys, join_columns
from shardfeed.converters.counted_ids import COUNTED_IDS
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.plan import Plan
from shardfeed.converters.rejects import NOTHING
from shardfeed.converters.report import Remarks, counts_by_code, noted_lines, unrequested
from shardfeed.converters.shards.task import Receipt, noted_of
from shardfeed.errors import IntegrityError
from shardfeed.formats.format import Described
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.manifest import Manifest, SplitInfo, version_of
from shardfeed.naming import (
    CLIPPED,
    INDEX_DIRECTORY,
    LEFT_OUT,
    MANIFEST,
    NORMALISED,
    REJECTED,
    column_file,
    dataset_name,
    label_names_file,
)
from shardfeed.schema import ENCODED, LABEL, PNG16, Feature, Schema
from shardfeed.shard_table import ShardTable
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import NewFile, disk_errors, fsync_directory, remove_file, remove_tree, write_file
from shardfeed.storage.storage import LOCAL, FileInfo, sizes_by_name

_PIECE = 1 << 20  # bytes of a column that are held


def finish(out: str, plan: Plan, receipts: Sequence[Receipt], noticed: Remarks, directory: str) -> Manifest:
    """Write columns, sidecars and manifest into `directory`, and remove what is not part of the dataset."""
    onto = plan.options.onto
    splits: dict[str, SplitInfo] = {}
    for split in sorted({*plan.split_sizes(), *(onto.manifest.splits if onto is not None else ())}):
        of_split = [receipt for receipt in receipts if receipt.split == split]
        before = Before(onto.directory, onto.manifest.splits[split]) if onto and onto.shards(split) else None
        splits[split] = split_info(directory, split, plan.schema, of_split, plan.options.to, before)
    name, options = dataset_name(out), plan.options.to_json()
    described = Described(name, plan.schema, {split: info.shards for split, info in splits.items()})
    sidecars = dict(shard_format(plan.options.to).describe(described))
    if plan.options.to in TFDS_FORMATS:
        image = ImageOptions.from_json(options)  # as records that are there were stored, too
        sidecars |= tfds_files(name, plan.schema, splits, image, plan.options.to)
    account = noticed.account or NOTHING
    lists = {REJECTED: noticed.rejected, NORMALISED: unrequested(noticed.normalised)}
    lists |= {LEFT_OUT: noted_of(account.left_out), CLIPPED: noted_of(account.clips)}
    sidecars |= {file: noted_lines(noted) for file, noted in lists.items() if noted}
    rejected = counts_by_code(noticed.rejected)
    if onto is not None:
        for file in lists:
            if file in onto.manifest.sidecars:
                sidecars[file] = onto.content(file, onto.manifest.sidecars[file]) + sidecars.get(file, b"")
        rejected = dict(sorted((Counter(onto.manifest.rejected) + Counter(rejected)).items()))
        records = Counter[str]()
        for receipt in receipts:
            records[receipt.split] += receipt.info.records
        options["appended"][-1]["records"] = dict(records)
    counted = [split for split in splits if split in plan.counted or split not in plan.split_sizes()]
    if onto is not None:  # and of the records before them
        counted = [split for split in counted if not onto.shards(split) or split in onto.counted]
    options[COUNTED_IDS] = counted
    return stage_manifest(
        directory,
        name=name,
        schema=plan.schema,
        splits=splits,
        sidecars=sidecars,
        fingerprint=plan.fingerprint,
        options=options,
        rejected=rejected,
        made_by=plan.made_by,
        format=plan.options.to,
    )


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
    records, columns = [receipt.info.records for receipt in receipts], [receipt.columns for receipt in receipts]
    there = 0 if before is None else before.info.records
    infos: dict[str, FileInfo] = {}
    for key in column_keys(split, schema) if sum(records) + there else ():
        known = all(key in receipt.columns for receipt in receipts)
        if known and (not there or (before is not None and key in before.info.columns)):
            path = os.path.join(directory, column_file(split, key))
            with NewFile(path, sync_directory=False) as file:
                old = _column_before(before, key) if before is not None and there else ()
                file.write_all(join_columns(key, columns, records, column_dtype(schema, key), old, there))
            infos[key] = FileInfo(file.size, file.crc32c)
    if infos:
        fsync_directory(os.path.join(directory, INDEX_DIRECTORY))
    return infos


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
    """
    infos = {file: FileInfo(*write_file(os.path.join(directory, file), data)) for file, data in sidecars.items()}
    files = {**(kept or {}), **infos}
    version = version_of(format)
    manifest = Manifest(name, schema, splits, files, fingerprint, options, rejected, made_by, version, format)
    if kept is None:
        folders = manifest.folders()
        present = sizes_by_name(LOCAL, directory, folders)
        for file in present.keys() - manifest.files().keys():
            remove = remove_tree if present[file] < 0 else remove_file  # a split that no longer exists
            remove(os.path.join(directory, file))
        for folder in folders:
            fsync_directory(os.path.join(directory, folder))
    write_file(os.path.join(directory, MANIFEST), manifest.to_bytes())
    return manifest


# Formats with shards that TFDS reads, and its names for them: a record is an Example in both.
TFDS_FORMATS = {"tfrecord": "tfrecord", "arrayrecord": "array_record"}
_NAME_BYTES = 240  # of a file name; a file system takes 255, and a file being written has a suffix


def tfds_files(
    name: str, schema: Schema, splits: Mapping[str, SplitInfo], image: ImageOptions | None = None, to: str = "tfrecord"
) -> dict[str, bytes]:
    """File name -> content of TFDS's view of a dataset whose images were stored as `image` says (default: as files).

    `to`: the format of its shards, one of TFDS_FORMATS.

    `name`: NAME, or NAME/VERSION.
    """
    deep = {kind for split in splits.values() for kind in split.formats} == {PNG16}
    features = {key: _feature(key, schema, image or ImageOptions(), deep) for key in sorted(schema.features)}
    files = {"dataset_info.json": _json(_dataset_info(name, schema, splits, TFDS_FORMATS[to]))}
    files["features.json"] = _json(_of_class("features_dict.FeaturesDict", featuresDict={"features": features}))
    # `image/a.b` and `image/a/b` share one: then neither has names, but numbers.
    named = Counter(map(label_names_file, schema.class_names))
    for key, names in schema.class_names.items():
        file = label_names_file(key)
        fit = all(text and "\n" not in text and text.strip() == text for text in names)
        if named[file] == 1 and len(file.encode()) <= _NAME_BYTES and fit:
            files[file] = "".join(f"{text}\n" for text in names).encode()
    return files


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _dataset_info(name: str, schema: Schema, splits: Mapping[str, SplitInfo], format: str) -> dict[str, Any]:
    name, _, version = name.partition("/")
    info: dict[str, Any] = {
        "name": name,
        "version": version or "1.0.0",
        "fileFormat": format,
        "splits": [
            {
                "name": split.name,
                "shardLengths": list(map(str, split.shards.records.tolist())),
                "numBytes": str(split.size),
                "filepathTemplate": "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
            }
            for split in splits.values()
        ],
    }
    image, label = schema.key(ENCODED), schema.key(LABEL)
    if image is not None and label is not None:
        pair = [{"featureKey": image}, {"featureKey": label}]
        info["supervisedKeys"] = {"tuple": {"items": pair}}
    return info


def _of_class(name: str, **content: Any) -> dict[str, Any]:
    """A feature of one of TFDS's classes."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{name}", **content}


def _feature(key: str, schema: Schema, image: ImageOptions, deep: bool) -> dict[str, Any]:
    feature = schema.features[key]
    is_image = key == schema.key(ENCODED) and schema.kind(key) == "image"
    if is_image and image.encode == "raw" and image.shape is None:
        # TFDS needs the shape of such a tensor under a separate key: here it is bytes, to be reshaped by the height and
        # width of the record.
        return _scalar(Feature("bytes"))
    if is_image and image.encode == "raw" and image.shape is not None:
        dimensions = {"dimensions": [*map(str, image.shape), "3"]}
        return _of_class("tensor_feature.Tensor", tensor={"shape": dimensions, "dtype": "uint8", "encoding": "bytes"})
    if is_image:
        # No encodingFormat: it would name one of the two formats, and TFDS decodes either by its content.
        of_file = {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint16" if deep else "uint8"}
        return _of_class("image_feature.Image", image=of_file)
    if schema.raster is not None and key == RASTER:
        # One channel: if asked for three, a decoder would add two.
        of_mask = {"shape": {"dimensions": ["-1", "-1", "1"]}, "dtype": f"uint{schema.raster.bits}"}
        return _of_class("image_feature.Image", image={**of_mask, "encodingFormat": "png"})
    inner = _scalar(feature)
    if key in schema.class_names:
        label = {"numClasses": str(len(schema.class_names[key]))}
        inner = _of_class("class_label_feature.ClassLabel", classLabel=label)
    if feature.scalar:
        return inner
    if len(feature.shape) > 1:
        return _scalar(feature)
    length = "-1" if feature.count is None else str(feature.count)
    return _of_class("sequence_feature.Sequence", sequence={"feature": inner, "length": length})


def _scalar(feature: Feature) -> dict[str, Any]:
    if feature.dtype == "bytes":
        return _of_class("text_feature.Text", text={})
    dimensions = [str(side) for side in feature.shape] if len(feature.shape) > 1 else []
    shape = {"dimensions": dimensions} if dimensions else {}
    return _of_class("tensor_feature.Tensor", tensor={"shape": shape, "dtype": feature.dtype, "encoding": "none"})
