"""Create a new dataset from all intact records of a damaged one, and count the losses. The old one is only read.

Intact shards come first, byte for byte. Then follow, for each damaged shard in order, the intact records that are not
yet in the new dataset, each in its own shard. Memory: a digest of each record, about 100 bytes, if a shard is damaged,
and about 16 bytes per record from the manifest.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shardfeed.column import column_keys
from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import check_new_output, check_outside, new_dataset
from shardfeed.converters.existing.record_schema import nonconformity
from shardfeed.converters.existing.salvage.report import Salvaged, SalvagedShard, kept_json
from shardfeed.converters.existing.salvage.search import SurvivingShard, Survivors, look_for_survivors, pieces_of
from shardfeed.converters.existing.tally import ShardTally, shards_fingerprint, tfds_view
from shardfeed.converters.shards.receipts import receipt_path, save_receipt
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.errors import IntegrityError
from shardfeed.formats.example import decode
from shardfeed.formats.format import Fields
from shardfeed.formats.registry import NATIVE
from shardfeed.formats.tfrecord.framing import unframe
from shardfeed.naming import REJECTED, SALVAGED, dataset_name, shard_file
from shardfeed.schema import FILENAME
from shardfeed.storage.address import local_output, local_path
from shardfeed.storage.storage import FileInfo
from shardfeed.version import __version__

Progress = Callable[[int], object]

_REASONS = 10  # of records of a shard that are refused


def salvage(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, progress: Progress = lambda size: None
) -> Salvaged:
    """Create the new dataset `out` from all intact records in the dataset directory `path`, which is only read.

    An intact shard is copied unchanged. From a damaged shard, a record is copied, in file order, if its CRCs are right,
    if it is a tf.train.Example that fits the schema, and if it is not a duplicate. Duplicates are found by
    `image/filename` if a conversion made the dataset, otherwise by comparing all bytes within the split. Splits, shard
    numbers, schema and class names are kept; without a manifest they are inferred from file names and records. A shard
    with no intact record becomes an empty shard. Lost records are counted in the result, and in `salvaged.json` of
    `out`.

    `progress` is called with the number of bytes read; the total is at most twice the size of the dataset.

    Raises UsageError if `path` holds no shards or `out` cannot be created; IntegrityError if no record is intact or
    the manifest has a newer format; StorageError; BusyError. After an error, `out` does not exist.

    Example:
        result = salvage("flowers", "repaired")
        print(f"{result.recovered} of {result.expected} records")
    """
    started = time.monotonic()
    directory, target = local_path(path), local_output(out)
    check_new_output(target)
    check_outside(target, [directory])
    survivors = look_for_survivors(directory, progress)
    with new_dataset(target) as building:
        taken = _NewRecords(survivors)
        copies: dict[SurvivingShard, _Copy] = {}
        for shard in sorted(survivors.shards, key=lambda shard: not shard.whole):
            copies[shard] = _copy_shard(building, shard, survivors, taken, progress)
        ordered = [copies[shard] for shard in survivors.shards]
        receipts: dict[str, list[Receipt]] = {split: [] for split in survivors.splits}
        for copy in ordered:
            receipts[copy.receipt.split].append(copy.receipt)
        recovered = sum(copy.receipt.info.records for copy in ordered)
        if not recovered:
            raise IntegrityError(directory, "no intact record in it", "restore it from a copy, or convert again")
        counts = [shard.records for shard in survivors.shards]  # of the dataset as it was written
        expected = None if None in counts else sum(count or 0 for count in counts)
        damaged = tuple(copy.damage for copy in ordered if copy.damage is not None)
        schema, old, kept = survivors.schema, survivors.manifest, survivors.kept
        splits = {name: split_info(building, name, schema, of_split) for name, of_split in receipts.items()}
        name = dataset_name(target)
        sidecars = {**kept, **tfds_view(name, schema, splits, [copy.tally for copy in ordered])}
        if damaged:
            lasting = kept_json(expected, recovered, damaged, survivors.notes)
            if SALVAGED in kept:
                lasting["earlier"] = json.loads(kept[SALVAGED])
            sidecars[SALVAGED] = (json.dumps(lasting, indent=1, sort_keys=True) + "\n").encode()
        infos = {split: [receipt.info.data for receipt in of_split] for split, of_split in receipts.items()}
        before = {split.name: [shard.data for shard in split.shards] for split in old.splits.values()} if old else None
        manifest = stage_manifest(
            building,
            name=name,
            schema=schema,
            splits=splits,
            sidecars=sidecars,
            fingerprint=old.fingerprint if old and infos == before else shards_fingerprint(b"salvaged", infos),
            options=old.options if old else {"adopted": True, "distinct": taken.distinct},
            rejected=old.rejected if old and REJECTED in kept else {},
            made_by=old.made_by if old else {"shardfeed": __version__},
        )
    size = sum(split.size for split in splits.values())
    seconds = time.monotonic() - started
    return Salvaged(target, manifest, expected, recovered, damaged, tuple(survivors.notes), size, seconds)


class _NewRecords:
    """The records of the new dataset, by digests of 16 bytes.

    `distinct`: no two of a split that were added are equal. If the manifest says that the dataset has equal records, a
    second copy cannot be recognised.
    """

    def __init__(self, survivors: Survivors) -> None:
        options: Mapping[str, Any] = survivors.manifest.options if survivors.manifest else {"adopted": True}
        self._named = not options.get("adopted", False)  # then each sample has a unique name, in all splits
        self._repeating = not options.get("distinct", True)
        self._needed = survivors.manifest is None or not all(shard.whole for shard in survivors.shards)
        self._digests: set[bytes] = set()
        self.distinct = True

    def has(self, split: str, payload: bytes, features: Fields) -> bool:
        """Whether a record has already been written."""
        return not self._repeating and self._digest(split, payload, features) in self._digests

    def add(self, split: str, payload: bytes, features: Fields) -> None:
        """A record that was written."""
        if self._needed and not self._repeating:
            digest = self._digest(split, payload, features)
            self.distinct &= digest not in self._digests
            self._digests.add(digest)

    def _digest(self, split: str, payload: bytes, features: Fields) -> bytes:
        kind, values = features.get(FILENAME, (None, ())) if self._named else (None, ())
        if kind == "bytes" and len(values) == 1:
            return hashlib.blake2b(values[0], digest_size=16, person=b"name").digest()
        return hashlib.blake2b(split.encode() + b"\0" + payload, digest_size=16, person=b"record").digest()


class _Copy(NamedTuple):
    """A shard of the new dataset. `damage`: what became of one that was not whole."""

    receipt: Receipt
    tally: ShardTally
    damage: SalvagedShard | None


def _copy_shard(
    building: str, shard: SurvivingShard, survivors: Survivors, taken: _NewRecords, progress: Progress
) -> _Copy:
    """Write one shard and its index. Raises IntegrityError if an intact one has changed meanwhile."""
    name = shard_file(shard.split, shard.number, shard.count)
    schema = survivors.schema
    others = [key for key in column_keys(shard.split, schema) if key not in schema.class_names]
    tally = ShardTally(schema.class_names.__contains__, others)
    doubled = refused = broken = 0
    reasons: list[str] = []
    paths = shard_paths(building, shard.split, shard.number, shard.count)
    with NATIVE.sink(*paths, schema) as sink:
        for piece in pieces_of(shard.path) if shard.path is not None else ():
            progress(piece.end - piece.start)
            if piece.framed is None:
                broken += piece.end - piece.start
                continue
            payload, features = b"", {}
            try:
                # Again, although it was checked when it was found: a disk that fails may give other bytes now.
                payload = unframe(piece.framed, name)
                features = decode(payload)
                problem = nonconformity(features, schema)
            except IntegrityError as error:
                problem = error.problem
            if problem:
                refused += 1
                reasons += [f"offset {piece.start}: {problem}"] if refused <= _REASONS else []
            elif not shard.whole and taken.has(shard.split, payload, features):
                doubled += 1
            else:
                sink.append([piece.framed])
                tally.add(features, len(piece.framed))
                taken.add(shard.split, payload, features)
    data = sink.info.data
    if shard.whole and data != shard.written and FileInfo.of_file(shard.path or "") != shard.written:
        raise IntegrityError(shard.path, "changed while it was read", "run again when no process writes to it")
    damage = None
    if not shard.whole or refused:
        problem = "intact, but not all of its records match the schema" if shard.whole else "damaged"
        damage = SalvagedShard(
            name=name,
            problem=problem if shard.path else "missing",
            expected=shard.records,
            recovered=len(tally.sizes),
            doubled=doubled,
            refused=refused,
            reasons=tuple(reasons),
            lost_bytes=max(0, shard.written.size - data.size) if shard.written else broken,
        )
    # Its columns wait in a file, which goes when the manifest is written.
    waiting = receipt_path(building, shard.split, shard.number, shard.count)
    receipt = save_receipt(waiting, tally.receipt(shard.split, shard.number, schema, sink.info))
    tally.release()
    return _Copy(receipt, tally, damage)
