"""Create a new dataset from all intact records of a damaged one, and count the losses. The old one is only read.

Intact shards come first, byte for byte. Then follow, for each damaged shard in order, the intact records that are not
yet in the new dataset, each in its own shard. Memory: a digest of each record, about 100 bytes, if a shard is damaged,
and about 16 bytes per record from the manifest.

A damaged dataset is searched, with or without its manifest, for undamaged shards and for the records in the others.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple

from shardfeed.column import column_keys
from shardfeed.converters.commit.finish import split_info, stage_manifest
from shardfeed.converters.commit.output import check_new_output, check_outside, new_dataset
from shardfeed.converters.existing.surveying import find_schema
from shardfeed.converters.existing.tally import ShardTally, nonconformity, shards_fingerprint, tfds_view
from shardfeed.converters.shards.receipts import receipt_path, save_receipt
from shardfeed.converters.shards.task import Receipt, shard_paths
from shardfeed.converters.sources.record_features import FeatureLook
from shardfeed.converters.sources.shard_names import find_splits
from shardfeed.declared import Typed, checked
from shardfeed.errors import IntegrityError, NewerFormatError, UsageError, escape
from shardfeed.formats.example import decode
from shardfeed.formats.format import Fields
from shardfeed.formats.registry import NATIVE
from shardfeed.formats.tfrecord import Piece, found_pieces, unframe
from shardfeed.manifest import Manifest, parse_manifest
from shardfeed.naming import (
    INDEX_DIRECTORY,
    MANIFEST,
    REJECTED,
    SALVAGED,
    TFDS_FILES,
    dataset_name,
    is_shard,
    label_names_file,
    shard_file,
)
from shardfeed.schema import FILENAME, Schema
from shardfeed.storage.checksum import extend_crc32c
from shardfeed.storage.local import disk_errors, storage_error
from shardfeed.storage.storage import LOCAL, FileInfo, local_output, local_path, sizes_by_name
from shardfeed.version import __version__

_MOST_BYTES = 256 << 20  # of a side file that no checksum vouches for
Progress = Callable[[int], object]

_REASONS = 10  # of records of a shard that are refused


@dataclass(frozen=True)
class SurvivingShard:
    """Shard `number` of `count` of a split, and the file at `path` that holds its records; None: it is missing.

    `whole`: the file equals `written`, the original shard. `written` and `records`: None if unknown.
    """

    split: str
    number: int
    count: int
    path: str | None
    whole: bool
    written: FileInfo | None
    records: int | None


@dataclass
class Survivors:
    """`manifest`: None if missing or damaged. `shards`: the shards of all `splits`, in order.

    `kept`: content of intact sidecar files. `notes`: remarks for the user.
    """

    schema: Schema
    manifest: Manifest | None
    splits: tuple[str, ...]
    shards: list[SurvivingShard]
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_side_file(path: str) -> bytes | None:
    """Read a side file; None if it is missing, or larger than any can be. Raise StorageError."""
    if not os.path.isfile(path):
        return None
    with disk_errors(path, "read"), open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    return data if len(data) <= _MOST_BYTES else None


def look_for_survivors(directory: str, progress: Callable[[int], object]) -> Survivors:
    """Find what can be recovered of the dataset in `directory`. `progress` is called with bytes read.

    With a manifest, read every shard whose size is in it; without one, all files that are shards by their names. Raise
    UsageError if there is no such file, NewerFormatError, or StorageError.
    """
    try:
        present = set(sizes_by_name(LOCAL, directory, [INDEX_DIRECTORY]))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(directory, "no such directory", "give the directory of a dataset") from None
    except OSError as error:
        raise storage_error(directory, "list", error) from error
    path = os.path.join(directory, MANIFEST)
    data = read_side_file(path)
    problem = "is missing"
    try:
        if data is not None:
            manifest = parse_manifest(data, path)
            if manifest.format != NATIVE.name:
                shards = f"its shards are in the format {manifest.format}"
                problem = f"{shards}, whose records cannot be found without an index"
                remedy = "`shardfeed reshard DIR OUT --max-bad N` keeps the intact records"
                remedy += "; if an index is lost, `shardfeed rebuild DIR` shows the next step"
                raise UsageError(directory, problem, remedy)
            return _listed(directory, manifest, present, progress)
    except NewerFormatError:
        raise
    except IntegrityError as error:
        problem = f"is damaged ({error.problem})"
    note = f"{MANIFEST} {problem}: its contents are inferred from the records"
    return unlisted_survivors(directory, present, note, progress)


def _listed(directory: str, manifest: Manifest, present: set[str], progress: Callable[[int], object]) -> Survivors:
    """Find the file of each shard: the one with its bytes, whatever its name; otherwise the one with its name."""
    expected = manifest.files()
    sizes = {info.size for name, info in expected.items() if is_shard(name)}
    by_content: dict[FileInfo, list[str]] = {}
    for name in sorted(present):
        path = os.path.join(directory, name)
        if is_shard(name) and os.path.isfile(path) and os.path.getsize(path) in sizes:
            info = FileInfo.of_file(path)
            by_content.setdefault(info, []).append(name)
            progress(info.size)
    # A file equal to another shard, byte for byte, is not a remainder of the shard that its name claims.
    listed = {info.data for split in manifest.splits.values() for info in split.shards}
    elsewhere = {name for info, names in by_content.items() if info in listed for name in names}
    found = Survivors(manifest.schema, manifest, tuple(manifest.splits), [])
    used: set[str] = set()
    for split in manifest.splits.values():
        for number, info in enumerate(split.shards):
            name = split.shard_file(number)
            same = by_content.get(info.data, [])
            file = name if name in same or not same else same[0]
            if file != name:
                found.notes.append(f"{name} is taken from {escape(file)}")
            used.add(file)
            path = os.path.join(directory, file)
            there = path if os.path.isfile(path) and (same or name not in elsewhere) else None
            shard = SurvivingShard(split.name, number, len(split.shards), there, bool(same), info.data, info.records)
            found.shards.append(shard)
    made_again = TFDS_FILES | {label_names_file(key) for key in manifest.schema.class_names}
    for name in sorted(manifest.sidecars.keys() - made_again):
        data = read_side_file(os.path.join(directory, name))
        if data is not None and FileInfo.of(data) == manifest.sidecars[name]:
            found.kept[name] = data
        else:
            found.notes.append(f"{escape(name)} is missing or damaged, and left out")
    for name in sorted(present - expected.keys() - {MANIFEST} - used):
        found.notes.append(f"{escape(name)} is not part of the dataset, and not read")
    return found


def unlisted_survivors(
    directory: str, present: Collection[str], note: str, progress: Callable[[int], object]
) -> Survivors:
    """Find the shards in `directory`; their schema is what all intact records have in common. `note`: for the user.

    Image, label and class names are those that `adopt` would find; TFDS's files say which features are sequences.
    Raises UsageError if no file has a shard's name, StorageError.
    """
    splits = find_splits(directory, sorted(name for name in present if os.path.isfile(os.path.join(directory, name))))
    if not splits:
        raise UsageError(directory, "no file in it is named like a shard", "give the directory of a dataset")
    lengths = _shard_lengths(directory)
    look = FeatureLook()
    shards: list[SurvivingShard] = []
    for split in splits:
        counts = lengths.get(split.name, [])
        for number, file in enumerate(split.files):
            path = None if file is None else os.path.join(directory, file)
            records = counts[number] if len(counts) == len(split.files) else None
            content = None if path is None else _content(path, records, look, progress)
            whole = content is not None
            shards.append(SurvivingShard(split.name, number, len(split.files), path, whole, content, records))
    found = find_schema(look, directory, splits, ragged=_ragged_beside(directory))
    return Survivors(found.schema, None, tuple(split.name for split in splits), shards, notes=[note])


def pieces_of(path: str) -> Iterator[Piece]:
    """Yield the pieces of a shard's file. Raise StorageError."""
    with disk_errors(path, "read"):
        yield from found_pieces(path)


