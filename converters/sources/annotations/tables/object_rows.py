"""Tables with one row an object: the TensorFlow tutorial's, Open Images', AutoML's, keras-retinanet's, Kaggle's."""

import math
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.gathering import (
    ClassNumbers,
    Ledger,
    Names,
    check_tasks,
    in_numbers,
    list_wanted,
    read_size,
    splits_of,
)
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.tables.row_dialects import Dialect, dialect_of, region_of
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.labels.paths import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import split_in_cell, usual_split
from shardfeed.errors import LabelFileError, UsageError, argument, escape

_ROBOFLOW = "_annotations.csv"  # in the folder of each split
_FAR = 2.0  # a fraction beyond it is none: rounding leaves the image by less
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNASSIGNED = ("unassigned", "")
_ORIENTATION = 0x0112  # the EXIF tag


@dataclass(frozen=True)
class _Table:
    """One file: `folder`, which ends in "/", is what its paths are relative to in the root. `split`: of all of it."""

    table: LabelTable
    dialect: Dialect
    folder: str = ""
    split: str | None = None


@dataclass(frozen=True)
class _Row:
    """One row: `image` is the text that names its image. `problem`: why it cannot be read; "" where it can."""

    line: int
    cells: Sequence[str]
    image: str
    problem: str


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """A table whose header, or the shape of whose rows, is that of a dialect; or folders of splits with such tables."""
    try:
        found = _tables(path, options)
    except UsageError:
        return None
    if not found:
        return None
    table, dialect = found[0]
    where = escape(table.name)
    if isinstance(dialect, str):
        return Evidence("boxes-csv", f"{where} has a row for each object", dialect)
    return Evidence("boxes-csv", f"{where} has a row for each object: {dialect.name}")


def _tables(path: str, options: AnnotationOptions) -> list[tuple[LabelTable, Dialect | str]]:
    """The tables that a path means: itself, or those of a folder and its folders of splits; none where it is none."""
    paths = [path]
    if os.path.isdir(path):
        splits = [name for name in _listed(path) if usual_split(name)]
        paths = [os.path.join(path, *at, _ROBOFLOW) for at in ((), *((name,) for name in splits))]
        paths = [table for table in paths if os.path.isfile(table)]
    found = []
    for name in paths:
        if os.path.splitext(name)[1].lower() not in (".csv", ".tsv", ".tab"):
            continue
        table = LabelTable(name, None, options.delimiter, options.encoding)
        dialect = dialect_of(table)
        if dialect is not None:
            found.append((table, dialect))
    return found


def _listed(folder: str) -> list[str]:
    """The names in a folder, sorted; none where it cannot be read, which is said when its files are listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images that the rows of a table name, and the objects that each says of its image.

    Rows of one image may stand anywhere. Images are looked for under `options.images`, or in the folder of the table;
    where no row names a file, they are ids: names without extension. Of AutoML's gs:// paths the last parts are looked
    for. A row without coordinates says that there is no object, so that the image stays.

    The header says whether numbers are pixels or fractions. A table whose numbers cannot be what it says is refused.
    Features: boxes, classes where there is a column of them, size and flags where the dialect has them; of runs of
    pixels, masks and areas. A row that cannot be read is left out, E_LINE, under the name of the table.

    Raises UsageError, LabelFileError.
    """
    found = _tables(path, options)
    if not found:
        remedy = "a header such as filename,width,height,class,xmin,ymin,xmax,ymax tells"
        raise LabelFileError(path, "got no table with a row for each object that is known", remedy)
    tables = []
    for table, dialect in found:
        if isinstance(dialect, str):
            raise LabelFileError(table.path, f"it has a row for each object; {dialect}", "add it, or rename one")
        inside = os.path.relpath(os.path.dirname(table.path) or ".", path) if os.path.isdir(path) else "."
        split = usual_split(inside)
        tables.append(_Table(table, dialect, "" if inside == "." else inside + "/", split))
    runs = tables[0].dialect.place == "runs"
    if len({(one.dialect.place, one.dialect.unit) for one in tables}) > 1:
        raise LabelFileError(tables[1].table.path, "another kind of table than the first", "read one after the other")
    check_tasks("tasks", options, ["boxes", "masks"] if runs else ["boxes"])
    own = path if os.path.isdir(path) else os.path.dirname(path) or "."
    return _Reading(tables, list_wanted(options.images or own, options), options).source()


