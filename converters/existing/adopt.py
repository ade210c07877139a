"""TFRecords that someone else wrote, made a dataset without copying or changing a byte of them.

Every record is read once, both its CRCs checked and its Example parsed: that gives schema, labels and index. Where the
files already have the contract's names, what makes them a dataset is written beside them; else a new directory is made
whose shards are links to them.
"""

import os
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import new_dataset
from shardfeed.converters.existing.record_schema import SchemaInference
from shardfeed.converters.existing.shard_names import FoundSplit, find_splits
from shardfeed.converters.existing.tally import ShardTally, image_options, shards_fingerprint, tfds_view
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.errors import IntegrityError, RecordError, ShardfeedError, UsageError, argument, escape
from shardfeed.formats.format import Fields, ShardInfo
from shardfeed.formats.tfrecord.example import decode, is_sequence_example
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES
from shardfeed.formats.tfrecord.index import Index
from shardfeed.formats.tfrecord.scan import whole_records
from shardfeed.manifest import Manifest, SplitInfo
from shardfeed.naming import (
    INDEX_DIRECTORY,
    MANIFEST,
    TFDS_FILES,
    check_split_name,
    column_file,
    dataset_name,
    index_file,
    is_dataset_file,
    shard_file,
)
from shardfeed.schema import LABEL, Schema
from shardfeed.storage.building import locked
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.file_info import FileInfo
from shardfeed.storage.local import TEMPORARY, make_directory, remove_file, remove_tree, storage_error, write_file
from shardfeed.storage.local_reading import LOCAL
from shardfeed.storage.storage import sizes_by_name
from shardfeed.text import listing
from shardfeed.version import __version__

_ZLIB_STARTS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


@dataclass(frozen=True)
class Survey:
    """What the files of a folder hold. `tallies[split][shard]`, `data[split][shard]`: each file's records and checksum.

    `distinct`: no two records are equal, as far as length and CRC tell. `left_aside`: files that are no shards.
    """

    directory: str
    splits: tuple[FoundSplit, ...]
    schema: Schema
    tallies: Mapping[str, tuple[ShardTally, ...]]
    data: Mapping[str, tuple[FileInfo, ...]]
    distinct: bool
    left_aside: tuple[str, ...]

    @property
    def records(self) -> int:
        """Records in all files."""
        return sum(len(tally.sizes) for tallies in self.tallies.values() for tally in tallies)

    @property
    def size(self) -> int:
        """Bytes of all shards."""
        return sum(data.size for of_split in self.data.values() for data in of_split)

    @property
    def fits_beside(self) -> bool:
        """Whether the files have the contract's names already, so that no other directory is needed."""
        return all(split.under_our_names for split in self.splits)


def survey(
    path: str | os.PathLike[str],
    *,
    split_name: str | None = None,
    class_names: tuple[str, ...] | None = None,
    partial: bool = False,
    progress: Callable[[int], object] = lambda size: None,
) -> Survey:
    """Read every record of the TFRecord files in a folder; nothing is written.

    Args:
        path: the folder; files in folders of it are not looked at.
        split_name: all files are shards of this one split; default by their names.
        class_names: of `image/class/label`, from label 0; default the texts beside the labels, or the numbers.
        partial: take a split of which shards are missing by the names of the others.
        progress: called with bytes read.

    Raises:
        UsageError: the names, or what is in the files, cannot be a dataset: compressed, empty, no Examples.
        IntegrityError: a record is damaged, or features of one name have different dtypes; names shard and record.
        StorageError: a file cannot be read.
    """
    directory = os.path.abspath(os.fspath(path))
    if split_name is not None:
        check_split_name(split_name)
    names = _files(directory)
    splits = find_splits(directory, names, split_name)
    if not splits:
        remedy = "give the folder that holds the files; known are .tfrecord, .tfrecords, .tfrec and -00000-of-00008"
        raise UsageError(directory, "no TFRecord file in it, by their names", remedy)
    if not partial:
        for split in splits:
            _check_complete(directory, split)
    splits = [FoundSplit(split.name, tuple(file for file in split.files if file is not None)) for split in splits]
    inference = SchemaInference()
    tallies: dict[str, tuple[ShardTally, ...]] = {}
    data: dict[str, tuple[FileInfo, ...]] = {}
    distinct = True
    for split in splits:
        marks = array("Q")  # 8 bytes a record: its length and CRC
        read = [_read_shard(os.path.join(directory, file or ""), inference, marks, progress) for file in split.files]
        tallies[split.name] = tuple(tally for tally, _ in read)
        data[split.name] = tuple(info for _, info in read)
        distinct = distinct and len(np.unique(np.frombuffer(marks, np.uint64))) == len(marks)
    if not inference.records:
        raise UsageError(directory, "its TFRecord files hold no record", "give files that hold some")
    features = inference.features()
    if not features:
        raise UsageError(directory, "no record has a feature", "only TFRecords of tf.train.Example can be read")
    taken = {file for split in splits for file in split.files}
    return Survey(
        directory,
        tuple(splits),
        Schema(features, inference.class_names(class_names)).stated(),
        tallies,
        data,
        distinct,
        tuple(name for name in names if name not in taken),
    )


