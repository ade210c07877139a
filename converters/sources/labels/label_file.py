"""Images named by a label file: CSV, TSV, JSON Lines, Parquet, or lines of `path label`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from shardfeed.converters.sources.classes import ClassList, class_list
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.labels.columns import AskedColumns, Columns, choose_columns
from shardfeed.converters.sources.labels.rows import LabelRows
from shardfeed.converters.sources.labels.table import Column, Format, LabelTable
from shardfeed.converters.sources.labels.values import (
    BadCellError,
    Cells,
    is_class_of_image,
    label_column,
    number_column,
    one_hot_columns,
    speaks_of_objects,
    text_column,
)
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits
from shardfeed.converters.sources.rows.source import ListedSource
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import split_in_cell
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import IMAGE_KEYS, Feature, is_plain
from shardfeed.text import counted, some

_LOOKED_AT = 1000  # lines that tell where they are split


class LabelFile(ListedSource):
    """One sample for each file under `root` (the label file's folder when not given) that a row names.

    Columns are named as the header or the keys of JSON objects say, or by number from 0, as Python counts (the command
    line counts from 1). The first label column gives `image/class/label` and `image/class/text`, or the float32
    `image/class/value` where its cells are numbers with a point. Another label column C gives `image/C/label` and
    `image/C/text`, or `image/C` where it holds numbers; JSON lists give any number of values. Several classes of an
    image are a set (the kind "tags"), in which one that is named twice is once. Numbers of a column that
    is called like a box, a mask or their like (`xmin`, `face_box`) are of the kind "place"; where that is the first
    label column, or its name begins with `object/`, the image has no class. `image/C` may be written for C.

    Paths are relative to `root`, or absolute and inside it; they match exactly, or the only file that differs in
    Unicode form. Where no row names a file so, each names the only image whose path without extension it is, or else
    ends in: ids. Rows without a file are in `findings.rejected`, files without a row are counted in its notes.

    Args:
        path: the label file.
        root: the folder that its paths are relative to.
        format: 'csv', 'tsv', 'jsonl', 'parquet' or 'text' (`path label`, the label after the last blank); None: by
            extension.
        path_column: None: one with a usual name (path, filename, image, id ...), else the first.
        label_columns: None: one with a usual name (label, class, ...), else the only other one, or none where
            other columns are named below. Empty: no label; lines of 'text' are then paths.
        text_columns: columns C whose cells stay texts: `image/C`, bytes in UTF-8, without blanks at their ends.
        number_columns: columns C of numbers: `image/C`, int64, or float32 where one has a point. A mapping may say the
            feature: `{"area": Feature("float32"), "colour": Feature("float32", (3,))}`.
        one_hot: columns of 0 and 1, each called like its class: `image/class/label` and `image/class/text`, one where
            every row has exactly one 1, else any number. Label columns are then further labels.
        split_column: None: the one that is called split, if there. Integers n are the splits `fold_n`.
        header: whether the first row names the columns; None: decided from it, an error where it could be either.
        delimiter: between CSV cells; None: the first of comma, semicolon, tab that is in the first row.
        encoding: of the label file; None: UTF-8, or UTF-16 or 32 where a mark at its beginning says so.
        label_separator: between several labels in a cell of the first label column, which gives any number of labels;
            or a mapping from column to that.
        missing: what stands for an empty cell, by column: `{"age": -1, "score": "nan", "breed": "unknown"}`.
        class_names: names in label order, or the path of a class list, for the first label column or `one_hot`; or a
            mapping from column to those. Labels are then names of the list, or integers that count from 0 in it.
        include: a pattern, or some, of the files that are wanted, relative to `root`; see `list_files`. Rows whose
            files are left out are counted.
        exclude: likewise, of files that are not wanted.
        follow_links: take what links outside the folder lead to.

    Raises:
        UsageError: arguments that cannot be meant.
        LabelFileError: a row that is not clear or contradicts another, with its line and, of a cell, the column.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        *,
        format: Format | None = None,
        path_column: Column | None = None,
        label_columns: Sequence[Column] | None = None,
        text_columns: Sequence[Column] = (),
        number_columns: Sequence[Column] | Mapping[Any, Feature | None] = (),
        one_hot: Sequence[Column] = (),
        split_column: Column | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        label_separator: str | Mapping[Any, str] | None = None,
        missing: Mapping[Any, str | float] | None = None,
        class_names: ClassList | Mapping[str, ClassList] | None = None,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
    ) -> None:
        numbers = _checked_numbers(number_columns)
        for name, value in (("label_columns", label_columns), ("text_columns", text_columns), ("one_hot", one_hot)):
            if isinstance(value, str):
                raise UsageError(name, f"got the text {value!r}, expected a list", "put it in brackets")
        asked = AskedColumns(path_column, label_columns, text_columns, numbers, one_hot, split_column)
        unlabelled = label_columns is not None and not label_columns and not asked.other_values
        table = LabelTable(path, format, delimiter, encoding, paths_only=unlabelled)
        folder = os.path.dirname(table.path) or "." if root is None else root
        listing = list_files(folder, include=include, exclude=exclude, follow_links=follow_links)
        if not len(listing):
            raise nothing_listed(listing)
        lookup = PathLookup(listing)
        table.at_first = table.format == "text" and not unlabelled and _classes_have_blanks(table, lookup)
        columns = choose_columns(table, lambda cell: isinstance(lookup.find(cell), int), lookup.is_id, asked, header)
        said = _Said.of(columns, label_separator, missing, class_names)
        rows = LabelRows(table, columns, lookup, optional=said.missing)
        if not (rows.files < len(listing)).any():
            raise rows.nothing_found(listing)
        chosen, doubled = rows.distinct()
        chosen = chosen[rows.files[chosen] < len(listing)]
        files = rows.files[chosen]
        made = _Made(rows, chosen, said)
        made.classes()
        made.texts_and_numbers()
        splits = _splits(rows, chosen)
        notes = ["lines are split at their first blank: classes have blanks"] if table.at_first else []
        notes += [*listing.notes, *made.notes, *rows.notes(doubled, listing), *_unnamed(rows, listing, files)]
        rejected = rows.rejected()
        wanted = [skipped for skipped in rejected if listing.choice.wants(skipped.key)]
        if len(wanted) < len(rejected):
            notes.append(f"rows whose files include and exclude leave out: {len(rejected) - len(wanted)}")
        super().__init__(listing.take(files), tuple(made.columns), splits, Findings(wanted, notes))


