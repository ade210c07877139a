"""Receipts on disk: one file for each finished shard, written after the shard is durable; and shards of earlier runs.

A receipt is a line of JSON, a line with its CRC-32C, and then the shard's columns, concatenated. The columns are read
when the dataset is put together, because all shards' columns may not fit in memory.

A receipt under its final name means: the shard and its index are complete for the task with this digest. A resume
writes all other shards. While a shard is written, a receipt of its durable part, the checkpoint, is kept beside it.
"""

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.images.baseline import PROGRESSIVE
from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.rejects import Account, LeftOut
from shardfeed.converters.shards.task import IMAGE_IDENTITY, Receipt, Remark, ReusableImage, ShardTask
from shardfeed.converters.sources.source import Sample, SourceFile
from shardfeed.errors import IntegrityError, StorageError, UsageError, escape, name_bytes, name_text
from shardfeed.formats.example import decode, values_of
from shardfeed.formats.format import Checkpoint, ShardFormat, ShardInfo, ShardView, shard_stem
from shardfeed.read_back import checked_text
from shardfeed.schema import ENCODED, FILENAME, FORMAT, IMAGE_KEYS, SHA256, SOURCE_ID, Schema, Value
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import NewFile, disk_errors, make_directory, move_file, remove_file
from shardfeed.storage.storage import LOCAL, FileInfo, OpenFile, whole
from shardfeed.text import typed_number

_CHECKSUM_BYTES = 9  # "89abcdef\n"
_REMARKS, _LEFT_OUT = ("rejected", "normalised", "warnings"), ("left_out", "clips")
_Entry = TypeVar("_Entry", Remark, LeftOut)


class StoredColumns(Mapping[str, bytes]):
    """The columns after a receipt's JSON; each is read, and its checksum compared, on access.

    `infos`: size and CRC-32C of each, in file order; they begin at byte `start`. Access raises StorageError, and
    IntegrityError for a damaged column.
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
        with disk_errors(self._path, "read"), open(self._path, "rb") as file:
            file.seek(self._starts[key])
            data = file.read(info.size)
        if problem := info.difference_of(data):
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


def _listed(entries: Iterable[Remark | LeftOut]) -> list[list[Any]]:
    return [[name_text(key), *rest] for key, *rest in map(astuple, entries)]


def _from_listed(kind: type[_Entry], entries: list[list[Any]]) -> tuple[_Entry, ...]:
    return tuple(kind(name_bytes(key), *rest) for key, *rest in entries)


def to_json(receipt: Receipt) -> dict[str, Any]:
    """A JSON value that `from_json` gives back; names that are not UTF-8 as lone surrogates."""
    info, account = receipt.info, vars(receipt.account)
    return {
        **{name: value for name, value in vars(receipt).items() if name not in ("info", "columns")},
        "records": info.records,
        "data": [info.data.size, info.data.crc32c],
        "index": [info.index.size, info.index.crc32c],
        **{name: _listed(getattr(receipt, name)) for name in _REMARKS},
        "account": {**account, **{name: _listed(account[name]) for name in _LEFT_OUT}},
    }


def from_json(value: dict[str, Any]) -> Receipt:
    """The inverse of `to_json`, without columns. Raises KeyError, TypeError, ValueError or AttributeError otherwise."""
    read: dict[str, Any] = {name: value[name] for name in ("split", "number", "formats", "progressive", "digest")}
    read |= {name: _from_listed(Remark, value[name]) for name in _REMARKS}
    account = value["account"]
    return Receipt(
        **read,
        info=ShardInfo(value["records"], FileInfo(*value["data"]), FileInfo(*value["index"])),
        class_counts={key: tuple(of_class) for key, of_class in value["class_counts"].items()},
        columns={},
        account=Account(**account | {name: _from_listed(LeftOut, account[name]) for name in _LEFT_OUT}),
    )


def receipts_below(url: str) -> str:
    """URL of the folder of receipts of an unfinished dataset in a bucket."""
    return f"{url}/.receipts"


def receipt_path(directory: str, split: str, number: int, count: int) -> str:
    """Path of the receipt of a shard."""
    return os.path.join(directory, shard_stem(split, number, count) + ".json")


def receipt_count(name: str) -> int:
    """Number of shards of the split, as the file name of a receipt states it; 0 for other names."""
    number = name.removesuffix(".json").rpartition("-of-")[2]
    return typed_number(number) or 0


def with_checksum(content: bytes) -> bytes:
    """The head of a receipt's file: one line of JSON, and a second one, the CRC-32C of the first without its end."""
    return content + b"\n%08x\n" % crc32c(content)


