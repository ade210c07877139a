"""Find the columns of a label file (path, labels, texts, numbers, split), and whether it has a header."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.labels.table import Column, LabelTable, Record, column_text
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.rows.evidence import By
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import Feature
from shardfeed.text import some

_SPLIT_WORD = "split"
_LOOKED_AT = 1000  # rows of JSON that determine the columns


class Use(NamedTuple):
    """A column in use, and its name. `feature`: of numbers, if requested. `by`: who says that it is a label."""

    column: Column
    name: str
    role: Literal["label", "text", "number", "one_hot"]
    feature: Feature | None = None
    by: By = "user"


@dataclass(frozen=True)
class Columns:
    """The columns `path` and `split`, and in `uses` labels, texts, numbers and columns of 0 and 1, in order.

    `names`: of all columns, as in the header; None without a header. `width`: cells of every row; None for JSON, where
    an object may have more. `unused`: all other columns, with their names.
    """

    path: Column
    uses: tuple[Use, ...]
    split: Column | None
    names: tuple[str, ...] | None
    width: int | None
    unused: tuple[tuple[Column, str], ...]

    @property
    def first_row(self) -> int:
        """Index of the first row with an image: 1 after a header, else 0."""
        return int(self.names is not None)

    @property
    def used(self) -> list[Column]:
        """The columns with cells that describe an image."""
        return [use.column for use in self.uses] + ([] if self.split is None else [self.split])

    def of(self, *roles: str) -> list[Use]:
        """The columns in use of some roles."""
        return [use for use in self.uses if use.role in roles]

    def shown(self, column: Column) -> Column:
        """Return a column as messages show it: its name if it has one, else its number or JSON key."""
        return self.names[column] if self.names is not None and isinstance(column, int) else column


def choose_columns(table: LabelTable, lookup: PathLookup, options: LabelOptions) -> Columns:
    """Decide from the first records, the files of the root and the user's options.

    Raises LabelFileError or UsageError if more than one reading is possible.
    """
    first = next(iter(table), None)
    if first is None:
        raise LabelFileError(table.path, "no rows in it", "write one row per image")
    numbers = options.number_columns
    features: Mapping[Column, Feature | None] = (
        numbers if isinstance(numbers, Mapping) else dict.fromkeys(numbers)  # type: ignore[assignment]
    )
    asked = [("label", column) for column in options.label_columns or ()]
    asked += [("text", column) for column in options.text_columns]
    asked += [("number", column) for column in features]
    asked += [("one_hot", column) for column in options.one_hot]
    width, header = None, options.header
    if table.keyed:
        if header is not None:
            raise UsageError("header", "JSON Lines and Parquet have no header", "leave it out")
        names = list(dict.fromkeys(str(key) for record in islice(table, _LOOKED_AT) for key in record.cells))
    else:
        names = [str(cell).strip() for cell in first.cells]
        width = len(names)
        if header is None:
            every = (*(column for _, column in asked), options.path_column, options.split_column)
            header = any(isinstance(column, str) for column in every) or _is_header(table, first, names, lookup)
        twice = next((name for i, name in enumerate(names) if header and name in names[:i]), None)
        if twice is not None:
            raise LabelFileError(table.place(first.line), f"two columns are named '{escape(twice)}'", "rename one")
        names = names if header else [f"column{i}" for i in range(1, width + 1)]  # as typed
    choice = _Choice(table, first, names, bool(header))
    path = choice.usual_path() if options.path_column is None else choice.find(options.path_column)
    split = None if options.split_column is None else choice.find(options.split_column)
    uses = [Use(found := choice.find(column), choice.name(found), role, features.get(column)) for role, column in asked]  # type: ignore[arg-type]
    taken = {path, split, *(use.column for use in uses)}
    if options.split_column is None:
        split = next((c for c in choice.columns if c not in taken and choice.name(c).casefold() == _SPLIT_WORD), None)
        taken.add(split)
    if options.label_columns is None and not options.one_hot:
        # Options that describe an image, so that labels are optional.
        rest = any(column not in taken for column in choice.columns)
        others = any(use.name != options.group_column or not rest for use in uses)
        if not table.counted:
            usual = choice.usual_label(taken, optional=others)
            uses = [*(Use(column, choice.name(column), "label", by=choice.says(column)) for column in usual), *uses]
        elif not others:
            uses = [Use(column, choice.name(column), "one_hot") for column in choice.columns if column not in taken]
    columns_used = [use.column for use in uses] + ([] if split is None else [split])
    texts = [use.column for use in uses if use.role == "text"]
    # The path may be kept as a text as well.
    if len({*columns_used}) < len(columns_used) or (path in columns_used and path not in texts):
        got = ", ".join(escape(choice.name(column)) for column in (path, *columns_used))
        raise UsageError("label_columns", f"the columns in use are {got}", "use each column once")
    unused = tuple((column, choice.name(column)) for column in choice.columns if column not in (path, *columns_used))
    return Columns(path, tuple(uses), split, tuple(names) if header else None, width, unused)


def _is_header(table: LabelTable, first: Record, cells: Sequence[str], lookup: PathLookup) -> bool:
    """Whether the first row names columns and not an image. Raises LabelFileError if it may be either."""
    if any(isinstance(lookup.find(cell), int) for cell in cells):
        return False
    if any(cell.casefold() in WORDS["path"] for cell in cells):
        return True
    if any(names_image(cell.encode("utf-8", "surrogateescape")) for cell in cells) or any(map(lookup.is_id, cells)):
        return False
    problem = f"the first row ({some(cells)}) has no file, and no column has a known name for paths"
    remedy = f"give {argument('header', True)} or {argument('header', False)}; "
    remedy += f"{argument('path_column', typed='NAME')} names the column of paths, in a file with a header"
    raise LabelFileError(table.place(first.line), problem, remedy)


class _Choice:
    """The columns of a table by their `names`; `named`: whether the names come from the file."""

    def __init__(self, table: LabelTable, first: Record, names: Sequence[str], header: bool) -> None:
        self.table, self.first, self.names, self.header = table, first, names, header
        self.named = header or table.keyed
        self.columns: Sequence[Column] = names if table.keyed else range(len(names))

    def name(self, column: Column) -> str:
        return column if isinstance(column, str) else self.names[column]

    def find(self, asked: Column) -> Column:
        if isinstance(asked, str) and asked in self.names and self.named:
            return asked if self.table.keyed else self.names.index(asked)
        if not isinstance(asked, str | bool) and not self.table.keyed and 0 <= asked < len(self.names):
            return asked
        wanted = f"column {escape(repr(asked))}" if isinstance(asked, str) else column_text(asked)
        raise self._error(f"there is no {wanted}", "name one of these")

    def usual_path(self) -> Column:
        folded = [name.casefold() for name in self.names] if self.named else []
        for word in WORDS["path"]:
            if word in folded:
                return self.columns[folded.index(word)]
        if self.table.keyed:
            raise self._error("no key has a known name for the path", f"give {argument('path_column')}")
        return 0

    def says(self, column: Column) -> By:
        """Who says that a column is the label."""
        known = self.named and self.name(column).casefold() in WORDS["label"]
        return "name" if known else "rest" if self.named else "place"

    def usual_label(self, taken: set[Column | None], *, optional: bool) -> list[Column]:
        """The column of the label; none if it is `optional` and no column has a usual name."""
        rest = [column for column in self.columns if column not in taken]
        known = [column for column in rest if self.name(column).casefold() in WORDS["label"]]
        if len(known) > 1:  # of a class and its number the class
            known = [column for column in known if not self.name(column).casefold().endswith("_id")]
        if len(known) == 1 or (len(rest) == 1 and not optional):
            return known[:1] if known else rest
        if optional and not known:
            return []
        arguments = argument("label_columns")
        if not rest:
            delimiter, form = argument("delimiter"), argument("format")
            none = argument("unlabelled", python="label_columns=[]")
            remedy = f"give {delimiter}, {form} or {arguments}, or {none} for images without labels"
            raise self._error("there is only the path column", remedy)
        remedy = f"give {arguments}, {argument('text_columns')} or {argument('number_columns')}"
        if self._binary(rest) > 1:
            remedy = f"give {argument('one_hot')} with the columns of 0 and 1 (or -1 and 1), or {arguments}"
        raise self._error(f"{len(known) or 'none'} of them has a known name for labels", remedy)

    def _binary(self, columns: Sequence[Column]) -> int:
        """Count the `columns` with 0, 1 or -1 in the first row after the header."""
        row = next(islice(self.table, int(self.header), None), None)
        cells = {} if row is None else row.cells if isinstance(row.cells, Mapping) else dict(enumerate(row.cells))
        return sum(cells.get(column) in ("0", "1", "-1") for column in columns)  # type: ignore[call-overload]  # keys alike

    def _error(self, problem: str, remedy: str) -> LabelFileError:
        columns = self.names if self.named else range(len(self.names))
        shown = [escape(column) if isinstance(column, str) else column_text(column, word="") for column in columns]
        got = f"got the columns {', '.join(shown)}"
        return LabelFileError(self.table.place(self.first.line), f"{got}: {problem}", remedy)
