"""Random access to a split: `split[i]` reads one record through the index, in any shard.

Every record's CRC is checked. A split pickles as paths, opens files when first needed, and serves many threads at once.
"""

import hashlib
import operator
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardfeed.declared import check_length, checked
from shardfeed.errors import IntegrityError, RecordError, UsageError, shown
from shardfeed.formats.example import decode
from shardfeed.formats.registry import NATIVE
from shardfeed.manifest import SplitInfo
from shardfeed.readers.columns import read_column
from shardfeed.readers.notebook import split_html
from shardfeed.readers.record import new_record
from shardfeed.readers.selection import check_selection, indices_of
from shardfeed.readers.shards import Copy, ReadsAhead, Shards
from shardfeed.readers.skip import SkipLike
from shardfeed.schema import FILENAME, Schema
from shardfeed.storage.storage import LOCAL, Storage

_DTYPES = {"int64": np.int64, "float32": np.float32}

Record = dict[str, bytes | int | float | list[bytes] | np.ndarray]


# Methods for pipelines, which completion does not offer; `index` and `count` may read every record.
_FOR_PIPELINES = {
    *("shards", "shard_numbers", "shard_slices", "whole_split", "reading", "read_bytes", "contiguous"),
    *("check_streamable", "place", "places", "payload", "payloads", "parse", "index", "count"),
}


@dataclass(frozen=True)
class ShardSlice:
    """The records of a shard that belong to a view: skip the first `skip` of the shard's `records`, then take `take`.

    `path`: the shard file. `format`: its format. `first`: place of the shard's first record in the whole split.

    Example:
        for part in data["train"][:4].shard_slices():
            print(part.path, part.skip, part.take)
    """

    path: str
    first: int
    skip: int
    take: int
    records: int
    format: str = NATIVE.name


