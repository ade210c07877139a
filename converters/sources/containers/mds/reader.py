"""MDS datasets as samples: `index.json` and its shards, or folders of those, which then are splits.

Of a shard the index of offsets is read, and of each sample the small columns; an image is read when it is stored. MDS
has no checksum of a sample: sizes are compared, and an image that is damaged is found when it is decoded.
"""

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked, unpacked
from shardfeed.converters.sources.containers.mds.encodings import FILES, PixelPart, fields_of, is_pixels
from shardfeed.converters.sources.containers.mds.index import (
    INDEX,
    Columns,
    Shard,
    index_files,
    is_mds,
    read_index,
)
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.records.gather import Gather
from shardfeed.converters.sources.containers.records.layout import HeadLook, Layout, find_layout
from shardfeed.converters.sources.containers.records.source import Assembly, FoundFile
from shardfeed.converters.sources.rows.parts import FilePart
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import UsageError, escape
from shardfeed.formats.format import Fields
from shardfeed.storage.local import storage_error
from shardfeed.text import number

_LOOKED_AT = 100  # samples, by which it is known what the columns are
_WINDOW = 4096  # bytes of a sample read at once
_U32 = 4
_IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "picture", "pixels")


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """Whether `path` is an index.json of MDS, or a folder with one, or with folders with one."""
    try:
        files = index_files(path)
        root = path if os.path.isdir(path) else os.path.dirname(path)
        if not files or not is_mds(os.path.join(root, files[0])):
            return None
        shards, columns = read_index(root, files)
    except OSError:
        return None
    except UsageError as error:
        return Evidence("mds", f"it has MDS's {INDEX}", missing_of(error))
    pairs = zip(columns.names, columns.encodings, strict=True)
    said = ", ".join(f"{escape(name)} ({escape(encoding)})" for name, encoding in pairs)
    return Evidence("mds", f"{number(len(shards), 'MDS shard')} with the columns {said}")


def read(path: str, options: ContainerOptions) -> ColumnarSource:
    """The samples of an MDS dataset, in the order of its shards.

    Shards that are there only compressed (zstd, gz, bz2) are unpacked into a temporary folder (TMPDIR). Raises
    UsageError where an index or a shard is not as it should be, a column is pickled, or nothing tells what is the
    image or a class; StorageError.
    """
    files = index_files(path)
    root = path if os.path.isdir(path) else os.path.dirname(path)
    if not files:
        raise UsageError(path, f"no {INDEX} in it, nor in its folders", f"give the folder with MDS's {INDEX}")
    listed, columns = read_index(root, files)
    folder = Unpacked()
    try:
        shards = [_opened(root, shard, folder) for shard in listed]
        layout = _layout(shards, columns, options, path)
        needed = layout.keys - {layout.image}
        taken = Assembly(Gather(layout), [FoundFile(shard.name, shard.split) for shard in listed], options, path, {})
        image = columns.names.index(layout.image)
        encoding = columns.encodings[image]
        offsets, sizes = array("q"), array("q")
        for i, shard in enumerate(shards):
            for sample in shard.samples(columns):
                if sample.problem:
                    taken.reject(i, sample.record, RejectCode.CORRUPT, sample.problem)
                    continue
                fields, problem = _fields(sample, columns, needed)
                if problem:
                    taken.reject(i, sample.record, RejectCode.CORRUPT, problem)
                    continue
                kind = None if encoding in FILES else "png"
                if taken.add(i, sample.record, fields, sample.cell(image, _WINDOW), kind):
                    offset, size = sample.place(image)
                    offsets.append(offset)
                    sizes.append(size)
    except OSError as error:
        raise storage_error(path, "read", error) from error
    arrays = taken.file_of, np.frombuffer(offsets, np.int64), np.frombuffer(sizes, np.int64)
    whole = os.fsencode(os.path.abspath(path)) if os.path.isdir(path) else None
    return taken.finish(MdsImages(tuple(shards), *arrays, encoding, folder), folder.note, whole, "MDS shard")


