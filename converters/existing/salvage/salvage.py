"""A new dataset of every undamaged record of a damaged one, and the list of what was lost. The old one is only read.

A damaged shard is read twice: to find its whole records and say which belong to the dataset, then to copy those, byte
for byte. In memory are their places, about 300 bytes for each record in damaged shards. Where there are any, whole
shards are read for the names of theirs.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import check_new_output, new_dataset
from shardfeed.converters.existing.record_schema import nonconformity
from shardfeed.converters.existing.salvage.placing import Found
from shardfeed.converters.existing.salvage.report import Salvaged, SalvagedShard, told_json
from shardfeed.converters.existing.salvage.search import Search, Searched
from shardfeed.converters.existing.salvage.survivors import Remnant, Remnants, look_for_remnants
from shardfeed.converters.existing.tally import ShardTally, shards_fingerprint, tfds_view
from shardfeed.converters.shards.task import Receipt
from shardfeed.errors import IntegrityError, UsageError, escape
from shardfeed.formats.tfrecord.example import decode
from shardfeed.formats.tfrecord.framing import unframe
from shardfeed.formats.tfrecord.scan import pieces
from shardfeed.manifest import FileInfo
from shardfeed.naming import INDEX_SUFFIX, RECORD_SUFFIX, REJECTED, SALVAGED, dataset_name, shard_stem
from shardfeed.schema import Schema
from shardfeed.storage.local import NewFile, storage_error, write_file
from shardfeed.version import __version__

Progress = Callable[[int], object]


def salvage(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, progress: Progress = lambda size: None
) -> Salvaged:
    """Make the new dataset `out` of every undamaged record in the dataset directory `path`, which is only read.

    A record is taken when its CRCs are right, it is a tf.train.Example of the schema, and it belongs to the dataset:
    once, and by what manifest, index, label column and `image/source_id` say. Splits, shard numbers, schema and class
    names stay; without a manifest they come from file names and records. Shards without loss keep their bytes. What was
    lost is in the result, and in `salvaged.json` of the new dataset.

    `progress` is called with bytes read, up to three times those of the dataset.

    Raises UsageError when `path` holds no shards or `out` cannot be, IntegrityError when no record is whole or the
    manifest is of a newer format, StorageError, BusyError. Then nothing is left of `out`.
    """
    started = time.monotonic()
    directory, target = os.path.abspath(os.fspath(path)), os.path.abspath(os.fspath(out))
    check_new_output(target)
    if os.path.realpath(target).startswith(os.path.realpath(directory) + os.sep):
        raise UsageError(target, "lies in the dataset, which is only read", "choose a place outside of it")
    remnants = look_for_remnants(directory, progress)
    search = Search(remnants, progress)
    searched = search.search()
    schema = search.schema()
    with new_dataset(target) as building:
        receipts: dict[str, list[Receipt]] = {}
        tallies: list[ShardTally] = []
        damaged: list[SalvagedShard] = []
        for split, shards in remnants.shards.items():
            receipts[split] = []
            for number, remnant in enumerate(shards):
                copy = _ShardCopy(building, split, number, len(shards), schema)
                written = remnants.manifest.splits[split].shards[number].data if remnants.manifest else None
                found = searched[split].get(number)
                receipt, tally, left_out = copy.write(directory, remnant, found, written, progress)
                receipts[split].append(receipt)
                tallies.append(tally)
                if number in searched[split] or left_out:
                    damaged.append(_told(copy.stem, remnant, searched[split].get(number), receipt, left_out))
        recovered = sum(receipt.info.records for of_split in receipts.values() for receipt in of_split)
        if not recovered:
            raise IntegrityError(directory, "no record in it is whole", "restore it from a copy, or convert again")
        splits = {name: split_info(building, name, schema, of_split) for name, of_split in receipts.items()}
        name = dataset_name(os.path.basename(target))
        expected = _expected(remnants)
        sidecars = {**remnants.kept, **tfds_view(name, schema, splits, tallies)}
        if not all(shard.complete for shard in damaged):
            told = told_json(expected, recovered, damaged, remnants.notes)
            if SALVAGED in remnants.kept:
                told["earlier"] = json.loads(remnants.kept[SALVAGED])
            sidecars[SALVAGED] = (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()
        old = remnants.manifest
        manifest = stage_manifest(
            building,
            name=name,
            schema=schema,
            splits=splits,
            sidecars=sidecars,
            fingerprint=_fingerprint(remnants, receipts),
            options=_options(remnants, expected, recovered),
            rejected=old.rejected if old and REJECTED in remnants.kept else {},
            made_by=old.made_by if old else {"shardfeed": __version__},
        )
    size = sum(split.size for split in splits.values())
    seconds = time.monotonic() - started
    return Salvaged(target, manifest, expected, recovered, tuple(damaged), tuple(remnants.notes), size, seconds)


class _ShardCopy:
    """One shard of the new dataset."""

    def __init__(self, directory: str, split: str, number: int, count: int, schema: Schema) -> None:
        self.stem = shard_stem(split, number, count)
        self._path = os.path.join(directory, self.stem)
        self._split, self._number, self._schema = split, number, schema

    def write(
        self, directory: str, remnant: Remnant, searched: Searched | None, written: FileInfo | None, progress: Progress
    ) -> tuple[Receipt, ShardTally, list[str]]:
        """Copy the records that belong to it, with an index; those left out are the third value, as "where: why".

        `written`: the file of a shard that was not searched. Raises IntegrityError where it is no longer that.
        """
        tally = ShardTally(self._schema.class_names)
        left_out: list[str] = []
        if searched is not None:
            records = _read(searched.members.kept)
        else:
            assert remnant.file is not None, "a shard that was not searched is whole"
            records = _whole(os.path.join(directory, remnant.file))
        with NewFile(self._path + RECORD_SUFFIX, sync_directory=False) as shard:
            for where, framed in records:
                progress(len(framed))
                try:
                    # Again, although it was checked when it was found: a disk that fails may give other bytes now.
                    features = decode(unframe(framed, where))
                    problem = nonconformity(features, self._schema)
                except IntegrityError as error:
                    problem, features = error.problem, {}
                if problem:
                    left_out.append(f"{where}: {problem}")
                    continue
                shard.write([framed])
                tally.add(features, len(framed))
        index = FileInfo(*write_file(self._path + INDEX_SUFFIX, tally.index()))
        data = FileInfo(shard.size, shard.crc32c)
        if searched is None and data != written:
            source = os.path.join(directory, remnant.file or "")
            if FileInfo.of_file(source) != written:
                raise IntegrityError(source, "changed while it was read", "run again when nothing writes to it")
        return tally.receipt(self._split, self._number, self._schema, data, index), tally, left_out


def _whole(path: str) -> Iterator[tuple[str, bytes]]:
    """(where, framed record) of each in a shard that is whole."""
    try:
        for piece in pieces(path):
            yield f"offset {piece.start}", piece.framed or b""
    except OSError as error:
        raise storage_error(path, "read", error) from error


def _read(records: Sequence[Found]) -> Iterator[tuple[str, bytes]]:
    """(where, framed record) of each of `records`, from whichever files they are in."""
    files: dict[str, int] = {}
    try:
        for record in records:
            try:
                if record.path not in files:
                    files[record.path] = os.open(record.path, os.O_RDONLY | os.O_CLOEXEC)
                framed = os.pread(files[record.path], record.end - record.start, record.start)
            except OSError as error:
                raise storage_error(record.path, "read", error) from error
            yield f"offset {record.start}", framed
    finally:
        for fd in files.values():
            os.close(fd)


def _told(
    stem: str, remnant: Remnant, searched: Searched | None, receipt: Receipt, left_out: list[str]
) -> SalvagedShard:
    if searched is None:
        problem = "whole, but not all of its records are of the schema"
    else:
        problem = "missing" if remnant.file is None else "damaged"
        others = [f"{_where(found, remnant)}: {why}" for found, why in searched.members.left_out]
        left_out = [*searched.not_records, *others, *left_out]
    return SalvagedShard(
        name=stem + RECORD_SUFFIX,
        problem=problem,
        expected=remnant.records,
        recovered=receipt.info.records,
        lost=searched.lost if searched else (),
        left_out=tuple(left_out),
    )


def _where(found: Found, remnant: Remnant) -> str:
    name = os.path.basename(found.path)
    return f"offset {found.start}" if name == remnant.file else f"{escape(name)}, offset {found.start}"


def _expected(remnants: Remnants) -> int | None:
    """Records of the whole dataset as it was written; None unless that is known of every shard."""
    total = 0
    for shards in remnants.shards.values():
        for shard in shards:
            if shard.records is None:
                return None
            total += shard.records
    return total


def _options(remnants: Remnants, expected: int | None, recovered: int) -> dict[str, Any]:
    """The options the dataset was made with, and how many places of its plan have no record: for the next salvage."""
    if remnants.manifest is None:
        return {"adopted": True, "distinct": False}
    options = dict(remnants.manifest.options)
    still_listed = sum(remnants.manifest.rejected.values()) if REJECTED in remnants.kept else 0
    if remnants.gaps is None or expected is None:
        options["gaps"] = None
    elif gaps := remnants.gaps - still_listed + expected - recovered:
        options["gaps"] = gaps
    return options


def _fingerprint(remnants: Remnants, receipts: Mapping[str, Sequence[Receipt]]) -> str:
    """The old one where every shard has its bytes, else of what there is now."""
    old = remnants.manifest
    infos = {split: [receipt.info.data for receipt in of_split] for split, of_split in receipts.items()}
    if old is not None and infos == {
        name: [shard.data for shard in split.shards] for name, split in old.splits.items()
    }:
        return old.fingerprint
    return shards_fingerprint(b"salvaged", infos)
