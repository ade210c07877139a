"""Parquet files with a column of images, as Hugging Face's `datasets` writes them and others do.

Images are fetched one by one, in any order: directly from the file if they are stored plainly, else from a temporary
file into which the images of a row group are unpacked once. pyarrow reads all other columns.

Stored plainly means: plain pages, not compressed, without nulls. A column of a row group is a dictionary page, if it
has one, and data pages behind each other. A page is a header in Thrift's compact protocol, definition levels, which
mark nulls, and values, each after its length. All other encodings, and damaged files, are left to pyarrow.
"""

import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice, repeat
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.masks_meaning import read_masks
from shardfeed.converters.sources.files.parquet_file import (
    WHOLE,
    class_names_of,
    features_of,
    item_of,
    kind_of_type,
    parquet_file,
)
from shardfeed.converters.sources.files.parts import Parts, listed
from shardfeed.converters.sources.files.unpack import Unpacked, UnpackedFile
from shardfeed.converters.sources.guard import budget, open_regular
from shardfeed.converters.sources.look import Evidence, Look, SourceFiles, find_files, missing_of
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.own_columns import choose_own_roles
from shardfeed.converters.sources.rows.roles import CLASS_KEYS, ColumnInfo, Kind, Roles
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import MissingExtraError, UsageError, argument, escape, name_bytes

# Parquet's numbers of compressions that pyarrow reads; for others it may end the process.
_CODECS = (_UNCOMPRESSED := 0, 1, 2, 4, 6, 7)
_PLAIN, _DATA, _INDEX, _DATA_2 = 0, 0, 1, 3  # an encoding, and types of pages
_HEADER_BYTES = (512, 1 << 16, 1 << 24)  # statistics in a header may be long
_TRUE, _FALSE, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12
_BROKEN = (IndexError, KeyError, TypeError, ValueError, RecursionError, struct.error)

Places = tuple["array[int]", "array[int]"]  # the offset and the size of each image


class Chunk(NamedTuple):
    """A column in a row group: bytes from `start` on, rows, and the number of their compression."""

    start: int
    size: int
    rows: int
    codec: int


