"""What each column of a label file is: the path, labels, texts, numbers, the split; and whether there is a header."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.labels.table import Column, LabelTable, Record, column_text
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.schema import Feature
from shardfeed.text import some

_SPLIT_WORD = "split"
_LOOKED_AT = 1000  # rows of JSON whose keys are the columns


@dataclass(frozen=True)
class AskedColumns:
    """The columns as the caller names them: by name, or by number from 0; see `LabelFile`.

    `labels` None: one with a usual name; empty: none. `numbers`: with the feature that is asked for, None for one that
    the cells decide.
    """

    path: Column | None = None
    labels: Sequence[Column] | None = None
    texts: Sequence[Column] = ()
    numbers: Mapping[Column, Feature | None] = field(default_factory=dict)
    one_hot: Sequence[Column] = ()
    split: Column | None = None

    @property
    def with_argument(self) -> list[tuple[Column, str]]:
        """Every column, with the argument that names it."""
        named = [(self.path, "path_column"), *((column, "label_columns") for column in self.labels or ())]
        named += [(column, "text_columns") for column in self.texts]
        named += [(column, "number_columns") for column in self.numbers]
        named += [(column, "one_hot") for column in self.one_hot]
        return [(column, name) for column, name in [*named, (self.split, "split_column")] if column is not None]

    @property
    def other_values(self) -> bool:
        """Whether columns beside `labels` say something of an image, so that there may be no label."""
        return bool(self.texts or self.numbers or self.one_hot)


@dataclass(frozen=True)
class Columns:
    """`path`; `labels`, `texts`, `numbers` and `one_hot` with their names in order; `split` where there is one.

    `names`: of all columns, as the header has them; None where there is none. `width`: cells of every row; None for
    JSON, where an object may have more. `unused`: the other columns, with their names.
    """

    path: Column
    labels: tuple[tuple[Column, str], ...]
    texts: tuple[tuple[Column, str], ...]
    numbers: tuple[tuple[Column, str, Feature | None], ...]
    one_hot: tuple[tuple[Column, str], ...]
    split: Column | None
    names: tuple[str, ...] | None
    width: int | None
    unused: tuple[tuple[Column, str], ...]

    @property
    def header(self) -> bool:
        """Whether the first row names the columns."""
        return self.names is not None

    @property
    def used(self) -> list[Column]:
        """The columns whose cells say something of an image."""
        pairs = [*self.labels, *self.texts, *((column, name) for column, name, _ in self.numbers), *self.one_hot]
        return [column for column, _ in pairs] + ([] if self.split is None else [self.split])

    def shown(self, column: Column) -> Column:
        """What people call a column: by its name where it has one, else by its number."""
        return self.names[column] if self.names is not None and isinstance(column, int) else column


def choose_columns(
    table: LabelTable,
    is_file: Callable[[str], bool],
    is_id: Callable[[str], bool],
    asked: AskedColumns,
    header: bool | None,
) -> Columns:
    """Decide from the first records and what the user said.

    `is_file`, `is_id`: whether a cell is the path of a file of the root, or a part of one.

    Raises LabelFileError or UsageError where more than one reading is possible.
    """
    first = next(iter(table), None)
    if first is None:
        raise LabelFileError(table.path, "no row in it", "write one row for each image")
    if table.keyed:
        if header is not None:
            raise UsageError("header", "got a value for JSON Lines or Parquet, which have no header", "leave it out")
        names = list(dict.fromkeys(str(key) for record in islice(table, _LOOKED_AT) for key in record.cells))
        width = None
    else:
        cells = [str(cell).strip() for cell in first.cells]
        width = len(cells)
        if header is None:
            named = any(isinstance(column, str) for column, _ in asked.with_argument)
            header = named or _is_header(table, first, cells, is_file, is_id)
        names = cells if header else [f"column{i}" for i in range(width)]
        if header:
            _check_header(table, first, names)
    choice = _Choice(table, first, names, bool(header))
    found = {(column, name): choice.find(column) for column, name in asked.with_argument}
    path = found[asked.path, "path_column"] if asked.path is not None else choice.usual_path()
    split = found[asked.split, "split_column"] if asked.split is not None else None
    taken = {path, *found.values()}
    if asked.split is None:
        split = choice.usual_split(taken)
        taken.add(split) if split is not None else None
    labels = [found[column, "label_columns"] for column in asked.labels or ()]
    if asked.labels is None and not asked.one_hot and not table.counted:
        labels = choice.usual_label(taken, optional=asked.other_values)
    texts = [found[column, "text_columns"] for column in asked.texts]
    numbers = [(found[column, "number_columns"], feature) for column, feature in asked.numbers.items()]
    one_hot = [found[column, "one_hot"] for column in asked.one_hot]
    if table.counted and asked.labels is None and not one_hot and not asked.other_values:
        labels, one_hot = [], [column for column in choice.columns if column not in taken]
    said = [*labels, *texts, *(column for column, _ in numbers), *one_hot, *([] if split is None else [split])]
    used = [path, *said]
    if len({*said}) < len(said) or (path in said and path not in texts):  # the path may be kept as a text as well
        got = ", ".join(escape(choice.name(column)) for column in used)
        raise UsageError("label_columns", f"the columns in use are {got}", "use each column once")
    return Columns(
        path,
        tuple((column, choice.name(column)) for column in labels),
        tuple((column, choice.name(column)) for column in texts),
        tuple((column, choice.name(column), feature) for column, feature in numbers),
        tuple((column, choice.name(column)) for column in one_hot),
        split,
        tuple(names) if header else None,
        width,
        tuple((column, choice.name(column)) for column in choice.columns if column not in used),
    )


def _is_header(
    table: LabelTable,
    first: Record,
    cells: list[str],
    is_file: Callable[[str], bool],
    is_id: Callable[[str], bool],
) -> bool:
    if any(map(is_file, cells)):
        return False
    if any(cell.casefold() in WORDS["path"] for cell in cells):
        return True
    if any(names_image(cell.encode("utf-8", "surrogateescape")) for cell in cells):
        return False
    if any(map(is_id, cells)):
        return False
    problem = f"the first row ({some(cells)}) names no file, and no column that is known to hold paths"
    remedy = f"give {argument('header', True)} or {argument('header', False)}"
    raise LabelFileError(table.place(first.line), problem, remedy)


def _check_header(table: LabelTable, first: Record, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise LabelFileError(table.place(first.line), f"two columns are named '{escape(name)}'", "rename one")


@dataclass(frozen=True)
class _Choice:
    table: LabelTable
    first: Record
    names: list[str]
    header: bool

    @property
    def columns(self) -> Sequence[Column]:
        return self.names if self.table.keyed else range(len(self.names))

    def name(self, column: Column) -> str:
        return column if isinstance(column, str) else self.names[column]

    def find(self, asked: Column) -> Column:
        if isinstance(asked, str) and asked in self.names and (self.header or self.table.keyed):
            return asked if self.table.keyed else self.names.index(asked)
        if not isinstance(asked, str | bool) and not self.table.keyed and 0 <= asked < len(self.names):
            return asked
        said = f"column {escape(repr(asked))}" if isinstance(asked, str) else column_text(asked)
        raise self._error(f"there is no {said}", "name one of these")

    def usual_path(self) -> Column:
        folded = [name.casefold() for name in self.names]
        for word in WORDS["path"] if self.header or self.table.keyed else ():
            if word in folded:
                return self.columns[folded.index(word)]
        if self.table.keyed:
            raise self._error("no key is known to hold the path", f"give {argument('path_column')}")
        return 0

    def usual_split(self, taken: set[Column]) -> Column | None:
        columns = [c for c in self.columns if c not in taken and self.name(c).casefold() == _SPLIT_WORD]
        return columns[0] if columns else None

    def usual_label(self, taken: set[Column], *, optional: bool) -> list[Column]:
        """The column of the label; none where it is `optional` and no column has a usual name."""
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
            remedy = f"give {delimiter}, {form} or {arguments}, or {none} where images have no labels"
            raise self._error("there is no column beside the path", remedy)
        if len(known) != 1 and self._binary(rest) > 1:
            remedy = f"give {argument('one_hot')} with the columns of 0 and 1 (or -1 and 1), or {arguments}"
            raise self._error(f"{len(known) or 'none'} of them is known to be the label", remedy)
        remedy = f"give {arguments}, {argument('text_columns')} or {argument('number_columns')}"
        raise self._error(f"{len(known) or 'none'} of them is known to be the label", remedy)

    def _binary(self, columns: Sequence[Column]) -> int:
        """How many of `columns` have 0 or 1 in the first row behind the header."""
        rows = iter(self.table)
        row = next(rows) if not self.header else (next(rows), next(rows, None))[1]
        if row is None:
            return 0
        cells = row.cells if isinstance(row.cells, Mapping) else dict(enumerate(row.cells))
        return sum(cells.get(column) in ("0", "1", "-1") for column in columns)  # type: ignore[call-overload]  # keys alike

    def _error(self, problem: str, remedy: str) -> LabelFileError:
        columns = self.names if self.header or self.table.keyed else range(len(self.names))
        shown = [escape(column) if isinstance(column, str) else column_text(column, word="") for column in columns]
        got = f"got the columns {', '.join(shown)}"
        return LabelFileError(self.table.place(self.first.line), f"{got}: {problem}", remedy)
