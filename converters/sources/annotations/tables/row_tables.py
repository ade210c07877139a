"""Tables with one row an object: which files they are, and their rows."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.tables.row_dialects import Dialect, dialect_of
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.split_names import usual_split

_ROBOFLOW = "_annotations.csv"  # in the folder of each split


@dataclass(frozen=True)
class Row:
    """One row: `image` is the text that names its image. `problem`: why it cannot be read; "" where it can."""

    line: int
    cells: Sequence[str]
    image: str
    problem: str


@dataclass(frozen=True)
class RowTable:
    """One file: `folder`, which ends in "/", is what its paths are relative to in the root. `split`: of all of it."""

    table: LabelTable
    dialect: Dialect
    folder: str = ""
    split: str | None = None

    def rows(self) -> Iterator[Row]:
        """Its rows, without the header."""
        dialect, records = self.dialect, iter(self.table)
        if dialect.header:
            next(records, None)
        for record in records:
            cells = [str(cell) for cell in record.cells]
            text = cells[dialect.image].strip() if dialect.image < len(cells) else ""
            problem = "" if text else "it names no image"
            if dialect.width is not None and len(cells) != dialect.width:
                problem = f"got {len(cells)} cells, expected {dialect.width}"
            yield Row(record.line, cells, text, problem)


def find_tables(path: str, options: AnnotationOptions) -> list[tuple[LabelTable, Dialect | str]]:
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


def class_descriptions(first: RowTable, options: AnnotationOptions) -> Mapping[str, str]:
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