def save_receipt(path: str, receipt: Receipt) -> Receipt:
    """Write a receipt atomically and durably; return it with its columns in the file alone.

    Raises StorageError, and UsageError for a receipt that `load_receipt` would not return: its shard would be made
    again and again.
    """
    infos = {key: FileInfo.of(column) for key, column in receipt.columns.items()}
    head = with_checksum(_checked_line(path, receipt, infos))
    with NewFile(path) as file:
        file.write([head, *receipt.columns.values()])
    return replace(receipt, columns=StoredColumns(path, len(head), infos))


def _checked_line(path: str, receipt: Receipt, infos: Mapping[str, FileInfo]) -> bytes:
    """The line of JSON of a receipt, which its reader has read back."""

    def read(line: bytes) -> bytes:
        return _line(*_parsed(line))

    return checked_text(path, partial(_line, receipt, infos), read)


def _line(receipt: Receipt, infos: Mapping[str, FileInfo]) -> bytes:
    columns = [[key, info.size, info.crc32c] for key, info in infos.items()]
    return json.dumps({**to_json(receipt), "columns": columns}, sort_keys=True).encode()


def _parsed(content: bytes) -> tuple[Receipt, dict[str, FileInfo]]:
    """A receipt without columns, and the size and checksum of each column, from its line of JSON.

    Raises KeyError, TypeError, ValueError or AttributeError for anything else.
    """
    value = json.loads(content)
    infos = {key: FileInfo(size, crc) for key, size, crc in value["columns"]}
    if min((info.size for info in infos.values()), default=0) < 0:
        raise ValueError("a column has a size below 0")
    return from_json(value), infos


def load_receipt(path: str) -> Receipt | None:
    """Load a receipt; None if it is missing or damaged: then the shard is to be made again."""
    try:
        with open(path, "rb") as file:
            content = file.readline()[:-1]
            if with_checksum(content) != content + b"\n" + file.read(_CHECKSUM_BYTES):
                return None
        receipt, infos = _parsed(content)
        columns = StoredColumns(path, len(content) + 1 + _CHECKSUM_BYTES, infos)
        if os.path.getsize(path) != columns.end or not columns.whole:
            return None
        return replace(receipt, columns=columns)
    except (OSError, StorageError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_receipt(content: bytes) -> Receipt | None:
    """The receipt in the content of a file, with its columns in memory; None if it is damaged."""
    # Without a name in any folder: nothing of it is left if this process is killed.
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        receipt = load_receipt(f"/proc/self/fd/{file.fileno()}")
        return receipt and replace(receipt, columns=dict(receipt.columns))


def still_whole(receipt: Receipt, data: str, index: str) -> bool:
    """Whether the files of a shard and its index still have the sizes of the receipt."""
    expected = ((data, receipt.info.data.size), (index, receipt.info.index.size))
    try:
        return all(os.path.getsize(path) == size for path, size in expected)
    except OSError:
        return False


class ShardContents:
    """Contents of a shard so far: counts, columns, and notes on single samples.

    `earlier`, `payloads`: if the shard is resumed, the receipt at its checkpoint and the records up to there.
    """

    def __init__(self, task: ShardTask, earlier: Receipt | None = None, payloads: Iterable[bytes] = ()) -> None:
        self._task = task
        self._keys = column_keys(task.split, task.schema)
        counted = {*self._keys, *task.schema.class_names, FORMAT} & task.schema.features.keys()
        self._counted = {key: task.schema.features[key] for key in counted}
        self._counts = {key: [0] * len(names) for key, names in task.schema.class_names.items()}
        self._formats: dict[str, int] = {}
        self.rejected: list[Remark] = []
        self.normalised: list[Remark] = []
        self.warnings: list[Remark] = []
        self.progressive = 0
        self.accounts = [Account()]
        if earlier is not None:
            self._counts = {key: list(counts) for key, counts in earlier.class_counts.items()}
            self._formats = dict(earlier.formats)
            self.rejected, self.normalised = list(earlier.rejected), list(earlier.normalised)
            self.warnings, self.progressive = list(earlier.warnings), earlier.progressive
            self.accounts = [earlier.account]
        fields = (decode(payload, self._keys) for payload in payloads)
        self._rows = [tuple([values[key][1][0] for key in self._keys]) for values in fields]  # for each record

    @property
    def place(self) -> int:
        """The sample that comes next: of those before, each was written or rejected."""
        return len(self._rows) + len(self.rejected)

    def add(self, values: Mapping[str, Value], sample: Sample) -> None:
        """A record that was written. Raises UsageError for a label that has no class name."""
        _count(self._counts, values, sample)
        self._rows.append(tuple([values[key] for key in self._keys]))
        if FORMAT in values:  # also in every record that we make
            kind = bytes(values[FORMAT]).decode()  # type: ignore[arg-type]  # bytes, by image_features
            self._formats[kind] = self._formats.get(kind, 0) + 1

    def counted(self, payload: bytes) -> dict[str, Value]:
        """Decode the values of a record that `add` needs. Raise IntegrityError if it does not conform to the schema."""
        return values_of(payload, self._counted)

    def so_far(self, checkpoint: Checkpoint) -> Receipt:
        """Receipt of the durable part of a shard that is not finished; its columns are in the records."""
        records, *data = checkpoint
        return self._receipt(ShardInfo(records, FileInfo(*data), FileInfo(0, 0)), {})

    def receipt(self, info: ShardInfo) -> Receipt:
        """Receipt of the finished shard."""
        schema = self._task.schema
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._keys)
        pairs = zip(self._keys, columns, strict=True)
        encoded = {key: encode_column(values, column_dtype(schema, key)) for key, values in pairs}
        left_out = {noted.key for noted in self.rejected}
        written = [sample for sample in self._task.samples if sample.key not in left_out]
        return self._receipt(info, {**encoded, IMAGE_IDENTITY: image_identity(written, schema, self._task.image)})

    def _receipt(self, info: ShardInfo, columns: Mapping[str, bytes]) -> Receipt:
        return Receipt(
            split=self._task.split,
            number=self._task.number,
            info=info,
            class_counts={key: tuple(values) for key, values in self._counts.items()},
            formats=dict(self._formats),
            columns=columns,
            rejected=tuple(self.rejected),
            normalised=tuple(self.normalised),
            warnings=tuple(self.warnings),
            progressive=self.progressive,
            account=Account.total(self.accounts),
            digest=self._task.digest,
        )


