"""Finding the whole records of damaged shards, and saying which of them belong to the dataset."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from shardfeed.converters.existing.record_schema import Features, SchemaInference, nonconformity
from shardfeed.converters.existing.salvage.identities import Identities
from shardfeed.converters.existing.salvage.placing import Found, Home, Members, lost_numbers, lost_serial, settle
from shardfeed.converters.existing.salvage.report import LostRecord
from shardfeed.converters.existing.salvage.survivors import Remnants, names_beside, ragged_beside
from shardfeed.errors import IntegrityError, name_text
from shardfeed.formats.tfrecord.example import decode
from shardfeed.formats.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES, payload_length
from shardfeed.formats.tfrecord.scan import pieces
from shardfeed.schema import FILENAME, LABEL, SOURCE_ID, Dtype, Schema
from shardfeed.storage.local import storage_error

_MOST_READ = 64 << 20  # bytes of a damaged record that are looked into for its name
_DIGITS = 18  # of a source id; more do not fit int64


@dataclass
class Searched:
    """A shard that was searched: its members, what is known of it, and records that are none, as "where: why"."""

    members: Members
    home: Home
    not_records: tuple[str, ...]
    lost: tuple[LostRecord, ...] = ()


@dataclass
class _Scanned:
    found: list[Found] = field(default_factory=list)
    not_records: list[str] = field(default_factory=list)
    remains: list[tuple[int, str | None, str | None]] = field(default_factory=list)  # (start, source id, file name)
    named: bool = True  # every record has something that tells it from others

    def intact(self, records: int | None) -> bool:
        """Whether nothing speaks of damage: no byte is left over, and there are `records`, where that is known."""
        return not self.remains and not self.not_records and records in (None, len(self.found))


class Search:
    """A search through the damaged shards of a dataset; then its schema is known."""

    def __init__(self, remnants: Remnants, progress: Callable[[int], object]) -> None:
        self._remnants = remnants
        self._progress = progress
        self._inference = SchemaInference() if remnants.manifest is None else None
        self._identities = Identities(remnants)

    def search(self) -> dict[str, dict[int, Searched]]:
        """The damaged shards of each split, by number."""
        remnants = self._remnants
        scanned = {
            split: {i: self._scan(shard.file) for i, shard in enumerate(shards) if not shard.whole}
            for split, shards in remnants.shards.items()
        }
        said = self._homes if remnants.manifest is not None else self._homes_by_records
        homes = {split: said(split, of_split) for split, of_split in scanned.items()}
        if remnants.manifest is not None and remnants.distinct:
            if any(scan.found for of_split in scanned.values() for scan in of_split.values()):
                self._identities.read_whole_shards()
            self._sort_by_split(scanned, homes)
        found = {split: {i: scan.found for i, scan in of_split.items()} for split, of_split in scanned.items()}
        taken = self._identities.taken(found, homes)
        searched: dict[str, dict[int, Searched]] = {}
        for split, of_split in scanned.items():
            members = settle(found[split], homes[split], taken[split])
            searched[split] = {
                i: Searched(
                    members[i],
                    homes[split][i],
                    tuple(scan.not_records),
                    self._lost(remnants.shards[split][i].file, members[i], homes[split][i], scan.remains),
                )
                for i, scan in of_split.items()
            }
        return searched

    def schema(self) -> Schema:
        """The manifest's, or what all records that were found have in common."""
        if self._remnants.manifest is not None:
            return self._remnants.manifest.schema
        assert self._inference is not None, "made where there is no manifest"
        directory = self._remnants.directory
        features = self._inference.features(ragged_beside(directory))
        names = self._inference.class_names()
        for key, feature in features.items():
            beside = names_beside(directory, key) if feature.dtype == "int64" else None
            if beside is not None and self._inference.could_name(key, beside):
                names[key] = beside
        return Schema(features, names)

    def _path(self, file: str) -> str:
        return self._remnants.path(file)

    def _scan(self, file: str | None) -> _Scanned:
        scanned = _Scanned()
        if file is None:
            return scanned
        path = self._path(file)
        try:
            for piece in pieces(path):
                self._progress(piece.end - piece.start)
                if piece.framed is None:
                    scanned.remains.append((piece.start, *_remains(path, piece.start)))
                    continue
                payload = piece.payload
                try:
                    features = self._example(payload, f"{file}, offset {piece.start}")
                except IntegrityError as error:
                    scanned.not_records.append(f"offset {piece.start}: {error.problem}")
                    continue
                digest = self._identities.digest(payload, features)
                label = _one(features, LABEL, "int64")
                serial = _serial(features)
                scanned.named &= serial is not None or bool(_one(features, FILENAME, "bytes"))
                scanned.found.append(
                    Found(path, piece.start, piece.end, serial, digest, None if label is None else int(label))
                )
        except OSError as error:
            raise storage_error(path, "read", error) from error
        return scanned

    def _example(self, payload: bytes, place: str) -> Features:
        """The features of a record. Raises IntegrityError unless it is one of the schema."""
        features = decode(payload)
        if self._remnants.manifest is not None:
            if problem := nonconformity(features, self._remnants.manifest.schema):
                raise IntegrityError(place, problem)
        else:
            assert self._inference is not None, "made where there is no manifest"
            self._inference.add(features, place)
        return features

    def _sort_by_split(self, scanned: dict[str, dict[int, _Scanned]], homes: dict[str, dict[int, Home]]) -> None:
        """Put records that are of another split than the file they lie in to a shard there that may have had them."""
        moved: list[tuple[_Scanned, Found]] = []
        for split, of_split in scanned.items():
            for scan in of_split.values():
                staying = []
                for record in scan.found:
                    own = self._identities.split_of(record.digest)
                    if own in (None, split):
                        staying.append(record)
                        continue
                    of_own = homes.get(own or "", {}).items()
                    fitting = [i for i, home in of_own if home.in_range(record) and not home.contradiction(record)]
                    if len(fitting) == 1:
                        moved.append((scanned[own or ""][fitting[0]], record))
                    else:
                        scan.not_records.append(f"offset {record.start}: a record of the split {own}")
                scan.found = staying
        for scan, record in moved:
            scan.found.append(record)

    def _homes_by_records(self, split: str, scanned: dict[int, _Scanned]) -> dict[int, Home]:
        """Without a manifest: what the records themselves say of the shards of a split, all of which were scanned."""
        shards = self._remnants.shards[split]
        suspect = {i: scan for i, scan in scanned.items() if not scan.intact(shards[i].records)}
        records = [record for scan in suspect.values() for record in scan.found]
        # One digest a serial, and ascending: then they are places in a plan, or as good. Other ids stay as they lie.
        ours = all(record.serial is not None for record in records)
        ours = ours and len({record.serial for record in records}) == len({record.digest for record in records})
        distinct = ours or all(scan.named for scan in suspect.values())
        ours = ours and _ascending([[record.serial or 0 for record in scan.found] for scan in suspect.values()])
        for i, scan in scanned.items():
            if i not in suspect:
                self._identities.note_whole(split, (record.digest for record in scan.found))
            if i not in suspect or not ours:
                scan.found = [replace(record, serial=None) for record in scan.found]
        return {i: Home(shards[i].records, distinct=distinct and i in suspect) for i in scanned}

    def _homes(self, split: str, scanned: dict[int, _Scanned]) -> dict[int, Home]:
        remnants = self._remnants
        if not remnants.planned:
            for scan in scanned.values():
                scan.found = [replace(record, serial=None) for record in scan.found]
        found = [record for scan in scanned.values() for record in scan.found]
        shards = remnants.shards[split]
        labels = remnants.labels.get(split)
        counts = [shard.records or 0 for shard in shards]
        firsts = np.cumsum([0, *counts]).tolist()
        ranges = self._ranges(split, firsts, found) if remnants.planned else None
        homes: dict[int, Home] = {}
        for i in scanned:
            home = Home(records=shards[i].records, offsets=shards[i].offsets, distinct=remnants.distinct)
            if labels is not None:
                home = replace(home, labels=labels[firsts[i] : firsts[i + 1]])
            if ranges is not None:
                home = replace(home, lowest=ranges[i][0], below=ranges[i][1], exact=remnants.gaps == 0)
            homes[i] = home
        return homes

    def _ranges(self, split: str, firsts: list[int], found: Sequence[Found]) -> dict[int, tuple[int, int]] | None:
        """The range of serials of each shard; None where records do not bear out that they are places of the plan."""
        gaps = self._remnants.gaps
        shards = self._remnants.shards[split]
        if gaps is None or self._remnants.manifest is None:
            return None
        ends: dict[int, tuple[int, int]] = {}
        for i, shard in enumerate(shards):
            if shard.whole and shard.records and shard.file is not None and shard.offsets is not None:
                first, last = _end_serials(self._path(shard.file), shard.offsets)
                if first is None or last is None or not firsts[i] <= first <= last < firsts[i + 1] + gaps:
                    return None
                ends[i] = first, last
        inside = sum(firsts[0] <= (record.serial or 0) < firsts[-1] + gaps for record in found)
        if not ends and 2 * inside < len(found):
            return None
        ranges: dict[int, tuple[int, int]] = {}
        for i in range(len(shards)):
            low = max([firsts[i], *(last + 1 for other, (_, last) in ends.items() if other < i)])
            high = min([firsts[i + 1] + gaps, *(first for other, (first, _) in ends.items() if other > i)])
            ranges[i] = low, max(low, high)
        return ranges

    def _lost(
        self, file: str | None, members: Members, home: Home, remains: Sequence[tuple[int, str | None, str | None]]
    ) -> tuple[LostRecord, ...]:
        """The records that are gone, with what names them."""
        names = {source_id: name for _, source_id, name in remains if source_id is not None}
        by_start = {start: (source_id, name) for start, source_id, name in remains}
        lost: list[LostRecord] = []
        for number in lost_numbers(members, home) or ():
            serial = lost_serial(number, members, home)
            source_id, name = (None, None) if serial is None else (str(serial), names.get(str(serial)))
            if name is None and home.offsets is not None and file is not None:
                start, end = home.offsets[number : number + 2].tolist()
                found = by_start.get(start, (None, None))
                if found == (None, None):
                    found = _remains(self._path(file), start, end)
                if source_id is None or found[0] == source_id:
                    source_id, name = found
            lost.append(LostRecord(number, source_id, name))
        return tuple(lost)


