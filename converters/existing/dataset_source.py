"""Datasets as a source: each record is a sample, unchanged or changed by an operation."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from shardfeed.converters.counted_ids import COUNTED_IDS, id_numbers, ids_were_counted
from shardfeed.converters.existing.record_change import RecordChange
from shardfeed.converters.sources.source import Findings, FinishedRecord, Sample, SourceInfo
from shardfeed.declared import Typed
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.manifest import SplitInfo, read_manifest
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.shards import Shards
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, LABEL, Schema, Value
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.storage import local_path

DatasetLike = Annotated[Dataset | str | os.PathLike[str], Typed("dataset directory; it is only read")]


@dataclass(frozen=True)
class Origin:
    """A split of a dataset that records are taken from, according to its manifest (`version`, its CRC-32C).

    `counted`: whether a conversion assigned the ids of its records.
    """

    directory: str
    split: SplitInfo
    version: str
    counted: bool

    def payload(self, place: int) -> bytes:
        """Read a record and check its CRC. Raises IntegrityError, also if the dataset was replaced."""
        return self._opened().payloads(np.array([place]))[0]

    def where(self, place: int) -> str:
        """Name of the record at a place in error messages."""
        return self._opened().place(place)

    def _opened(self) -> Shards:
        key = (self.directory, self.version, self.split.name)
        if key not in _shards:
            _shards[key] = Shards(self.directory, self.split)
        return _shards[key]


_shards: dict[tuple[str, str, str], Shards] = {}  # that this process has open


@dataclass(frozen=True)
class RecordOfDataset(FinishedRecord):
    """The record at `place` of its origin, with what `change` makes other in it."""

    origin: Origin
    place: int
    size: int
    change: RecordChange | None = None

    @property
    def digest(self) -> bytes:
        """Digest of the manifest's version, the split, the place and the change."""
        where = f"{self.origin.version} {self.origin.split.name} {self.place}"
        if self.change is not None:
            where += f" {self.change.digest}"
        return hashlib.blake2b(where.encode(), digest_size=16).digest()

    @property
    def counted(self) -> bool:
        return self.origin.counted or (self.change is not None and self.change.renumber)

    def __call__(self, number: int) -> bytes:
        payload = self.origin.payload(self.place)
        if self.change is None:
            return payload
        try:
            return self.change(payload, number)
        except IntegrityError as error:  # its CRC is right, its content is not: name the record
            raise RecordError(self.origin.where(self.place), error.problem, error.remedy) from None


class SplitRecords:
    """The records of one split of a dataset, from which operations choose.

    `keys`: bytes as objects [n]: the file name, or the split and position if file names are not unique keys. `sizes`:
    int64 [n], bytes.
    """

    def __init__(self, origin: Origin, split: Split, *, named: bool) -> None:
        self.origin, self.split, self._named = origin, split, named
        self._columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.split)

    @cached_property
    def sizes(self) -> np.ndarray:
        shards = self.split.shards
        views = [shards.view(number) for number in range(len(shards.info.shards))]
        return np.concatenate([view.sizes for view in views]) if views else np.zeros(0, np.int64)

    @cached_property
    def keys(self) -> np.ndarray:
        if self._named:
            return self.split.column(FILENAME)
        keys = np.empty(len(self), object)
        keys[:] = [b"%s/%09d" % (self.origin.split.name.encode(), place) for place in range(len(self))]
        return keys

    def key(self, place: int) -> bytes:
        """The key of a record."""
        return self.keys[place]

    def column(self, key: str) -> np.ndarray:
        """The values of a feature, [n]; read once."""
        if key not in self._columns:
            self._columns[key] = self.split.column(key)
        return self._columns[key]

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """The numbers of the images, int64 [n]; None where `image/source_id` has no numbers."""
        return id_numbers(self.split)

    @cached_property
    def labels(self) -> np.ndarray | None:
        """int64 [n], by which splits are drawn; None where records have none."""
        schema = self.split.schema
        return self.split.column(LABEL) if LABEL in schema.class_names and schema.features[LABEL].scalar else None