def _content(path: str, records: int | None, look: FeatureLook, progress: Callable[[int], object]) -> FileInfo | None:
    """Size and CRC-32C of an undamaged file of Examples, `records` of them if that is known; None if it is damaged."""
    size = crc = count = 0
    whole = True
    for piece in pieces_of(path):
        progress(piece.end - piece.start)
        if piece.framed is None:
            whole = False
            continue
        try:
            look.add(decode(piece.payload), f"{path}, offset {piece.start}")
        except IntegrityError:
            whole = False
        size += len(piece.framed)
        crc = extend_crc32c(crc, piece.framed)
        count += 1
    return FileInfo(size, crc) if whole and records in (None, count) else None


def _shard_lengths(directory: str) -> dict[str, list[int]]:
    """Records of each shard from TFDS's dataset_info.json, by split; empty if it cannot be read."""
    value: Any = _json(os.path.join(directory, "dataset_info.json"))
    try:
        lengths = {str(split["name"]): [int(n) for n in split["shardLengths"]] for split in value["splits"]}
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}
    return {name: counts for name, counts in lengths.items() if min(counts, default=0) >= 0}


def _ragged_beside(directory: str) -> set[str]:
    """The features that TFDS's features.json lists as sequences; empty if it cannot be read."""
    try:
        features = _json(os.path.join(directory, "features.json"))["featuresDict"]["features"]
        return {key for key, value in features.items() if value["pythonClassName"].endswith(".Sequence")}
    except (KeyError, TypeError, AttributeError):
        return set()