def _remains(path: str, start: int, end: int | None = None) -> tuple[str | None, str | None]:
    """Source id and file name that a damaged record at `start` says it has; `end`: where it ended, if known."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            header = file.read(HEADER_BYTES)
            room = os.fstat(file.fileno()).st_size - start - HEADER_BYTES
            length = payload_length(header, room, path) if end is None else end - start - HEADER_BYTES - FOOTER_BYTES
            features = decode(file.read(length)) if length <= _MOST_READ else {}
    except IntegrityError:
        return None, None
    serial, name = _serial(features), _one(features, FILENAME, "bytes")
    return None if serial is None else str(serial), None if name is None else name_text(bytes(name))


def _ascending(files: Sequence[Sequence[int]]) -> bool:
    """Whether nearly all neighbours do: a damaged file of ours has a range out of its place here and there."""
    steps = [after > before for serials in files for before, after in pairwise(serials)]
    return 10 * steps.count(False) <= len(steps)


def _end_serials(path: str, offsets: np.ndarray) -> tuple[int | None, int | None]:
    """Of the first and the last record of an undamaged shard."""
    found: list[int | None] = []
    with open(path, "rb") as file:
        for at in (0, len(offsets) - 2):
            file.seek(int(offsets[at]) + HEADER_BYTES)
            payload = file.read(int(offsets[at + 1] - offsets[at]) - HEADER_BYTES - FOOTER_BYTES)
            try:
                found.append(_serial(decode(payload)))
            except IntegrityError:
                found.append(None)
    return found[0], found[1]


def _serial(features: Features) -> int | None:
    """`image/source_id` as a number, if it is written as our converter writes one."""
    text = _one(features, SOURCE_ID, "bytes")
    if text is None or not text.isdigit() or len(text) > _DIGITS or (text[:1] == b"0" and text != b"0"):
        return None
    return int(text)


def _one(features: Features, key: str, dtype: Dtype) -> Any:
    found, values = features.get(key, (None, ()))
    return values[0] if found == dtype and len(values) == 1 else None
