"""Images named by a label file: CSV, TSV, JSON Lines, or lines of `path label`."""

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from shardfeed.converters.sources.classes import ClassList, class_list
from shardfeed.converters.sources.files.listed_source import ClassColumn, ListedSource, NumberColumn, Splits
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.labels.columns import Columns, choose_columns
from shardfeed.converters.sources.labels.paths import PathLookup
from shardfeed.converters.sources.labels.rows import LabelRows
from shardfeed.converters.sources.labels.table import Column, Format, LabelTable
from shardfeed.converters.sources.labels.values import BadCellError, label_column
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import image_features, is_plain
from shardfeed.text import counted, some


class LabelFile(ListedSource):
    """One sample for each file under `root` (the label file's folder when not given) that a row names.

    `format`: 'csv', 'tsv', 'jsonl' or 'text' (`path label`, the label after the last blank); None: by extension.
    `path_column`, `label_columns`, `split_column`: names from the header or keys of JSON objects, or numbers from 0,
    as Python counts (the command line counts from 1); None: columns with usual names (path, filename, image, ...;
    label, class, ...; split), else the first two.
    `header`: whether the first row names the columns; None: decided from it, an error where it could be either.
    `delimiter`: between CSV cells; None: the first of comma, semicolon, tab that is in the first row.
    `class_names`: names in label order, or the path of a class list, for the first label column; or a mapping from
    column to those. Labels are then names of the list, or integers that count from 0 in it.

    The first label column gives `image/class/label` and `image/class/text`, another one C `image/C/label` and
    `image/C/text`, or `image/C` where it holds numbers; JSON lists give any number of values. Numbers of a column that
    is called like a box, a mask or their like (`xmin`, `face_box`) are of the kind "place".
    Paths are relative to `root`, or absolute and inside it; they match exactly, or the only file that differs in
    Unicode form. Rows without a file are in `findings.rejected`, files without a row are counted in its notes.
    `include`, `exclude`, `follow_links`: see `list_files`. Rows whose files are left out are counted, too.
    Raises LabelFileError where a row is not clear or contradicts another, with its line and, of a cell, the column.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        *,
        format: Format | None = None,
        path_column: Column | None = None,
        label_columns: Sequence[Column] | None = None,
        split_column: Column | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        class_names: ClassList | Mapping[str, ClassList] | None = None,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
    ) -> None:
        if isinstance(label_columns, str):
            raise UsageError("label_columns", f"got the text {label_columns!r}, expected a list", "put it in brackets")
        table = LabelTable(path, format, delimiter)
        folder = os.path.dirname(table.path) or "." if root is None else root
        listing = list_files(folder, include=include, exclude=exclude, follow_links=follow_links)
        if not len(listing):
            raise nothing_listed(listing)
        lookup = PathLookup(listing)
        first = next(iter(table), None)
        if first is None:
            raise LabelFileError(table.path, "no row in it", "write one row for each image")
        columns = choose_columns(
            table,
            first,
            lambda cell: isinstance(lookup.find(cell), int),
            path_column,
            label_columns,
            split_column,
            header,
        )
        given = _given(class_names, columns)
        rows = LabelRows(table, columns, lookup)
        if not (rows.files < len(listing)).any():
            raise rows.nothing_found(listing)
        chosen, doubled = rows.distinct()
        chosen = chosen[rows.files[chosen] < len(listing)]
        files = rows.files[chosen]
        labels, notes = _label_columns(rows, chosen, given)
        splits = _splits(rows, chosen)
        rejected = rows.rejected()
        wanted = [skipped for skipped in rejected if listing.choice.wants(skipped.key)]
        if len(wanted) < len(rejected):
            notes.append(f"rows whose files include and exclude leave out: {len(rejected) - len(wanted)}")
        super().__init__(
            listing.take(files),
            labels,
            splits,
            Findings(wanted, [*listing.notes, *notes, *rows.notes(doubled), *_unnamed(rows, listing, files)]),
        )


def _given(class_names: ClassList | Mapping[str, ClassList] | None, columns: Columns) -> dict[str, tuple[str, ...]]:
    """The class list of each label column that has one."""
    names = [name for _, name in columns.labels]
    if not isinstance(class_names, Mapping):
        given = class_list(class_names)
        return {} if given is None else {names[0]: given}
    for name in class_names:
        if name not in names:
            raise UsageError("class_names", f"got {name!r}, expected a label column: {some(names)}")
    return {name: found for name, classes in class_names.items() if (found := class_list(classes))}


def _label_columns(
    rows: LabelRows, chosen: np.ndarray, given: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[ClassColumn | NumberColumn, ...], list[str]]:
    """The features of each label column for the rows in `chosen`, and notes."""
    made: list[ClassColumn | NumberColumn] = []
    notes: list[str] = []
    taken = set(image_features(sha256=True))
    for i, (column, name) in enumerate(rows.columns.labels):
        cells = rows.cells[column]
        try:
            labels, of_column = label_column(cells, chosen, name, main=i == 0, given=given.get(name))
        except BadCellError as error:
            place = rows.place(int(np.argmax(cells.codes == error.code)), column)
            raise LabelFileError(place, error.problem, error.remedy) from None
        if not is_plain(name) or not taken.isdisjoint(labels.features):
            place = rows.table.place(next(iter(rows.table)).line)
            problem = f"the column '{escape(name)}' cannot be stored as '{escape(next(iter(labels.features)))}'"
            raise LabelFileError(place, problem, "rename it: the name is taken, empty or not plain text")
        taken.update(labels.features)
        made.append(labels)
        notes += of_column
    return tuple(made), notes


def _splits(rows: LabelRows, chosen: np.ndarray) -> Splits | None:
    column = rows.columns.split
    if column is None:
        return None
    cells = rows.cells[column]
    named: list[str] = []
    for code, cell in enumerate(cells.values):
        try:
            named.append(split_named(cell if isinstance(cell, str) else ""))
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
