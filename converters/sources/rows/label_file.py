"""Images named by a label file: CSV, TSV, JSON Lines, Parquet, or lines of `path label`.

A row names a file and has its values; rows of one file must not contradict each other.
"""

import os
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn, TypeVar

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.classes import BadLabelError, number_classes
from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.files.listing import Globs, Listing, names_image, split_in_cell
from shardfeed.converters.sources.files.walk import annotations_note, labels_among, some_files
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import LabelOptions, given
from shardfeed.converters.sources.rows.cells import Cell
from shardfeed.converters.sources.rows.columns import ClassMarks, ListedColumn, Splits, as_array, take
from shardfeed.converters.sources.rows.inference import (
    Distinct,
    has_box_columns,
    holds_places,
    label_column,
    mark_of_none,
    marked_column,
    marks_of,
    number_column,
    text_column,
)
from shardfeed.converters.sources.rows.label_addresses import AddressLookup, column_of_addresses, has_header
from shardfeed.converters.sources.rows.label_columns import Columns, Use
from shardfeed.converters.sources.rows.label_table import ABSENT, LabelTable, Record, check_options
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import ListedSource, Names, Rows
from shardfeed.converters.sources.source import Skipped
from shardfeed.declared import checked
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import IMAGE_KEYS, is_plain
from shardfeed.split_words import usual_split
from shardfeed.text import counted, number, some

_NUMBERS = re.compile(r"-?[0-9.]+(\s+-?[0-9.]+)+")  # after a path
_WORDS_OF_NAME = re.compile(r"([^A-Za-z]+)")
_LOOKED_AT = 1000  # lines examined to find the separator
_OF_FOLDERS = ("labels", "images", "pattern")  # options that say what this is given by its place, or nothing
_Made = TypeVar("_Made")


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
        rows = len({row for row, *_ in conflicts})
        problem += f" ({rows} rows contradict earlier ones)" if len(conflicts) > 1 else ""
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
        missing = sorted(self.missing.items())
        return [Skipped(key, why.code, f"{name}:{line}: {why.reason}") for key, (_, why, line) in missing]

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


def recognise(look: Look, options: LabelOptions) -> Evidence | None:
    """A label file has no distinctive marks: it is the reader for all other files."""
    del look, options
    return None


def read(look: Look, options: LabelOptions) -> "LabelFile":
    """The file that is opened, or `options.labels` for the images in the folder that is opened."""
    if options.labels is not None and look.is_file:
        problem = "is a file, but the labels are also given as a file"
        raise UsageError(look.path, problem, "give the folder of the images")
    if options.labels is None and look.is_folder:
        file = next(iter(look.files((".parquet", ".csv", ".tsv", ".jsonl"), depth=1)), "")
        remedy = f"give the file itself: {escape(os.path.join(look.path, file))}" if file else "give the file itself"
        raise UsageError(look.path, "is a folder, expected a label file", remedy)
    if options.labels is not None and options.images is not None:
        raise UsageError(look.path, "is a folder of images, and `images` names another", "leave one out")
    file, root = (look.path, options.images) if options.labels is None else (options.labels, look.path)
    values = {name: value for name, value in given(options).items() if name not in _OF_FOLDERS}
    wanted = {"include": look.include, "exclude": look.exclude, "follow_links": look.follow_links}
    return LabelFile(file, root, **wanted, **values)


