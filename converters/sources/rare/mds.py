"""MDS datasets as samples: `index.json` and its shards, or folders of those, which then are splits.

Of a shard the index of offsets is read, and of each sample the small columns; an image is read when it is stored. MDS
has no checksum of a sample: sizes are compared, and an image that is damaged is found when it is decoded.

Values are decoded by the encoding of their column, without the streaming package, which pins an old NumPy:

    int, int8 ... uint64, float16 ... float64    one number, little-endian
    str, str_int, str_float, str_decimal         UTF-8, or a number as text
    ndarray[:DTYPE[:SHAPE]]                      (dtype: 1 byte) (ndim << 2 | size of a side: 1 byte, sides), values
    pil                                          u32 width, height, length of the mode; mode; pixels
    bytes, jpeg, png, json                       as they are

Source: mosaicml/streaming 0.13, streaming/base/format/mds/encodings.py.

index.json has the shards and their columns:

    {"shards": [{"column_names": ["image", "label"], "column_encodings": ["jpeg", "int"], "column_sizes": [null, 8],
                 "format": "mds", "raw_data": {"basename": "shard.00000.mds", "bytes": 67092637, ...}, "samples": 4096,
                 "compression": null, "zip_data": null, "version": 2, ...}], "version": 2}

A shard is u32 n, u32 offsets[n + 1], a JSON text, samples; a sample is u32 sizes of the columns whose size is null,
then all columns in the order of their names. All little-endian.
"""

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image, ending_of
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.annotations.masks_meaning import read_masks
from shardfeed.converters.sources.files.listing import split_in_path
from shardfeed.converters.sources.files.parquet_file import BOX_KEYS
from shardfeed.converters.sources.files.parts import Parts, listed
from shardfeed.converters.sources.files.unpack import DamagedStreamError, Unpacked, unpacked
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.look import Evidence, Look, SourceFiles, missing_of
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import PixelParts
from shardfeed.converters.sources.reading import read_whole
from shardfeed.converters.sources.record_columns import NAMES, NUMBERS
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.own_columns import choose_own_roles
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, Roles, kind_of
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import number

INDEX = "index.json"
_MOST_BYTES = 1 << 30
_GET_AGAIN = "write it again with MDSWriter, or get it again"
_LOOKED_AT = 100  # samples, over all shards, examined to find the columns; at least one of each
_WINDOW = 4096  # bytes of a sample read at once
_U32 = 4
_FAULTS = ((RejectCode.EMPTY, "image"), (RejectCode.PAIR, "mask"))  # if it is missing
FILES = frozenset({"bytes", "jpeg", "png"})  # encodings with bytes that are, or may be, an image file
_SCALARS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_NUMBERS = {"int": "int64", **{name: name for name in _SCALARS}}
_ARRAY_DTYPES = {8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32",
                 34: "float32", 64: "uint64", 65: "int64", 66: "float64"}  # fmt: skip
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}  # of Pillow: bytes of a pixel
_MOST_SIDES = 63


def value_of(encoding: str, data: bytes) -> Any:
    """Return the value of a cell: text, number, list of numbers, or parsed JSON; bytes if it may be a file.

    Raises ValueError, TypeError, RecursionError if it cannot be read.
    """
    if encoding == "str":
        return data.decode()
    if encoding in _NUMBERS:
        (value,) = np.frombuffer(data, np.dtype(_NUMBERS[encoding]).newbyteorder("<")).tolist()
        return value
    if encoding == "str_int":
        return int(data)
    if encoding in ("str_float", "str_decimal"):
        return float(data)
    if encoding.startswith("ndarray"):
        return array_of(encoding, data).reshape(-1).tolist()
    if encoding.startswith("list["):
        return _files_of(data)
    return json.loads(data) if encoding == "json" else data


def _files_of(data: bytes) -> list[bytes]:
    """The files in a cell of the encoding `list[...]`. Raises ValueError if they do not fill it."""
    count = int.from_bytes(data[_U32 : 2 * _U32], "little")
    start = _U32 * (2 + count)
    sizes = np.frombuffer(data[2 * _U32 : start], "<u4").tolist()
    if len(sizes) != count or start + sum(sizes) != len(data):
        raise ValueError("a list of files that do not fill its cell")
    ends = accumulate(sizes, initial=start)
    return [data[begin:end] for begin, end in pairwise(ends)]


def _may_be_objects(value: Any) -> bool:
    """Whether a value of JSON is that of objects: it has boxes, or nothing."""
    return isinstance(value, dict) and (not value or not value.keys().isdisjoint(BOX_KEYS))