def _json(path: str) -> Any:
    try:
        return json.loads(read_side_file(path) or b"null")
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class SalvagedShard:
    """Outcome for a damaged shard. `expected`: number of records that were written to it, None if unknown.

    `doubled`: whole records left out because they are in the new dataset already. `refused`: whole records left out
    because they do not conform to the schema, the first of them in `reasons`, each with its offset. `lost_bytes`: bytes
    written that did not come back; if the number written is unknown, the file's bytes outside of whole records.
    """

    name: str
    problem: str
    expected: int | None
    recovered: int
    doubled: int
    refused: int
    reasons: tuple[str, ...]
    lost_bytes: int

    @property
    def lost(self) -> int | None:
        """Number of records that the shard lost; None if the original number is unknown."""
        return None if self.expected is None else max(0, self.expected - self.recovered)

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        found = {**asdict(self), "lost": self.lost, "reasons": list(self.reasons)}
        return {"shard" if name == "name" else name: value for name, value in found.items()}


@dataclass(frozen=True)
class Salvaged:
    """Result of `salvage`. `expected`: records that the dataset had, None if unknown; `shards`: shards with losses.

    `size`: bytes of the shards that were written.

    Example:
        result = salvage("flowers", "repaired")
        print(result.recovered, result.lost)
    """

    out: str
    manifest: Manifest
    expected: int | None
    recovered: int
    shards: tuple[SalvagedShard, ...]
    notes: tuple[str, ...]
    size: int
    seconds: float

    @property
    def lost(self) -> int | None:
        """Number of records missing from all shards together; None if the original number is unknown."""
        return _lost(self.expected, self.shards)

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts; the field names are stable."""
        kept = kept_json(self.expected, self.recovered, self.shards, self.notes)
        return {"out": self.out, **kept, "bytes": self.size, "seconds": round(self.seconds, 3)}


def kept_json(
    expected: int | None, recovered: int, shards: Sequence[SalvagedShard], notes: Sequence[str]
) -> dict[str, Any]:
    """Content of `salvaged.json`, which is kept with the new dataset: no time and no path in it."""
    return {
        "expected": expected,
        "recovered": recovered,
        "lost": _lost(expected, shards),
        "shards": [shard.to_json() for shard in shards],
        "notes": list(notes),
    }


def _lost(expected: int | None, shards: Sequence[SalvagedShard]) -> int | None:
    return None if expected is None else sum(shard.lost or 0 for shard in shards)


@checked
def salvage(
    path: Annotated[str | os.PathLike[str], Typed("damaged dataset directory; it is only read", "dataset")],
    out: Annotated[str | os.PathLike[str], Typed("dataset directory to create")],
    *,
    progress: Progress = lambda size: None,
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
                lasting["earlier"] = _as_json(kept[SALVAGED])
            sidecars[SALVAGED] = _lines(lasting)
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


def _lines(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _as_json(content: bytes) -> Any:
    """The value of an earlier `salvaged.json`; its text, if it is another program's file, which was adopted."""
    try:
        value = json.loads(content)
        _lines(value)
        return value
    except (ValueError, TypeError, RecursionError):
        return content.decode(errors="replace")


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