class _Reading:
    """Reads the tables twice: for the images and classes that they name, and then for the objects."""

    def __init__(self, tables: Sequence[_Table], listing: Listing, options: AnnotationOptions) -> None:
        self.tables, self.listing, self.options, self.ledger = tables, listing, options, Ledger()
        self.ledger.notes += listing.notes
        self.lookup = PathLookup(listing)
        self.numbers: dict[tuple[str, str], int] = {}  # of the texts that name images, by folder and text
        self.first: list[tuple[_Table, int]] = []  # where each of them is named first
        self.classes: set[str] = set()
        self.again: set[int] = set()  # hashes of rows of which there are two
        self.display = _class_descriptions(tables[0], options)
        self._look()
        self.files = self._find()  # the file of each text: its number, or why there is none
        self.taken = sorted({file for file in self.files if isinstance(file, int)})
        if not self.taken:
            raise self._nothing_found()
        self.place = {file: i for i, file in enumerate(self.taken)}  # in the source

    def source(self) -> AnnotatedSource:
        """Everything read."""
        table = self._objects()
        splits = splits_of(self._splits(), self.options)
        for number, file in enumerate(self.files):
            if not isinstance(file, int) and self.listing.choice.wants(file.key):
                at, line = self.first[number]
                reason = f"{escape(at.table.name)}:{line}: {file.reason}"
                self.ledger.reject(file.key, RejectCode(file.code), reason)
        taken = self.listing.take(np.array(self.taken, np.int64))
        self._note_unnamed()
        described = in_numbers(len(taken), table)
        findings = self.ledger.findings()
        return AnnotatedSource(taken, objects=table, splits=splits, findings=findings, described=described)

    def rows(self, of: _Table) -> Iterator[_Row]:
        """The rows of a table, without its header."""
        dialect, records = of.dialect, iter(of.table)
        if dialect.header:
            next(records, None)
        for record in records:
            cells = [str(cell) for cell in record.cells]
            text = cells[dialect.image].strip() if dialect.image < len(cells) else ""
            problem = "" if text else "it names no image"
            if dialect.width is not None and len(cells) != dialect.width:
                problem = f"got {len(cells)} cells, expected {dialect.width}"
            yield _Row(record.line, cells, text, problem)

    def file_of(self, of: _Table, row: _Row) -> int | Skipped:
        """The file that a row names, or why there is none."""
        number = self.numbers.get((of.folder, row.image))
        if number is None:
            raise LabelFileError(of.table.path, "it changed while it was read", "run again")
        return self.files[number]

    def _look(self) -> None:
        """The first reading."""
        hashes = array("q")
        for of in self.tables:
            for row in self.rows(of):
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

    def class_of(self, of: _Table, row: _Row) -> str:
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

    def _file(self, of: _Table, text: str) -> int | Skipped:
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

    def _splits(self) -> list[str | None]:
        """The split of each image that is taken."""
        splits: list[str | None] = [None] * len(self.taken)
        said: dict[int, tuple[str, int]] = {}
        for of in self.tables:
            column = of.dialect.split
            for row in self.rows(of) if column is not None or of.split else ():
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

    def _objects(self) -> ObjectTable:
        """The second reading."""
        classes, only = ClassNumbers(self.classes, self.options.class_names), None
        labelled = any(of.dialect.label is not None for of in self.tables)
        if not labelled and self.options.class_names is not None:
            only = class_list(self.options.class_names)
            if only is not None and len(only) > 1:
                problem = f"got {len(only)} classes, and no column of the table says which one an object has"
                raise UsageError("class_names", problem, "name one class, or none")
        self.ledger.notes += classes.notes if labelled else ()
        dialect = self.tables[0].dialect
        runs = dialect.place == "runs"
        masks = runs and (not self.options.tasks or "masks" in self.options.tasks)
        table = ObjectTable(
            classes.names if labelled else only,
            class_ids=classes.ids if labelled else (),
            what="line",
            unit=dialect.unit,
            upright=self.options.upright,
            columns=[*dialect.flags],
            areas=runs,
            masks=masks,
        )
        _Filling(self, table, classes if labelled else None).fill()
        return table

    def _note_unnamed(self) -> None:
        unnamed = Names("images that no row names, not taken; a row without coordinates takes one without objects")
        for i, key in enumerate(self.listing):
            if i not in self.place and names_image(key):
                unnamed.add(key)
        unwanted = Names("rows' images that include and exclude leave out")
        for file in self.files:
            if isinstance(file, Skipped) and not self.listing.choice.wants(file.key):
                unwanted.add(file.key)
        unused = Names("columns not used")
        for name in self.tables[0].dialect.unused:
            unused.add(name)
        self.ledger.notes += [*unnamed.note, *unwanted.note, *unused.note]