@checked
class LabelFile(ListedSource):
    """A source with one sample for each file under `root` (default: the label file's folder) that a row names.

    Columns are given by their name in the header or in JSON objects, or by number from 0 (the command line counts from
    1). The first label column gives `image/class/label` and `image/class/text`, or the float32 `image/class/value` if
    its cells have decimal points. Any further label column C gives `image/C/label` and `image/C/text`, or `image/C` if
    it holds numbers; JSON lists give any number of values. Several classes of an image form a set (the kind "tags"),
    without repeats. A column of numbers that is named like a box, mask or similar (`xmin`, `face_box`) has the kind
    "place", a position in the image. If the first label column is one of these, or its name begins with `object/`, the
    image has no class. Wherever a column C is named, `image/C` works too. Texts are UTF-8 bytes, without leading and
    trailing blanks; numbers are int64, or float32 if one has a decimal point.

    Paths are relative to `root`, or absolute and inside it; a path matches exactly, or matches the only file whose path
    differs in Unicode normalization alone. If no row matches a file, the cells are treated as ids: an id matches the
    only image whose path without extension equals the id, or else ends with the id. Rows without a file are in
    `findings.rejected`; files without a row are counted in the notes.

    Args:
        path: the label file.
        root: the folder that its paths are relative to.
        include: one or more patterns of the files to include, relative to `root`. Rows of excluded files are counted.
        exclude: one or more patterns of the files to leave out.
        follow_links: also include files outside of the folder if links in it lead there.
        options: the options of `LabelOptions` for label files, from `format` to `missing`, `class_names` and
            `unlabelled`. `label_columns=[]` means `unlabelled`; texts and numbers are still allowed.

    Raises:
        UsageError: an argument is invalid.
        LabelFileError: a row is ambiguous or contradicts another; the message has the line and, for a cell, the column.

    Example:
        source = LabelFile("labels.csv", root="photos", label_columns=["breed"])
        convert(source, "out")
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        *,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
        **options: Any,
    ) -> None:
        if other := next((name for name in _OF_FOLDERS if name in options), None):
            raise UsageError(other, "is not an option of LabelFile", "see open_source")
        asked = LabelOptions(**options)
        if asked.unlabelled:
            asked = replace(asked, unlabelled=False, label_columns=())
        others = asked.text_columns or asked.number_columns or asked.one_hot
        unlabelled = asked.label_columns is not None and not asked.label_columns and not others
        table = LabelTable(path, asked.format, asked.delimiter, asked.encoding, paths_only=unlabelled)
        check_options(asked, table.path, [table.format])
        notes: list[str] = []
        folder = os.path.dirname(table.path) or "." if root is None else root
        if root is None and (shared := _folder_of_paths(table, asked)):
            folder, notes = shared, [f"the images are in {escape(shared)}, where the paths of the label file are"]
        listing = some_files(folder, include=include, exclude=exclude, follow_links=follow_links)
        lookup = PathLookup(listing, ends=root is not None)
        if (column := column_of_addresses(table, lookup, asked.path_column)) is not None:
            if include or exclude:
                problem = "is for files of a folder, but the table has URLs"
                raise UsageError("include" if include else "exclude", problem, "leave rows out of the table")
            header = has_header(table, column) if asked.header is None and not table.keyed else asked.header
            asked = replace(asked, path_column=table.keys[column] if table.keyed else column, header=header)
            lookup = AddressLookup(table, column)
            listing = lookup.listing
        if table.format == "text":
            table.paths_only = unlabelled and not _are_pairs(table, lookup)
            table.at_first = not table.paths_only and _classes_have_blanks(table, lookup)
            _check_one_label(table, asked)
        columns = Columns(table, lookup, asked)
        read = LabelRows(table, columns, lookup)
        if not (read.files < len(listing)).any():
            raise read.no_images_error(lookup, rooted=root is not None)
        chosen, doubled = read.distinct()
        chosen = chosen[read.files[chosen] < len(listing)]
        files = read.files[chosen]
        rows = Rows(table.path, asked)
        notes += ["lines are split at the first space: classes contain spaces"] if table.at_first else []
        rows.ledger.notes += [*notes, *_other_splits(table, columns), *listing.notes]
        _Features(read, chosen, rows)
        rows.splits = _splits(read, chosen)
        rows.ledger.notes += [*read.notes(doubled), *_unnamed(read, listing, files)]
        rejected = read.rejected()
        wanted = [skipped for skipped in rejected if listing.choice.wants(skipped.key)]
        if len(wanted) < len(rejected):
            left = len(rejected) - len(wanted)
            rows.ledger.notes.append(f"rows whose files are left out by include and exclude: {left}")
        rows.ledger.skip(wanted)
        super().__init__(listing.take(files), rows)


def _check_one_label(table: LabelTable, asked: LabelOptions) -> None:
    """Raise LabelFileError if several numbers follow each path, `pug_1 1 1 1`: which one is the class is not known."""
    if not table.at_first or asked.label_separator is not None:
        return
    lines = [(record.line, str(record.cells[1])) for record in islice(table, _LOOKED_AT)]
    if lines and all(_NUMBERS.fullmatch(text.strip()) for _, text in lines):
        line, text = lines[0]
        problem = f"several numbers follow each path ('{escape(text)}'), expected one label"
        chosen = argument("label_columns", python="label_columns=[1]", typed="2")
        remedy = f"give {argument('delimiter', ' ')} {argument('header', False)}, and the column of the class: {chosen}"
        raise LabelFileError(table.place(line), problem, remedy)


def _are_pairs(table: LabelTable, lookup: PathLookup) -> bool:
    """Whether lines of text are a path and more: no whole line is a file, but some first words are."""
    lines = [str(record.cells[0]) for record in islice(table, _LOOKED_AT) if isinstance(record.cells, list)]
    parts = [line.rpartition(" ")[0] for line in lines] + [line.split(None, 1)[0] for line in lines]
    return not any(_is_file(line, lookup) for line in lines) and any(_is_file(part, lookup) for part in parts)


def _folder_of_paths(table: LabelTable, options: LabelOptions) -> str:
    """The folder that all paths of a Parquet file share, if they are absolute, as `datasets` writes them; else ""."""
    if table.format != "parquet":
        return ""
    names = WORDS["path"] if options.path_column is None else [str(options.path_column)]
    folders = set()
    for _, row in table.named():
        path = next((row[name] for name in names if name in row), None)
        if not isinstance(path, str) or not os.path.isabs(path) or not names_image(os.fsencode(path)):
            return ""
        folders.add(os.path.dirname(path))
    shared = os.path.commonpath(folders) if folders else "/"
    inside = f"{shared}/".startswith(os.path.realpath(os.path.dirname(table.path)) + "/")
    return "" if inside or shared == "/" or not os.path.isdir(shared) else shared


def _is_file(text: str, lookup: PathLookup) -> bool:
    return isinstance(lookup.find(text), int) or lookup.is_id(text)


def _classes_have_blanks(table: LabelTable, lookup: PathLookup) -> bool:
    """Whether lines of text are `path class` with blanks in the class: only their first words are files."""
    lines = (record.cells for record in islice(table, _LOOKED_AT))
    several = [" ".join(map(str, cells)) for cells in lines if len(cells) == 2 and " " in str(cells[0])]
    firsts, rests = [line.split(None, 1)[0] for line in several], [line.rpartition(" ")[0] for line in several]
    return any(_is_file(one, lookup) for one in firsts) and not any(_is_file(one, lookup) for one in rests)


class _Features:
    """Adds the features of the columns of a label file, of the rows in `chosen`, to `rows`, with notes."""

    def __init__(self, read: LabelRows, chosen: np.ndarray, rows: Rows) -> None:
        self.read, self.chosen, self.rows = read, chosen, rows
        self._taken = set(IMAGE_KEYS)
        of = read.columns.of
        labels, hot, numbers = of("label"), of("one_hot"), of("number")
        cells = read.cells | {use.column: use.read(read.cells[use.column]) for use in (*labels, *hot)}
        places = {use for use in (*labels, *numbers) if holds_places(use.name, cells[use.column])}
        lists = {
            use for use in (*labels, *numbers) if any(isinstance(cell, tuple) for cell in cells[use.column].values)
        }
        if hot:
            names = [use.name for use in hot]
            classes = number_classes(names, hot[0].class_names, stated=names, integers="names")
            none = mark_of_none(cells[use.column] for use in hot)
            marks = np.zeros((len(read.files), len(classes.names)), bool)
            for use in hot:
                marks[:, classes.labels[use.name]] = self._tried(use, marks_of, cells[use.column], none)
            every = ClassMarks()
            every.add_many(np.nonzero(marks)[1], marks.sum(axis=1), len(classes.names))
            made, note = marked_column(every, classes.names)
            self._add(hot[0], take(made, chosen), [f"{number(len(hot), 'column')}: {note}"])
        for i, use in enumerate(labels):
            # Columns of places, and lists beside lists of places, describe objects and not the image.
            of_objects = use in places or use.name.removeprefix("image/").startswith("object/")
            of_objects |= lists.issuperset(labels) and not places.isdisjoint(labels)
            known = {
                "main": not i and not hot and (use.class_names is not None or not of_objects),
                "given": use.class_names,
                "offset": use.offset,
                "label_map": use.label_map,
                "split": use.separator is not None,
                "objects": not lists.isdisjoint(places),
                "by": "user" if use.missing is not None else use.by,
                "number": use.column if use.by == "place" else None,
            }
            self._make(use, label_column, cells[use.column], use.name, **known)
        for use in of("text"):
            self._make(use, text_column, cells[use.column], use.name)
        for use in numbers:
            self._make(use, number_column, cells[use.column], use.name, use.feature, use.missing)

    def _make(
        self, use: Use, make: Callable[..., tuple[Any, Sequence[str]]], cells: Distinct, *values: Any, **known: Any
    ) -> None:
        made, notes = self._tried(use, make, cells, *values, **known)
        self._add(use, take(made, cells.codes[self.chosen]), notes)

    def _tried(self, use: Use, make: Callable[..., _Made], cells: Distinct, *values: Any, **known: Any) -> _Made:
        """Return the result of `make`. Raises LabelFileError for the first row with a cell that `make` refuses."""
        try:
            return make(cells, *values, **known)
        except BadLabelError as error:
            place = self.read.place(cells.first(error.value), use.column)
            raise LabelFileError(place, error.problem, error.remedy) from None

    def _add(self, use: Use, column: ListedColumn, notes: Sequence[str]) -> None:
        if not is_plain(use.name) or not self._taken.isdisjoint(column.features):
            place = self.read.table.place(next(iter(self.read.table)).line)
            problem = f"the column '{escape(use.name)}' cannot be stored as '{escape(next(iter(column.features)))}'"
            raise LabelFileError(place, problem, "rename it: the name is used, empty or not plain text")
        self._taken.update(column.features)
        self.rows.columns.append(column)
        self.rows.ledger.notes += notes


def _splits(rows: LabelRows, chosen: np.ndarray) -> Splits | None:
    column = rows.columns.split
    if column is None:
        return None
    cells = rows.cells[column]
    splits: list[str] = []
    for cell in cells.values:
        try:
            splits.append(split_in_cell(cell if isinstance(cell, str) else ""))
        except UsageError as error:
            place = rows.place(cells.first(cell), column)
            raise LabelFileError(place, f"the split: {error.problem}", error.remedy) from None
    return Splits.coded(splits, cells.codes[chosen])


def _other_splits(table: LabelTable, columns: Columns) -> Iterator[str]:
    """Yield a sentence on files beside the label file that are named like it, but for another split."""

    def parts(name: str) -> tuple[list[str], set[str]]:
        words = _WORDS_OF_NAME.split(name)
        splits = {split for word in words if (split := usual_split(word))}
        return ["" if usual_split(word) else word for word in words], splits

    own, split = parts(table.name)
    if len(split) == 1 and columns.split is None:
        names = sorted(os.listdir(os.path.dirname(table.path) or "."))
        others = [name for name in names if (found := parts(name))[0] == own and found[1] - split]
        if others:
            found = counted("label files of other splits beside this one, not read", map(escape, others), len(others))
            yield f"{found}; joined into one table with a column split, they are read together"


def _unnamed(rows: LabelRows, listing: Listing, files: np.ndarray) -> Iterator[str]:
    """Yield sentences for the report on inputs under the root that no row names."""
    root = os.path.realpath(listing.root).rstrip(b"/") + b"/"
    own = os.path.realpath(os.fsencode(rows.table.path)).removeprefix(root)
    rest = np.delete(np.arange(len(listing)), files).tolist()
    keys = [key for key in map(listing.key, rest) if key != own]
    images = [key for key in keys if names_image(key)]
    if images:
        yield counted("image files under the root without a row", images, len(images))
    if len(images) < len(keys):
        others = {key: None for key in keys if not names_image(key)}
        yield counted("other files under the root without a row", others, len(others))
        if labels := labels_among(listing, (i for i in rest if listing.key(i) in others)):
            yield annotations_note(labels)
    skipped = [skipped for skipped in listing.skipped if skipped.key not in rows.missing]
    if skipped:
        shown = (s.key + b": " + s.code.encode() for s in skipped)
        yield counted("unreadable inputs under the root, in no row", shown, len(skipped))