def _classes_have_blanks(table: LabelTable, lookup: PathLookup) -> bool:
    """Whether lines of text are `path class` with blanks in the class: their first words are files, and no more of
    them is.
    """

    def is_there(text: str) -> bool:
        return isinstance(lookup.find(text), int) or lookup.is_id(text)

    lines = (record.cells for record in islice(table, _LOOKED_AT))
    several = [
        f"{path} {label}" for path, label in (map(str, cells) for cells in lines if len(cells) == 2) if " " in path
    ]
    return any(is_there(line.split(None, 1)[0]) for line in several) and not any(
        is_there(line.rpartition(" ")[0]) for line in several
    )


def _checked_numbers(
    columns: Sequence[Column] | Mapping[Any, Feature | None],
) -> dict[Column, Feature | None]:
    if isinstance(columns, str):
        raise UsageError("number_columns", f"got the text {columns!r}, expected a list", "put it in brackets")
    numbers = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    for feature in numbers.values():
        if feature is not None and (feature.dtype == "bytes" or feature.ragged or len(feature.shape) > 1):
            problem = f"got {feature}, expected int64 or float32, of the shape () or (n,)"
            raise UsageError("number_columns", problem, "leave the feature out: lists make it ragged")
    return numbers


@dataclass(frozen=True)
class _Said:
    """What was said of columns, by column: what separates labels, what stands for an empty cell, and class names.

    `one_hot`: the names of the classes of one-hot columns.
    """

    separators: dict[Column, str]
    missing: dict[Column, str]
    classes: dict[Column, tuple[str, ...]]
    one_hot: tuple[str, ...] | None

    @classmethod
    def of(
        cls,
        columns: Columns,
        label_separator: str | Mapping[Any, str] | None,
        missing: Mapping[Any, str | float] | None,
        class_names: ClassList | Mapping[str, ClassList] | None,
    ) -> "_Said":
        """Raises UsageError for columns that are not in use."""
        names = [name for _, name in columns.labels]
        one_hot = None
        if not isinstance(class_names, Mapping):
            given = class_list(class_names)
            if given is not None and columns.one_hot:
                one_hot, given = given, None
                if len(one_hot) != len(columns.one_hot):
                    problem = f"got {len(one_hot)} names for {len(columns.one_hot)} one-hot columns"
                    raise UsageError("class_names", problem, "name each in their order, or leave it out")
            if given is not None and not names:
                raise UsageError("class_names", "there is no label column that they name", "leave it out")
            classes = {} if given is None else {columns.labels[0][0]: given}
        else:
            for name in class_names:
                if name not in names:
                    raise UsageError("class_names", f"got {name!r}, expected a label column: {some(names)}")
            by_name = {name: column for column, name in columns.labels}
            classes = {by_name[name]: found for name, given in class_names.items() if (found := class_list(given))}
        if isinstance(label_separator, str):
            if not names:
                raise UsageError("label_separator", "there is no label column", "leave it out")
            label_separator = {columns.labels[0][0]: label_separator}
        separators = _by_column(columns, "label_separator", label_separator or {}, names)
        for separator in separators.values():
            if not separator:
                raise UsageError("label_separator", "got an empty text", "give what stands between two labels")
        filled = [*names, *(name for _, name, _ in columns.numbers), *(name for _, name in columns.one_hot)]
        return cls(separators, _by_column(columns, "missing", missing or {}, filled), classes, one_hot)


