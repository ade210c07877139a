"""Find the columns of a label file (path, labels, texts, numbers, split), and whether it has a header."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.options import Column, LabelOptions, Path
from shardfeed.converters.sources.rows.cells import Cell
from shardfeed.converters.sources.rows.evidence import By
from shardfeed.converters.sources.rows.inference import Distinct
from shardfeed.converters.sources.rows.label_table import LabelTable, column_text, is_index
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import Feature
from shardfeed.text import some

_SPLIT_WORD = "split"
_Role = Literal["label", "text", "number", "one_hot"]


class Use(NamedTuple):
    """A column in use, by its number and name. `feature`: of numbers, if requested. `by`: who says that it is a label.

    `class_names`, `separator`, `missing`: given by the user, or by the file; the first one-hot column has the names of
    all. `offset`, `label_map`: as of `number_classes`.
    """

    column: int
    name: str
    role: _Role
    feature: Feature | None = None
    by: By = "user"
    class_names: tuple[str, ...] | None = None
    separator: str | None = None
    missing: str | None = None
    offset: int | None = None
    label_map: Path | None = None

    def read(self, cells: Distinct) -> Distinct:
        """Return the cells of a column of labels, with missing ones filled, and split into lists."""
        if self.missing is not None:
            cells = cells.mapped(self._filled)
        return cells.listed() if self.separator is None else cells.mapped(self._split)

    def _filled(self, cell: Cell) -> Cell:
        return tuple(part or self.missing or "" for part in cell) if isinstance(cell, tuple) else cell or self.missing

    def _split(self, cell: Cell) -> Cell:
        separator = self.separator or ""
        parts = cell.split(separator.strip() or separator) if isinstance(cell, str) else cell  # cells are stripped
        return None if parts is None else tuple(part.strip() for part in parts if part.strip())


class Columns:
    """The columns of a label file, by number from 0: `path`, `split`, and `uses`, the labels, texts, numbers and marks.

    Decided from the first records, the files of the root and the user's options. Raises LabelFileError or UsageError if
    more than one reading is possible.

    `names`: of all columns; `column1` and so on, as typed, unless the file has names. `header`: whether the first row
    has them. `unused`: all other columns.
    """

    def __init__(self, table: LabelTable, lookup: PathLookup, options: LabelOptions) -> None:
        first = next(iter(table), None)
        if first is None:
            raise LabelFileError(table.path, "no rows in it", "write one row per image")
        self._table, self._line = table, first.line
        numbers = options.number_columns
        features: Mapping[Any, Feature | None] = numbers if isinstance(numbers, Mapping) else dict.fromkeys(numbers)
        roles: dict[_Role, Sequence[Column]] = {"label": options.label_columns or (), "text": options.text_columns}
        roles |= {"number": (*features,), "one_hot": options.one_hot}
        named = [column for columns in roles.values() for column in columns]
        named += [options.path_column, options.split_column]
        if table.keyed and options.header is not None:
            raise UsageError("header", "JSON Lines and Parquet have no header", "leave it out")
        self.names = table.keys if table.keyed else [str(cell).strip() for cell in first.cells]
        self.header = bool(options.header)
        if options.header is None and not table.keyed:
            self.header = any(isinstance(column, str) for column in named) or self._is_header(lookup)
        self.named = self.header or table.keyed
        twice = next((name for i, name in enumerate(self.names) if self.header and name in self.names[:i]), None)
        if twice is not None:
            raise LabelFileError(table.place(first.line), f"two columns are named '{escape(twice)}'", "rename one")
        self._index = {i for i, name in enumerate(self.names) if self.header and is_index(name)}
        self.names = [name if self.named and name else f"column{i}" for i, name in enumerate(self.names, 1)]
        every = range(len(self.names))
        self.path = self._usual_path() if options.path_column is None else self._find(options.path_column)
        split = None if options.split_column is None else self._find(options.split_column)
        uses = list[Use]()
        for role, columns in roles.items():
            for found, column in ((self._find(column), column) for column in columns):
                uses.append(Use(found, self.names[found], role, features.get(column)))
        taken = {self.path, split, *(use.column for use in uses)}
        if options.split_column is None:
            split = next((i for i in every if i not in taken and self.names[i].casefold() == _SPLIT_WORD), None)
        self.split = split
        rest = [column for column in every if column not in {*taken, *self._index, split}]
        if options.label_columns is None and not options.one_hot:
            # Options that describe an image, so that labels are optional.
            others = any(use.name != options.group_column or not rest for use in uses)
            if not table.counted:
                uses = [*self._usual_label(rest, optional=others), *uses]
            elif not others:
                uses = [Use(column, self.names[column], "one_hot") for column in rest]
        self.uses = uses
        used, texts = self.used, [use.column for use in uses if use.role == "text"]
        # The path may be kept as a text as well.
        if len({*used}) < len(used) or (self.path in used and self.path not in texts):
            got = ", ".join(escape(self.names[column]) for column in (self.path, *used))
            raise UsageError("label_columns", f"the columns in use are {got}", "use each column once")
        self.unused = [column for column in every if column not in (self.path, *used)]
        self._set(options, table.class_names)

    @property
    def used(self) -> list[int]:
        """The columns with cells that describe an image."""
        return [use.column for use in self.uses] + ([] if self.split is None else [self.split])

    def of(self, *roles: str) -> list[Use]:
        """The columns in use of some roles."""
        return [use for use in self.uses if use.role in roles]

    def shown(self, column: int) -> Column:
        """Return a column as messages show it: its name if it has one, else its number."""
        return self.names[column] if self.named else column

    def _set(self, options: LabelOptions, named_in: Mapping[str, tuple[str, ...]]) -> None:
        """Add the settings of columns. Raises UsageError for columns that are not in use.

        `named_in`: the class names in the file, by column.
        """
        labels, hot, names = self.of("label"), self.of("one_hot"), options.class_names
        given = {use.column: named_in[use.name] for use in labels if use.name in named_in}
        if hot and not isinstance(names, Mapping) and (listed := class_list(names)) is not None:
            given, names = {hot[0].column: listed}, None
        given |= {column: class_list(one) for column, one in _by_column(labels, "class_names", names).items()}  # type: ignore[arg-type]
        separators = _by_column(labels, "label_separator", options.label_separator)
        missing = _by_column(self.of("label", "number", "one_hot"), "missing", options.missing)
        missing = {column: str(value) for column, value in missing.items()}
        offsets = {use.column: 0 for use in labels[:1]}
        offsets |= _by_column(labels, "label_offset", options.label_offset or None)
        maps = _by_column(labels, "label_map", options.label_map)
        self.uses = [
            use._replace(
                class_names=given.get(use.column),
                separator=separators.get(use.column),
                missing=missing.get(use.column),
                offset=offsets.get(use.column),
                label_map=maps.get(use.column),
            )
            for use in self.uses
        ]

    def _is_header(self, lookup: PathLookup) -> bool:
        """Whether the first row names columns and not an image. Raises LabelFileError if it may be either."""
        cells = self.names
        if any(isinstance(lookup.find(cell), int) for cell in cells):
            return False
        if any(cell.casefold() in WORDS["path"] for cell in cells):
            return True
        if any(names_image(cell.encode("utf-8", "surrogateescape")) for cell in cells) or any(map(lookup.is_id, cells)):
            return False
        problem = f"the first row ({some(cells)}) has no file, and no column has a known name for paths"
        remedy = f"give {argument('header', True)} or {argument('header', False)}; "
        remedy += f"{argument('path_column', typed='NAME')} names the column of paths, in a file with a header"
        raise LabelFileError(self._table.place(self._line), problem, remedy)

    def _find(self, asked: Column) -> int:
        if isinstance(asked, str) and asked in self.names and self.named:
            return self.names.index(asked)
        if not isinstance(asked, str | bool) and not self._table.keyed and 0 <= asked < len(self.names):
            return asked
        wanted = f"column {escape(repr(asked))}" if isinstance(asked, str) else column_text(asked)
        raise self._error(f"there is no {wanted}", "name one of these")

    def _usual_path(self) -> int:
        folded = [name.casefold() for name in self.names] if self.named else []
        found = next((folded.index(word) for word in WORDS["path"] if word in folded), None)
        if found is None and self._table.keyed:
            raise self._error("no key has a known name for the path", f"give {argument('path_column')}")
        return next((i for i in range(len(self.names)) if i not in self._index), 0) if found is None else found

    def _usual_label(self, rest: Sequence[int], *, optional: bool) -> list[Use]:
        """The column of the label, of the `rest`; none if it is `optional` and no column has a usual name."""
        known = [column for column in rest if self.names[column].casefold() in WORDS["label"]]
        if len(known) > 1:  # of a class and its number the class
            known = [column for column in known if not self.names[column].casefold().endswith("_id")]
        if len(known) == 1 or (len(rest) == 1 and not optional):
            by: By = "place" if not self.named else "name" if known else "rest"
            column = (known or rest)[0]
            return [Use(column, self.names[column], "label", by=by)]
        if optional and not known:
            return []
        arguments = argument("label_columns")
        if not rest:
            delimiter, form = argument("delimiter"), argument("format")
            none = argument("unlabelled", python="label_columns=[]")
            remedy = f"give {delimiter} or {form}, or {none} for images without labels"
            raise self._error("there is only the path column", remedy)
        remedy = f"give {arguments}, {argument('text_columns')} or {argument('number_columns')}"
        row = next((record.cells for record in islice(self._table, int(self.header), None)), ())
        if sum(row[column] in ("0", "1", "-1") for column in rest if column < len(row)) > 1:
            remedy = f"give {argument('one_hot')} with the columns of 0 and 1 (or -1 and 1), or {arguments}"
        raise self._error(f"{len(known) or 'none'} of them has a known name for labels", remedy)

    def _error(self, problem: str, remedy: str) -> LabelFileError:
        shown = [escape(name) if self.named else column_text(i, word="") for i, name in enumerate(self.names)]
        return LabelFileError(self._table.place(self._line), f"got the columns {', '.join(shown)}: {problem}", remedy)


def _by_column(uses: Sequence[Use], argument: str, settings: Any) -> dict[int, Any]:
    """Settings of columns, by name or number, by the columns in use; a single one is that of the first.

    Raises UsageError for other columns.
    """
    if settings is not None and not isinstance(settings, Mapping):
        if not uses:
            raise UsageError(argument, "it needs a label column", "leave it out")
        settings = {uses[0].column: settings}
    found: dict[int, Any] = {}
    for asked, value in (settings or {}).items():
        column = next((use.column for use in uses if asked in (use.column, use.name)), None)
        if column is None:
            problem = f"got the column {asked!r}, expected one of {some([use.name for use in uses])}"
            raise UsageError(argument, problem)
        found[column] = value
    return found