@dataclass(frozen=True)
class _Opened:
    """A shard's file: `path` to read, its state, and how many samples it has."""

    path: str
    size: int
    mtime_ns: int
    count: int

    def samples(self, columns: Columns) -> "Iterator[_Sample]":
        """All samples, one after the other. Raises UsageError where the offsets are not those of a shard."""
        own = sum(size is None for size in columns.sizes)
        fixed = sum(size or 0 for size in columns.sizes)
        with open(self.path, "rb", buffering=0) as file:
            fd = file.fileno()
            head = os.pread(fd, min(_U32 * (self.count + 2), self.size), 0)
            numbers = np.frombuffer(head[: len(head) // _U32 * _U32], "<u4").astype(np.int64)
            ends = numbers[1:]
            if len(numbers) != self.count + 2 or numbers[0] != self.count:
                there = int(numbers[0]) if len(numbers) else 0
                problem = f"got {there} samples, expected {self.count} by {INDEX}"
                raise UsageError(self.path, problem, "get the shard again, or its index")
            if (np.diff(ends) < 0).any() or ends[0] < len(head) or ends[-1] > self.size:
                raise UsageError(self.path, "its offsets are not those of samples", "get the shard again")
            for record in range(self.count):
                start, end = ends.item(record), ends.item(record + 1)
                data = os.pread(fd, min(_WINDOW, end - start), start)
                sizes = np.frombuffer(data[: own * _U32], "<u4").astype(np.int64).tolist() if own else []
                problem = ""
                if len(data) < own * _U32 or own * _U32 + fixed + sum(sizes) != end - start:
                    problem = f"its columns do not fill its {end - start} bytes: damaged"
                yield _Sample(
                    fd, record, start, data, self._places(columns, sizes, own) if not problem else (), problem
                )

    @staticmethod
    def _places(columns: Columns, sizes: Sequence[int], own: int) -> list[tuple[int, int]]:
        """Where each column begins in the sample, and its bytes."""
        found: list[tuple[int, int]] = []
        at, variable = own * _U32, iter(sizes)
        for size in columns.sizes:
            size = next(variable) if size is None else size
            found.append((at, size))
            at += size
        return found


@dataclass(frozen=True)
class _Sample:
    """One sample while its shard is open; `places`: of its columns."""

    fd: int
    record: int
    start: int
    data: bytes
    places: Sequence[tuple[int, int]]
    problem: str

    def place(self, column: int) -> tuple[int, int]:
        """Offset in the shard, and bytes, of a cell."""
        at, size = self.places[column]
        return self.start + at, size

    def cell(self, column: int, most: int | None = None) -> bytes:
        """A cell, its first `most` bytes at most."""
        at, size = self.places[column]
        size = size if most is None else min(size, most)
        if at + size <= len(self.data):
            return self.data[at : at + size]
        return os.pread(self.fd, size, self.start + at)


def _opened(root: str, shard: Shard, folder: Unpacked) -> _Opened:
    """A shard's file, unpacked where only the compressed one is there. Raises UsageError: none is, or it is cut."""
    path = os.path.abspath(os.path.join(root, shard.name))
    inside = os.path.join(os.path.realpath(root), "")
    for name in filter(None, (shard.name, shard.packed)):
        target = os.path.realpath(os.path.join(root, name))
        if not target.startswith(inside):
            problem = f"is a link out of the folder, to {escape(target)}"
            raise UsageError(os.path.join(root, name), problem, "put the file itself there")
    if not os.path.isfile(path):
        packed = os.path.join(root, shard.packed)
        if not shard.packed or not os.path.isfile(packed):
            raise UsageError(path, f"is listed in {INDEX} and not there", "get it, or take it out of the index")
        with folder.new(packed) as out:
            try:
                written = 0
                for data in unpacked(packed, shard.form, packed):
                    written += len(data)
                    if written > shard.size:
                        raise UsageError(packed, f"holds more than the {shard.size} bytes of {INDEX}", "get it again")
                    out.write(data)
            except DamagedStreamError as error:
                raise UsageError(packed, f"damaged or cut: {error}", "get it again") from None
        path = out.path
    state = os.stat(path)
    if state.st_size != shard.size:
        problem = f"got {state.st_size} bytes, expected {shard.size} by {INDEX}: cut, or another file"
        raise UsageError(path, problem, "get it again")
    return _Opened(path, state.st_size, state.st_mtime_ns, shard.samples)


def _layout(shards: Sequence[_Opened], columns: Columns, options: ContainerOptions, path: str) -> Layout:
    """What the columns are, by their names, encodings and first samples. Raises UsageError."""
    look, damage = HeadLook(), ""
    for shard in shards:
        for sample in shard.samples(columns):
            damage = damage or sample.problem
            if look.records < _LOOKED_AT and not sample.problem:
                look.add(_fields(sample, columns, columns.names)[0])
            if look.records >= _LOOKED_AT or sample.record >= _LOOKED_AT:
                break
        if look.records >= _LOOKED_AT:
            break
    if not look.records and damage:
        raise UsageError(path, f"no sample is whole: {damage}", "get the shards again, or their index")
    encodings = dict(zip(columns.names, columns.encodings, strict=True))
    return find_layout(look, options.columns, path, image=_image_column(encodings, look))


def _image_column(encodings: dict[str, str], look: HeadLook) -> str | None:
    """The column that holds images by its encoding, or of several the one of a usual name; None where none does."""
    for fits in (lambda name: encodings[name] in ("jpeg", "png", "pil"), lambda name: is_pixels(encodings[name])):
        found = [name for name in encodings if fits(name)]
        if len(found) == 1 and not (encodings[found[0]].startswith("ndarray") and look.images):
            return found[0]
        for name in _IMAGE_NAMES:
            if name in found:
                return name
    return None


def _fields(sample: _Sample, columns: Columns, wanted: Sequence[str] | frozenset[str]) -> tuple[Fields, str]:
    """The cells of a sample as a record has them, and what is wrong with the first that cannot be read."""
    found, problem = {}, ""
    for i, (name, encoding) in enumerate(zip(columns.names, columns.encodings, strict=True)):
        if name in wanted:
            try:
                field = fields_of(encoding, sample.cell(i))
            except (ValueError, TypeError, RecursionError) as error:
                problem = problem or f"{escape(name)} ({escape(encoding)}) cannot be read: {escape(error)[:200]}"
                continue
            if field is not None:
                found[name] = field
    return found, problem


@dataclass(frozen=True, eq=False)
class MdsImages:
    """The images of samples by their numbers; int32 and int64 [n]. `unpacked`: files that are there while this is."""

    shards: tuple[_Opened, ...]
    file_of: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    encoding: str
    unpacked: Unpacked

    def __getitem__(self, index: int, /) -> FilePart | PixelPart:
        shard = self.shards[self.file_of.item(index)]
        size = self.sizes.item(index)
        part = FilePart(os.fsencode(shard.path), self.offsets.item(index), size, shard.size, shard.mtime_ns)
        return part if self.encoding in FILES else PixelPart(part, self.encoding)