class Split(Sequence[Record]):
    """A split, or a part of a split: `len(split)`, `split[i]`, `split[a:b]`, `split[:0.1]`, `split.select(...)`.

    `split[i]` is a dict by feature key: bytes, int or float for scalars, list[bytes] or an array for other features. A
    `Split` can be used directly as a map-style dataset of PyTorch. A slice takes sample indices, or fractions of the
    split as floats from 0 to 1: `split[:0.1]` is the first tenth, `split[0.1:]` the rest.

    `in`, `index` and `count` compare records by their values, and read those with the same file name.

    Example:
        train = data["train"]
        label = train[0]["image/class/label"]
        large = train.select(train.column("image/height") >= 24)
        half = train[:0.5]
    """

    __array_ufunc__ = None  # so that a comparison with an array does not read all samples as one

    def __init__(self, directory: str, schema: Schema, info: SplitInfo, storage: Storage = LOCAL) -> None:
        self.name = info.name
        self.schema = schema
        self.shards = Shards(directory, info, storage=storage)  # the files behind the whole split
        self._places: range | np.ndarray = range(info.records)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in label order: see `Dataset.class_names`."""
        return self.schema.main_class_names

    @property
    def class_counts(self) -> Mapping[str, tuple[int, ...]]:
        """Number of records of each class, by label feature; for the whole split, even if this is a slice."""
        return self.shards.info.class_counts

    @property
    def formats(self) -> Mapping[str, int]:
        """Number of records by `image/format` ("raw" if decoded) in the whole split; empty if unknown."""
        copy = self.shards.copy
        return {"raw": self.shards.info.records} if copy and copy.decoded else self.shards.info.formats

    @property
    def record_bytes(self) -> int:
        """Size of the stored records in bytes, with framing; estimated if this is only a part of the split."""
        info = self.shards.info
        return info.size * len(self) // max(1, info.records)

    @property
    def read_bytes(self) -> int:
        """Size in bytes of the records as read, with framing; for a decoded copy it differs from `record_bytes`."""
        info = self.shards.copy.info if self.shards.copy else self.shards.info
        return info.size * len(self) // max(1, info.records)

    @property
    def fingerprint(self) -> str:
        """A hash, 32 hex digits; equal only if two views hold the same records, shard by shard, in the same order.

        It is the BLAKE2b hash of the split's name, the shards' sizes and checksums, and the places of the view in the
        split. It does not depend on the path or the name of the dataset, nor on which copy of the dataset is read.
        """
        digest = hashlib.blake2b(self.name.encode() + self.shards.info.shards.files, digest_size=16)
        if isinstance(self._places, range):
            first = self._places[0] if len(self) else 0
            step = self._places.step if len(self) > 1 else 1
            digest.update(struct.pack("<qqq", first, step, len(self)))
        else:
            digest.update(self._places.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def whole_split(self) -> "Split":
        """The whole split behind this view."""
        return self._view(range(self.shards.info.records))

    @property
    def contiguous(self) -> bool:
        """True if the samples are consecutive in the shards, so that they can be read as a stream."""
        return isinstance(self._places, range) and self._places.step == 1

    def check_streamable(self) -> None:
        """Check that the split can be streamed, that is, that its samples are consecutive. Raises UsageError if not."""
        if not self.contiguous:
            problem = "samples that are not consecutive cannot be streamed"
            raise UsageError(f"split {self.name}", problem, 'use order="global"')

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Split": ...
    def __getitem__(self, index: Any) -> "Record | Split":
        if isinstance(index, slice):
            return self._view(self._places[self._cut(index)])
        return self._parsed(self.payload(index), index)

    def _parsed(self, payload: bytes, index: int) -> Record:
        """The sample at `index`, of its serialized Example."""
        try:
            return checked_record(decode(payload), self.schema, new_record())
        except IntegrityError as error:  # the CRC is right but the content is not: name the record
            raise RecordError(self.where(index), error.problem, error.remedy) from None

    def _cut(self, part: slice) -> slice:
        """A slice in samples. Raises UsageError unless it has integers, or shares as its bounds."""
        cut = slice(self._number(part.start), self._number(part.stop), part.step)
        try:
            cut.indices(len(self))
        except Exception:  # also of the bounds' own methods
            problem = f"got {shown(part)}, expected integers, or shares within 0..1, and a step other than 0"
            raise UsageError("index", problem) from None
        return cut

    def _number(self, bound: Any) -> Any:
        """A bound of a slice in samples: a float is a share of the view."""
        if not isinstance(bound, float | np.floating):
            return bound
        if not 0 <= bound <= 1:
            raise UsageError(f"split {self.name}", f"got a slice at {bound}, expected a share within 0..1")
        return round(float(bound) * len(self))

    def _view(self, places: range | np.ndarray) -> "Split":
        view = object.__new__(Split)
        view.name, view.schema, view.shards, view._places = self.name, self.schema, self.shards, places
        return view

    @checked
    def select(self, which: Annotated[ArrayLike, check_selection]) -> "Split":
        """Return a view of selected samples; `which`: a bool mask [n], or indices, int [k], in any order.

        `split.select(split.column("image/height") >= 224)` keeps the large images. The view takes 8 bytes of memory per
        sample, and cannot be streamed. Raises UsageError for a mask of a different length, and for indices that are out
        of range or not integers.

        Example:
            large = data["train"].select(data["train"].column("image/height") >= 24)
        """
        chosen = np.asarray(which)
        if chosen.dtype == bool and chosen.shape == (len(self),):
            indices = np.flatnonzero(chosen)
        elif chosen.ndim == 1 and (np.issubdtype(chosen.dtype, np.integer) or chosen.size == 0):
            indices = chosen.astype(np.int64, copy=False)
        else:
            problem = f"got a selection of dtype {chosen.dtype} and shape {chosen.shape}"
            raise UsageError(f"split {self.name}", problem, f"expected a bool mask [{len(self)}], or integers [k]")
        if indices.size and not -len(self) <= indices.min() <= indices.max() < len(self):
            bad = indices.min() if indices.min() < -len(self) else indices.max()
            raise UsageError(f"split {self.name}", f"got the index {bad}, expected less than {len(self)}")
        return self._view(self.places(indices))

    @checked
    def column(self, key: str) -> np.ndarray:
        """Return the value of feature `key` in each sample: int64 [n], float32 [n], or bytes as objects [n].

        Labels come from the column stored with the dataset; for other features the records are read, except for their
        images. Raises UsageError unless the feature has one value per record, IntegrityError if a record is damaged.

        Example:
            labels = data["train"].column("image/class/label")
            rare = data["train"].select(np.bincount(labels)[labels] < 10)
        """
        key = self.schema.key(key) or key
        feature = self.schema.features.get(key)
        if feature is None or not feature.scalar:
            scalars = sorted(name for name, feature in self.schema.features.items() if feature.scalar)
            problem = f"got {shown(key)}, expected a feature with one value per record"
            raise UsageError("column", problem, f"it has {', '.join(scalars)}")
        return read_column(self.shards, self.schema, key, self._places)

    def place(self, index: int) -> int:
        """Return the sample's place in the whole split; negative indices count from the end. Raises IndexError."""
        try:
            return int(self._places[operator.index(index)])
        except IndexError:
            problem = f"split {self.name!r} has {len(self)} samples, got the index {shown(index)}"
            raise IndexError(problem) from None
        except Exception:  # also of its own methods
            raise UsageError("index", f"got {shown(index)}, expected an integer") from None

    def where(self, index: int) -> str:
        """Return the location of the sample at `index` as error messages show it: shard file, record number and offset.

        Example:
            print(data["train"].where(0))  # shard, record and offset
        """
        return self.shards.place(self.place(index))

    @checked
    def places(self, indices: NDArray[np.integer]) -> np.ndarray:
        """Convert indices within the view, int64 [k], to places in the whole split, int64 [k]."""
        if isinstance(self._places, range):
            places = np.where(indices < 0, indices + len(self), indices).astype(np.int64, copy=False)
            places *= self._places.step
            return np.add(places, self._places.start, out=places)
        return self._places[indices]

    def __getitems__(self, indices: Sequence[int]) -> list[Record]:
        """Return the samples at `indices`, read together: PyTorch's DataLoader requests a batch this way."""
        is_row = isinstance(indices, np.ndarray) and indices.ndim == 1
        if isinstance(indices, str | bytes) or not (is_row or isinstance(indices, Sequence)):
            raise UsageError("indices", f"got {shown(indices)}, expected a list of integers")
        check_length("indices", indices)
        payloads = self.shards.payloads(np.array([self.place(index) for index in indices], np.int64))
        return [self._parsed(payload, index) for payload, index in zip(payloads, indices, strict=True)]

    def __iter__(self) -> Iterator[Record]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, record: object) -> bool:
        """Whether a sample has the values of `record`."""
        return next(self._equal(record), None) is not None

    @checked
    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first index, from `start` and before `stop`, of the sample with the values of a record.

        Raises UsageError, a ValueError, if there is none.
        """
        bounds = self._cut(slice(start, stop)).indices(len(self))
        place = next((index for index in self._equal(value) if index in range(*bounds)), None)
        if place is None:
            problem = f"no sample of split {self.name} has the values of {shown(value)}"
            raise UsageError("value", problem, "give a record of the split, as split[i] returns it")
        return place

    def count(self, value: Any) -> int:
        """Return the number of samples with the values of a record."""
        return sum(1 for _ in self._equal(value))

    def _equal(self, record: Any) -> Iterator[int]:
        """Yield the indices of the samples with the same values as a record."""
        key = self.schema.key(FILENAME)
        is_scalar = key is not None and self.schema.features[key].scalar
        return indices_of(record, self, key if is_scalar else None, self.column)

    @checked
    def without_damaged(self, damaged: SkipLike) -> Iterator[Record]:
        """Yield the samples in order, except damaged ones; `damaged` counts these and sets their maximum number.

        Raises IntegrityError if more records are damaged than `damaged` allows.

        Example:
            skip = Skip(10)
            names = [record["image/filename"] for record in data["train"].without_damaged(skip)]
            print(skip.found)
        """
        for i in range(len(self)):
            try:
                yield self[i]
            except RecordError as error:
                damaged.note(error)

    def payload(self, index: int) -> bytes:
        """Return the serialized Example at `index`; negative: from the end. Raises IndexError, RecordError."""
        return self.shards.payloads(np.array([self.place(index)]))[0]

    @checked
    def payloads(self, indices: NDArray[np.integer]) -> list[bytes]:
        """Return the serialized Examples at `indices`, int64 [k], in order. Raises IndexError, RecordError."""
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"split {self.name!r} has {len(self)} samples, got the index {indices.max()}")
        return self.shards.payloads(self.places(indices))

    @checked
    def parse(self, payload: bytes) -> Record:
        """Parse a serialized Example as `split[i]` does. Raises IntegrityError if it does not match the schema."""
        return checked_record(decode(payload), self.schema, {})

    def reading(self, how: Copy | ReadsAhead) -> "Split":
        """Return a view of the same samples that reads from a copy of their shards, or ahead."""
        view = self._view(self._places)
        view.shards = self.shards.reading(how)
        return view

    def shard_numbers(self) -> list[int]:
        """Return the numbers of the shards that hold samples of this view, in ascending order."""
        places, firsts = self._places, self.shards.firsts
        if isinstance(places, range) and places.step == 1:  # without an array of one number per sample
            touched = (firsts[:-1] < places.stop) & (firsts[1:] > places.start)
            return np.flatnonzero(touched & (np.diff(firsts) > 0)).tolist() if len(places) else []
        return np.unique(np.searchsorted(firsts, np.asarray(places, np.int64), "right") - 1).tolist()

    def shard_slices(self) -> list[ShardSlice]:
        """Return the shards behind this view, in order, each with its records that belong to the view.

        Raises UsageError if the view cannot be streamed: see `check_streamable`.
        """
        self.check_streamable()
        places, shards = self._places, self.shards
        assert isinstance(places, range)
        slices: list[ShardSlice] = []
        for number in self.shard_numbers():
            first, end = shards.firsts[number : number + 2].tolist()
            start, stop = max(places.start, first), min(places.stop, end)
            path, of_file = shards.path(number), shards.read_from(number)[1].format
            slices.append(ShardSlice(path, first, start - first, stop - start, end - first, of_file))
        return slices

    _repr_html_ = split_html

    def __dir__(self) -> list[str]:
        """List the names that users need, for completion; names for pipelines exist, but are not listed."""
        return [name for name in super().__dir__() if name not in _FOR_PIPELINES]

    def __repr__(self) -> str:
        """Describe the view in one line, unique to its records and their order: Grain identifies a source by it."""
        places, whole = self._places, self.shards.info.records
        view = "[selected]"
        if isinstance(places, range):
            stop = places.stop if places.stop >= 0 else ""
            parts = [places.start, stop, *([places.step] if places.step != 1 else [])]
            view = "" if places == range(whole) else f"[{':'.join(map(str, parts))}]"
        return f"Split({self.name!r}{view}, {len(self)} samples, fingerprint {self.fingerprint[:8]})"


def checked_record(found: Mapping[str, tuple[str, Any]], schema: Schema, record: Record) -> Record:
    """Put the output of a format's `decode` into an empty record, as `schema` says, and return the record.

    Raises IntegrityError if it does not match.
    """
    if problem := schema.mismatch(found):
        raise IntegrityError("record", problem, "it does not match the dataset's schema: convert again")
    for key, feature in schema.features.items():
        _, values = found.get(key, (feature.dtype, ()))
        if feature.scalar:
            record[key] = values[0] if feature.dtype == "bytes" else values[0].item()
        elif isinstance(values, np.ndarray) and len(feature.shape) > 1:
            record[key] = values.reshape([side or 0 for side in feature.shape])
        else:
            none = [] if feature.dtype == "bytes" else np.empty(0, _DTYPES[feature.dtype])
            record[key] = values if len(values) else none
    return record