def _count(counts: dict[str, list[int]], values: Mapping[str, Value], sample: Sample) -> None:
    for key, of_class in counts.items():
        found = values[key]
        for label in found if isinstance(found, list) else [found]:
            if not 0 <= label < len(of_class):  # type: ignore[operator]  # a label is an int: Schema and the source's contract
                problem = f"got the label {label!r} for {escape(key)}, expected 0 to {len(of_class) - 1}"
                raise UsageError(f"sample {name_text(sample.key)}", problem, "correct the source, or its class names")
            of_class[label] += 1  # type: ignore[index]  # as above


User = tuple[str, int]  # split and number of a shard that takes images over

_FILE = struct.Struct("<IIq")  # CRC-32 of the key, size, time of modification
_RECEIPT, _DATA, _INDEX = ".json", ".data", ".index"
_BYTES = _FILE.size  # of an image's fingerprint


def image_identity(samples: Iterable[Sample], schema: Schema, image: ImageOptions) -> bytes:
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
    if isinstance(image, SourceFile):
        return _FILE.pack(crc32(sample.key), image.size & 0xFFFFFFFF, image.mtime_ns)
    if isinstance(image, bytes):
        return hashlib.blake2b(image, digest_size=_BYTES, key=sample.key[-64:]).digest()
    return bytes(_BYTES)


@dataclass(frozen=True)
class _Shard:
    """An earlier shard: `path` without its files' suffixes; notes by key of their sample; the shards that use it."""

    path: str
    info: ShardInfo
    normalised: Mapping[bytes, tuple[Remark, ...]]
    warnings: Mapping[bytes, tuple[Remark, ...]]
    users: set[User]


def _states(stored: bytes) -> Iterator[bytes]:
    """Yield for each record its 16 bytes of `image_identity`, preceded by the first 16, which all records share."""
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
        stored = receipt.columns.get(IMAGE_IDENTITY, b"")
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

    def find(
        self, samples: Sequence[Sample], schema: Schema, image: ImageOptions, user: User
    ) -> dict[int, ReusableImage]:
        """Find the images that are already stored, by their indices in the list; `user`: the shard that takes them."""
        found: dict[int, ReusableImage] = {}
        if not self._found:
            return found
        states = _states(image_identity(samples, schema, image))
        for place, (sample, state) in enumerate(zip(samples, states, strict=True)):
            shard, row = self._found.get(state, (None, 0))
            if shard is not None:
                shard.users.add(user)
                notes = shard.normalised.get(sample.key, ()), shard.warnings.get(sample.key, ())
                found[place] = ReusableImage(shard.path + _DATA, shard.path + _INDEX, shard.info, row, *notes)
        return found

    def remove_unused(self, user: User | None = None) -> None:
        """Remove the shards that are not needed any more, now that `user` is done."""
        for shard in self._shards:
            if user is not None:
                shard.users.discard(user)
            if not shard.users:
                remove_file(shard.path + _DATA)
        self._shards = [shard for shard in self._shards if shard.users]


def _by_key(entries: Iterable[Remark]) -> dict[bytes, tuple[Remark, ...]]:
    found: dict[bytes, tuple[Remark, ...]] = {}
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

    def take(self, kept: ReusableImage, key: bytes, image: ImageOptions) -> Taken | None:
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