class _Filling:
    """The objects of all rows: into the table, or left out."""

    def __init__(self, reading: _Reading, table: ObjectTable, classes: ClassNumbers | None) -> None:
        self.reading, self.table, self.classes, self.ledger = reading, table, classes, reading.ledger
        self.sizes: dict[int, tuple[tuple[int, int], int]] = {}  # by place of the image, with the line that says it
        self.seen: set[tuple[str, ...]] = set()
        self.most, self.far = 0.0, 0  # the largest coordinate, and boxes with one that is no fraction

    def fill(self) -> None:
        """Reads all tables."""
        nowhere = Names("rows with a class and no coordinates, taken for images without objects")
        unknown = Names("flags that are -1, which is unknown, taken for 0")
        for of in self.reading.tables:
            for row in self.reading.rows(of):
                if row.problem:
                    reason = f"{escape(of.table.name)}:{row.line}: {row.problem}"
                    self.ledger.leave_out(os.fsencode(of.table.name), AnnotationCode.LINE, reason)
                    continue
                file = self.reading.file_of(of, row)
                place = self.reading.place[file] if isinstance(file, int) else -1
                if place >= 0 and of.dialect.size is not None:
                    self._size(of, row, place)
                if of.dialect.empty(row.cells):
                    if self.reading.class_of(of, row):
                        nowhere.add(f"line {row.line}")
                    continue
                if isinstance(file, Skipped):
                    if self.reading.listing.choice.wants(file.key):
                        reason = f"line {row.line} of {escape(of.table.name)}: its image is not there"
                        self.ledger.leave_out(file.key, AnnotationCode.IMAGE, reason)
                    continue
                try:
                    self._add(of, row, file, place, unknown)
                except BadAnnotationError as error:
                    key = self.reading.listing.key(file)
                    self.ledger.leave_out(key, error.code, f"line {row.line}: {error.reason}")
        self.ledger.notes += [*nowhere.note, *unknown.note]
        self._check_unit()

    def _add(self, of: _Table, row: _Row, file: int, place: int, unknown: Names) -> None:
        """One object. Raises BadAnnotationError."""
        if hash((of.folder, *row.cells)) in self.reading.again:
            same = (of.folder, *row.cells)
            if same in self.seen:
                raise BadAnnotationError(AnnotationCode.TWICE, "the same row is there already")
            self.seen.add(same)
        dialect = of.dialect
        label = self.classes.label(self.reading.class_of(of, row)) if self.classes is not None else 0
        columns = {key: self._flag(row.cells[column], row, unknown) for key, column in dialect.flags.items()}
        if dialect.place == "runs":
            size = self._pixels(place, file)
            if size is None:
                raise BadAnnotationError(AnnotationCode.OUTLINE, "the size of its image cannot be read")
            region = region_of(dialect.cells(row.cells)[0], size)
            self.table.add(place, row.line, region.box, label, area=region.area, outline=region.outline)
            return
        box = dialect.box(row.cells)
        largest = max((abs(side) for side in box if math.isfinite(side)), default=0.0)
        self.most, self.far = max(self.most, largest), self.far + (largest > _FAR)
        self.table.add(place, row.line, box, label, columns=columns)

    def _flag(self, text: str, row: _Row, unknown: Names) -> int:
        text = text.strip()
        if text == "-1":
            unknown.add(f"line {row.line}")
        if text not in ("", "0", "1", "-1"):
            raise BadAnnotationError(AnnotationCode.VALUE, f"got the flag '{escape(text)}', expected 0, 1 or -1")
        return int(text == "1")

    def _size(self, of: _Table, row: _Row, place: int) -> None:
        """Remembers the size that a row says of its image. Raises LabelFileError where another row says another."""
        assert of.dialect.size is not None
        width, height = of.dialect.size
        size = read_size(row.cells[width].strip(), row.cells[height].strip())
        if size is None:
            return
        before, line = self.sizes.setdefault(place, (size, row.line))
        if before != size:
            problem = f"got {size[0]} x {size[1]} pixels, expected {before[0]} x {before[1]} as line {line} says of it"
            raise LabelFileError(of.table.place(row.line), problem, "correct one of the two rows")
        self.table.set_size(place, *size)

    def _pixels(self, place: int, file: int) -> tuple[int, int] | None:
        """(width, height) of an image of which runs of pixels are: as rows say it, else from its header."""
        if place not in self.sizes:
            upright = self.reading.options.upright is True
            size = _header_size(self.reading.listing.file(file).path, upright=upright)
            if size is None:
                return None
            self.sizes[place] = (size, 0)
        return self.sizes[place][0]

    def _check_unit(self) -> None:
        """Raises LabelFileError where the numbers of boxes cannot be what the table says."""
        first = self.reading.tables[0]
        if first.dialect.place == "runs" or not len(self.table):
            return
        if first.dialect.unit == "pixels" and self.most <= 1:
            problem = f"no coordinate is larger than {self.most:g}, and this table ({first.dialect.name}) has pixels"
            remedy = "multiply them by width and height, or write Open Images' header for fractions: "
            remedy += "ImageID,LabelName,XMin,XMax,YMin,YMax"
            raise LabelFileError(first.table.path, problem, remedy)
        if first.dialect.unit == "fractions" and self.far * 2 > len(self.table):
            problem = f"{self.far:,} of {len(self.table):,} boxes have coordinates beyond {_FAR:g}, and this table "
            problem += f"({first.dialect.name}) has fractions"
            remedy = "divide them by width and height, or for pixels write the header "
            remedy += "filename,class,xmin,ymin,xmax,ymax"
            raise LabelFileError(first.table.path, problem, remedy)


