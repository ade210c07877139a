"""A shard as WebDataset: a tar in which the files with the same stem form one sample.

data/train-00000-of-00004.tar:
    train-00000-000000.jpg      the image, unchanged
    train-00000-000000.cls      the number of its label, if a record has one label
    train-00000-000000.seg.png  the class of each pixel, if there is such a mask
    train-00000-000000.json     all other features by their keys; bytes that are not text as {"base64": ...}

The key of a sample is its split, shard and number, not its file name: a WebDataset key ends at the first dot, and
several programs need it short and ASCII. The file name is in the JSON, under image/filename. The suffix of the image
depends on its format: if a dataset has both JPEGs and PNGs, `datasets`, which needs the same columns in each sample,
refuses it; webdataset and timm accept both. Masks of objects are base64 in the JSON: with one file per object the
columns would differ from sample to sample.

Sources: webdataset/webdataset, src/webdataset/{tariterators,writer}.py; huggingface/datasets, webdataset.py; for the
files beside the shards, timm's reader_wds.py and webdataset's old wids.
"""

import json
import os
import tarfile
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.annotations import RASTER
from shardfeed.formats.container import ContainerFormat, WrittenContainer, image_key, label_key, plain
from shardfeed.formats.format import Described
from shardfeed.schema import FORMAT, Schema, Value
from shardfeed.storage.local import NewFile
from shardfeed.storage.storage import FileInfo

_BLOCK = 512  # bytes; each file in a tar begins at a multiple of this
_END = bytes(2 * _BLOCK)
_HEADER = tarfile.TarInfo().tobuf(tarfile.USTAR_FORMAT)  # of an empty file without a name, an owner or a time
_HEADER_SUM = sum(_HEADER[:124] + _HEADER[135:148] + b" " * 8 + _HEADER[156:])  # all except name, size and checksum
_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_SUFFIXES = {b"jpeg": "jpg", b"jpg": "jpg", b"JPEG": "jpg", b"png": "png", b"PNG": "png", b"raw": "raw"}
_BEGINNINGS = {b"\xff\xd8\xff": "jpg", b"\x89PNG\r\n\x1a\n": "png"}


class _Tar:
    """See `Container`."""

    def __init__(self, path: str, schema: Schema, _: int) -> None:
        self._file = NewFile(path, sync_directory=False)
        self._image = image_key(schema)
        self._label = label_key(schema)
        self._raster = RASTER if schema.raster is not None else None
        name = os.path.basename(path).removesuffix(WebDataset.data_suffix)
        self._stem = "-".join(name.split("-")[:2])  # of train-00003-of-00008
        self._offsets = array("q")

    def add(self, values: Mapping[str, Value], parts: Sequence[bytes]) -> None:
        stem = f"{self._stem}-{len(self._offsets):06d}"
        rest = {key: plain(value) for key, value in sorted(values.items()) if key not in (self._image, self._raster)}
        self._offsets.append(self._file.size + _BLOCK)
        if self._image is not None:
            image: bytes = values[self._image]  # type: ignore[assignment]  # one bytes value
            self._put(f"{stem}.{_suffix(values.get(FORMAT), image)}", image)
        if self._label is not None:
            self._put(f"{stem}.cls", b"%d" % values[self._label])  # type: ignore[operator]  # a label is an int
        if self._raster is not None:
            self._put(f"{stem}.seg.png", values[self._raster])  # type: ignore[arg-type]  # one bytes value
        self._put(f"{stem}.json", _to_json(rest).encode())

    def _put(self, name: str, content: bytes) -> None:
        """Append a file, without owner or time, so that its content alone decides the bytes."""
        self._file.write([_header(name.encode(), len(content)), content, bytes(-len(content) % _BLOCK)])

    def finish(self) -> WrittenContainer:
        """Write the two empty blocks that end a tar."""
        self._file.write([_END])
        self._file.__exit__(None)
        return WrittenContainer(FileInfo(self._file.size, self._file.crc32c), np.frombuffer(self._offsets, np.int64))

    def discard(self) -> None:
        self._file.__exit__(RuntimeError)


class WebDataset(ContainerFormat):
    """See `ShardFormat`."""

    name = "webdataset"
    data_suffix = ".tar"
    container = _Tar

    def shard_file(self, split: str, number: int, count: int) -> str:
        """Path of a shard, `data/train-00003-of-00008.tar`, the only place in which `datasets` looks for splits."""
        return f"data/{super().shard_file(split, number, count)}"

    def describe(self, dataset: Described) -> Mapping[str, bytes]:
        """Return the files beside the shards: a description for timm, and an index of each split for wids."""
        splits: dict[str, Any] = {}
        files: dict[str, bytes] = {}
        for name, shards in dataset.splits.items():
            names = [self.shard_file(name, number, len(shards)) for number in range(len(shards))]
            splits[name] = {
                "name": name,
                "num_samples": sum(shard.records for shard in shards),
                "filenames": names,
                "shard_lengths": [shard.records for shard in shards],
            }
            pairs = zip(names, shards, strict=True)
            files[f"{name}.wids.json"] = _json(
                {
                    "__kind__": "wids-shard-index-v1",
                    "wids_version": 1,
                    "name": f"{dataset.name}-{name}",
                    "shardlist": [
                        {"url": file, "nsamples": shard.records, "filesize": shard.data.size} for file, shard in pairs
                    ],
                }
            )
        return {"_info.json": _json({"splits": splits}), **files}


def _suffix(format: Value | None, image: bytes) -> str:
    """Return an image's file extension: by `format`, else by its first bytes, as the format may be missing."""
    if isinstance(format, bytes) and format in _SUFFIXES:
        return _SUFFIXES[format]
    return next((suffix for start, suffix in _BEGINNINGS.items() if image.startswith(start)), "bin")


def _header(name: bytes, size: int) -> bytes:
    """Return the header of a file, equal to tarfile's, in a tenth of the time."""
    digits = b"%011o" % size
    checksum = b"%06o\0 " % (_HEADER_SUM + sum(name) + sum(digits))
    parts = name.ljust(100, b"\0"), _HEADER[100:124], digits, _HEADER[135:148], checksum, _HEADER[156:]
    return b"".join(parts)


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