def cell_kind(encoding: str, data: bytes) -> Kind | None:
    """Return the kind of a column from one cell; None if the cell does not determine it. Raises as `value_of`."""
    if encoding in ("jpeg", "png", "pil") or (encoding == "bytes" and begins_as_image(data[:HEAD_BYTES])):
        return "image"
    if encoding.startswith("ndarray"):
        array = array_of(encoding, data)
        return "image" if _is_image(array) else "floats" if array.dtype.kind == "f" else "integers"
    if encoding.startswith("list["):
        return "other"
    value = value_of(encoding, data)
    kind = "objects" if _may_be_objects(value) else "other" if isinstance(value, bytes) else kind_of(value)
    return None if kind == "null" else cast("Kind", kind)


def array_of(encoding: str, data: bytes) -> np.ndarray:
    """The array in a cell of the encoding `ndarray...`. Raises ValueError if its bytes do not fit its shape."""
    parameters = encoding.split(":")[1:]
    at = 0
    if parameters:
        dtype = parameters[0]
    else:
        dtype, at = _ARRAY_DTYPES.get(data[0] if data else -1, ""), 1
    if dtype not in _ARRAY_DTYPES.values():
        raise ValueError("an array of an unknown dtype")
    if len(parameters) > 1:
        shape = tuple(int(side) for side in parameters[1].split(","))
    else:
        head = data[at] if at < len(data) else 0
        sides, width = head >> 2, 1 << (head & 3)
        shape = tuple(np.frombuffer(data[at + 1 : at + 1 + sides * width], f"<u{width}").tolist())
        if len(shape) != sides or sides > _MOST_SIDES:
            raise ValueError("an array with a truncated shape")
        at += 1 + sides * width
    found = np.dtype(dtype).newbyteorder("<")
    if len(data) - at != math.prod(shape) * found.itemsize:
        raise ValueError(f"{len(data) - at} bytes of an array of {shape} {dtype}")
    return np.frombuffer(data, found, offset=at).reshape(shape)


def png_of(encoding: str, data: bytes) -> bytes:
    """The pixels in a cell as a PNG. Raises RejectedError."""
    try:
        return encode_png(_pil(data) if encoding == "pil" else _image(array_of(encoding, data)))
    except (ValueError, TypeError) as error:
        raise RejectedError(RejectCode.NOT_IMAGE, f"its pixels cannot be read: {error}") from None


def _pil(data: bytes) -> Image.Image:
    if len(data) < 12:
        raise ValueError("cut")
    width, height, length = (int.from_bytes(data[i : i + 4], "little") for i in (0, 4, 8))
    mode = data[12 : 12 + length].decode("ascii", "replace")
    pixels = data[12 + length :]
    if mode not in _MODES:
        raise ValueError(f"of the mode {mode[:10]!r}, expected L, RGB or RGBA")
    if min(width, height) < 1 or len(pixels) != width * height * _MODES[mode]:
        raise ValueError(f"{len(pixels)} bytes for {width} x {height} pixels of {mode}")
    return Image.frombytes(mode, (width, height), pixels)


def _image(pixels: np.ndarray) -> Image.Image:
    if not _is_image(pixels):
        raise ValueError(f"an array of {pixels.shape} {pixels.dtype}, expected uint8 [height, width(, 1, 3 or 4)]")
    return Image.fromarray(pixels.reshape(pixels.shape[:2]) if pixels.shape[2:] in ((), (1,)) else pixels)


def _is_image(array: np.ndarray) -> bool:
    return array.dtype == np.uint8 and array.ndim >= 2 and array.shape[2:] in ((), (1,), (3,), (4,))


@dataclass(frozen=True)
class MdsColumns:
    """`names` in their order in a sample; `sizes`: bytes of each, None where each sample has its own."""

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]

    @cached_property
    def encoding(self) -> dict[str, str]:
        """The encoding of each column, by its name."""
        return dict(zip(self.names, self.encodings, strict=True))


@dataclass(frozen=True)
class MdsShard:
    """`name`, `packed`: its file and the compressed one, or "", relative to the opened path; `form`: compression.

    `split`: by its folder; None if that names none. `size`: bytes of the unpacked file. `path`: of the file to read.
    """

    name: str
    packed: str
    form: str
    size: int
    samples: int
    split: str | None
    columns: MdsColumns
    path: str = ""


def index_files(path: str) -> list[str]:
    """Index files of a dataset, relative to the folder: its own, else those in subfolders; empty if none."""
    if not os.path.isdir(path):
        return [os.path.basename(path)] if os.path.basename(path) == INDEX else []
    if os.path.isfile(os.path.join(path, INDEX)):
        return [INDEX]
    with os.scandir(path) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    found = [os.path.join(folder, INDEX) for folder in folders]
    return [file for file in found if os.path.isfile(os.path.join(path, file))]