def adopt(found: Survey, out: str | os.PathLike[str] | None = None) -> Manifest:
    """Make a dataset of the files that were surveyed: beside them, or in the new directory `out`, with links to them.

    Beside them, the other files of the folder become part of the dataset, as they are. Raises UsageError where the
    files do not have the contract's names and `out` is not given, OutputExistsError, StorageError, BusyError.
    """
    if out is not None:
        target = os.path.abspath(os.fspath(out))
        with new_dataset(target) as directory:
            return _write(found, directory, target)
    with locked(found.directory):
        _check_beside(found)  # another run may have made it a dataset since
        _sweep(found.directory)
        return _write(found, found.directory, found.directory)


def _write(found: Survey, directory: str, target: str) -> Manifest:
    """Everything but the records, into `directory`; the manifest last."""
    beside = directory == found.directory
    splits: dict[str, SplitInfo] = {}
    make_directory(os.path.join(directory, INDEX_DIRECTORY))
    for split in found.splits:
        receipts: list[Receipt] = []
        for number, file in enumerate(split.files):
            shard, index = shard_paths(directory, split.name, number, len(split.files))
            if not beside:
                _link(os.path.join(found.directory, file or ""), shard)
            tally = found.tallies[split.name][number]
            written = FileInfo(*write_file(index, Index.from_sizes(tally.sizes).to_bytes()))
            info = ShardInfo(len(tally.sizes), found.data[split.name][number], written)
            receipts.append(tally.receipt(split.name, number, found.schema, info))
        splits[split.name] = split_info(directory, split.name, found.schema, receipts)
    name = dataset_name(os.path.basename(target))
    ours = {file for split in found.splits for file in split.files}
    others = [file for file in _files(directory) if file not in ours] if beside else []
    kept = {file: FileInfo.of_file(os.path.join(directory, file)) for file in others}
    tallies = [tally for of_split in found.tallies.values() for tally in of_split]
    size = image_options(tallies).shape
    return stage_manifest(
        directory,
        name=name,
        schema=found.schema,
        splits=splits,
        sidecars=_tfds_view(name, found.schema, splits, tallies, kept),
        fingerprint=shards_fingerprint(b"adopted", found.data),
        options={
            "adopted": True,  # `salvage` then does not tell records apart by their file names
            "distinct": found.distinct,
            "size": list(size) if size else None,
        },
        rejected={},
        made_by={"shardfeed": __version__},
        kept=kept if beside else None,
    )


def _tfds_view(
    name: str,
    schema: Schema,
    splits: Mapping[str, SplitInfo],
    tallies: Sequence[ShardTally],
    kept: Mapping[str, FileInfo],
) -> dict[str, bytes]:
    """TFDS's files, unless the folder has its own: other ones than those that a run of ours, now killed, had made."""
    view = tfds_view(name, schema, splits, tallies)
    own = [file for file in TFDS_FILES & kept.keys() if file not in view or kept[file] != FileInfo.of(view[file])]
    return {} if own else view


def _sweep(directory: str) -> None:
    """Remove what a run which was killed had begun to write."""
    remove_tree(os.path.join(directory, INDEX_DIRECTORY))
    for file in _files(directory):
        if file.endswith(TEMPORARY) and is_dataset_file(file.removesuffix(TEMPORARY)):
            remove_file(os.path.join(directory, file))