def _by_column(
    columns: Columns, argument: str, said: Mapping[Any, str | float], names: Sequence[str]
) -> dict[Column, str]:
    """`said` by the columns in use, which it may have by name or by number. Raises UsageError for another one."""
    pairs = [*columns.labels, *((column, name) for column, name, _ in columns.numbers), *columns.one_hot]
    found: dict[Column, str] = {}
    for asked, value in said.items():
        fits = [column for column, name in pairs if asked in (column, name) and name in names]
        if not fits:
            raise UsageError(argument, f"got the column {asked!r}, expected one of {some(names)}")
        found[fits[0]] = str(value)
    return found


class _Made:
    """The features of the columns of a label file, made for the rows in `chosen`, and `notes` for the report."""

    def __init__(self, rows: LabelRows, chosen: np.ndarray, said: _Said) -> None:
        self.rows, self.chosen, self.said = rows, chosen, said
        self.columns: list[ListedColumn] = []
        self.notes: list[str] = []
        self._taken = set(IMAGE_KEYS)

    def classes(self) -> None:
        """Labels: of the one-hot columns, and of the label columns."""
        columns = self.rows.columns
        cells = {column: self._cells(column) for column, _ in columns.labels}
        main = not columns.one_hot
        if columns.one_hot:
            hot = [(name, self._cells(column)) for column, name in columns.one_hot]
            try:
                made, notes = one_hot_columns(hot, self.chosen, self.said.one_hot)
            except BadCellError as error:
                self._bad_cell(columns.one_hot[error.args[-1]][0], error)
            self._add(columns.one_hot[0][1], made)
            self.notes += notes
        elif columns.labels:
            named = columns.labels[0][0] in self.said.classes
            main = named or is_class_of_image([(name, cells[column]) for column, name in columns.labels])
        lists = {name: cells[column] for column, name in columns.labels}
        lists |= {name: self.rows.cells[column] for column, name, _ in columns.numbers}
        objects = any(speaks_of_objects(name, found) for name, found in lists.items())
        for i, (column, name) in enumerate(columns.labels):
            self._made(
                column,
                name,
                lambda column=column, name=name, first=main and i == 0: label_column(
                    cells[column],
                    self.chosen,
                    name,
                    main=first,
                    given=self.said.classes.get(column),
                    split=column in self.said.separators,
                    objects=objects,
                ),
            )

    def texts_and_numbers(self) -> None:
        """Columns that are no labels."""
        columns = self.rows.columns
        for column, name in columns.texts:
            self._made(column, name, lambda c=column, n=name: (text_column(self.rows.cells[c], self.chosen, n), ()))
        for column, name, asked in columns.numbers:
            missing = self.said.missing.get(column)
            self._made(
                column,
                name,
                lambda c=column, n=name, a=asked, m=missing: number_column(self.rows.cells[c], self.chosen, n, a, m),
            )

    def _cells(self, column: Column) -> Cells:
        cells = self.rows.cells[column]
        if column in self.said.missing:
            cells = cells.filled(self.said.missing[column])
        return cells.split_at(self.said.separators[column]) if column in self.said.separators else cells.listed()

    def _made(self, column: Column, name: str, make: "Callable[[], tuple[ListedColumn, tuple[str, ...]]]") -> None:
        try:
            made, notes = make()
        except BadCellError as error:
            self._bad_cell(column, error)
        self._add(name, made)
        self.notes += notes

    def _bad_cell(self, column: Column, error: BadCellError) -> NoReturn:
        place = self.rows.place(int(np.argmax(self.rows.cells[column].codes == error.code)), column)
        raise LabelFileError(place, error.problem, error.remedy) from None

    def _add(self, name: str, made: ListedColumn) -> None:
        if not is_plain(name) or not self._taken.isdisjoint(made.features):
            place = self.rows.table.place(next(iter(self.rows.table)).line)
            problem = f"the column '{escape(name)}' cannot be stored as '{escape(next(iter(made.features)))}'"
            raise LabelFileError(place, problem, "rename it: the name is taken, empty or not plain text")
        self._taken.update(made.features)
        self.columns.append(made)


