"""The rows of a list of names: lines of text, a table, JSON, or arrays of MATLAB or NumPy.

A file has one part, or in JSON and in files of arrays one for each key: `{"train": [...], "test": [...]}`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from shardfeed.converters.sources.reading import MOST_WHOLE, load, read_whole
from shardfeed.converters.sources.rows.label_table import LabelTable, is_json_lines
from shardfeed.errors import LabelFileError, escape, needing_extra
from shardfeed.split_words import usual_split

_SEPARATORS = ("", "\t", ",", ";", " ", "last")  # of lines of text; "last": only the last blank separates
_MOST_COLUMNS = 12
_LOOKED_AT = 100  # rows of a part that show how wide it is
# Columns and keys that say which split a row belongs to, in lower case.
SPLIT_WORDS = frozenset(
    ("split", "splits", "set", "subset", "partition", "fold", "dataset_split", "split_name", "usage", "phase")
)


class ListRow(NamedTuple):
    """A row: its `place` in the file, for messages, its cells, and the key in JSON that it is `under`."""

    place: str
    cells: tuple[str, ...]
    under: str = ""


class ListPart(NamedTuple):
    """Rows of a file. `key`: of JSON or of an array, else "". `header`: names of columns, where the file states them.

    `table`: whether cells are those of a table; else the first one is a line of text, which may have several.
    """

    rows: Sequence[ListRow]
    key: str = ""
    header: tuple[str, ...] = ()
    table: bool = True


class NameView(NamedTuple):
    """The cell of a row that is a name. `separator`: of the cells of a line, see `_SEPARATORS`.

    `below`: whether the name is relative to the key that it is under.
    """

    column: int
    separator: str = ""
    below: bool = False

    def cells(self, row: ListRow) -> Sequence[str]:
        """The cells of a row, as this view separates them."""
        if not self.separator:
            return row.cells
        line = row.cells[0]
        if self.separator == "last":
            return line.rsplit(None, 1)
        cells = line.split() if self.separator == " " else line.split(self.separator)
        return cells if len(cells) > 1 else ()

    def name(self, row: ListRow) -> str:
        """The name in a row; "" if it has none."""
        cells = self.cells(row)
        name = cells[self.column].strip() if self.column < len(cells) else ""
        return f"{row.under}/{name}" if name and self.below else name


def views_of(part: ListPart) -> Iterator[NameView]:
    """Yield the views that the rows of a part may have, the likelier first."""
    first = part.rows[:_LOOKED_AT]
    under = any(row.under for row in first)
    for separator in _SEPARATORS[:1] if part.table else _SEPARATORS:
        width = max((len(NameView(0, separator).cells(row)) for row in first), default=0)
        columns = range(min(width, 1 if separator == "last" else _MOST_COLUMNS))
        yield from (NameView(column, separator, below=True) for column in columns if under)
        yield from (NameView(column, separator) for column in columns)


def parts_of(path: str, encoding: str | None = None, most_rows: int | None = None) -> list[ListPart]:
    """The parts of a list; with `most_rows`, about so many rows of a text file, which is not read further.

    Raises LabelFileError if it cannot be read, MissingExtraError if a package is needed for it.
    """
    end = os.path.splitext(path)[1].lower()
    if end == ".json" and not is_json_lines(path):
        return _of_document(path, load(path))
    if end in _ARRAYS:
        return _of_document(path, _ARRAYS[end](path))
    if end in (".json", ".jsonl", ".ndjson", ".parquet", ".pq"):
        records = LabelTable(path, "parquet" if end in (".parquet", ".pq") else "jsonl", None, encoding).named()
        return [_of_records(path, [(f"{path}:{line}", record) for line, record in islice(records, most_rows)])]
    table = end in (".csv", ".tsv", ".tab")
    form = "text" if not table else "csv" if end == ".csv" else "tsv"
    lines = LabelTable(path, form, None, encoding, paths_only=True).texts()
    rows = [ListRow(f"{path}:{line}", tuple(cells)) for line, cells in islice(lines, most_rows)]
    return [ListPart(rows, table=table)]


def _of_document(path: str, document: Any) -> list[ListPart]:
    """The parts of a document: a list, or a mapping of lists, of names or of records."""
    while isinstance(document, Mapping) and len(document) == 1:
        inner = next(iter(document.values()))
        if not isinstance(inner, Mapping):
            break
        document = inner
    if not isinstance(document, Mapping):
        return [_of_value(path, "", document)]
    if document and all(isinstance(value, str | int | float) for value in document.values()):
        rows = [ListRow(f"{path}, {key}", (str(key), _text(value))) for key, value in document.items()]
        return [ListPart(rows)]
    if columns := _columns(document):
        return [_of_columns(path, columns)]
    return [_of_value(path, str(key), value) for key, value in document.items()]


def _of_value(path: str, key: str, value: Any) -> ListPart:
    """The part of a document under a key."""
    place = f"{path}, {key}" if key else path
    if not isinstance(value, Mapping):
        return _of_entries(place, [(key, value if isinstance(value, list) else [value])], key)
    if columns := _columns(value):
        return _of_columns(place, columns)._replace(key=key)
    return _of_entries(place, [(str(under), inner) for under, inner in value.items() if isinstance(inner, list)], key)


def _of_entries(place: str, lists: Sequence[tuple[str, list[Any]]], key: str) -> ListPart:
    """The part of lists of names, or of records; each list has the key that it is under."""
    placed = [
        (f"{place}, {under}, entry {number}" if under != key else f"{place}, entry {number}", under, entry)
        for under, entries in lists
        for number, entry in enumerate(entries)
    ]
    records = [(at, entry) for at, _, entry in placed if isinstance(entry, Mapping)]
    if len(records) == len(placed) and records:
        return _of_records(place, records)._replace(key=key)
    lines = ((at, under, entry) for at, under, entry in placed if not isinstance(entry, Mapping))
    return ListPart([ListRow(at, _cells(entry), under) for at, under, entry in lines], key)


def _cells(entry: Any) -> tuple[str, ...]:
    return tuple(map(_text, entry)) if isinstance(entry, list) else (_text(entry),)


def _of_records(path: str, records: Sequence[tuple[str, Mapping[str, Any]]]) -> ListPart:
    """The part of records with named values; a folder and a name in it, as Karpathy's have, are one more column."""
    header = tuple(dict.fromkeys(key for _, record in records[:_LOOKED_AT] for key in record))
    joined = {"filepath", "filename"} <= {*header}
    rows = []
    for place, record in records:
        cells = tuple(_text(record.get(key)) for key in header)
        whole = (f"{record.get('filepath')}/{record.get('filename')}",) if joined else ()
        rows.append(ListRow(place, (*whole, *cells)))
    return ListPart(rows, header=(*(("path",) if joined else ()), *header))