def _header_size(path: bytes, *, upright: bool) -> tuple[int, int] | None:
    """(width, height) of an image file, as it is or as its EXIF turns it; None where its header cannot be read."""
    try:
        with Image.open(os.fsdecode(path)) as image:
            lying = upright and image.getexif().get(_ORIENTATION, 1) in range(5, 9)
            return (image.height, image.width) if lying else (image.width, image.height)
    except Exception:  # whatever Pillow raises for a damaged file: the worker rejects it, and says why
        return None


def _class_descriptions(first: _Table, options: AnnotationOptions) -> Mapping[str, str]:
    """Open Images' names of classes, by what its tables call them; from the file beside the table, where it is there.

    Names that several classes have are told apart by those codes. Nothing where the class list has the codes.
    """
    if first.dialect.unit != "fractions" or first.dialect.place != "sides":
        return {}
    folder = os.path.dirname(first.table.path) or "."
    names = [name for name in _listed(folder) if "class-descriptions" in name and name.endswith(".csv")]
    if not names:
        return {}
    name = next((name for name in names if "boxable" in name), names[0])
    found: dict[str, str] = {}
    for record in LabelTable(os.path.join(folder, name), "csv", ",", options.encoding):
        cells = [str(cell).strip() for cell in record.cells]
        if len(cells) == 2 and cells[0] != "LabelName":
            found[cells[0]] = cells[1]
    given = class_list(options.class_names)
    if given is not None and not found.keys().isdisjoint(given):
        return {}
    counts = Counter(found.values())
    return {code: f"{text} ({code})" if counts[text] > 1 else text for code, text in found.items()}
