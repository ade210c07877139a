"""The first reading of tables with one row an object: the images and the classes that they name."""

import re
from array import array
from collections.abc import Sequence

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.gathering import Ledger
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.tables.row_tables import Row, RowTable, class_descriptions
from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import split_in_cell
from shardfeed.errors import LabelFileError, UsageError, argument, escape

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNASSIGNED = ("unassigned", "")


class RowImages:
    """What the tables name: `files`, those of the texts that name images; `taken`, those that are there; `classes`."""

    def __init__(self, tables: Sequence[RowTable], listing: Listing, options: AnnotationOptions) -> None:
        self.tables, self.listing, self.options, self.ledger = tables, listing, options, Ledger()
        self.ledger.notes += listing.notes
        self.lookup = PathLookup(listing)
        self.numbers: dict[tuple[str, str], int] = {}  # of the texts that name images, by folder and text
        self.first: list[tuple[RowTable, int]] = []  # where each of them is named first
        self.classes: set[str] = set()
        self.again: set[int] = set()  # hashes of rows of which there are two
        self.display = class_descriptions(tables[0], options)
        self._look()
        self.files = self._find()  # the file of each text: its number, or why there is none
        self.taken = sorted({file for file in self.files if isinstance(file, int)})
        if not self.taken:
            raise self._nothing_found()
        self.place = {file: i for i, file in enumerate(self.taken)}  # in the source

    def file_of(self, of: RowTable, row: Row) -> int | Skipped:
        """The file that a row names, or why there is none."""
        number = self.numbers.get((of.folder, row.image))
        if number is None:
            raise LabelFileError(of.table.path, "it changed while it was read", "run again")
        return self.files[number]

    def _look(self) -> None:
        """The first reading."""
        hashes = array("q")
        for of in self.tables:
            for row in of.rows():
                if row.problem:
                    continue
                if self.numbers.setdefault((of.folder, row.image), len(self.first)) == len(self.first):
                    self.first.append((of, row.line))
                if of.dialect.empty(row.cells):
                    continue
                hashes.append(hash((of.folder, *row.cells)))
                if of.dialect.label is not None:
                    self.classes.add(self.class_of(of, row))
        ordered = np.sort(np.frombuffer(hashes, np.int64)) if len(hashes) else np.empty(0, np.int64)
        self.again = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

    def class_of(self, of: RowTable, row: Row) -> str:
        """The class that a row names; "" where it names none."""
        column = of.dialect.label
        text = row.cells[column].strip() if column is not None and column < len(row.cells) else ""
        return self.display.get(text, text)

    def _find(self) -> list[int | Skipped]:
        """The file of each text that names an image."""
        found = [self._file(self.first[number][0], text) for (_, text), number in self.numbers.items()]
        self._check_buckets(found)
        if any(isinstance(file, int) for file in found):
            return found
        absent = [(i, file) for i, file in enumerate(found) if isinstance(file, Skipped)]
        missing = {file.key: i for i, file in absent if file.code != RejectCode.PATH_ESCAPE.value}
        try:
            ids = self.lookup.find_ids(missing)
        except AmbiguousIdError as error:
            at, line = self.first[missing[error.id]]
            problem = f"'{escape(error.id)}' may be {' or '.join(map(escape, error.files))}"
            remedy = f"write the path, or give the folder of these images as {argument('images')}"
            raise LabelFileError(at.table.place(line), problem, remedy) from None
        if ids:
            key, file = next(iter(ids.items()))
            example = f"'{escape(key)}' is '{escape(self.listing.key(file))}'"
            what = "images of the table taken for names without extension or folder"
            self.ledger.notes.append(f"{what}: {len(ids)} ({example})")
        return [ids.get(file.key, file) if isinstance(file, Skipped) else file for file in found]

    def _check_buckets(self, found: Sequence[int | Skipped]) -> None:
        """Raises LabelFileError where two paths of gs:// are the same file here, or would be the same missing one."""
        before: dict[int | bytes, str] = {}
        for (_, text), number in self.numbers.items():
            if text.startswith("gs://"):
                file = found[number]
                other = before.setdefault(file if isinstance(file, int) else file.key, text)
                if other != text:
                    at, line = self.first[number]
                    problem = f"'{escape(text)}' and '{escape(other)}' end alike, and nothing tells their files apart"
                    raise LabelFileError(at.table.place(line), problem, "keep the folders of the bucket")

    def _file(self, of: RowTable, text: str) -> int | Skipped:
        """The file that a row names; or why there is none."""
        key = text.encode("utf-8", "surrogateescape")
        if text.startswith("gs://"):
            parts = text[len("gs://") :].split("/")
            for start in range(1, len(parts)):
                if (file := self.listing.find("/".join(parts[start:]).encode("utf-8", "surrogateescape"))) >= 0:
                    return file
            return Skipped(parts[-1].encode("utf-8", "surrogateescape"), RejectCode.MISSING.value, "no such file")
        if _URL.match(text):
            return Skipped(key, RejectCode.PATH_ESCAPE.value, "a URL: nothing is fetched")
        absolute = text.startswith("/")
        return self.lookup.find(text if absolute else of.folder + text)

    def _nothing_found(self) -> LabelFileError:
        if not self.first:
            return LabelFileError(self.tables[0].table.path, "no row but the header", "write one row for each object")
        file, (at, line) = self.files[0], self.first[0]
        assert isinstance(file, Skipped)
        problem = f"no row names a file under {escape(self.listing.root)}: the first says '{escape(file.key)}': "
        problem += f"{file.reason}; a file there is '{escape(self.listing.key(0))}'"
        remedy = f"give the folder of the images as {argument('images')}"
        remedy = "write '/' instead of '\\'" if b"\\" in file.key else remedy
        return LabelFileError(at.table.place(line), problem, remedy)

    def splits(self) -> list[str | None]:
        """The split of each image that is taken."""
        splits: list[str | None] = [None] * len(self.taken)
        said: dict[int, tuple[str, int]] = {}
        for of in self.tables:
            column = of.dialect.split
            for row in of.rows() if column is not None or of.split else ():
                file = None if row.problem else self.file_of(of, row)
                if not isinstance(file, int):
                    continue
                text = row.cells[column].strip() if column is not None else of.split or ""
                place = self.place[file]
                if said.setdefault(place, (text, row.line))[0] != text:
                    before, line = said[place]
                    problem = f"got the split '{escape(text)}', expected '{escape(before)}' as line {line} says of it"
                    raise LabelFileError(of.table.place(row.line), problem, "name one split for each image")
                if of.dialect.place == "corners" and text.casefold() in _UNASSIGNED:
                    continue
                try:
                    splits[place] = "validation" if text.casefold() == "validate" else split_in_cell(text)
                except UsageError as error:
                    problem = f"the split: {error.problem}"
                    raise LabelFileError(of.table.place(row.line), problem, error.remedy) from None
        return splits
