"""Rebuild the files of a dataset that derive from its shards: indexes, columns, files for other programs.

The manifest has the original checksum of each, so a rebuilt file has the same bytes or is not written.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from shardfeed.column import column_dtype, join_columns
from shardfeed.converters.commit.tfds_view import TFDS_FORMATS, tfds_files
from shardfeed.converters.existing.tally import ShardTally, nonconformity
from shardfeed.converters.images.options import ImageOptions
from shardfeed.declared import Typed, checked
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.example import decode
from shardfeed.formats.format import Described
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.formats.tfrecord import Index, whole_records
from shardfeed.manifest import Manifest, SplitInfo, read_manifest
from shardfeed.naming import is_shard
from shardfeed.readers.shards import open_shard, read_view
from shardfeed.schema import FILENAME, TEXT, Schema
from shardfeed.storage.local import TEMPORARY, disk_errors, locked, make_directory, remove_file, write_file
from shardfeed.storage.storage import FileInfo, local_path

_SALVAGE = "`shardfeed salvage DIR OUT` makes a dataset of the intact records"


@dataclass(frozen=True)
class Rebuilt:
    """Result of `rebuild`.

    `files`: name -> fault of each file that can be rebuilt; if `written`, these files have been rebuilt. `lost`: name
    -> fault of each damaged file that cannot be rebuilt from the dataset's shards.

    Example:
        done = rebuild("flowers", dry_run=True)
        print(dict(done.files), dict(done.lost))
    """

    manifest: Manifest
    files: Mapping[str, str]
    lost: Mapping[str, str]
    written: bool


@checked
def rebuild(
    path: Annotated[
        str | os.PathLike[str], Typed("dataset directory; missing and damaged files are written into it", "dataset")
    ],
    *,
    dry_run: Annotated[bool, Typed("list missing and damaged files, write nothing")] = False,
    progress: Callable[[int], object] = lambda size: None,
) -> Rebuilt:
    """Rebuild, in place, a dataset's missing and damaged files that can be computed from its shards.

    With `dry_run` nothing is written. Only the shards needed are read: each shard whose index is damaged, and all
    shards of a split with a damaged column. Everything is computed before anything is written, and each file is renamed
    into place when it is complete. Until then the new files are held in memory: about 350 bytes per record if all
    columns are lost. `progress` is called with the bytes of each record read.

    Raises UsageError when `path` is not a dataset; IntegrityError, with nothing changed, when the manifest or a needed
    shard is damaged; StorageError; BusyError when another run is writing this dataset.

    Example:
        print(dict(rebuild("flowers", dry_run=True).files))  # name -> what is wrong with it
        rebuild("flowers")
    """
    directory = local_path(path)
    manifest = read_manifest(directory)
    damaged = {
        name: problem
        for name, info in sorted(manifest.files().items())
        if not is_shard(name)
        for path in [os.path.join(directory, name)]
        if (problem := info.difference(FileInfo.of_file(path)) if os.path.exists(path) else "missing")
    }
    _check_shard_sizes(directory, manifest)
    made: dict[str, bytes] = {}
    for split in manifest.splits.values():
        made |= _of_split(directory, manifest, split, damaged, progress)
    if not damaged.keys() <= made.keys():
        made |= _sidecars(manifest, damaged)
    files = {name: problem for name, problem in damaged.items() if name in made}
    if files and not dry_run:
        with locked(directory):
            for directory_of in sorted({os.path.dirname(os.path.join(directory, name)) for name in files}):
                if not os.path.isdir(directory_of):
                    make_directory(directory_of)
            for name in files:
                remove_file(os.path.join(directory, name + TEMPORARY))  # of a run that was stopped
                write_file(os.path.join(directory, name), made[name])
    lost = {name: problem for name, problem in damaged.items() if name not in made}
    return Rebuilt(manifest, files, lost, bool(files) and not dry_run)


def _check_shard_sizes(directory: str, manifest: Manifest) -> None:
    """Raise IntegrityError if a shard is missing or has another size: a new index would not repair it."""
    for split in manifest.splits.values():
        for number, info in enumerate(split.shards):
            path = os.path.join(directory, split.shard_file(number))
            if not os.path.lexists(path):
                raise IntegrityError(path, "missing: it cannot be restored from the shards", _SALVAGE)
            with disk_errors(path, "read"):
                size = os.path.getsize(path)
            if size != info.data.size:
                problem = f"got {size} bytes, expected {info.data.size}: the shard itself is damaged"
                raise IntegrityError(path, problem, _SALVAGE)


def _of_split(
    directory: str, manifest: Manifest, split: SplitInfo, damaged: Mapping[str, str], progress: Callable[[int], object]
) -> dict[str, bytes]:
    """The damaged indexes and columns of a split. Raises IntegrityError unless they come out as they were written."""
    columns = {key: name for key in split.columns if (name := split.column_file(key)) in damaged}
    indexes = {split.index_file(number) for number in range(len(split.shards))} & set(damaged)
    if split.format != NATIVE.name and (lost := sorted(indexes)):
        problem = f"{damaged[lost[0]]}, and indexes of {split.format} shards cannot be restored"
        raise IntegrityError(os.path.join(directory, lost[0]), problem, _from_shards(split.format, manifest.schema))
    made: dict[str, bytes] = {}
    of_shards: list[Mapping[str, bytes]] = []
    for number, info in enumerate(split.shards):
        index = split.index_file(number)
        if index not in damaged and not columns:
            continue
        path = os.path.join(directory, split.shard_file(number))
        tally = _tally(path, _records(directory, split, number), manifest, columns, progress)
        if split.format == NATIVE.name:
            content = Index.from_sizes(tally.sizes).to_bytes()
            if FileInfo.of(content) != info.index:
                problem = "its records changed since they were written: the shard itself is damaged"
                raise IntegrityError(path, problem, _SALVAGE)
            if index in damaged:
                made[index] = content
        if columns:
            of_shards.append(tally.receipt(split.name, number, manifest.schema, info, columns).columns)
    records = split.shards.records.tolist()
    for key, name in columns.items():
        content = b"".join(join_columns(key, of_shards, records, column_dtype(manifest.schema, key)))
        if FileInfo.of(content) != split.columns[key]:
            raise IntegrityError(name, "the values in the shards changed since they were written", _SALVAGE)
        made[name] = content
    return made


def _from_shards(format: str, schema: Schema) -> str:
    """The remedy for a lost index: shards of other ecosystems contain everything that a source needs."""
    options, names = {"reader": format}, ""
    columns = [f"key=json.{FILENAME}"] if format == "webdataset" else []
    if TEXT in schema.features and format in ("webdataset", "mds"):  # they have no files with class names
        columns.append(f"label={'json.' if columns else ''}{TEXT}")
        options["class-names"] = "NAMES"
        names = ", with the class names in the file NAMES, in label order"
    if columns:
        options["columns"] = ",".join(columns)
    command = " ".join(["shardfeed convert DIR NEW", *(f"--{name} {value}" for name, value in options.items())])
    return f"restore it from a copy, or `{command}` takes images, labels and splits from the shards{names}"


def _records(directory: str, split: SplitInfo, number: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the payload, offset and size in bytes of each record of a shard. Raise IntegrityError or OSError."""
    if split.format == NATIVE.name:
        for piece in whole_records(os.path.join(directory, split.shard_file(number))):
            yield piece.payload, piece.start, piece.end - piece.start
        return
    view, file = read_view(directory, split, number), open_shard(directory, split, number)  # its index is whole
    for payload, _, offset, error in split.shard_format.walk(file, view, len(view)):
        if error is not None:
            raise error
        yield payload, offset, len(payload)


