"""Which column of a label file is the path, which are labels, which is the split, and whether there is a header."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.labels.table import Column, LabelTable, Record
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import some

# In order of preference, compared without case. A dataset that says it otherwise names its columns.
_PATH_WORDS = ("path", "filepath", "file_path", "image_path", "filename", "file_name", "file", "image", "image_name")
_PATH_WORDS += ("img", "img_path", "image_file", "image_id", "id")
_LABEL_WORDS = ("label", "labels", "class", "class_name", "category", "target")
_SPLIT_WORD = "split"


@dataclass(frozen=True)
class Columns:
    """`path`, `labels` with their names in order, and `split` where there is one.

    `names`: of all columns, as the header has them; None where there is none. `width`: cells of every row; None for
    JSON, where an object may have more. `unused`: names of other columns.
    """

    path: Column
    labels: tuple[tuple[Column, str], ...]
    split: Column | None
    names: tuple[str, ...] | None
    width: int | None
    unused: tuple[str, ...]

    @property
    def header(self) -> bool:
        """Whether the first row names the columns."""
        return self.names is not None

    def shown(self, column: Column) -> Column:
        """What people call a column: by its name where it has one, else by its number."""
        return self.names[column] if self.names is not None and isinstance(column, int) else column


def choose_columns(
    table: LabelTable,
    first: Record,
    is_file: Callable[[str], bool],
    path: Column | None,
    labels: Sequence[Column] | None,
    split: Column | None,
    header: bool | None,
) -> Columns:
    """Decide from the first record and what the user said; `is_file` tells whether a cell names a file of the root.

    Raises LabelFileError or UsageError where more than one reading is possible.
    """
    asked = [column for column in (path, *(labels or ()), split) if column is not None]
    if table.format == "jsonl":
        if header is not None:
            raise UsageError("header", "got a value for JSON Lines, which have no header", "leave it out")
        names = list(first.cells)
        width = None
    else:
        cells = [str(cell).strip() for cell in first.cells]
        width = len(cells)
        if header is None:
            header = any(isinstance(column, str) for column in asked) or _is_header(table, first, cells, is_file)
        names = cells if header else [f"column{i}" for i in range(width)]
        if header:
            _check_header(table, first, names)
    choice = _Choice(table, first, names, bool(header))
    path_column = choice.find(path) if path is not None else choice.usual_path()
    split_column = choice.find(split) if split is not None else choice.usual_split(path_column)
    if labels is None:
        label_columns = [choice.usual_label({path_column, split_column})]
    else:
        label_columns = [choice.find(column) for column in labels]
    used = [path_column, *label_columns, *([] if split_column is None else [split_column])]
    if not label_columns or len(set(used)) < len(used):
        got = ", ".join(escape(choice.name(column)) for column in used)
        raise UsageError("label_columns", f"the columns in use are {got}", "use each column once, and one for labels")
    return Columns(
        path_column,
        tuple((column, choice.name(column)) for column in label_columns),
        split_column,
        tuple(names) if header else None,
        width,
        tuple(choice.name(column) for column in choice.columns if column not in used),
    )


def _is_header(table: LabelTable, first: Record, cells: list[str], is_file: Callable[[str], bool]) -> bool:
    if any(map(is_file, cells)):
        return False
    if any(cell.casefold() in _PATH_WORDS for cell in cells):
        return True
    if any(names_image(cell.encode("utf-8", "surrogateescape")) for cell in cells):
        return False
    problem = f"the first row ({some(cells)}) names no file, and no column that is known to hold paths"
    raise LabelFileError(
        table.place(first.line), problem, f"give {argument('header', True)} or {argument('header', False)}"
    )


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
        return self.names if self.table.format == "jsonl" else range(len(self.names))

    def name(self, column: Column) -> str:
        return column if isinstance(column, str) else self.names[column]

    def find(self, asked: Column) -> Column:
        if isinstance(asked, str) and asked in self.names and (self.header or self.table.format == "jsonl"):
            return asked if self.table.format == "jsonl" else self.names.index(asked)
        if not isinstance(asked, str | bool) and self.table.format != "jsonl" and 0 <= asked < len(self.names):
            return asked
        raise self._error(f"there is no column {asked!r}", "name one of these")

    def usual_path(self) -> Column:
        folded = [name.casefold() for name in self.names]
        for word in _PATH_WORDS if self.header or self.table.format == "jsonl" else ():
            if word in folded:
                return self.columns[folded.index(word)]
        if self.table.format == "jsonl":
            raise self._error("no key is known to hold the path", "give path_column")
        return 0

    def usual_split(self, path: Column) -> Column | None:
        columns = [c for c in self.columns if c != path and self.name(c).casefold() == _SPLIT_WORD]
        return columns[0] if columns else None

    def usual_label(self, taken: set[Column | None]) -> Column:
        rest = [column for column in self.columns if column not in taken]
        known = [column for column in rest if self.name(column).casefold() in _LABEL_WORDS]
        if len(known) == 1 or len(rest) == 1:
            return known[0] if known else rest[0]
        if not rest:
            raise self._error("there is no column beside the path", "give delimiter, format or label_columns")
        raise self._error(f"{len(known) or 'none'} of them is known to be the label", "give label_columns")

    def _error(self, problem: str, remedy: str) -> LabelFileError:
        got = f"got the columns {', '.join(map(escape, self.names))}"
        return LabelFileError(self.table.place(self.first.line), f"{got}: {problem}", remedy)
