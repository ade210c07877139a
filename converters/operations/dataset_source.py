"""A dataset as a source: each of its records is a sample, taken as it is."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.converters.sources.source import Sample
from shardfeed.manifest import SplitInfo, read_manifest
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.shards import Shards
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, LABEL, Schema, Value
from shardfeed.storage.checksum import crc32c


@dataclass(frozen=True)
class Origin:
    """A split of a dataset that records are taken from, as its manifest (`version`, its CRC-32C) says it is."""

    directory: str
    split: SplitInfo
    version: str

    def payload(self, place: int) -> bytes:
        """The record at a place, its CRC checked. Raises IntegrityError, also where the dataset was replaced."""
        key = (self.directory, self.version, self.split.name)
        if key not in _shards:
            _shards[key] = Shards(self.directory, self.split)
        return _shards[key].payloads(np.array([place]))[0]


_shards: dict[tuple[str, str, str], Shards] = {}  # that this process has open


@dataclass(frozen=True)
class RecordOfDataset:
    """See `StoredRecord`: the record at `place` of its origin."""

    origin: Origin
    place: int
    size: int

    @property
    def digest(self) -> bytes:
        """Of the manifest, the split and the place."""
        where = f"{self.origin.version} {self.origin.split.name} {self.place}"
        return hashlib.blake2b(where.encode(), digest_size=16).digest()

    def __call__(self) -> bytes:
        return self.origin.payload(self.place)


class DatasetSource:
    """Every record of a dataset in its order, split by split; see `RecordedSource`.

    A sample's key is the record's file name; where records have none, or one twice, it is its split and place.
    Memory: 8 bytes a record, and its key. A damaged record is rejected (`E_DAMAGED`). Raises UsageError for what is no
    dataset, IntegrityError where its manifest, an index or a column is damaged.
    """

    keeps_order = True

    def __init__(self, dataset: Dataset | str | os.PathLike[str]) -> None:
        if not isinstance(dataset, Dataset):
            directory = os.path.abspath(os.fspath(dataset))
            # Damage is named record by record when they are read: whoever allows for it keeps the others.
            dataset = Dataset(directory, read_manifest(directory))
        self.dataset = dataset
        manifest = self.dataset.manifest
        self.schema: Schema = manifest.schema
        self.made_with: Mapping[str, Any] = {k: v for k, v in manifest.options.items() if k not in _OF_EACH_CONVERSION}
        self.fingerprint: str | None = manifest.fingerprint
        version = f"{crc32c(manifest.to_bytes()):08x}"
        origins = [Origin(self.dataset.directory, info, version) for info in manifest.splits.values()]
        self._splits = [_Records(origin, split) for origin, split in zip(origins, self.dataset.values(), strict=True)]
        self._ends = np.cumsum([len(records.sizes) for records in self._splits])
        if _keys_repeat(self._splits):
            for records in self._splits:
                records.keys = None

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, index, "right"))
        return self._splits[number].sample(index - (int(self._ends[number - 1]) if number else 0))


# What a dataset's options say of how it was cut into splits and shards, which each conversion decides anew.
_OF_EACH_CONVERSION = frozenset({"split", "split_by", "shards", "shard_size", "seed", "to"})


class _Records:
    """The samples of one split. `keys`: of each, bytes [n]; None where those would not do. `sizes`: int64 [n]."""

    def __init__(self, origin: Origin, split: Split) -> None:
        self.origin = origin
        shards = split.shards
        views = [shards.view(number) for number in range(len(shards.info.shards))]
        self.sizes = np.concatenate([view.sizes for view in views]) if views else np.zeros(0, np.int64)
        features = split.schema.features
        named = FILENAME in features and features[FILENAME].scalar and features[FILENAME].dtype == "bytes"
        self.keys = split.column(FILENAME) if named else None
        labelled = LABEL in split.schema.class_names and features[LABEL].scalar
        self.labels = split.column(LABEL) if labelled else None

    def sample(self, place: int) -> Sample:
        """The sample at a place."""
        name = self.origin.split.name
        key = b"%s/%09d" % (name.encode(), place) if self.keys is None else self.keys[place]
        features: dict[str, Value] = {} if self.labels is None else {LABEL: int(self.labels[place])}
        record = RecordOfDataset(self.origin, place, int(self.sizes[place]))
        return Sample(key, b"", features, name, record=record)


def _keys_repeat(splits: Sequence[_Records]) -> bool:
    """Whether two records have one key."""
    keys = [key for records in splits if records.keys is not None for key in records.keys]
    return len(set(keys)) < len(keys)
