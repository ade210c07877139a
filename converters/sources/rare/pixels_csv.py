"""Images whose pixels are numbers in a CSV file: `label,pixel0,...,pixel783`, or `emotion,pixels` with all in a cell.

A row is an image: gray if the number of its pixels is a square, RGB with interleaved colours if a third of it is.
"""

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.parts import Parts
from shardfeed.converters.sources.look import Evidence, Look, SourceFiles, find_files
from shardfeed.converters.sources.options import PixelOptions
from shardfeed.converters.sources.rare.array_pixels import PixelLayout, PixelParts
from shardfeed.converters.sources.rows.cells import NUMBER
from shardfeed.converters.sources.rows.gather import Gather, Row
from shardfeed.converters.sources.rows.label_table import LabelTable, cells_of
from shardfeed.converters.sources.rows.roles import ColumnInfo, Kind, Roles, choose_roles
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import counted, some

_ENDS = (".csv",)
_PIXEL = re.compile(r"(?:pixel|px|p)?[_.]?\d+(?:x\d+)?\Z", re.IGNORECASE)
_IN_ONE = "pixels"
_FEWEST = 16  # from this number of numbered columns on they are pixels
_LOOKED_AT = 20  # tables
_KINDS: Mapping[type, Kind] = {int: "integer", float: "float"}
_MOST_LINE = 64 << 20  # characters


@dataclass(frozen=True)
class _Header:
    """Header of a file: `names` of columns; pixels are in the columns from `start` to before `end`, or all in one."""

    names: tuple[str, ...]
    start: int
    end: int

    @property
    def in_one(self) -> bool:
        return self.end == self.start + 1

    @property
    def others(self) -> list[int]:
        """The numbers of the other columns."""
        return [i for i in range(len(self.names)) if not self.start <= i < self.end]


def _header(line: bytes) -> _Header | None:
    """The header of a file of pixels; None for any other line."""
    names = tuple(name.strip() for name in cells_of(line.decode("utf-8-sig", "replace")))
    folded = [name.casefold() for name in names]
    if len(names) > 1 and folded.count(_IN_ONE) == 1:
        start = folded.index(_IN_ONE)
        return _Header(names, start, start + 1)
    of_pixels = [i for i, name in enumerate(names) if _PIXEL.match(name)]
    if len(of_pixels) < _FEWEST or of_pixels[-1] - of_pixels[0] + 1 != len(of_pixels) or not _layout(len(of_pixels)):
        return None
    return _Header(names, of_pixels[0], of_pixels[-1] + 1)