def _tally(
    path: str,
    records: Iterable[tuple[bytes, int, int]],
    manifest: Manifest,
    columns: Collection[str],
    progress: Callable[[int], object],
) -> ShardTally:
    """Tally the records of a shard, for its index and these columns. Raise IntegrityError if it is damaged."""
    labels = manifest.schema.class_names
    tally = ShardTally(labels.__contains__, [key for key in columns if key not in labels])
    with disk_errors(path, "read"):
        for payload, start, size in records:
            features = decode(payload) if columns else {}
            if columns and (problem := nonconformity(features, manifest.schema)):
                raise RecordError(f"{path}, record {len(tally.sizes)}, offset {start}", problem, _SALVAGE)
            tally.add(features, size)
            progress(size)
    return tally


def _sidecars(manifest: Manifest, damaged: Collection[str]) -> dict[str, bytes]:
    """The files that its format's and TFDS's programs read, as far as they come out as they were written."""
    shards = {name: split.shards for name, split in manifest.splits.items()}
    views = [shard_format(manifest.format).describe(Described(manifest.name, manifest.schema, shards))]
    if manifest.format in TFDS_FORMATS:
        of = manifest.name, manifest.schema, manifest.splits
        size = manifest.options.get("size")
        ways = [ImageOptions(), ImageOptions(encode="raw")]  # to store images; the checksum of the result decides
        if isinstance(size, list) and len(size) == 2:
            ways.append(ImageOptions(encode="raw", size=(size[0], size[1])))
        views += [tfds_files(*of, image, manifest.format) for image in ways]
    return {
        name: content
        for view in views
        for name, content in view.items()
        if name in damaged and manifest.sidecars[name] == FileInfo.of(content)
    }
