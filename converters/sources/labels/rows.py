"""The rows of a label file: the file that each one names, its values, and contradictions between rows."""

from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NoReturn

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.labels.columns import Columns
from shardfeed.converters.sources.labels.table import ABSENT, LabelTable, Record
from shardfeed.converters.sources.rows.cells import Cell
from shardfeed.converters.sources.rows.columns import as_array
from shardfeed.converters.sources.rows.inference import Distinct, has_box_columns
from shardfeed.converters.sources.rows.source import Names
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, argument, escape
from shardfeed.text import counted, some


class LabelRows:
    """A label file read whole. `lines` int64 [n]: where each row begins. `cells`: the columns in use, by column.

    `files` int64 [n]: the number of the row's file in the listing, or, from the listing's length on, of a missing one.
    """

    def __init__(self, table: LabelTable, columns: Columns, lookup: PathLookup) -> None:
        self.table, self.columns = table, columns
        self.missing: dict[bytes, tuple[int, Skipped, int]] = {}  # by key: (number, why, line)
        self.rooted = Names("paths that begin with /, treated as relative to the root")
        codes: list[tuple[int, dict[Cell, int], array[int]]] = [(column, {}, array("i")) for column in columns.used]
        optional = {use.column for use in columns.uses if use.missing is not None}  # a JSON object may lack them
        width, lines, files = len(columns.names), array("q"), array("q")
        for record in islice(table, int(columns.header), None):
            table.check_width(record.line, record.cells, width)
            if not len(lines) % EVERY:
                report_progress("listing", len(lines))
            lines.append(record.line)
            files.append(self._find(record, lookup))
            for column, values, of_rows in codes:
                cell = record.cells[column]
                if isinstance(cell, str):
                    cell = cell.strip()
                elif cell is ABSENT:
                    cell = self._absent(record.line, column, optional)
                of_rows.append(values.setdefault(cell, len(values)))
        self.lines, self.files = as_array(lines), as_array(files)
        self.cells = {column: Distinct([*values], as_array(rows)) for column, values, rows in codes}
        self._find_rest(lookup)

    def _absent(self, line: int, column: int, optional: Collection[int] = ()) -> str:
        """The cell of a JSON object that lacks an `optional` key. Raises LabelFileError for any other."""
        if column in optional:
            return ""
        problem = f"the object has no key '{escape(self.columns.names[column])}'"
        raise LabelFileError(self.table.place(line), problem, "add it, or leave the row out")

    def _find(self, record: Record, lookup: PathLookup) -> int:
        cell = record.cells[self.columns.path]
        if cell is ABSENT:
            self._absent(record.line, self.columns.path)
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
            problem += ", expected the path of an image"
            raise LabelFileError(self._place_of_path(record.line), problem, "correct the row") from None
        if isinstance(found, int):
            return found
        number = len(lookup.listing) + len(self.missing)
        return self.missing.setdefault(found.key, (number, found, record.line))[0]

    def _find_rest(self, lookup: PathLookup) -> None:
        """Look for the files of missing paths once all others are known."""
        taken = frozenset(self.files[self.files < len(lookup.listing)].tolist()) if self.missing else ()
        try:
            found, self.found = lookup.find_rest((why for _, why, _ in self.missing.values()), taken)
        except AmbiguousIdError as error:
            remedy = f"write the path, or give the folder of these images {argument('root', python='as root')}"
            raise LabelFileError(self._place_of_path(self.missing[error.id][2]), error.problem, remedy) from None
        if found:
            now = np.arange(len(lookup.listing) + len(self.missing))
            for key, file in found.items():
                now[self.missing.pop(key)[0]] = file
            self.files = now[self.files]

    def _place_of_path(self, line: int) -> str:
        return self.table.place(line, self.columns.shown(self.columns.path))

    def place(self, row: int, column: int) -> str:
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

    def _contradicts(self, conflicts: list[tuple[int, int, int]]) -> NoReturn:
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
        columns = [*(use.column for use in self.columns.of("label", "number")), *self.columns.unused]
        boxes = [column for column in columns if has_box_columns(self.columns.names[column])]
        if boxes and self._differ(boxes):
            line = self.lines[doubled[0]]
            names = some(self.columns.names[column] for column in boxes)
            problem = (
                f"rows that name a file again ({len(doubled):,}, the first here) differ in {names}: one row per box"
            )
            remedy = "write one row per image, with its boxes as lists (JSON Lines), or write a source class"
            raise LabelFileError(self.table.place(int(line)), problem, remedy)

    def _differ(self, columns: Sequence[int]) -> bool:
        """Whether two rows of one file differ in one of these columns. Reads the label file again."""
        records = islice(self.table, int(self.columns.header), None)
        cells_of: dict[int, list[Cell]] = {}
        for file, record in zip(self.files.tolist(), records, strict=True):
            cells = [record.cells[column] for column in columns]
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
        return LabelFileError(self._place_of_path(line), problem, remedy)

    def notes(self, doubled: np.ndarray) -> Iterator[str]:
        """Yield sentences for the report on the rows."""
        yield from self.found
        if len(doubled):
            lines = (f"line {line}" for line in self.lines[doubled])
            yield counted("duplicate rows", lines, len(doubled))
        if self.missing:
            yield counted("paths in the label file without a file", self.missing, len(self.missing))
        yield from self.rooted.note
        if unused := [*map(self.columns.names.__getitem__, self.columns.unused), *self.table.late]:
            yield counted("unused columns", unused, len(unused))


def _show(cell: Cell) -> str:
    return f"[{', '.join(map(escape, cell))}]" if isinstance(cell, tuple) else f"'{escape(cell or '')}'"
