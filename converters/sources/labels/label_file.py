"""Images named by a label file: CSV, TSV, JSON Lines, Parquet, or lines of `path label`."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from shardfeed.converters.sources.classes import class_list, number_classes
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import Globs, Listing, names_image
from shardfeed.converters.sources.files.walk import annotations_note, labels_among, list_files, no_files_error
from shardfeed.converters.sources.labels.addresses import AddressLookup, column_of_addresses, has_header
from shardfeed.converters.sources.labels.columns import Columns, Use, choose_columns
from shardfeed.converters.sources.labels.rows import LabelRows
from shardfeed.converters.sources.labels.table import Column, LabelTable
from shardfeed.converters.sources.labels.values import (
    BadCellError,
    Cells,
    are_signed,
    has_object_columns,
    is_class_of_image,
    label_column,
    marks_of,
    number_column,
    one_hot_column,
    text_column,
)
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import LabelOptions, given
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.columns import ListedColumn, Splits
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import ListedSource, Rows
from shardfeed.converters.sources.split_names import split_in_cell, usual_split
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import IMAGE_KEYS, is_plain
from shardfeed.text import counted, some

_WORDS_OF_NAME = re.compile(r"([^A-Za-z]+)")
_LOOKED_AT = 1000  # lines examined to find the separator
_OF_FOLDERS = ("labels", "images", "pattern")  # options that say what this is given by its place, or nothing
_Made = TypeVar("_Made")


def recognise(look: Look, options: LabelOptions) -> Evidence | None:
    """A label file has no distinctive marks: it is the reader for all other files."""
    del look, options
    return None


def read(look: Look, options: LabelOptions) -> "LabelFile":
    """The file that is opened, or `options.labels` for the images in the folder that is opened."""
    if options.labels is not None and look.is_file:
        raise UsageError(
            look.path, "is a file, but the labels are also given as a file", "give the folder of the images"
        )
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
        notes: list[str] = []
        folder = os.path.dirname(table.path) or "." if root is None else root
        if root is None and (shared := _folder_of_paths(table, asked)):
            folder, notes = shared, [f"the images are in {escape(shared)}, where the paths of the label file are"]
        listing = list_files(folder, include=include, exclude=exclude, follow_links=follow_links)
        if not len(listing):
            raise no_files_error(listing)
        lookup = PathLookup(listing, ends=root is not None)
        if (column := column_of_addresses(table, lookup, asked.path_column)) is not None:
            if include or exclude:
                problem = "is for files of a folder, but the table has URLs"
                raise UsageError("include" if include else "exclude", problem, "leave rows out of the table")
            header = has_header(table, column) if asked.header is None and not table.keyed else asked.header
            asked, lookup = replace(asked, path_column=column, header=header), AddressLookup(table, column)
            listing = lookup.listing
        if table.format == "text":
            table.paths_only = unlabelled and not _are_pairs(table, lookup)
            table.at_first = not table.paths_only and _classes_have_blanks(table, lookup)
        columns = choose_columns(table, lookup, asked)
        settings = _ColumnSettings(columns, asked, table.class_names)
        rows = LabelRows(table, columns, lookup, optional=settings.missing)
        if not (rows.files < len(listing)).any():
            raise rows.no_images_error(lookup, rooted=root is not None)
        chosen, doubled = rows.distinct()
        chosen = chosen[rows.files[chosen] < len(listing)]
        files = rows.files[chosen]
        made = _Features(rows, chosen, settings)
        splits = _splits(rows, chosen)
        notes += ["lines are split at the first space: classes contain spaces"] if table.at_first else []
        notes += [
            *_other_splits(table, columns),
            *listing.notes,
            *made.notes,
            *rows.notes(doubled, listing),
            *_unnamed(rows, listing, files),
        ]
        rejected = rows.rejected()
        wanted = [skipped for skipped in rejected if listing.choice.wants(skipped.key)]
        if len(wanted) < len(rejected):
            notes.append(f"rows whose files are left out by include and exclude: {len(rejected) - len(wanted)}")
        known = Rows(table.path, LabelOptions())  # the options are checked above
        known.columns, known.splits = made.columns, splits
        known.ledger.notes += notes
        known.ledger.skip(wanted)
        super().__init__(listing.take(files), known)


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
    several = [
        f"{path} {label}" for path, label in (map(str, cells) for cells in lines if len(cells) == 2) if " " in path
    ]
    return any(_is_file(line.split(None, 1)[0], lookup) for line in several) and not any(
        _is_file(line.rpartition(" ")[0], lookup) for line in several
    )


class _ColumnSettings:
    """Options given for columns, by column: the label separator, the value of an empty cell, and class names.

    `named_in`: the class names in the file, by column. `one_hot`: the class names of one-hot columns. Raises UsageError
    for columns that are not in use.
    """

    def __init__(
        self, columns: Columns, options: LabelOptions, named_in: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    ) -> None:
        labels, hot = columns.of("label"), columns.of("one_hot")
        self.one_hot: tuple[str, ...] | None = None
        names, separators = options.class_names, options.label_separator
        if not isinstance(names, Mapping):
            listed = class_list(names)
            if listed is not None and hot:
                self.one_hot, listed = listed, None
            names = self._of_first(labels, "class_names", listed)
        named = {use.column: named_in[use.name] for use in labels if use.name in named_in}
        self.classes = named | {
            column: class_list(one) for column, one in _by_column(labels, "class_names", names).items()
        }
        offset = self._of_first(labels, "label_offset", options.label_offset or None)
        label_map = self._of_first(labels, "label_map", options.label_map)
        self.numbers = {"offset": next(iter(offset.values()), 0), "label_map": next(iter(label_map.values()), None)}
        if not isinstance(separators, Mapping):
            separators = self._of_first(labels, "label_separator", separators)
        self.separators = _by_column(labels, "label_separator", separators)
        if "" in self.separators.values():
            raise UsageError("label_separator", "got an empty text", "give the separator between two labels")
        missing = {column: str(value) for column, value in (options.missing or {}).items()}
        self.missing = _by_column(columns.of("label", "number", "one_hot"), "missing", missing)

    @staticmethod
    def _of_first(labels: Sequence[Use], argument: str, value: Any) -> dict[Column, Any]:
        """A value that is of the first label column, by that; nothing for None."""
        if value is not None and not labels:
            raise UsageError(argument, "it needs a label column", "leave it out")
        return {} if value is None else {labels[0].column: value}

    def cells(self, column: Column, cells: Cells) -> Cells:
        """Return the cells of a column of labels, with missing ones filled, and split into lists."""
        if column in self.missing:
            cells = cells.filled(self.missing[column])
        return cells.split_at(self.separators[column]) if column in self.separators else cells.listed()


def _by_column(uses: Sequence[Use], argument: str, settings: Mapping[Any, Any]) -> dict[Column, Any]:
    """`settings` by the columns in use, from a mapping by name or number. Raises UsageError for other columns."""
    found: dict[Column, Any] = {}
    for asked, value in settings.items():
        column = next((use.column for use in uses if asked in (use.column, use.name)), None)
        if column is None:
            problem = f"got the column {asked!r}, expected one of {some([use.name for use in uses])}"
            raise UsageError(argument, problem)
        found[column] = value
    return found


class _Features:
    """The features of the columns of a label file, made for the rows in `chosen`, and `notes` for the report."""

    def __init__(self, rows: LabelRows, chosen: np.ndarray, settings: _ColumnSettings) -> None:
        self.rows, self.columns, self.notes = rows, list[ListedColumn](), list[str]()
        self._taken = set(IMAGE_KEYS)
        labels, hot, numbers = (rows.columns.of(role) for role in ("label", "one_hot", "number"))
        cells = {use.column: settings.cells(use.column, rows.cells[use.column]) for use in (*labels, *hot)}
        main = not hot
        if hot:
            signed = are_signed(cells[use.column] for use in hot)
            marks = [self._tried(use, marks_of, cells[use.column], signed) for use in hot]
            names = [use.name for use in hot]
            classes = number_classes(names, settings.one_hot, stated=names, integers="names")
            of_class = dict(zip((classes.labels[name] for name in names), marks, strict=True))
            none = np.zeros(len(rows.files), bool)
            marks = [of_class.get(label, none) for label in range(len(classes.names))]
            self._add(hot[0], one_hot_column(classes.names, marks, chosen))
        elif labels:
            named = labels[0].column in settings.classes
            main = named or is_class_of_image([(use.name, cells[use.column]) for use in labels])
        lists = {use.name: cells.get(use.column, rows.cells[use.column]) for use in (*labels, *numbers)}
        objects = any(has_object_columns(name, found) for name, found in lists.items())
        for i, use in enumerate(labels):
            known = {
                "given": settings.classes.get(use.column),
                "split": use.column in settings.separators,
                "objects": objects,
                **(settings.numbers if not i else {}),
                "by": "user" if use.column in settings.missing else use.by,
                "column": use.column if use.by == "place" and isinstance(use.column, int) else None,
            }
            found = cells[use.column]
            self._add(use, self._tried(use, label_column, found, chosen, use.name, main=main and not i, **known))
        for use in rows.columns.of("text"):
            self._add(use, (self._tried(use, text_column, rows.cells[use.column], chosen, use.name), ()))
        for use in numbers:
            found, missing = rows.cells[use.column], settings.missing.get(use.column)
            self._add(use, self._tried(use, number_column, found, chosen, use.name, use.feature, missing))

    def _tried(self, use: Use, make: Callable[..., _Made], *values: Any, **known: Any) -> _Made:
        """Return the result of `make`. Raises LabelFileError for the first row with a cell that `make` refuses."""
        try:
            return make(*values, **known)
        except BadCellError as error:
            row = int(np.argmax(self.rows.cells[use.column].codes == error.code))
            raise LabelFileError(self.rows.place(row, use.column), error.problem, error.remedy) from None

    def _add(self, use: Use, made: tuple[ListedColumn, Sequence[str]]) -> None:
        column, notes = made
        if not is_plain(use.name) or not self._taken.isdisjoint(column.features):
            place = self.rows.table.place(next(iter(self.rows.table)).line)
            problem = f"the column '{escape(use.name)}' cannot be stored as '{escape(next(iter(column.features)))}'"
            raise LabelFileError(place, problem, "rename it: the name is used, empty or not plain text")
        self._taken.update(column.features)
        self.columns.append(column)
        self.notes += notes


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
            yield counted("label files of other splits beside this one, not read", map(escape, others), len(others))


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
