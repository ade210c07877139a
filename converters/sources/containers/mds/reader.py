"""MDS datasets as samples: `index.json` and its shards, or folders of those, which then are splits.

Of a shard the index of offsets is read, and of each sample the small columns; an image is read when it is stored. MDS
has no checksum of a sample: sizes are compared, and an image that is damaged is found when it is decoded.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked, unpacked
from shardfeed.converters.sources.containers.endings import ending_of
from shardfeed.converters.sources.containers.mds.encodings import FILES, PixelPart, kind_of, value_of
from shardfeed.converters.sources.containers.mds.index import INDEX, Columns, Shard, index_files, is_mds, read_index
from shardfeed.converters.sources.containers.records.features import NAMES, NUMBERS
from shardfeed.converters.sources.files.source_files import SourceFiles
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.parts import FilePart
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, Roles, choose_roles
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import number

_LOOKED_AT = 100  # samples, of all shards, by which it is known what the columns are; but one of each
_WINDOW = 4096  # bytes of a sample read at once
_U32 = 4


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Whether a path is an index.json of MDS, or a folder with one, or with folders with one."""
    del options
    try:
        files = index_files(look.path)
        if not files or not is_mds(os.path.join(look.folder, files[0])):
            return None
        shards = read_index(look.folder, files)
    except OSError:
        return None
    except UsageError as error:
        return Evidence("mds", f"it has MDS's {INDEX}", missing_of(error))
    pairs = {name: encoding for shard in shards for name, encoding in shard.columns.encoding.items()}
    said = ", ".join(f"{escape(name)} ({escape(encoding)})" for name, encoding in pairs.items())
    return Evidence("mds", f"{number(len(shards), 'MDS shard')} with the columns {said}")


def read(look: Look, options: ColumnOptions) -> ColumnarSource:
    """The samples of an MDS dataset, in the order of its shards.

    Shards that are there only compressed (zstd, gz, bz2) are unpacked into a temporary folder (TMPDIR). Raises
    UsageError where an index or a shard is not as it should be, a column is pickled, or nothing tells what is the
    image or a class; StorageError.
    """
    files = index_files(look.path)
    if not files:
        raise UsageError(look.path, f"no {INDEX} in it, nor in its folders", f"give the folder with MDS's {INDEX}")
    listed = read_index(look.folder, files)
    folder = Unpacked()
    try:
        shards = [_opened(look.folder, shard, folder) for shard in listed]
        kinds = _kinds(shards, look.path)
        roles, name = _roles(kinds, options, look.path)
        sources = [SourceFile(os.fsencode(shard.path), shard.size, shard.mtime_ns) for shard in shards]
        names, splits = [shard.name for shard in listed], [shard.split for shard in listed]
        whole = os.fsencode(os.path.abspath(look.path)) if look.is_folder else None
        prefixes = [f"{one}/" for one in names]
        gather = Gather(
            SourceFiles(sources, names, whole, of_splits=splits), roles, options, prefixes=prefixes, digits=6
        )
        image = roles.by_role["image"].name
        wanted = [*(roles.columns - {image}), *([name] if name and name not in roles.columns else [])]
        for i, shard in enumerate(shards):
            for sample in shard.samples():
                gather.add(_row(i, sample, shard.columns, image, wanted, name))
    except OSError as error:
        raise storage_error(look.path, "read", error) from error
    images = MdsImages(tuple(shards), image, gather.file_of, gather.where(0), gather.where(1), folder)
    return gather.source(images, "MDS shard", notes=folder.note)


def _kinds(shards: "Sequence[_Opened]", path: str) -> dict[str, Kind]:
    """The kind of each column, by the first samples of every shard, or by more where those say null.

    Raises UsageError where no sample is whole.
    """
    found: dict[str, Kind] = {}
    damage = ""
    for shard in shards:
        for sample in shard.samples():
            damage = damage or sample.problem
            for i, name in enumerate(shard.columns.names) if not sample.problem else ():
                with suppress(ValueError, TypeError, RecursionError):  # whoever needs the cell says what is wrong
                    kind = kind_of(shard.columns.encodings[i], sample.cell(i))
                    if kind is not None:
                        number = found.setdefault(name, kind) in ("integer", "integers") and kind in ("float", "floats")
                        found[name] = kind if number else found[name]
            if sample.record >= _LOOKED_AT // len(shards) and found.keys() >= {*shard.columns.names}:
                break
    if not found and damage:
        raise UsageError(path, f"no sample is whole: {damage}", "get the shards again, or their index")
    return {name: found.get(name, "other") for shard in shards for name in shard.columns.names}