def read_index(root: str, files: Sequence[str]) -> list[MdsShard]:
    """All shards. Raises UsageError: no index, one that names files elsewhere, pickles."""
    words = {os.path.dirname(file): split_in_path(os.path.dirname(file)) for file in files}
    usual = any(words.values())
    shards: list[MdsShard] = []
    for file in files:
        place = os.path.join(root, file)
        folder = os.path.dirname(file)
        split = (words[folder] or folder) if usual and folder else None
        for i, entry in enumerate(entries(place)):
            try:
                shard = _shard(entry, folder, split)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problem = f"its shard {i} does not follow MDS version 2: {escape(error)[:200]}"
                raise UsageError(place, problem, _GET_AGAIN) from None
            if pickled := [name for name, encoding in shard.columns.encoding.items() if encoding == "pkl"]:
                problem = f"the column {escape(pickled[0])} is pickled (pkl): reading it can run arbitrary code"
                remedy = f"MDSWriter(columns={{'{escape(pickled[0])}': 'json'}})"
                raise UsageError(place, problem, f"write it again as 'json', 'int', 'str' or 'ndarray': {remedy}")
            shards.append(shard)
    if twice := [name for name, count in Counter(shard.name for shard in shards).items() if count > 1]:
        raise UsageError(os.path.join(root, files[0]), f"it lists the shard {escape(twice[0])} twice", _GET_AGAIN)
    if not shards:
        raise UsageError(os.path.join(root, files[0]), "it lists no shard", _GET_AGAIN)
    return shards


def entries(place: str) -> list[Any]:
    """Read the list of shards of an index. Raises UsageError."""
    data = read_whole(place, _MOST_BYTES, _GET_AGAIN)
    try:
        value = json.loads(data)
        if not isinstance(value, dict) or not isinstance(value.get("shards"), list):
            raise ValueError('no list of "shards"')
        return value["shards"]
    except (ValueError, RecursionError) as error:
        raise UsageError(place, f"not an MDS index: {escape(error)[:200]}", _GET_AGAIN) from None


