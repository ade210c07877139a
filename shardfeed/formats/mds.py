"""A shard as MDS, Mosaic Data Shards, read by `streaming.StreamingDataset(local=DIR, split="train")`.

train/shard.00000.mds:
    uint32 n                    samples
    uint32 offsets[n + 1]       offset of each sample in the file, and of the end
    JSON                        the columns, padded with blanks if there was room for more samples
    n times                     a uint32 with the size of each column of varying size, then the columns' bytes

train/index.json                the same columns, and each shard's name, size and number of samples

Columns are sorted by name. The image is `bytes`, exactly as stored: the encodings `jpeg` and `png` would return a
decoded picture, and the MDS writer encodes other formats again. Lists of numbers are `ndarray`, masks `list[png]`;
other lists of bytes, for which MDS has only pickles, are `json`, as in a WebDataset.

Source: mosaicml/streaming, streaming/base/format/mds/{writer,reader,encodings}.py. All numbers are little-endian.
"""

import json
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shardfeed.errors import UsageError, argument
from shardfeed.formats.container import ContainerFormat, WrittenContainer, column_names, image_key, plain
from shardfeed.formats.format import Described
from shardfeed.schema import Schema, Value
from shardfeed.storage.local import NewFile
from shardfeed.storage.storage import FileInfo

_MOST_BYTES = (1 << 32) - 1  # an offset is a uint32
_U32 = struct.Struct("<I")


class _MdsColumn(NamedTuple):
    """A column: name, feature, encoding, bytes of a value if fixed, and encoder."""

    name: str
    key: str
    encoding: str
    size: int | None
    encode: Callable[[Any], bytes]


def _columns(schema: Schema) -> list[_MdsColumn]:
    names = sorted((name, key) for key, name in column_names(schema).items())
    return [_MdsColumn(name, key, *_encoding(schema, key)) for name, key in names]


def _encoding(schema: Schema, key: str) -> tuple[str, int | None, Callable[[Any], bytes]]:
    """An encoding's name, its size and its encoder."""
    feature, kind = schema.features[key], schema.kind(key)
    if feature.dtype == "bytes":
        if feature.scalar:
            return ("str" if kind == "text" else "bytes"), None, bytes
        if kind == "mask":
            return "list[png]", None, _list_of_bytes
        return "json", None, lambda values: json.dumps(plain(list(values)), ensure_ascii=False).encode()
    if feature.scalar:
        number = struct.Struct("<q" if feature.dtype == "int64" else "<f")
        return ("int" if feature.dtype == "int64" else "float32"), number.size, number.pack
    dtype = np.dtype(f"<{'i8' if feature.dtype == 'int64' else 'f4'}")
    if feature.count is None:
        return f"ndarray:{feature.dtype}", None, lambda values: _counted(np.asarray(values, dtype))
    shape = ",".join(map(str, feature.shape))
    return f"ndarray:{feature.dtype}:{shape}", feature.count * dtype.itemsize, lambda v: np.asarray(v, dtype).tobytes()


def _counted(values: np.ndarray) -> bytes:
    """Encode one axis and its length, in the smallest integer type that holds it."""
    code = next(code for code in range(4) if len(values) >> (8 << code) == 0)
    return bytes([1 << 2 | code]) + len(values).to_bytes(1 << code, "little") + values.tobytes()


def _list_of_bytes(values: Sequence[bytes]) -> bytes:
    sizes = np.array([0, len(values), *map(len, values)], "<u4")  # the 0 is reserved
    return b"".join([sizes.tobytes(), *values])


def _config(columns: Sequence[_MdsColumn]) -> dict[str, Any]:
    """Description of the columns in the shard and its index, as MDSWriter writes it."""
    return {
        "column_encodings": [column.encoding for column in columns],
        "column_names": [column.name for column in columns],
        "column_sizes": [column.size for column in columns],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


class _MdsShard:
    """See `Container`. Has room for the offsets of `most` samples."""

    def __init__(self, path: str, schema: Schema, most: int) -> None:
        self._columns = _columns(schema)
        image = image_key(schema)
        self._image = next((i for i, column in enumerate(self._columns) if column.key == image), None)
        self._config = json.dumps(_config(self._columns), sort_keys=True).encode()
        self._room = 4 * (2 + most) + len(self._config)
        self._begins = array("I", [self._room])
        self._images = array("q")
        self._file = NewFile(path, sync_directory=False)
        self._file.write([bytes(self._room)])

    def add(self, values: Mapping[str, Value], parts: Sequence[bytes]) -> None:
        data = [column.encode(values[column.key]) for column in self._columns]
        sizes = [_U32.pack(len(each)) for each, column in zip(data, self._columns, strict=True) if column.size is None]
        before = sum(map(len, sizes)) + sum(map(len, data[: self._image]))
        self._images.append(self._file.size + before)
        self._file.write([*sizes, *data])
        if self._file.size > _MOST_BYTES:
            problem = f"an MDS shard has at most {_MOST_BYTES:,} bytes, and this one would have more"
            raise UsageError(self._file.path, problem, f"give more {argument('shards')}")
        self._begins.append(self._file.size)

    def finish(self) -> WrittenContainer:
        """Write the header, whose offsets are known only now, and close the file."""
        count = len(self._images)
        offsets = np.array(self._begins, "<u4").tobytes()
        self._file.begin_with((_U32.pack(count) + offsets + self._config).ljust(self._room))
        self._file.__exit__(None)
        return WrittenContainer(FileInfo(self._file.size, self._file.crc32c), np.frombuffer(self._images, np.int64))

    def discard(self) -> None:
        self._file.__exit__(RuntimeError)


class MDS(ContainerFormat):
    """See `ShardFormat`."""

    name = "mds"
    data_suffix = ".mds"
    container = _MdsShard

    def shard_file(self, split: str, number: int, count: int) -> str:
        """`train/shard.00003.mds`: a split is a folder."""
        return f"{split}/shard.{number:05d}.mds"

    def describe(self, dataset: Described) -> Mapping[str, bytes]:
        """The index of each split."""
        config = _config(_columns(dataset.schema))
        files: dict[str, bytes] = {}
        for split, shards in dataset.splits.items():
            described = [
                {
                    **config,
                    "raw_data": {"basename": f"shard.{number:05d}.mds", "bytes": shard.data.size, "hashes": {}},
                    "samples": shard.records,
                    "zip_data": None,
                }
                for number, shard in enumerate(shards)
            ]
            index = json.dumps({"shards": described, "version": 2}, sort_keys=True)
            files[f"{split}/index.json"] = f"{index}\n".encode()
        return files
