"""Statistics of a shard for the manifest, gathered while its records pass by: sizes, labels, formats."""

import hashlib
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.commit.tfds_view import tfds_files
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.shards.task import Receipt
from shardfeed.converters.sources.record_features import DAMAGED, UNKNOWN, image_formats, one_number
from shardfeed.errors import UsageError, escape
from shardfeed.formats.format import Fields, ShardInfo
from shardfeed.manifest import SplitInfo
from shardfeed.schema import ENCODED, HEIGHT, WIDTH, Schema
from shardfeed.storage.storage import FileInfo

_NAMED = 10  # damaged images with records named in a message


class ShardTally:
    """Records in by `add`, the shard's receipt out. Holds 8 bytes per record, 8 per label, and the values of `columns`.

    `labels`: whether a key is an int64 feature with counted values; features with one value per record also get a
    column. `columns`: other features with one value per record that get a column. `shapes`: (height, width) of raw
    images, up to two. `damaged`: (key, record) of images that no decoder would read, the first ten.
    """

    def __init__(self, labels: Callable[[str], bool], columns: Iterable[str] = ()) -> None:
        self.sizes = array("q")
        self.shapes: set[tuple[int, int]] = set()
        self.damaged: list[tuple[str, int]] = []
        self._formats: dict[str, Counter[str]] = {}
        self._records = 0  # what `release` leaves
        self._is_label = labels
        self._labels: dict[str, array] = {}
        self._columns: dict[str, list[Any]] = {key: [] for key in columns}

    def add(self, features: Fields, framed_size: int, formats: Mapping[str, str] | None = None) -> None:
        """Add one record, decoded, and its size in bytes with its framing. `formats`: by `image_formats`, if known."""
        self.sizes.append(framed_size)
        self._records += 1
        for key, (dtype, values) in features.items():
            if dtype == "int64" and self._is_label(key):
                self._labels.setdefault(key, array("q")).extend(map(int, values))
        for key, column in self._columns.items():
            column.append(features[key][1][0])
        for key, name in (image_formats(features) if formats is None else formats).items():
            self._formats.setdefault(key, Counter())[name] += 1
            if name == "raw" and len(self.shapes) < 2:
                self.shapes.add((one_number(features, HEIGHT), one_number(features, WIDTH)))
            if name == DAMAGED and len(self.damaged) < _NAMED:
                self.damaged.append((key, self._records - 1))

    def labels_of(self, key: str) -> int:
        """Number of values of a feature whose values are counted."""
        return len(self._labels.get(key, ()))

    def formats(self, key: str | None) -> dict[str, int]:
        """Format -> number of images under this key, by their bytes; empty if no value is an image."""
        found = self._formats.get(key or "")
        if not found:
            return {}
        others = self._records - found.total()
        return dict(found) | ({UNKNOWN: others} if others else {})

    def release(self) -> None:
        """Let go of what grows with the records; formats and shapes stay."""
        self.sizes = array("q")
        self._labels.clear()
        self._columns.clear()

    def receipt(
        self, split: str, number: int, schema: Schema, info: ShardInfo, columns: Iterable[str] | None = None
    ) -> Receipt:
        """The shard's receipt; its labels are within the class names of `schema`.

        `columns`: the features with a column; default: all columns of a new dataset that were gathered.
        """
        labels = {key: self._labels.get(key, array("q")) for key in schema.class_names}
        values = labels | self._columns
        counts = {
            key: tuple(np.bincount(np.frombuffer(labels[key], np.int64), minlength=len(names)).tolist())
            for key, names in schema.class_names.items()
        }
        return Receipt(
            split=split,
            number=number,
            info=info,
            class_counts=counts,
            formats=self.formats(schema.key(ENCODED)),
            columns={
                key: encode_column(values[key], column_dtype(schema, key))
                for key in (column_keys(split, schema) if columns is None else columns)
                if key in values
            },
            rejected=(),
            normalised=(),
            warnings=(),
        )


def image_options(tallies: Iterable[ShardTally], key: str | None = ENCODED) -> ImageOptions:
    """Return how the images under `key` are stored: as files, or as raw pixels of one or several shapes."""
    formats: set[str] = set()
    shapes: set[tuple[int, int]] = set()
    for tally in tallies:
        formats |= tally.formats(key).keys()
        shapes |= tally.shapes
    if formats != {"raw"}:
        return ImageOptions()
    try:
        return ImageOptions(encode="raw", size=shapes.pop() if len(shapes) == 1 else None)
    except UsageError:  # no size that an image can have
        return ImageOptions(encode="raw")


def shards_fingerprint(how: bytes, shards: Mapping[str, Sequence[FileInfo]]) -> str:
    """The manifest's fingerprint of a dataset that no plan made: of `how`, and of each split's shards in order."""
    digest = hashlib.blake2b(how, digest_size=16)
    for split, of_split in sorted(shards.items()):
        digest.update(split.encode())
        for info in of_split:
            digest.update(struct.pack("<QI", info.size, info.crc32c))
    return digest.hexdigest()


def tfds_view(
    name: str, schema: Schema, splits: Mapping[str, SplitInfo], tallies: Iterable[ShardTally]
) -> dict[str, bytes]:
    """Return TFDS's files for the records found; none if a record may have no image, or several.

    TFDS has no feature for those.
    """
    key = schema.key(ENCODED)
    if key is not None and (not schema.features[key].scalar or schema.features[key].dtype != "bytes"):
        return {}
    return tfds_files(name, schema, splits, image_options(tallies, key))


def nonconformity(features: Fields, schema: Schema) -> str:
    """Describe why a record does not conform to `schema`, labels out of range included; "" if it does."""
    if problem := schema.mismatch(features):
        return problem
    for key, names in schema.class_names.items():
        for label in features[key][1] if key in features else ():
            if not 0 <= int(label) < len(names):
                return f"the label {int(label)} of {escape(key)}, expected 0 to {len(names) - 1}"
    return ""