def _shard(entry: dict[str, Any], folder: str, split: str | None) -> MdsShard:
    """Parse one entry of an index. Raises KeyError, TypeError, ValueError or AttributeError if it is malformed."""
    if entry["format"] != "mds" or entry["version"] != 2:
        raise ValueError(f"format {entry['format']!r} of version {entry['version']!r}")
    names, encodings, sizes = (tuple(entry[f"column_{what}"]) for what in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes) or len(set(names)) < len(names):
        raise ValueError("the numbers of its column names, encodings and sizes differ")
    if not all(isinstance(text, str) for text in (*names, *encodings)):
        raise ValueError("a name or an encoding of a column is not text")
    if not all(size is None or _is_count(size) for size in sizes):
        raise ValueError("a size of a column is not a number")
    if not _is_count(entry["samples"]) or not _is_count(entry["raw_data"]["bytes"]):
        raise ValueError("its number of samples or of bytes is not a number")
    form, packed = entry.get("compression"), entry.get("zip_data")
    return MdsShard(
        _inside(folder, entry["raw_data"]["basename"]),
        _inside(folder, packed["basename"]) if packed else "",
        str(form).partition(":")[0] if form else "",
        entry["raw_data"]["bytes"],
        entry["samples"],
        split,
        MdsColumns(names, encodings, tuple(sizes)),
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 40


def _inside(folder: str, name: str) -> str:
    """The path of a shard. Raises ValueError if it is outside of the folder."""
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the file {name!r} is not in its folder")
    return os.path.join(folder, name)


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Whether a path is an index.json of MDS, or a folder with one, or with folders with one."""
    del options
    try:
        files = index_files(look.path)
        try:
            found = entries(os.path.join(look.folder, files[0])) if files else []
        except UsageError:
            return None
        if not any(isinstance(entry, dict) and entry.get("format") == "mds" for entry in found):
            return None
        shards = read_index(look.folder, files)
    except OSError:
        return None
    except UsageError as error:
        return Evidence("mds", f"it has MDS's {INDEX}", missing_of(error))
    pairs = {name: encoding for shard in shards for name, encoding in shard.columns.encoding.items()}
    columns = ", ".join(f"{escape(name)} ({escape(encoding)})" for name, encoding in pairs.items())
    return Evidence("mds", f"{number(len(shards), 'MDS shard')} with the columns {columns}")


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """The samples of an MDS dataset, in the order of its shards.

    Shards that only exist compressed (zstd, gz, bz2) are unpacked into a temporary folder (TMPDIR). Raises UsageError
    if an index or a shard is invalid, a column is pickled, or the column of the image or class is unknown;
    StorageError.
    """
    files = index_files(look.path)
    if not files:
        raise UsageError(look.path, f"no {INDEX} in it, nor in its folders", f"give the folder with MDS's {INDEX}")
    folder = Unpacked()
    try:
        shards = [_opened(look.folder, shard, folder) for shard in read_index(look.folder, files)]
        roles = _roles(shards, look.path, options)
        names, splits = [shard.name for shard in shards], [shard.split for shard in shards]
        whole = os.fsencode(os.path.abspath(look.path)) if look.is_folder else None
        of = SourceFiles([listed(shard.path) for shard in shards], names, whole, of_splits=splits)
        gather = Gather(of, roles, options, prefixes=[f"{one}/" for one in names], digits=6)
        images = [name for name in map(roles.name, ("image", "mask")) if name is not None]
        _add_samples(gather, shards, images, roles.columns.difference(images))
    except OSError as error:
        raise storage_error(look.path, "read", error) from error
    contents = _contents(of, gather, shards, images, folder)
    return gather.source(
        contents[0],
        "MDS shard",
        rasters=partial(read_masks, contents[1], options.class_names) if contents[1:] else None,
        notes=folder.note,
    )


def _contents(
    of: SourceFiles, gather: Gather, shards: Sequence[MdsShard], images: Sequence[str], folder: Unpacked
) -> list[PixelParts]:
    """Where the files, or pixels, of each column of images are."""
    contents = []
    for place, column in enumerate(images):
        parts = Parts(of.files, gather.file_of, gather.where(2 * place), gather.where(2 * place + 1), folder)
        encodings = [shard.columns.encoding.get(column, "") for shard in shards]
        contents.append(PixelParts(parts, [None if one in FILES else partial(png_of, one) for one in encodings]))
    return contents


def _add_samples(gather: Gather, shards: Sequence[MdsShard], images: Sequence[str], wanted: Collection[str]) -> None:
    for place, shard in enumerate(shards):
        for sample in _samples(shard):
            gather.add(_row(place, sample, shard.columns, images, wanted))


def _roles(shards: Sequence[MdsShard], path: str, options: ColumnOptions) -> Roles:
    """Choose the role of each column. Raises UsageError as `choose_roles` does."""
    kinds = _kinds(shards, path)
    own = next((name for name in NUMBERS if kinds.get(name) in ("integer", "text")), "")
    infos = [ColumnInfo(name, kind, role="number" if name == own else None) for name, kind in kinds.items()]
    return choose_own_roles(path, infos, options, options.columns, NAMES)


def _kinds(shards: Sequence[MdsShard], path: str) -> dict[str, Kind]:
    """The kind of each column, by the first samples of every shard, or by more if these are null.

    Raises UsageError if no sample is intact.
    """
    found: dict[str, Kind] = {}
    damage = ""
    for shard in shards:
        for sample in _samples(shard):
            damage = damage or sample.problem
            for i, name in enumerate(shard.columns.names) if not sample.problem else ():
                with suppress(ValueError, TypeError, RecursionError):  # the caller that needs the cell reports it
                    kind = cell_kind(shard.columns.encodings[i], sample.cell(i))
                    if kind is not None:
                        number = found.setdefault(name, kind) in ("integer", "integers") and kind in ("float", "floats")
                        found[name] = kind if number else found[name]
            if sample.record >= _LOOKED_AT // len(shards) and found.keys() >= {*shard.columns.names}:
                break
    if not found and damage:
        raise UsageError(path, f"no sample is intact: {damage}", "get the shards again, or their index")
    return {name: found.get(name, "other") for shard in shards for name in shard.columns.names}


def _row(file: int, sample: "_MdsSample", columns: MdsColumns, images: Sequence[str], wanted: Collection[str]) -> Row:
    """A sample as the engine takes it; `images`: the columns of its image, and of its mask if it has one."""
    cells = {}
    for column in wanted if not sample.problem else ():
        if column in columns.encoding:
            encoding = columns.encoding[column]
            try:
                cells[column] = value_of(encoding, sample.cell(columns.names.index(column)))
            except (ValueError, TypeError, RecursionError) as error:
                problem = f"{escape(column)} ({escape(encoding)}) cannot be read: {escape(error)[:200]}"
                return Row(file, sample.record, fault=(RejectCode.CORRUPT, problem))
    fault = (RejectCode.CORRUPT, sample.problem) if sample.problem else None
    where: list[int] = []
    for column, (code, what) in zip(images, _FAULTS, strict=False):
        place = columns.names.index(column) if column in columns.encoding else -1
        if not fault and (place < 0 or not sample.sizes[place]):
            fault = code, f"no {what} in {escape(column)}"
        elif not fault:
            where += (sample.begins(place), sample.sizes[place])
    if fault:
        return Row(file, sample.record, values=cells, fault=fault)
    first = sample.cell(columns.names.index(images[0]), _WINDOW)
    ending = ending_of(first) if columns.encoding[images[0]] in FILES else b".png"
    return Row(file, sample.record, tuple(where), cells, ending=ending)


@dataclass(frozen=True)
class _MdsSample:
    """One sample while its shard is open: where in it and in the sample its columns begin, and their `sizes`."""

    fd: int
    record: int
    start: int
    data: bytes
    sizes: Sequence[int]
    problem: str

    def begins(self, column: int) -> int:
        """Offset of a cell in the shard."""
        return self.start + sum(self.sizes[:column])

    def cell(self, column: int, most: int = sys.maxsize) -> bytes:
        """A cell, its first `most` bytes at most."""
        at, size = sum(self.sizes[:column]), min(self.sizes[column], most)
        if at + size <= len(self.data):
            return self.data[at : at + size]
        return os.pread(self.fd, size, self.start + at)


def _samples(shard: MdsShard) -> Iterator[_MdsSample]:
    """Yield all samples in order. Raises UsageError if the offsets are invalid."""
    own = _U32 * sum(size is None for size in shard.columns.sizes)
    with open_regular(shard.path, buffering=0) as file:
        fd = file.fileno()
        head = os.pread(fd, min(_U32 * (shard.samples + 2), shard.size), 0)
        numbers = np.frombuffer(head[: len(head) // _U32 * _U32], "<u4").astype(np.int64)
        ends = numbers[1:]
        if len(numbers) != shard.samples + 2 or numbers[0] != shard.samples:
            there = int(numbers[0]) if len(numbers) else 0
            problem = f"got {there} samples, expected {shard.samples} by {INDEX}"
            raise UsageError(shard.path, problem, "get the shard again, or its index")
        if (np.diff(ends) < 0).any() or ends[0] < len(head) or ends[-1] > shard.size:
            raise UsageError(shard.path, "its offsets are invalid", "get the shard again")
        for record in range(shard.samples):
            start, end = ends.item(record), ends.item(record + 1)
            data = os.pread(fd, min(_WINDOW, end - start), start)
            stored = iter(np.frombuffer(data[:own], "<u4").tolist() if len(data) >= own else ())
            sizes = [next(stored, -1) if size is None else size for size in shard.columns.sizes]
            whole = -1 not in sizes and own + sum(sizes) == end - start
            problem = "" if whole else f"its columns do not fill its {end - start} bytes: damaged"
            yield _MdsSample(fd, record, start + own, data[own:], sizes, problem)


def _opened(root: str, shard: MdsShard, folder: Unpacked) -> MdsShard:
    """A shard's file, unpacked if only the compressed one exists. Raises UsageError if it is missing or truncated."""
    path = os.path.abspath(os.path.join(root, shard.name))
    inside = os.path.join(os.path.realpath(root), "")
    for name in filter(None, (shard.name, shard.packed)):
        target = os.path.realpath(os.path.join(root, name))
        if not target.startswith(inside):
            problem = f"is a link to a path outside the folder, {escape(target)}"
            raise UsageError(os.path.join(root, name), problem, "put the file itself there")
    if not os.path.isfile(path):
        packed = os.path.join(root, shard.packed)
        if not shard.packed or not os.path.isfile(packed):
            raise UsageError(path, f"is listed in {INDEX}, but missing", "get it, or remove it from the index")
        with folder.new(packed) as out:
            try:
                written = 0
                for data in unpacked(packed, shard.form, packed):
                    written += len(data)
                    if written > shard.size:
                        raise UsageError(packed, f"has more than the {shard.size} bytes of {INDEX}", "get it again")
                    out.write(data)
            except DamagedStreamError as error:
                raise UsageError(packed, f"damaged or truncated: {error}", "get it again") from None
        path = out.path
    size = os.stat(path).st_size
    if size != shard.size:
        problem = f"got {size} bytes, expected {shard.size} by {INDEX}: truncated, or another file"
        raise UsageError(path, problem, "get it again")
    return replace(shard, path=path)