def _files(directory: str) -> list[str]:
    """Names of the files of a folder, sorted; links are followed. Raises UsageError, StorageError."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file() and entry.name != MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such folder", "give the folder that holds the TFRecord files") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error


def _check_complete(directory: str, split: FoundSplit) -> None:
    if split.missing:
        missing = listing([str(number) for number in split.missing])
        problem = f"split {split.name}: of {len(split.files)} shards {len(split.missing)} are missing: {missing}"
        raise UsageError(directory, problem, f"get them, or take what is there: {argument('partial', True)}")


def _check_beside(found: Survey) -> None:
    """Raises UsageError where the folder itself cannot become a dataset."""
    if not found.fits_beside:
        split = next(split for split in found.splits if not split.under_our_names)
        file = next(file for file in split.files if file is not None)
        problem = (
            f"{escape(file)} is not named as a dataset's shards are ({shard_file(split.name, 0, len(split.files))})"
        )
        raise UsageError(found.directory, problem, "name a new directory, which gets links to them")
    if os.path.lexists(os.path.join(found.directory, MANIFEST)):
        problem = f"holds a {MANIFEST} of something else, in whose place ours would be"
        raise UsageError(found.directory, problem, "name a new directory, which gets links to the shards")
    ours = {column_file(split.name, LABEL) for split in found.splits}
    ours |= {index_file(split.name, i, len(split.files)) for split in found.splits for i in range(len(split.files))}
    present = sizes_by_name(LOCAL, found.directory, [INDEX_DIRECTORY])
    others = sorted(
        name
        for name, size in present.items()
        if size < 0 or name == INDEX_DIRECTORY or ("/" in name and name.removesuffix(TEMPORARY) not in ours)
    )
    if others:
        problem = f"holds {escape(others[0])}, which no dataset has"
        raise UsageError(
            found.directory, problem, "move it away, or name a new directory, which gets links to the shards"
        )


def _link(source: str, path: str) -> None:
    try:
        os.symlink(source, path)
    except OSError as error:
        raise storage_error(path, "link", error) from error


def _read_shard(
    path: str, inference: SchemaInference, marks: array, progress: Callable[[int], object]
) -> tuple[ShardTally, FileInfo]:
    """One file's records and checksum. Raises as `survey`."""
    tally = ShardTally((LABEL,))
    size = crc = 0
    try:
        for piece in whole_records(path):
            framed = piece.framed or b""
            place = f"{path}, record {len(tally.sizes)}, offset {piece.start}"
            features = _example(piece.payload, place, first=not size)
            inference.add(features, place)
            tally.add(features, len(framed))
            marks.append((len(framed) & 0xFFFFFFFF) << 32 | int.from_bytes(framed[-FOOTER_BYTES:], "little"))
            crc = extend_crc32c(crc, framed)
            size += len(framed)
            progress(len(framed))
    except RecordError as error:
        raise error if size else _not_a_tfrecord(path, error) from None
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return tally, FileInfo(size, crc)


def _example(payload: bytes, place: str, *, first: bool) -> Fields:
    try:
        features = decode(payload)
        sequence = (first or not features) and is_sequence_example(payload)  # a file holds the one or the other
    except IntegrityError as error:
        remedy = "only TFRecords of tf.train.Example can be read"
        raise IntegrityError(place, f"not a tf.train.Example: {error.problem}", remedy) from None
    if sequence:
        remedy = "write its lists as features of a tf.train.Example"
        raise UsageError(place, "a tf.train.SequenceExample, which no reader here takes", remedy)
    return features


def _not_a_tfrecord(path: str, error: RecordError) -> ShardfeedError:
    """What a file is whose first record cannot be read."""
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"\x1f\x8b"):
        remedy = "random access needs plain files: `gunzip -c FILE > NEW` for each, or write them without compression"
        return UsageError(path, "compressed with gzip", remedy)
    if start.startswith(_ZLIB_STARTS) and _inflates(start):
        remedy = "random access needs plain files: read it with compression_type='ZLIB' and write it without"
        return UsageError(path, "compressed with zlib", remedy)
    if error.problem.startswith("record data"):
        return error
    remedy = "move it away, or where it should be one: `shardfeed salvage DIR OUT` makes a dataset of its whole records"
    return UsageError(path, f"no TFRecord file, or its first record is damaged: {error.problem}", remedy)


def _inflates(start: bytes) -> bool:
    try:
        zlib.decompressobj().decompress(start)
    except zlib.error:
        return False
    return True