class Opened:
    """A dataset to take records from: its splits, and their common properties.

    A damaged record is rejected (`E_DAMAGED`) when it is read. Raises UsageError if it is not a dataset, IntegrityError
    if its manifest, an index or a column is damaged.
    """

    def __init__(self, dataset: DatasetLike) -> None:
        if not isinstance(dataset, Dataset):
            directory = local_path(dataset)
            # Damage is named record by record when they are read: whoever allows for it keeps the others.
            dataset = Dataset(directory, read_manifest(directory))
        self.dataset = dataset
        manifest = self.manifest = self.dataset.manifest
        self.directory = os.path.abspath(self.dataset.directory)
        self.schema: Schema = manifest.schema.stated()
        version = f"{crc32c(manifest.to_bytes()):08x}"
        named = _unique_names(self.dataset)
        self.splits = {
            name: SplitRecords(Origin(self.directory, manifest.splits[name], version, counted), split, named=named)
            for name, split in self.dataset.items()
            for counted in [ids_were_counted(self.dataset, name)]
        }

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    def made_with(self, *without: str) -> dict[str, Any]:
        """Options of the dataset, except options that each new dataset sets itself, and `without`."""
        left_out = {"shards", "shard_size", "to", "appended", COUNTED_IDS, *without}
        return {key: value for key, value in self.manifest.options.items() if key not in left_out}


def _unique_names(dataset: Dataset) -> bool:
    """Whether each record has one file name, and no other record has it."""
    schema = dataset.manifest.schema
    feature = schema.features.get(schema.key(FILENAME) or "")
    if feature is None or not feature.scalar or feature.dtype != "bytes":
        return False
    keys = [key for split in dataset.values() for key in split.column(FILENAME)]
    return len(set(keys)) == len(keys)


@dataclass(frozen=True)
class SourcePart:
    """Records that a new dataset takes, in this order: `places` int64 [n] of a split.

    `split`: the new split; None if it is drawn. `change`: the change to each record.
    """

    records: SplitRecords
    places: np.ndarray
    split: str | None
    change: RecordChange | None = None


class ChosenRecords:
    """The records of `parts`, one part after the other; see `SourceInfo.made_with`.

    A split without records is removed, with a note. `carried`: features of samples, in addition to the label, that the
    plan needs. Memory: 16 bytes per record, and its key.
    """

    def __init__(
        self,
        parts: Sequence[SourcePart],
        schema: Schema,
        made_with: Mapping[str, Any],
        *,
        keeps_order: bool = True,
        fingerprint: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.parts = [part for part in parts if len(part.places)]
        self.schema = schema
        taken = {part.split for part in self.parts}
        gone = dict.fromkeys(part.split for part in parts if part.split is not None and part.split not in taken)
        left = (f"split {name} has no records left, and is removed" for name in gone)
        findings = Findings(notes=(*notes, *left))
        self._info = SourceInfo(findings, "", made_with, keeps_order, fingerprint)
        self._ends = np.cumsum([len(part.places) for part in self.parts])
        self.carried: list[str] = []

    def info(self) -> SourceInfo:
        """Return how the records were made, and which splits are gone."""
        return self._info

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, index, "right"))
        part = self.parts[number]
        place = int(part.places[index - (int(self._ends[number - 1]) if number else 0)])
        records, change = part.records, part.change
        key = records.key(place)
        features: dict[str, Value] = {}
        if records.labels is not None:
            label = int(records.labels[place])
            features[LABEL] = label if change is None else change.label(LABEL, label)
        features |= {name: records.column(name)[place] for name in self.carried if name in self.schema.features}
        record = RecordOfDataset(records.origin, place, int(records.sizes[place]), change)
        return Sample(key if change is None else change.prefix + key, record, features, part.split)


class DatasetSource(ChosenRecords):
    """Every record of a dataset in its order, split by split; see `SourceInfo.made_with`.

    A sample's key is the record's file name; if names are missing or repeated, its split and position. Memory: 16 bytes
    per record, and its key. Raises as `Opened`.
    """

    def __init__(self, dataset: DatasetLike | Opened) -> None:
        opened = dataset if isinstance(dataset, Opened) else Opened(dataset)
        parts = [SourcePart(records, np.arange(len(records)), name) for name, records in opened.splits.items()]
        super().__init__(parts, opened.schema, opened.made_with(), fingerprint=opened.manifest.fingerprint)