def _layout(count: int) -> PixelLayout | None:
    """Layout of an image with this number of values; None if there is none."""
    side = math.isqrt(count)
    if side and side * side == count:
        return PixelLayout((side, side), (0, 1))
    side = math.isqrt(count // 3)
    return PixelLayout((side, side, 3), (0, 1, 2)) if side and side * side * 3 == count else None


def recognise(look: Look, options: PixelOptions) -> Evidence | None:
    """By the headers of the first tables, in a folder without images."""
    del options
    for name in islice(look.files(_ENDS, depth=1), _LOOKED_AT):
        header, row, *_ = [*look.head(look.full(name)).split(b"\n", 2), b""]
        found = _header(header)
        if found is None or look.image or (found.in_one and not _is_pixels(row, found.start)):
            continue
        where = f"the column {escape(found.names[found.start])}"
        if not found.in_one:
            where = f"{found.end - found.start} columns from {escape(found.names[found.start])} on"
        return Evidence("pixels-csv", f"{escape(name)} with pixels in {where}", sure=True)
    return None


def _is_pixels(row: bytes, column: int) -> bool:
    """Whether a cell is the pixels of an image; a row that is cut at the end of the head has at least some."""
    cells = cells_of(row.decode("utf-8", "replace"))
    numbers = cells[column].split() if column < len(cells) else []
    return len(numbers) >= _FEWEST and all(number.isdecimal() for number in numbers)


def read(look: Look, options: PixelOptions) -> ColumnarSource:
    """Create a sample for each row; its image is a PNG, which is encoded when it is read.

    The label is in the column that the options name, in one with a usual name, or in the only other column, if that has
    classes. Raises UsageError if no table has pixels, or if the column of the label is unknown.
    """
    if options.label_columns and len(options.label_columns) > 1:
        raise UsageError("label_columns", f"got {len(options.label_columns)}, expected one", "give only the class")
    files, headers = _files(look)
    roles, is_rest = _roles(files, headers, options)
    gather = Gather(files, roles, options)
    for number, header in enumerate(headers):
        for row in _rows(files, number, header, roles):
            gather.add(row)
    parts = Parts(files.files, gather.file_of, gather.where(0), gather.where(1))
    images = PixelParts(parts, [partial(_png, one.start, one.end) for one in headers])
    return gather.source(images, "table", is_rest=is_rest)


def _files(look: Look) -> tuple[SourceFiles, list[_Header]]:
    """Find the tables of pixels, with their headers; other tables are noted. Raises UsageError if there is none."""
    files = find_files(look.path, _ENDS)
    headers = [_header(look.head(os.fsdecode(file.path)).partition(b"\n")[0]) for file in files.files]
    there = [i for i, header in enumerate(headers) if header is not None]
    if not there:
        remedy = "add a header such as label,pixel0,pixel1,..., or a column pixels"
        raise UsageError(look.path, "no CSV file with pixels in its cells", remedy)
    others = [name for i, name in enumerate(files.names) if i not in there]
    notes = [*files.notes, *([counted("ignored tables without pixels", others, len(others))] if others else [])]
    kept = replace(files, files=[files.files[i] for i in there], names=[files.names[i] for i in there], notes=notes)
    return kept, [header for header in headers if header is not None]


def _roles(files: SourceFiles, headers: Sequence[_Header], options: PixelOptions) -> tuple[Roles, bool]:
    """Choose among the columns of all files; and whether the label is the only one that is left, whatever its name.

    Raises UsageError if the column of the label is unknown.
    """
    infos = {headers[0].names[headers[0].start]: ColumnInfo("pixels", "image", role="image")}
    for file, header in zip(files.files, headers, strict=True):
        _, _, first = next(islice(_table(file).placed(), 1, None), (0, 0, []))
        for i in header.others:
            value = _value(first[i]) if i < len(first) else None
            infos.setdefault(header.names[i], ColumnInfo(header.names[i], _KINDS.get(type(value), "text")))
    roles = choose_roles(files.place, infos.values(), options.columns, unlabelled=options.unlabelled)
    rest = [] if options.unlabelled or roles.name("label") else [*roles.unused]
    if len(rest) > 1:
        problem = f"got the columns {some(rest)} besides the pixels, and none is named like a label"
        label = argument("label_columns", python=f"label_columns={rest[:1]!r}", typed=shlex.quote(rest[0]))
        remedy = f"give {label} (and {argument('split_column', typed='COLUMN')})"
        raise UsageError(files.place, problem, remedy)
    if not rest:
        return roles, False
    return choose_roles(files.place, infos.values(), {**options.columns, "label": rest[0]}), True


def _rows(files: SourceFiles, number: int, header: _Header, roles: Roles) -> Iterator[Row]:
    """The rows of a file; `where` of each: offset and size of its line."""
    wanted = [(header.names[i], i) for i in header.others if header.names[i] in roles.columns]
    for record, (offset, size, cells) in enumerate(islice(_table(files.files[number]).placed(), 1, None)):
        fault = None
        if len(cells) != len(header.names):
            fault = RejectCode.CORRUPT, f"got {len(cells)} cells, expected {len(header.names)}"
        values = {name: _value(cells[i]) for name, i in wanted} if fault is None else {}
        yield Row(number, record, (offset, size), values, ending=b".png", fault=fault)


def _table(file: SourceFile) -> LabelTable:
    return LabelTable(os.fsdecode(file.path), "csv", ",", longest=_MOST_LINE)


def _value(cell: str) -> int | float | str | None:
    text = cell.strip()
    if text.removeprefix("-").isdecimal() and len(text) < 18:
        return int(text)
    return float(text) if NUMBER.match(text) else text or None


def _png(start: int, end: int, line: bytes) -> bytes:
    """The PNG of the pixels in a row. Raises RejectedError."""
    cells = cells_of(line.decode("utf-8", "replace"))[start:end]
    cells = cells[0].split() if len(cells) == 1 else cells
    layout = _layout(len(cells))
    if layout is None:
        reason = f"got {len(cells)} pixels, expected the pixels of a square, or three times as many"
        raise RejectedError(RejectCode.CORRUPT, reason)
    try:
        values = np.array(cells, np.float64)
    except ValueError:
        values = np.full(1, np.nan)
    if not ((values >= 0) & (values <= 255) & (values == np.floor(values))).all():
        raise RejectedError(RejectCode.CORRUPT, "its pixels are not integers from 0 to 255")
    return layout.png(values.astype(np.uint8))
