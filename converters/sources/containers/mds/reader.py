"""MDS datasets as samples: `index.json` and its shards, or folders of those, which then are splits.

Of a shard the index of offsets is read, and of each sample the small columns; an image is read when it is stored. MDS
has no checksum of a sample: sizes are compared, and an image that is damaged is found when it is decoded.
"""

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.masks.meaning import read_masks
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked, unpacked
from shardfeed.converters.sources.containers.arrays.pixels import PixelPart
from shardfeed.converters.sources.containers.handles import listed
from shardfeed.converters.sources.containers.image_extensions import ending_of
from shardfeed.converters.sources.containers.mds.encodings import FILES, cell_kind, png_of, value_of
from shardfeed.converters.sources.containers.mds.index import INDEX, Columns, Shard, entries, index_files, read_index
from shardfeed.converters.sources.containers.records.columns import NAMES, NUMBERS
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.look import Look, SourceFiles
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, choose_roles
from shardfeed.converters.sources.rows.source import ColumnarSource, FilePart, Parts
from shardfeed.errors import UsageError, escape
from shardfeed.storage.local import storage_error
from shardfeed.text import number

_LOOKED_AT = 100  # samples, over all shards, examined to find the columns; at least one of each
_WINDOW = 4096  # bytes of a sample read at once
_U32 = 4


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
        kinds = _kinds(shards, look.path)
        own = next((name for name in NUMBERS if kinds.get(name) in ("integer", "text")), "")
        infos = [ColumnInfo(name, kind, role="number" if name == own else None) for name, kind in kinds.items()]
        given = {"unlabelled": options.unlabelled, "one_hot": options.one_hot, "names": NAMES}
        roles = choose_roles(look.path, infos, options.columns, **given)
        names, splits = [shard.name for shard in shards], [shard.split for shard in shards]
        whole = os.fsencode(os.path.abspath(look.path)) if look.is_folder else None
        of = SourceFiles([listed(shard.path) for shard in shards], names, whole, of_splits=splits)
        gather = Gather(of, roles, options, prefixes=[f"{one}/" for one in names], digits=6)
        images = [name for name in map(roles.name, ("image", "mask")) if name is not None]
        for i, shard in enumerate(shards):
            for sample in _samples(shard):
                gather.add(_row(i, sample, shard.columns, images, roles.columns.difference(images)))
    except OSError as error:
        raise storage_error(look.path, "read", error) from error
    contents = []
    for place, column in enumerate(images):
        parts = Parts(of.files, gather.file_of, gather.where(2 * place), gather.where(2 * place + 1), folder)
        contents.append(MdsImages(parts, [shard.columns.encoding.get(column, "") for shard in shards]))
    return gather.source(
        contents[0],
        "MDS shard",
        rasters=partial(read_masks, contents[1], options.class_names) if contents[1:] else None,
        notes=folder.note,
    )


def _kinds(shards: Sequence[Shard], path: str) -> dict[str, Kind]:
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


def _row(file: int, sample: "_Sample", columns: Columns, images: Sequence[str], wanted: Collection[str]) -> Row:
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


_FAULTS = ((RejectCode.EMPTY, "image"), (RejectCode.PAIR, "mask"))  # if it is missing


@dataclass(frozen=True)
class _Sample:
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


def _samples(shard: Shard) -> Iterator[_Sample]:
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
            yield _Sample(fd, record, start + own, data[own:], sizes, problem)


def _opened(root: str, shard: Shard, folder: Unpacked) -> Shard:
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


@dataclass(frozen=True, eq=False)
class MdsImages:
    """The images of samples; `encodings`: of their column in each shard."""

    parts: Parts
    encodings: list[str]

    def __getitem__(self, index: int, /) -> FilePart | PixelPart:
        part, encoding = self.parts[index], self.encodings[self.parts.numbers.item(index)]
        return part if encoding in FILES else PixelPart(part, partial(png_of, encoding))
