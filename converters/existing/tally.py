"""What a manifest says of a shard, gathered while its records pass by: sizes, labels, formats."""

import hashlib
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.commit.tfds_view import tfds_files
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.shards.task import Receipt
from shardfeed.errors import UsageError
from shardfeed.formats.format import Fields, ShardInfo
from shardfeed.manifest import SplitInfo
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH, Schema
from shardfeed.storage.file_info import FileInfo

_FORMATS_KEPT = 16  # image/format with more values than that is no format


class ShardTally:
    """Records in by `add`, the shard's receipt out. Holds 8 bytes a record, 8 a label, and the values of `columns`.

    `labels`: the int64 features whose values are counted; those with one value a record have a column, too.
    `columns`: other features with one value a record, of which there is to be a column.
    `shapes`: (height, width) of raw images, up to two.
    """

    def __init__(self, labels: Iterable[str], columns: Iterable[str] = ()) -> None:
        self.sizes = array("q")
        self.formats: Counter[str] = Counter()
        self.shapes: set[tuple[int, int]] = set()
        self._labels = {key: array("q") for key in labels}
        self._columns: dict[str, list[Any]] = {key: [] for key in columns}

    def add(self, features: Fields, framed_size: int) -> None:
        """One record, decoded, and its size in bytes with its framing."""
        self.sizes.append(framed_size)
        for key, labels in self._labels.items():
            dtype, values = features.get(key, ("int64", ()))
            if dtype == "int64":
                labels.extend(map(int, values))
        for key, column in self._columns.items():
            column.append(features[key][1][0])
        dtype, values = features.get(FORMAT, ("bytes", ()))
        if dtype == "bytes" and len(values) == 1:
            name = bytes(values[0]).decode("utf-8", "replace")
            self.formats[name] += 1
            if name == "raw" and len(self.shapes) < 2:
                self.shapes.add((_only(features, HEIGHT), _only(features, WIDTH)))

    def release(self) -> None:
        """Let go of what grows with the records; `formats` and `shapes` stay."""
        self.sizes = array("q")
        self._labels.clear()
        self._columns.clear()

    def receipt(
        self, split: str, number: int, schema: Schema, info: ShardInfo, columns: Iterable[str] | None = None
    ) -> Receipt:
        """The shard's receipt; its labels are within the class names of `schema`.

        `columns`: the features that have one; unless given, all that a new dataset has and this has gathered.
        """
        values = {key: self._labels[key] for key in schema.class_names} | self._columns
        counts = {
            key: tuple(np.bincount(np.frombuffer(self._labels[key], np.int64), minlength=len(names)).tolist())
            for key, names in schema.class_names.items()
        }
        # Known for every record, or unknown: readers trust what they say of all.
        known = len(self.formats) <= _FORMATS_KEPT and self.formats.total() == len(self.sizes)
        return Receipt(
            split=split,
            number=number,
            info=info,
            class_counts=counts,
            formats=dict(self.formats) if known else {},
            columns={
                key: encode_column(values[key], column_dtype(schema, key))
                for key in (column_keys(split, schema) if columns is None else columns)
                if key in values
            },
            rejected=(),
            normalised=(),
            warnings=(),
        )


def image_options(tallies: Iterable[ShardTally]) -> ImageOptions:
    """How the images of these records are stored: as files, or as raw pixels of one shape or of several."""
    formats: set[str] = set()
    shapes: set[tuple[int, int]] = set()
    for tally in tallies:
        formats |= tally.formats.keys()
        shapes |= tally.shapes
    if formats != {"raw"}:
        return ImageOptions()
    try:
        return ImageOptions(encode="raw", size=shapes.pop() if len(shapes) == 1 else None)
    except UsageError:  # no size that an image can have
        return ImageOptions(encode="raw")


def _only(features: Fields, key: str) -> int:
    dtype, values = features.get(key, ("int64", ()))
    return int(values[0]) if dtype == "int64" and len(values) == 1 else -1


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
    """TFDS's files by the records that were met; none where a record may have no image, or several.

    TFDS has no feature for those.
    """
    encoded = schema.features.get(ENCODED)
    if encoded is not None and (not encoded.scalar or encoded.dtype != "bytes"):
        return {}
    return tfds_files(name, schema, splits, image_options(tallies))
