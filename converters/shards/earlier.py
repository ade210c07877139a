"""Shards that an earlier run finished, with inputs that have changed since: their images are reused, not read again.

A removed image shifts all records after it, and a few across the borders of shards. So many shards are different now,
but hold the same images, and reading and decoding these took most of the time. Such a shard is kept in `earlier/` of
the staging directory, named by its digest, until the shards that take images from it are finished.
"""

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.shards.receipts import load_receipt, still_whole
from shardfeed.converters.shards.task import MADE_OF, Kept, Noted, Receipt
from shardfeed.converters.sources.source import Sample, SourceFile
from shardfeed.errors import IntegrityError, StorageError
from shardfeed.formats.example import decode
from shardfeed.formats.format import ShardFormat, ShardInfo, ShardView
from shardfeed.schema import ENCODED, FILENAME, FORMAT, IMAGE_KEYS, SHA256, SOURCE_ID, Schema, Value
from shardfeed.storage.local import make_directory, move_file, remove_file
from shardfeed.storage.storage import LOCAL, OpenFile, whole

User = tuple[str, int]  # split and number of a shard that takes images over

_FILE = struct.Struct("<IIq")  # CRC-32 of the key, size, time of modification
_RECEIPT, _DATA, _INDEX = ".json", ".data", ".index"
_BYTES = _FILE.size  # of an image's fingerprint


def made_of(samples: Iterable[Sample], schema: Schema, image: ImageOptions) -> bytes:
    """16 bytes for the options that decide how an image is stored, and 16 for each sample's file.

    Labels, split and position do not matter. Zeros if it is unknown whether the image is the same, because a callable
    may return a different one; and if a record has objects or a mask, which need the file's own size. Paths are not
    hashed, which would cost as much as reading a header: the code that reuses an image compares its key.
    """
    manner = repr((image.to_json(), SHA256 in schema.features, schema.of_kind("place"))).encode()
    placed = schema.object_keys or schema.raster
    states = (bytes(_BYTES) if placed else _state(sample) for sample in samples)
    return hashlib.blake2b(manner, digest_size=_BYTES).digest() + b"".join(states)


def _state(sample: Sample) -> bytes:
    image = sample.image
    if sample.record is None and isinstance(image, SourceFile):
        return _FILE.pack(crc32(sample.key), image.size & 0xFFFFFFFF, image.mtime_ns)
    if sample.record is None and isinstance(image, bytes):
        return hashlib.blake2b(image, digest_size=_BYTES, key=sample.key[-64:]).digest()
    return bytes(_BYTES)


@dataclass(frozen=True)
class _Shard:
    """An earlier shard: `path` without its files' suffixes; notes by key of their sample; the shards that use it."""

    path: str
    info: ShardInfo
    normalised: Mapping[bytes, tuple[Noted, ...]]
    warnings: Mapping[bytes, tuple[Noted, ...]]
    users: set[User]


def _states(stored: bytes) -> Iterator[bytes]:
    """Yield for each record its 16 bytes of `made_of`, preceded by the first 16, which all records share."""
    return (stored[:_BYTES] + stored[start : start + _BYTES] for start in range(_BYTES, len(stored), _BYTES))


class EarlierShards:
    """Earlier shards in `directory`, which is made for the first of them. Takes about 170 bytes per image."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._shards: list[_Shard] = []
        self.taken = 0  # images that were taken over
        self._found: dict[bytes, tuple[_Shard, int]] = {}  # by the identifier of an image: its shard and row
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            path, end = os.path.splitext(os.path.join(directory, name))
            if end == _RECEIPT:
                self._add(path)

    def __bool__(self) -> bool:
        return bool(self._shards)

    def _add(self, path: str) -> None:
        receipt = load_receipt(path + _RECEIPT)
        if receipt is None or not still_whole(receipt, path + _DATA, path + _INDEX):
            return
        shard = _Shard(path, receipt.info, _by_key(receipt.normalised), _by_key(receipt.warnings), set())
        self._shards.append(shard)
        stored = receipt.columns.get(MADE_OF, b"")
        for row, state in enumerate(_states(stored)):
            self._found[state] = shard, row
        self._found.pop(stored[:_BYTES] + bytes(_BYTES), None)

    def set_aside(self, receipt: Receipt, path: str, data: str, index: str) -> None:
        """Move a finished shard and its receipt at `path` away from their places."""
        if not os.path.isdir(self._directory):
            make_directory(self._directory)
        place = os.path.join(self._directory, receipt.digest)
        for old, end in ((path, _RECEIPT), (data, _DATA), (index, _INDEX)):  # without its receipt a shard is nothing
            move_file(old, place + end)
        self._add(place)

    def find(self, samples: Sequence[Sample], schema: Schema, image: ImageOptions, user: User) -> dict[int, Kept]:
        """Find the images that are already stored, by their indices in the list; `user`: the shard that takes them."""
        found: dict[int, Kept] = {}
        if not self._found:
            return found
        states = _states(made_of(samples, schema, image))
        for place, (sample, state) in enumerate(zip(samples, states, strict=True)):
            shard, row = self._found.get(state, (None, 0))
            if shard is not None:
                shard.users.add(user)
                notes = shard.normalised.get(sample.key, ()), shard.warnings.get(sample.key, ())
                found[place] = Kept(shard.path + _DATA, shard.path + _INDEX, shard.info, row, *notes)
        return found

    def remove_unused(self, user: User | None = None) -> None:
        """Remove the shards that are not needed any more, now that `user` is done."""
        for shard in self._shards:
            if user is not None:
                shard.users.discard(user)
            if not shard.users:
                remove_file(shard.path + _DATA)
        self._shards = [shard for shard in self._shards if shard.users]


def _by_key(entries: Iterable[Noted]) -> dict[bytes, tuple[Noted, ...]]:
    found: dict[bytes, tuple[Noted, ...]] = {}
    for noted in entries:
        found[noted.key] = (*found.get(noted.key, ()), noted)
    return found


class Taken(NamedTuple):
    """Image values of a record, among them the hash of its source if that is stored, and whether it decodes slowly."""

    values: dict[str, Value]
    progressive: bool


class ImagesOfEarlier:
    """Images out of earlier shards, for one worker and one shard."""

    def __init__(self, format: ShardFormat) -> None:
        self._format = format
        self._open: dict[str, tuple[ShardView, OpenFile]] = {}

    def take(self, kept: Kept, key: bytes, image: ImageOptions) -> Taken | None:
        """Read the stored image of the sample `key`; None if it has changed, and its source must be read again."""
        try:
            if kept.path not in self._open:
                view = self._format.view(kept.info, whole(LOCAL.open(kept.index_path)), kept.index_path)
                self._open[kept.path] = view, self._format.open(LOCAL, kept.path, kept.index_path)
            view, file = self._open[kept.path]
            fields = decode(view.read(file, kept.row, 1)[0], _OF_IMAGE)
            values: dict[str, Value] = {name: of_type[1][0] for name, of_type in fields.items()}
        except (IntegrityError, StorageError, OSError):
            return None
        if values.pop(FILENAME) != key:
            return None
        encoded = values[ENCODED]
        progressive = (
            isinstance(encoded, bytes)
            and values[FORMAT] == b"jpeg"
            and not kept.normalised
            and not image.baseline
            and read_jpeg_header(encoded, image.max_pixels).process == PROGRESSIVE
        )
        return Taken(values, progressive)


_OF_IMAGE = IMAGE_KEYS - {SOURCE_ID}