def _columns(value: Mapping[str, Any]) -> Mapping[str, list[Any]] | None:
    """The columns of a table that is stored by columns: a name and a split of each image; None for another mapping."""
    lists = {str(key): entries for key, entries in value.items() if isinstance(entries, list) and entries}
    length = next((len(entries) for key, entries in lists.items() if key.lower() in SPLIT_WORDS), 0)
    same = {key: entries for key, entries in lists.items() if len(entries) == length}
    return same if length > 1 and len(same) > 1 else None


def _of_columns(place: str, columns: Mapping[str, list[Any]]) -> ListPart:
    rows = [
        ListRow(f"{place}, entry {number}", tuple(map(_text, cells)))
        for number, cells in enumerate(zip(*columns.values(), strict=True))
    ]
    return ListPart(rows, header=tuple(columns))


def _text(value: Any) -> str:
    """A value as a cell; "" for one that is neither text nor number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _mat(path: str) -> dict[str, Any]:
    """The variables of a MATLAB file, as lists and mappings. Raises LabelFileError, MissingExtraError."""
    _check_size(path)
    with needing_extra(path):
        from scipy import io
    try:
        found = io.loadmat(path, simplify_cells=True)
    except Exception as error:  # scipy has its own errors for truncated or damaged files, and for version 7.3
        problem = f"is not an intact .mat file of version 4 to 7: {escape(str(error)[:200])}"
        raise LabelFileError(path, problem, "save it by `save -v7`, or write the names into a text file") from None
    return {name: _plain(value) for name, value in found.items() if not name.startswith("__")}


def _npz(path: str) -> dict[str, Any]:
    """The arrays of a file of NumPy, as lists. Raises LabelFileError."""
    _check_size(path)
    try:
        found = np.load(path, allow_pickle=False)
        arrays = {"": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except Exception as error:
        problem = f"is not a file of names or numbers of NumPy: {escape(str(error)[:200])}"
        raise LabelFileError(path, problem, "write the names into a text file, one on each line") from None
    return {name: _plain(value) for name, value in arrays.items()}


_ARRAYS: Mapping[str, Callable[[str], dict[str, Any]]] = {".mat": _mat, ".npz": _npz, ".npy": _npz}
LIST_ENDS = (".txt", ".lst", ".list", ".csv", ".tsv", ".json", ".jsonl", *_ARRAYS)  # of files that may be lists


def _check_size(path: str) -> None:
    if os.path.getsize(path) > MOST_WHOLE:
        read_whole(path)  # which refuses it


def _plain(value: Any) -> Any:
    """A value of MATLAB or NumPy as lists, mappings, texts and numbers."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist() if value.ndim == 2 and 1 in value.shape else value.tolist()
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


_SHORT = {"tr": "train", "trn": "train", "te": "test", "tst": "test", "va": "validation", "vl": "validation"}
_BESIDE = (
    *("_", "-", " ", "ids", "idx", "id", "inds", "ind", "indices", "index", "list", "set", "split", "names"),
    *("files", "images"),
)


def split_of_key(key: str) -> str | None:
    """The split that a key means: `train`, `val`, also `trnid`, `test_idx`, `tst`, `trainval`; None for another."""
    word = key.casefold()
    while word and (end := next((end for end in _BESIDE if word.endswith(end) and word != end), "")):
        if usual_split(word):
            break
        word = word.removesuffix(end)
    own = word if word in ("trainval", "dev", "eval", "minival", "holdout", "unlabeled", "unlabelled") else None
    return usual_split(word) or _SHORT.get(word) or own