def _splits(rows: LabelRows, chosen: np.ndarray) -> Splits | None:
    column = rows.columns.split
    if column is None:
        return None
    cells = rows.cells[column]
    named: list[str] = []
    for code, cell in enumerate(cells.values):
        try:
            named.append(split_in_cell(cell if isinstance(cell, str) else ""))
        except UsageError as error:
            place = rows.place(int(np.argmax(cells.codes == code)), column)
            raise LabelFileError(place, f"the split: {error.problem}", error.remedy) from None
    names = tuple(sorted(set(named)))
    return Splits(names, np.array([names.index(name) for name in named], np.int64)[cells.codes[chosen]])


def _unnamed(rows: LabelRows, listing: Listing, files: np.ndarray) -> Iterator[str]:
    """What the report says of inputs under the root that no row names."""
    root = os.path.realpath(listing.root).rstrip(b"/") + b"/"
    own = os.path.realpath(os.fsencode(rows.table.path)).removeprefix(root)
    rest = map(listing.key, np.setdiff1d(np.arange(len(listing)), files).tolist())
    keys = [key for key in rest if key != own]
    images = [key for key in keys if names_image(key)]
    if images:
        yield counted("image files under the root without a row", images, len(images))
    if len(images) < len(keys):
        others = [key for key in keys if not names_image(key)]
        yield counted("other files under the root without a row", others, len(others))
    skipped = [skipped for skipped in listing.skipped if skipped.key not in rows.missing]
    if skipped:
        shown = (s.key + b": " + s.code.encode() for s in skipped)
        yield counted("inputs under the root that no row names and that cannot be read", shown, len(skipped))
