"""Receipts on disk: one file for each finished shard, written after the shard is durable.

A line of JSON, a second one with its CRC-32C, and then the shard's columns, one behind the other, which are read when
the dataset is put together: those of all shards may be too much to hold in memory.

A receipt under its final name means: that shard and its index are whole, for what its digest stands for. A resume
makes the others. While a shard is written, a receipt of what is durable of it lies beside it, its checkpoint.

Shards that an earlier run finished, of inputs that have changed since, stand for something else: their images are taken
over, not read again (`EarlierShards`). One image less shifts the numbers of all records behind it, and a few across the
borders of shards; to read and decode the images is what took the time. Such a shard lies in `earlier/` of the staging
directory, named by its digest, until the shards that take images from it are finished.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from zlib import crc32

from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.shards.task import MADE_OF, Kept, Noted, Receipt
from shardfeed.converters.sources.objects import Account, LeftOut
from shardfeed.converters.sources.source import Sample, SourceFile
from shardfeed.errors import IntegrityError, StorageError, name_bytes, name_text
from shardfeed.formats.example import decode
from shardfeed.formats.format import ShardFormat, ShardInfo, ShardView, shard_stem
from shardfeed.schema import ENCODED, FILENAME, FORMAT, IMAGE_KEYS, SHA256, SOURCE_ID, Schema, Value
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import NewFile, make_directory, move_file, remove_file, storage_error
from shardfeed.storage.storage import LOCAL, FileInfo, OpenFile, whole

_CHECKSUM_BYTES = 9  # "89abcdef\n"


class StoredColumns(Mapping[str, bytes]):
    """The columns behind a receipt's JSON, each read, and its checksum compared, when it is asked for.

    `infos`: size and CRC-32C of each, in their order in the file; they begin at byte `start`. Asking raises
    StorageError, and IntegrityError where a column is not what was written.
    """

    def __init__(self, path: str, start: int, infos: Mapping[str, FileInfo]) -> None:
        self._path = path
        self._infos = infos
        self._starts: dict[str, int] = {}
        for key, info in infos.items():
            self._starts[key] = start
            start += info.size
        self.end = start  # of the file

    def __getitem__(self, key: str) -> bytes:
        info = self._infos[key]
        try:
            with open(self._path, "rb") as file:
                file.seek(self._starts[key])
                data = file.read(info.size)
        except OSError as error:
            raise storage_error(self._path, "read", error) from error
        if problem := info.difference(FileInfo.of(data)):
            raise IntegrityError(self._path, f"the column of {key} {problem}", "remove the file, and run again")
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def whole(self) -> bool:
        """Whether every column is as it was written."""
        try:
            return all(self.values())
        except IntegrityError:
            return False


def _noted(entries: tuple[Noted, ...]) -> list[list[Any]]:
    return [[name_text(entry.key), entry.what, entry.why, entry.asked] for entry in entries]


def _from_noted(entries: list[list[Any]]) -> tuple[Noted, ...]:
    return tuple(Noted(name_bytes(key), what, why, asked) for key, what, why, asked in entries)


def _account(account: Account) -> list[Any]:
    listed = [[name_text(one.key), one.code, one.reason] for one in account.left_out]
    return [account.read, account.written, account.clipped, account.farthest, listed]


def _from_account(value: list[Any]) -> Account:
    read, written, clipped, farthest, listed = value
    left_out = tuple(LeftOut(name_bytes(key), code, reason) for key, code, reason in listed)
    return Account(read, written, clipped, farthest, left_out)


def to_json(receipt: Receipt) -> dict[str, Any]:
    """A JSON value that `from_json` gives back; names that are not UTF-8 as lone surrogates."""
    info = receipt.info
    return {
        "split": receipt.split,
        "number": receipt.number,
        "records": info.records,
        "data": [info.data.size, info.data.crc32c],
        "index": [info.index.size, info.index.crc32c],
        "class_counts": {key: list(counts) for key, counts in receipt.class_counts.items()},
        "formats": dict(receipt.formats),
        "rejected": _noted(receipt.rejected),
        "normalised": _noted(receipt.normalised),
        "warnings": _noted(receipt.warnings),
        "progressive": receipt.progressive,
        "account": _account(receipt.account),
        "digest": receipt.digest,
    }


def from_json(value: dict[str, Any]) -> Receipt:
    """The inverse of `to_json`, without columns. Raises KeyError, TypeError, ValueError or AttributeError otherwise."""
    counts = {key: tuple(of_class) for key, of_class in value["class_counts"].items()}
    return Receipt(
        split=value["split"],
        number=value["number"],
        info=ShardInfo(value["records"], FileInfo(*value["data"]), FileInfo(*value["index"])),
        class_counts=counts,
        formats=value["formats"],
        columns={},
        rejected=_from_noted(value["rejected"]),
        normalised=_from_noted(value["normalised"]),
        warnings=_from_noted(value["warnings"]),
        progressive=value["progressive"],
        account=_from_account(value["account"]),
        digest=value["digest"],
    )


def receipt_path(directory: str, split: str, number: int, count: int) -> str:
    """Path of the receipt of a shard."""
    return os.path.join(directory, shard_stem(split, number, count) + ".json")


def receipt_count(name: str) -> int:
    """Number of shards of the split, as the file name of a receipt states it; 0 for other names."""
    number = name.removesuffix(".json").rpartition("-of-")[2]
    return int(number) if number.isdecimal() else 0


def with_checksum(content: bytes) -> bytes:
    """The head of a receipt's file: one line of JSON, and a second one, the CRC-32C of the first without its end."""
    return content + b"\n%08x\n" % crc32c(content)


