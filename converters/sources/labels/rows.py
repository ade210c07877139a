"""The rows of a label file: the file that each one names, its values, and contradictions between rows."""

from array import array
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NoReturn

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.labels.columns import Columns
from shardfeed.converters.sources.labels.table import Cell, Column, LabelTable, Record
from shardfeed.converters.sources.labels.values import Cells, has_box_columns
from shardfeed.converters.sources.rows.source import Names
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, argument, escape
from shardfeed.text import counted, some


class LabelRows:
    """A label file read whole. `lines` int64 [n]: where each row begins. `cells`: the columns in use, by column.

    `files` int64 [n]: the number of the row's file in the listing, or, from the listing's length on, of a missing one.
    `optional`: columns that a JSON object may lack.
    """

    def __init__(
        self, table: LabelTable, columns: Columns, lookup: PathLookup, optional: Collection[Column] = ()
    ) -> None:
        self.table, self.columns = table, columns
        self.missing: dict[bytes, tuple[int, Skipped, int]] = {}  # by key: (number, why, line)
        self.ids: dict[bytes, int] = {}  # cells that were read as ids, with their files
        self.rooted = Names("paths that begin with /, treated as relative to the root")
        self.late: dict[Column, None] = {}  # keys of JSON that are not columns, because the first rows lack them
        codes: dict[Column, tuple[dict[Cell, int], array[int]]] = {c: ({}, array("q")) for c in columns.used}
        lines, files = array("q"), array("q")
        known = {columns.path, *columns.used, *(column for column, _ in columns.unused)}
        for record in islice(table, columns.first_row, None):
            if columns.width is not None:
                table.check_width(record.line, record.cells, columns.width)
            elif not record.cells.keys() <= known:  # type: ignore[union-attr]  # of JSON
                self.late |= dict.fromkeys(key for key in record.cells if key not in known)
            if not len(lines) % EVERY:
                report_progress("listing", len(lines))
            lines.append(record.line)
            files.append(self._find(record, lookup))
            for column, (values, of_rows) in codes.items():
                cell = table.cell(record, column, optional=column in optional)
                cell = cell.strip() if isinstance(cell, str) else cell
                of_rows.append(values.setdefault(cell, len(values)))
        self.lines, self.files = np.array(lines, np.int64), np.array(files, np.int64)
        self.cells = {c: Cells(list(values), np.array(rows, np.int64)) for c, (values, rows) in codes.items()}
        missing = (why for _, why, _ in self.missing.values())
        ends, self.ended = lookup.find_ends(missing, frozenset(files) if self.missing else ())
        if ends:
            self._take(ends, lookup)
        if not (self.files < len(lookup.listing)).any():
            self._find_ids(lookup)

    def _find(self, record: Record, lookup: PathLookup) -> int:
        cell = self.table.cell(record, self.columns.path)
        try:
            if not isinstance(cell, str) or not cell.strip():
                raise ValueError("got an empty path" if isinstance(cell, str) else "got a list or an object")
            found = lookup.find(cell)
            if not isinstance(found, int) and cell.startswith("/"):
                below = lookup.find(cell.lstrip("/"))
                if isinstance(below, int):
                    self.rooted.add(cell)
                    return below
        except ValueError as error:
            problem = "the path is not Unicode" if isinstance(error, UnicodeError) else str(error)
            place = self.table.place(record.line, self.columns.shown(self.columns.path))
            raise LabelFileError(place, f"{problem}, expected the path of an image", "correct the row") from None
        if isinstance(found, int):
            return found
        number = len(lookup.listing) + len(self.missing)
        return self.missing.setdefault(found.key, (number, found, record.line))[0]

    def _find_ids(self, lookup: PathLookup) -> None:
        """Look for files that match the rows' names without extension, or without their folder."""
        try:
            self.ids = lookup.find_ids(key for key in self.missing if not key.startswith((b"/", b"../")))
        except AmbiguousIdError as error:
            line = self.missing[error.id][2]
            problem = f"'{escape(error.id)}' may be {' or '.join(escape(file) for file in error.files)}"
            remedy = f"write the path, or give the folder of these images {argument('root', python='as root')}"
            raise LabelFileError(
                self.table.place(line, self.columns.shown(self.columns.path)), problem, remedy
            ) from None
        self._take(self.ids, lookup)

    def _take(self, found: Mapping[bytes, int], lookup: PathLookup) -> None:
        """Use the files that were found for missing paths."""
        now = np.arange(max(self.files.max(initial=0) + 1, len(lookup.listing)))
        for key, file in found.items():
            now[self.missing.pop(key)[0]] = file
        self.files = now[self.files]

    def place(self, row: int, column: Column) -> str:
        """Format the line of a row and the name of a column for an error."""
        return self.table.place(int(self.lines[row]), self.columns.shown(column))

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 [m]: the first row of each file, in order of files; the rows that say the same again.

        Raises LabelFileError for the first row that contradicts one before it.
        """
        order = np.argsort(self.files, kind="stable")
        again = np.flatnonzero(self.files[order[1:]] == self.files[order[:-1]]) + 1
        firsts = np.delete(order, again)
        # A row is compared with the one before it, so the least row that differs differs from the first one too.
        conflicts = []
        for column, cells in self.cells.items():
            differ = again[cells.codes[order[again]] != cells.codes[order[again - 1]]]
            conflicts += [(int(order[i]), int(order[i - 1]), column) for i in differ]
        doubled = np.sort(order[again])
        self._check_boxes(doubled)
        if conflicts:
            self._contradicts(conflicts)
        return firsts, doubled

    def _contradicts(self, conflicts: list[tuple[int, int, Column]]) -> NoReturn:
        later, earlier, column = min(conflicts, key=lambda conflict: conflict[0])
        cells = self.cells[column]
        got, before = (_show(cells.values[int(cells.codes[row])]) for row in (later, earlier))
        problem = f"got {got}, expected {before} as in line {self.lines[earlier]} for the same file"
        problem += (
            f" ({len({row for row, *_ in conflicts})} rows contradict earlier ones)" if len(conflicts) > 1 else ""
        )
        remedy = "remove one of the two rows"
        if column in [use.column for use in self.columns.of("text")]:
            captions = argument("reader", "captions")
            remedy += (
                f"; several texts per image are a list in one row (JSON Lines), or {captions} converts only the texts"
            )
        raise LabelFileError(self.place(later, column), problem, remedy)

    def _check_boxes(self, doubled: np.ndarray) -> None:
        """Raise LabelFileError if repeated rows of a file are its boxes: all but the first would be lost."""
        if not len(doubled):
            return
        pairs = [(use.column, use.name) for use in self.columns.of("label", "number")]
        boxes = [(column, name) for column, name in (*pairs, *self.columns.unused) if has_box_columns(name)]
        if boxes and self._differ([column for column, _ in boxes]):
            line = self.lines[doubled[0]]
            names = some(name for _, name in boxes)
            problem = (
                f"rows that name a file again ({len(doubled):,}, the first here) differ in {names}: one row per box"
            )
            remedy = "write one row per image, with its boxes as lists (JSON Lines), or write a source class"
            raise LabelFileError(self.table.place(int(line)), problem, remedy)

    def _differ(self, columns: list[Column]) -> bool:
        """Whether two rows of one file differ in one of these columns. Reads the label file again."""
        records = islice(self.table, self.columns.first_row, None)
        cells_of: dict[int, list[Cell]] = {}
        for file, record in zip(self.files.tolist(), records, strict=True):
            cells = [self.table.cell(record, column, optional=True) for column in columns]
            if cells_of.setdefault(file, cells) != cells:
                return True
        return False

    def rejected(self) -> list[Skipped]:
        """List missing inputs that rows name; the reason has the line of the first such row."""
        name = escape(self.table.name)  # without the path: the dataset must not depend on the label file's location
        missing = [
            Skipped(key, why.code, f"{name}:{line}: {why.reason}") for key, (_, why, line) in self.missing.items()
        ]
        return sorted(missing, key=lambda skipped: skipped.key)

    def no_images_error(self, lookup: PathLookup, *, rooted: bool) -> LabelFileError:
        """The error to raise when no row names a file. `rooted`: whether the user gave the folder of the images."""
        if not self.missing:
            return LabelFileError(self.table.path, "no rows after the header", "write one row per image")
        listing = lookup.listing
        key, (_, why, line) = next(iter(self.missing.items()))
        problem = f"none of {len(self.lines)} rows names a file under {escape(listing.root)}: "
        problem += f"the first, '{escape(key)}': {why.reason}; a file there is '{escape(listing.key(0))}'"
        remedy = f"give the folder that paths are relative to {argument('root', python='as root')}"
        remedy += f", instead of {escape(listing.root)}" if rooted else ""
        given = lookup.ends and why.code == RejectCode.PATH_ESCAPE.value
        remedy = "check that it is the folder of these images" if given else remedy
        return LabelFileError(self.table.place(line, self.columns.shown(self.columns.path)), problem, remedy)

    def notes(self, doubled: np.ndarray, listing: Listing) -> Iterator[str]:
        """Yield sentences for the report on the rows."""
        yield from self.ended
        if self.ids:
            key, file = next(iter(self.ids.items()))
            example = f"'{escape(key)}' is '{escape(listing.key(file))}'"
            yield f"paths of the label file matched without extension or folder: {len(self.ids)} ({example})"
        if len(doubled):
            lines = (f"line {line}" for line in self.lines[doubled])
            yield counted("duplicate rows", lines, len(doubled))
        if self.missing:
            yield counted("paths in the label file without a file", self.missing, len(self.missing))
        yield from self.rooted.note
        unused = [*(name for _, name in self.columns.unused), *self.late]
        if unused:
            yield counted("unused columns", map(str, unused), len(unused))


def _show(cell: Cell) -> str:
    return f"[{', '.join(map(escape, cell))}]" if isinstance(cell, tuple) else f"'{escape(cell or '')}'"