def column_chunks(path: str, leaf: int) -> list[Chunk]:
    """Locate column `leaf` in each row group, using the footer.

    Raises UsageError if it is damaged, or compressed in a way that pyarrow cannot read.
    """
    try:
        with open_regular(path) as file:
            file.seek(-8, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            file.seek(-8 - size, os.SEEK_END)
            directory, _ = _read_struct(file.read(size), 0)
        chunks = [_chunk(group[1][leaf]) for group in directory[4]]
    except (*_BROKEN, OSError):
        raise UsageError(path, "cannot be read as Parquet: its directory is damaged", WHOLE) from None
    if any(chunk.codec not in _CODECS for chunk in chunks):
        problem = "its images have an unknown or obsolete compression"
        raise UsageError(path, problem, f"write it again, with pyarrow, or {WHOLE}")
    return chunks


def _chunk(column: dict[int, Any]) -> Chunk:
    """Parse the metadata of a column chunk. Raises KeyError or ValueError if malformed, or stored in another file."""
    about = column[3]
    numbers = [about[field] for field in (9, 7, 5, 4)]
    dictionary = about.get(11) or numbers[0]  # 0, where some have none
    if 1 in column or not all(isinstance(number, int) and number >= 0 for number in (*numbers, dictionary)):
        raise ValueError
    return Chunk(min(numbers[0], dictionary), *numbers[1:])


def places_in_file(file: BinaryIO, chunk: Chunk, most: int) -> Places | None:
    """Locate each image of a column in the file; None if one of them is not stored plain.

    `most`: the definition level of a value.
    """
    if chunk.codec != _UNCOMPRESSED:
        return None
    found = array("q"), array("q")
    place, end = chunk.start, chunk.start + chunk.size
    try:
        while len(found[0]) < chunk.rows and place < end:
            header, data = _header(file, place, end)
            place = data + header[3]
            if header[3] < 0 or place > end:
                return None
            if header[1] == _INDEX:
                continue
            about = header[{_DATA: 5, _DATA_2: 8}[header[1]]]
            if header[1] == _DATA_2:
                first = data + about[5] if not about[2] and not about[6] and about[4] == _PLAIN else -1
            else:
                first = _values_offset(file, data, about[1], most) if about[2] == _PLAIN else -1
            if first < 0 or not _walk(file, first, place, about[1], found):
                return None
    except _BROKEN:
        return None
    return found if len(found[0]) == chunk.rows else None


def _values_offset(file: BinaryIO, place: int, rows: int, most: int) -> int:
    """Return the offset of the values in a page of version 1; -1 unless its levels are one run without nulls."""
    if not most:
        return place
    file.seek(place)
    size = int.from_bytes(file.read(4), "little")
    levels = file.read(min(size, 16))
    run, end = _varint(levels, 0)
    return place + 4 + size if not run & 1 and run >> 1 >= rows and levels[end] == most else -1


def _walk(file: BinaryIO, place: int, end: int, rows: int, found: Places) -> bool:
    """Append the offsets of this many values; return whether the last one ends at the end of the page."""
    offsets, sizes = found
    for _ in range(rows):
        file.seek(place)
        (size,) = struct.unpack("<I", file.read(4))
        offsets.append(place + 4)
        sizes.append(size)
        place += 4 + size
        if place > end:
            return False
    return True


def _header(file: BinaryIO, place: int, end: int) -> tuple[dict[int, Any], int]:
    """The header of a page, and the offset behind it. Raises IndexError, ValueError."""
    for most in _HEADER_BYTES:
        file.seek(place)
        try:
            header, length = _read_struct(file.read(min(most, end - place)), 0)
        except IndexError:
            continue
        return header, place + length
    raise ValueError


def _read_struct(data: bytes, place: int) -> tuple[dict[int, Any], int]:
    """Parse a struct into values by field number, and its end. Raises IndexError if it is truncated, ValueError."""
    found: dict[int, Any] = {}
    field = 0
    while head := data[place]:
        place += 1
        if head >> 4:
            field += head >> 4
        else:
            number, place = _varint(data, place)
            field = number >> 1 ^ -(number & 1)
        found[field], place = _value(data, place, head & 15)
    return found, place + 1


def _value(data: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in _INTS:
        number, place = _varint(data, place)
        return number >> 1 ^ -(number & 1), place
    if kind == _STRUCT:
        return _read_struct(data, place)
    if kind in _LISTS:
        head, place = data[place], place + 1
        count = head >> 4
        if count == 15:
            count, place = _varint(data, place)
        if count > len(data):
            raise ValueError(count)
        items = []
        for _ in range(count):
            item, place = _value(data, place, head & 15)
            items.append(item)
        return items, place
    size = {_BYTE: 1, _DOUBLE: 8}.get(kind, 0)
    if kind == _BINARY:
        size, place = _varint(data, place)
    elif not size:
        raise ValueError(kind)
    if place + size > len(data):
        raise IndexError(place + size)
    return data[place : place + size], place + size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


NAME = "parquet"
_ENDS = (".parquet", ".pq")
_RECOGNISED_BY = 16  # files
_BATCH = 1024  # rows with small columns in memory at once
_UNPACKED_AT_ONCE = 16 << 20  # bytes of images in memory at once
_FAULTS = {"image": RejectCode.MISSING, "mask": RejectCode.PAIR}  # if it is null
_SIDES = ("width", "height")  # columns beside boxes


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Recognise Parquet by its first bytes and its columns. A file without images may be a list of files."""
    first = look.path if look.is_file else look.first(_ENDS)
    if not first or look.kind_of(first) != "parquet":
        return None
    found = "Parquet files" if look.is_folder or first != look.path else "a Parquet file"
    try:
        paths = [first] if look.is_file else islice(map(look.full, look.files(_ENDS)), _RECOGNISED_BY)
        several = map(_columns_of, paths)  # a file without rows may have columns of nulls
        infos = next((infos for infos in several if any(info.kind == "image" for info in infos)), None)
        if infos is None:
            return None
        roles = choose_own_roles(first, infos, options, options.columns)
    except MissingExtraError as error:
        return Evidence(NAME, found, missing_of(error))
    except UsageError as error:
        return Evidence(NAME, f"{found}, the first {escape(os.path.basename(first))}", missing_of(error))
    return Evidence(NAME, f"{found}: {roles.described}")


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """Make one sample of each row; columns are named by `options.columns`, else by the file or by usual names.

    The image is a column of binary, or of `datasets`' struct of bytes and path. Class names come from the schema, where
    `datasets` stores them, or from `options.class_names`. `objects`: boxes as in COCO, in pixels, and their categories.
    `mask`: a second column of images; `options.class_names` then names its classes. Any other feature is taken if it is
    named: `image/area` from `area`. A row's name is its image's path if all have different ones; else the file and its
    number in it. Raises UsageError for files that are truncated or damaged, and if their columns differ;
    MissingExtraError without pyarrow.
    """
    files = find_files(look.path, _ENDS)
    roles = _roles(files, options)
    gather = Gather(files, roles, options)
    columns = [_ParquetImages(files, roles.by_role["image"].name)]
    if mask := roles.name("mask"):
        columns.append(_ParquetImages(files, mask))
    paths = sum(_add_file(gather, columns, number) for number in range(len(files.files)))
    if not len(gather) and paths:
        remedy = f"a list of files is a label table: give {escape(os.fsdecode(files.files[0].path))} itself, and "
        remedy += argument("reader", "labels")
        raise UsageError(files.place, f"its images are null, it has only {paths:,} paths", remedy)
    parts = [column.parts(gather, 2 * place) for place, column in enumerate(columns)]
    return gather.source(
        parts[0],
        "Parquet file",
        rasters=partial(read_masks, parts[1], options.class_names) if mask else None,
        notes=[note for column in columns for note in column.unpacked.note],
    )


def _roles(files: SourceFiles, options: ColumnOptions) -> Roles:
    """Choose columns that all files have. Raises UsageError if a chosen one differs between files."""
    found: dict[str, tuple[ColumnInfo, str]] = {}
    unlike: dict[str, tuple[ColumnInfo, str]] = {}
    for file in files.files:
        path = os.fsdecode(file.path)
        for info in _columns_of(path):
            first, _ = found.setdefault(info.name, (info, path))
            names_differ = info.class_names != first.class_names and options.class_names is None
            if info.kind != first.kind or names_differ:
                unlike.setdefault(info.name, (info, path))
    first_path = os.fsdecode(files.files[0].path)
    infos = [info for info, _ in found.values()]
    roles = choose_own_roles(first_path, infos, options, options.columns)
    for name in sorted(roles.columns & unlike.keys()):
        (info, path), (first, other) = unlike[name], found[name]
        if info.kind != first.kind:
            problem = f"the column '{escape(name)}' holds {info.kind} values, but {first.kind} ones in {escape(other)}"
        else:
            counts = " and ".join(str(len(one.class_names or ())) for one in (info, first))
            problem = f"the classes of {name} differ from those in {escape(other)} ({counts}, or in another order)"
        raise UsageError(path, problem, "convert these files separately, then `shardfeed merge` the datasets")
    if roles.name("objects") and all(side in found and found[side][0].kind == "integer" for side in _SIDES):
        return replace(roles, unused=tuple(name for name in roles.unused if name not in _SIDES))
    return roles


def _columns_of(path: str) -> list[ColumnInfo]:
    """Return the columns of a file, with their `datasets` metadata from the schema; columns of nulls are left out."""
    with parquet_file(path) as file:
        schema = file.schema_arrow
    features, infos = features_of(schema.metadata), []
    for name in schema.names:
        kind: Kind = kind_of_type(schema.field(name).type) if schema.names.count(name) == 1 else "other"
        about = item_of(features.get(name))
        of_object = next((about[key] for key in CLASS_KEYS if key in about), None)
        names = class_names_of(item_of(of_object) if kind == "objects" else about)
        stated = about.get("_type")
        role = "image" if kind == "image" and stated == "Image" else "label" if stated == "ClassLabel" else None
        if kind != "null":
            infos.append(ColumnInfo(name, kind, name, role, names))
    return infos


class _ParquetImages:
    """A column of images: where each is, in its file or, by a negative offset, in the one it was unpacked into."""

    def __init__(self, files: SourceFiles, name: str) -> None:
        self.files, self.name, self.unpacked = files, name, Unpacked()
        self._new: dict[int, UnpackedFile] = {}  # by the number of the file that they are unpacked from

    def begin(self, number: int, file: Any, place: str) -> None:
        """Find the column in the next file. Raises UsageError for one that is no image a row."""
        self._number, self._chunks = number, None
        schema = file.schema
        paths = {schema.column(i).path: i for i in range(len(schema))}
        if self.name not in file.schema_arrow.names:
            return
        self._path = next(path for path in (f"{self.name}.bytes", self.name) if path in paths)
        column = schema.column(paths[self._path])
        if column.physical_type != "BYTE_ARRAY" or column.max_repetition_level:
            problem = f"the column '{escape(self.name)}' is of {column.physical_type}, expected one image per row"
            raise UsageError(place, problem, f"name another column: {naming('image', 'COLUMN')}")
        self._most, self._chunks = column.max_definition_level, column_chunks(place, paths[self._path])

    def in_group(self, file: Any, raw: BinaryIO, group: int, stack: ExitStack) -> Places:
        """Offsets and sizes of the images of all rows; the size is -1 for null."""
        if self._chunks is None:
            count = file.metadata.row_group(group).num_rows
            return array("q", [0]) * count, array("q", [-1]) * count
        return places_in_file(raw, self._chunks[group], self._most) or self._unpack(file, group, stack)

    def _unpack(self, file: Any, group: int, stack: ExitStack) -> Places:
        """Write the images of a row group into the temporary file."""
        import pyarrow as pa

        if self._number not in self._new:
            new = self.unpacked.new(os.fsdecode(self.files.files[self._number].path))
            self._new[self._number] = stack.enter_context(new)
        new, offsets, sizes = self._new[self._number], array("q"), array("q")
        about = file.metadata.row_group(group)
        rows = max(1, min(_BATCH, about.num_rows * _UNPACKED_AT_ONCE // max(1, about.total_byte_size)))
        for batch in file.iter_batches(rows, row_groups=[group], columns=[self._path], use_threads=False):
            images = batch.column(0) if self._path == self.name else batch.column(0).flatten()[0]
            if images.type not in (pa.binary(), pa.large_binary()):
                images = pa.array(images.to_pylist(), pa.binary())
            here = slice(images.offset, images.offset + len(images) + 1)
            valid, ends, data = images.buffers()
            ends = np.frombuffer(ends, np.int32 if images.type == pa.binary() else np.int64)[here].astype(np.int64)
            lengths = np.diff(ends)
            if valid is not None:
                bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[here]
                lengths[bits[: len(lengths)] == 0] = -1
            offsets.extend((ends[0] - ends[:-1] - new.size - 1).tolist())
            sizes.extend(lengths.tolist())
            new.write(memoryview(data or b"")[ends[0] : ends[-1]])
        return offsets, sizes

    def parts(self, gather: Gather, place: int) -> Parts:
        """All rows that were taken; `place`: index of their offsets in `Row.where`."""
        offsets, sizes, numbers = gather.where(place), gather.where(place + 1), gather.file_of
        files = [*self.files.files]
        if not self._new:
            return Parts(files, numbers, offsets, sizes)
        of_new = np.full(len(files), -1, np.int32)
        for number, new in self._new.items():
            of_new[number] = len(files)
            files.append(listed(new.path))
        away = offsets < 0
        offsets[away] = -offsets[away] - 1  # in place: nothing else has them
        return Parts(files, np.where(away, of_new[numbers], numbers), offsets, sizes, self.unpacked)


def _add_file(gather: Gather, columns: Sequence[_ParquetImages], number: int) -> int:
    """Take all rows of a file, without their images; how many have a path in place of one. Raises UsageError."""
    listed, row, paths = gather.files.files[number], 0, 0
    place = os.fsdecode(listed.path)
    has_sizes = gather.roles.name("objects") is not None
    with parquet_file(place) as file, open(place, "rb") as raw, ExitStack() as stack:
        budget().rows(file.metadata.num_rows, listed.size, place)
        if os.fstat(raw.fileno()).st_size != listed.size:
            raise UsageError(place, "it changed after it was listed", "wait until the writer has finished")
        if not file.metadata.num_rows:
            return 0
        for column in columns:
            column.begin(number, file, place)
        for group in range(file.metadata.num_row_groups):
            places = [found for column in columns for found in column.in_group(file, raw, group, stack)]
            rows = _values(gather.roles, file, group)
            for (values, path), where in zip(rows, zip(*places, strict=True), strict=True):
                fault = None
                if min(where[1::2]) < 0:
                    what = "image" if where[1] < 0 else "mask"
                    beside = f": the row has only its path, {escape(path[:80])}" if path and what == "image" else ""
                    fault, paths = (_FAULTS[what], f"the {what} is null{beside}"), paths + bool(beside)
                name = name_bytes(path) if path else b""
                taken = gather.add(Row(number, row, where, values, name, b"", fault))
                if taken and has_sizes:
                    gather.set_size(values.get("width"), values.get("height"))
                row += 1
    return paths


def _values(roles: Roles, file: Any, group: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The small columns of each row of a row group, and the name of its image."""
    schema = file.schema_arrow
    images = [info.name for role, info in roles.by_role.items() if role in ("image", "mask")]
    names = sorted(roles.columns.difference(images) & set(schema.names))
    sizes = [side for side in _SIDES if "objects" in roles.by_role and side in schema.names and side not in names]
    image = roles.by_role["image"].name
    fields = {one.name: one.type for one in schema.field(image).flatten()} if image in schema.names else {}
    has_path = kind_of_type(fields.get(f"{image}.path")) == "text"
    leaves = [*names, *sizes, *([f"{image}.path"] if has_path else [])]
    if not leaves:
        yield from repeat(({}, None), file.metadata.row_group(group).num_rows)
        return
    for batch in file.iter_batches(_BATCH, row_groups=[group], columns=leaves, use_threads=False):
        columns = [batch.column(name).to_pylist() for name in (*names, *sizes)]
        called = batch.column(image).flatten()[0].to_pylist() if has_path else repeat(None)
        rows = zip(*columns, strict=True) if columns else repeat((), batch.num_rows)
        for values, path in zip(rows, called, strict=False):
            yield dict(zip((*names, *sizes), values, strict=True)), path