def save_receipt(path: str, receipt: Receipt) -> Receipt:
    """Write a receipt atomically and durably; return it with its columns in the file alone."""
    infos = {key: FileInfo.of(column) for key, column in receipt.columns.items()}
    columns = [[key, info.size, info.crc32c] for key, info in infos.items()]
    head = with_checksum(json.dumps({**to_json(receipt), "columns": columns}, sort_keys=True).encode())
    with NewFile(path) as file:
        file.write([head, *receipt.columns.values()])
    return replace(receipt, columns=StoredColumns(path, len(head), infos))


def load_receipt(path: str) -> Receipt | None:
    """Load a receipt; None if it is missing or damaged: then the shard is to be made again."""
    try:
        with open(path, "rb") as file:
            content = file.readline()[:-1]
            if with_checksum(content) != content + b"\n" + file.read(_CHECKSUM_BYTES):
                return None
        value = json.loads(content)
        infos = {key: FileInfo(size, crc) for key, size, crc in value["columns"]}
        columns = StoredColumns(path, len(content) + 1 + _CHECKSUM_BYTES, infos)
        if min((info.size for info in infos.values()), default=0) < 0:
            return None
        if os.path.getsize(path) != columns.end or not columns.whole:
            return None
        return replace(from_json(value), columns=columns)
    except (OSError, StorageError, ValueError, KeyError, TypeError, AttributeError):
        return None


def still_whole(receipt: Receipt, data: str, index: str) -> bool:
    """Whether the files of a shard and its index still have the sizes of the receipt."""
    expected = ((data, receipt.info.data.size), (index, receipt.info.index.size))
    try:
        return all(os.path.getsize(path) == size for path, size in expected)
    except OSError:
        return False


User = tuple[str, int]  # split and number of a shard that takes images over
_FILE = struct.Struct("<IIq")  # CRC-32 of the key, size, time of modification
_BYTES = _FILE.size  # of what stands for an image
_RECEIPT, _DATA, _INDEX = ".json", ".data", ".index"


def made_of(samples: Iterable[Sample], schema: Schema, image: ImageOptions) -> bytes:
    """16 bytes for what decides how an image is stored besides its file, and 16 for each sample's file.

    Its labels, its split and its place do not matter. Zeros where nothing tells whether the image is the same, a
    callable may give another one; and where a record has objects or a mask, whose places need the file's own size.
    These are no hashes of a path, which would cost as much as reading a header does: whoever takes an image over
    compares its key.
    """
    manner = repr((image.to_json(), SHA256 in schema.features, schema.of_kind("place"))).encode()
    placed = schema.object_keys or schema.raster
    states = (bytes(_BYTES) if placed else _state(sample) for sample in samples)
    return hashlib.blake2b(manner, digest_size=_BYTES).digest() + b"".join(states)


def _state(sample: Sample) -> bytes:
    image = sample.image
    if sample.record is not None:
        return bytes(_BYTES)
    if isinstance(image, SourceFile):
        return _FILE.pack(crc32(sample.key), image.size & 0xFFFFFFFF, image.mtime_ns)
    if isinstance(image, bytes):
        return hashlib.blake2b(image, digest_size=_BYTES, key=sample.key[-64:]).digest()
    return bytes(_BYTES)


@dataclass(frozen=True)
class _Shard:
    """An earlier shard: `path` without the ends of its files; notes by the key of their sample; who takes from it."""

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
        self._found: dict[bytes, tuple[_Shard, int]] = {}  # by what stands for an image: where it is, and its row
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
        """Take a finished shard and its receipt, which lies at `path`, from their places."""
        if not os.path.isdir(self._directory):
            make_directory(self._directory)
        place = os.path.join(self._directory, receipt.digest)
        for old, end in ((path, _RECEIPT), (data, _DATA), (index, _INDEX)):  # without its receipt a shard is nothing
            move_file(old, place + end)
        self._add(place)

    def find(self, samples: Sequence[Sample], schema: Schema, image: ImageOptions, user: User) -> dict[int, Kept]:
        """Find the images that are stored already, by their places in the list; `user`: who takes them."""
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
        """Remove the shards from which nobody takes images, now that `user` is done: they would only fill the disk."""
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