def _roles(kinds: Mapping[str, Kind], options: ColumnOptions, path: str) -> tuple[Roles, str]:
    """Which column is what; and the one with the names of images, "" for none. Raises UsageError."""
    one = ("integer", "text")
    own = next((name for name in NUMBERS if kinds.get(name) in one), "")
    infos = [ColumnInfo(name, kind, role="number" if name == own else None) for name, kind in kinds.items()]
    roles = choose_roles(path, infos, options.columns, unlabelled=options.unlabelled)
    named = (*one, "other")  # bytes too: our own image/filename is
    name = next((name for name in NAMES if kinds.get(name) in named and name not in options.columns.values()), "")
    return replace(roles, unused=tuple(column for column in roles.unused if column != name)), name


def _row(file: int, sample: "_Sample", columns: Columns, image: str, wanted: Sequence[str], name: str) -> Row:
    """A sample as the engine takes it."""
    cells = {}
    problem = sample.problem
    for column in wanted if not problem else ():
        if column in columns.encoding:
            encoding = columns.encoding[column]
            try:
                cells[column] = value_of(encoding, sample.cell(columns.names.index(column)))
            except (ValueError, TypeError, RecursionError) as error:
                problem = f"{escape(column)} ({escape(encoding)}) cannot be read: {escape(error)[:200]}"
                break
    if problem:
        return Row(file, sample.record, fault=(RejectCode.CORRUPT, problem))
    said = cells.get(name)
    own = str(said).encode("utf-8", "surrogateescape") if isinstance(said, str | int) else said
    own = own if isinstance(own, bytes) else b""
    if image not in columns.encoding:
        reason = f"its shard has no column {escape(image)}"
        return Row(file, sample.record, name=own, fault=(RejectCode.NOT_IMAGE, reason))
    place = columns.names.index(image)
    offset, size = sample.place(place)
    if not size:
        return Row(file, sample.record, name=own, fault=(RejectCode.EMPTY, f"no image in {escape(image)}"))
    ending = ending_of(sample.cell(place, _WINDOW)) if columns.encoding[image] in FILES else b".png"
    return Row(file, sample.record, (offset, size), cells, own, ending)


@dataclass(frozen=True)
class _Opened:
    """A shard's file: `path` to read, its state, how many samples it has, and their columns."""

    path: str
    size: int
    mtime_ns: int
    count: int
    columns: Columns

    def samples(self) -> "Iterator[_Sample]":
        """All samples, one after the other. Raises UsageError where the offsets are not those of a shard."""
        own = sum(size is None for size in self.columns.sizes)
        fixed = sum(size or 0 for size in self.columns.sizes)
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
                whole = len(data) >= own * _U32 and own * _U32 + fixed + sum(sizes) == end - start
                problem = "" if whole else f"its columns do not fill its {end - start} bytes: damaged"
                yield _Sample(fd, record, start, data, self._places(sizes, own) if whole else (), problem)

    def _places(self, sizes: Sequence[int], own: int) -> list[tuple[int, int]]:
        """Where each column begins in the sample, and its bytes."""
        found: list[tuple[int, int]] = []
        at, variable = own * _U32, iter(sizes)
        for size in self.columns.sizes:
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
    return _Opened(path, state.st_size, state.st_mtime_ns, shard.samples, shard.columns)


@dataclass(frozen=True, eq=False)
class MdsImages:
    """The images of samples by their numbers; int32 and int64 [n]. `unpacked`: files that are there while this is."""

    shards: tuple[_Opened, ...]
    column: str
    file_of: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    unpacked: Unpacked

    def __getitem__(self, index: int, /) -> FilePart | PixelPart:
        shard = self.shards[self.file_of.item(index)]
        offset, size, encoding = self.offsets.item(index), self.sizes.item(index), shard.columns.encoding[self.column]
        part = FilePart(os.fsencode(shard.path), offset, size, shard.size, shard.mtime_ns)
        return part if encoding in FILES else PixelPart(part, encoding)
