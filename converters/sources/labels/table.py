"""The rows of a label file, with the line on which each begins: CSV, TSV, JSON Lines, Parquet, `path label` lines.

Lines count from 1, as in editors; a row with line breaks in its cells has its first line.
"""

import codecs
import csv
import io
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NoReturn, TypeVar, get_args

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.rows.hugging_face import class_names_of, features_of, item_of
from shardfeed.errors import LabelFileError, UsageError, argument, escape, needing_extra

Format = Literal["csv", "tsv", "jsonl", "text", "parquet"]
Column = int | str  # a cell's number from 0, or a key of a JSON object
_Object = TypeVar("_Object")
Cell = str | tuple[str, ...] | None  # text, a list of texts (JSON), or None for JSON that is neither

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".lst": "text",
    ".list": "text",
    ".parquet": "parquet",
}
LABEL_ENDS = tuple(_FORMATS)
# UTF-32's little-endian mark begins with UTF-16's.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_AS_UTF8 = f"save the file as UTF-8, or give {argument('encoding', 'latin-1')}, or another encoding"
_BATCH = 4096  # rows of Parquet in memory at once
_MAX_LINE = 1 << 20  # characters; a longer line means that this is not a label file, so it is not read into memory


def column_text(column: Column, word: str = "column ") -> str:
    """A column in a message: by its name, or by its number as the caller counts, from 0 in Python, typed from 1."""
    if isinstance(column, str):
        return f"{word}'{column}'" if word else column
    return argument("column", python=f"{word}{column}", typed=str(column + 1))


@dataclass(frozen=True, slots=True)
class Record:
    """One row: `line` from 1 where it begins, and its cells by column."""

    line: int
    cells: Sequence[str] | Mapping[str, Cell]


class LabelTable:
    """Iterate over a label file's records, reading it from the start each time; blank lines are skipped.

    `encoding`: of the text; None: by the byte order mark, else UTF-8. `paths_only`: whether a line of the format "text"
    is a path without a label. Raises LabelFileError with the line if it cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: Format | None,
        delimiter: str | None,
        encoding: str | None = None,
        *,
        paths_only: bool = False,
    ) -> None:
        self.encoding, self.paths_only = encoding, paths_only
        _check_encoding(encoding)
        self.path = os.fsdecode(path)
        self.name = os.path.basename(self.path)
        try:
            regular = stat.S_ISREG(os.stat(self.path).st_mode)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise LabelFileError(self.path, f"cannot read the label file: {reason}", "check the path") from None
        if not regular:
            raise LabelFileError(self.path, "not a regular file", "give the label file")
        self.format = format or self._usual_format(delimiter)
        if self.format not in get_args(Format):
            raise UsageError("format", f"got {format!r}, expected one of {', '.join(get_args(Format))}")
        if delimiter is not None and (self.format not in ("csv", "tsv") or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise UsageError("delimiter", f"got {delimiter!r}, expected one character that separates CSV cells")
        self.at_first = False  # of lines of text: whether the label is what follows the first blank
        self.counted = self.format == "text" and not paths_only and self._is_counted()
        self.delimiter = delimiter or ("\t" if self.format == "tsv" else self._usual_delimiter())

    def __iter__(self) -> Iterator[Record]:
        if self.format == "parquet":
            rows = enumerate(_parquet_rows(self.path), 1)
            return (Record(i, {name: cell_of(value) for name, value in row.items()}) for i, row in rows)
        if self.format == "jsonl":
            return self._objects()
        return self._pairs() if self.format == "text" else self._rows()

    def texts(self) -> Iterator[tuple[int, list[str]]]:
        """Line and cells of each row that is no JSON, without blanks at their ends."""
        return ((record.line, [str(cell).strip() for cell in record.cells]) for record in self)

    def named(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line and values by column of each row: JSON's values, else texts under the names of the first row."""
        if self.format == "jsonl":
            yield from self._json(json.loads, dict)
            return
        if self.format == "parquet":
            yield from enumerate(_parquet_rows(self.path), 1)
            return
        rows = self.texts()
        _, names = next(rows, (0, []))
        for line, cells in rows:
            self.check_width(line, cells, len(names))
            yield line, dict(zip(names, cells, strict=True))

    def check_width(self, line: int, cells: Collection[Any], width: int) -> None:
        """Check that a row has as many cells as the first; raise LabelFileError otherwise."""
        if len(cells) != width:
            problem = f"got {len(cells)} cells, expected {width} as in the first row"
            raise LabelFileError(self.place(line), problem, "quote cells that contain the delimiter")

    @property
    def class_names(self) -> Mapping[str, tuple[str, ...]]:
        """The class names of columns of Parquet that Hugging Face's `datasets` wrote; empty for others."""
        if self.format != "parquet":
            return {}
        with _parquet(self.path) as file:
            features = features_of(file.schema_arrow.metadata)
        named = {name: class_names_of(item_of(about)) for name, about in features.items()}
        return {name: names for name, names in named.items() if names is not None}

    @property
    def keyed(self) -> bool:
        """Whether rows name their columns themselves, so that there is no header."""
        return self.format in ("jsonl", "parquet")

    def cell(self, record: Record, column: Column, *, optional: bool = False) -> Cell:
        """The cell of `record` in `column`; "" for a key that a JSON object lacks, if it is `optional`.

        Raises LabelFileError if it is not.
        """
        if isinstance(record.cells, Mapping):
            if column not in record.cells and optional:
                return ""
            if column not in record.cells:
                place = self.place(record.line)
                raise LabelFileError(place, f"the object has no key '{escape(column)}'", "add it, or leave the row out")
            return record.cells[str(column)]
        return record.cells[int(column)]

    def place(self, line: int, column: Column | None = None) -> str:
        """`file:line`, with `column` by its name or number: `labels.csv:812, column 'label'`."""
        if column is None:
            return f"{self.path}:{line}"
        return f"{self.path}:{line}, {column_text(column)}"

    def _usual_format(self, delimiter: str | None) -> Format:
        if delimiter is not None:
            return "csv"
        extension = os.path.splitext(self.path)[1].lower()
        if extension == ".json" and is_json_lines(self.path):
            return "jsonl"
        if extension in _FORMATS:
            return _FORMATS[extension]
        if names_image(os.fsencode(self.path)):
            raise LabelFileError(
                self.path, "is an image, expected a folder of images or a label file", "give its folder"
            )
        problem = f"got the extension '{escape(extension)}', expected one of {', '.join(_FORMATS)}"
        raise LabelFileError(self.path, problem, f"give {argument('format', 'csv')}, tsv, jsonl or text")

    def _usual_delimiter(self) -> str:
        if self.format == "csv":
            first = next((line for line in self.lines() if line.strip()), "")
            for delimiter in ",;\t":
                with suppress(csv.Error):  # reported when the rows are read
                    if len(next(csv.reader([first], delimiter=delimiter), [])) > 1:
                        return delimiter
        return ","

    def lines(self) -> Iterator[str]:
        """Yield the lines as text, ends included. Raises LabelFileError for other content, and for an overlong line."""
        with open(self.path, "rb") as file:
            head = file.read(4)
            encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), self.encoding or "utf-8")
            file.seek(0)
            # Paths need not be UTF-8: their bytes survive as surrogates. Labels are checked later.
            errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
            number = 1
            try:
                text = io.TextIOWrapper(file, encoding, errors, newline="")
                while line := text.readline(_MAX_LINE + 1):
                    if len(line) > _MAX_LINE:
                        problem = f"more than {_MAX_LINE} characters in one line"
                        raise LabelFileError(self.place(number), problem, "check that this is the label file")
                    if "\0" in line:
                        problem = "got a NUL character, expected text"
                        raise LabelFileError(self.place(number), problem, _AS_UTF8)
                    yield line
                    number += 1
            except UnicodeDecodeError as error:
                problem = f"cannot be decoded as {encoding}: {error.reason}"
                raise LabelFileError(self.place(number), problem, _AS_UTF8) from None

    def _rows(self) -> Iterator[Record]:
        reader = csv.reader(self.lines(), delimiter=self.delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                remedy = 'quote whole cells, close every quote, and write a quote inside a cell twice ("")'
                raise LabelFileError(self.place(line), f"cannot be read as CSV: {escape(error)}", remedy) from None
            if cells is None:
                return
            if any(cell.strip() for cell in cells):
                yield Record(line, cells)

    def _is_counted(self) -> bool:
        """Whether the first line is a number of rows, and the next names the columns after the path, as in CelebA."""
        try:
            first, names, row = (line.split() for line in islice(self.lines(), 3))
        except (ValueError, LabelFileError):  # not three, or not text, which is reported when the rows are read
            return False
        return len(first) == 1 and first[0].isdecimal() and len(row) == len(names) + 1 > 2

    def _counted_rows(self) -> Iterator[Record]:
        for number, line in enumerate(self.lines(), 1):
            if number > 1 and line.strip():
                yield Record(number, ["image_id", *line.split()] if number == 2 else line.split())

    def _pairs(self) -> Iterator[Record]:
        if self.counted:
            yield from self._counted_rows()
            return
        for number, line in enumerate(self.lines(), 1):
            text = line.rstrip("\r\n").rstrip(" \t")
            if not text.strip():
                continue
            if self.paths_only:
                yield Record(number, [text])
                continue
            if self.at_first:
                yield Record(number, [*text.split(None, 1), ""][:2])
                continue
            start = max(text.rfind(" "), text.rfind("\t")) + 1  # of the label
            path = text[:start].rstrip(" \t")
            if not path:
                csv_ = argument("format", "csv")
                none = argument("unlabelled", python="label_columns=[]")
                remedy = (
                    f"write 'path label', or give {csv_} where cells are separated by commas, {none} for only paths"
                )
                raise LabelFileError(self.place(number), "no space between path and label", remedy)
            yield Record(number, [path, text[start:]])

    def _objects(self) -> Iterator[Record]:
        # Numbers stay text: the whole column decides their dtype.
        decode = json.JSONDecoder(
            object_pairs_hook=_JsonObject, parse_int=str, parse_float=str, parse_constant=_refuse_constant
        ).decode
        for line, found in self._json(decode, _JsonObject):
            cells = {key: cell_of(value) for key, value in found}
            if len(cells) < len(found):
                twice = next(key for i, (key, _) in enumerate(found) if key in [k for k, _ in found[:i]])
                problem = f"the key '{escape(twice)}' appears twice"
                raise LabelFileError(self.place(line), problem, "leave one out")
            yield Record(line, cells)

    def _json(self, decode: Callable[[str], Any], kind: type[_Object]) -> Iterator[tuple[int, _Object]]:
        """Yield line number and object of each line. Raises LabelFileError for a line without one."""
        for number, line in enumerate(self.lines(), 1):
            if not line.strip():
                continue
            place = self.place(number)
            try:
                found = decode(line)
            except json.JSONDecodeError as error:
                problem = f"not JSON: {escape(error.msg)}, at character {error.pos + 1}"
                raise LabelFileError(place, problem, "write one JSON object on each line") from None
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {str(error)[:80] if isinstance(error, ValueError) else 'nested too deep'}"
                raise LabelFileError(place, problem, "write plain numbers, texts and lists") from None
            if not isinstance(found, kind):
                problem = "not a JSON object, expected one on each line"
                raise LabelFileError(place, problem, 'write {"path": ..., "label": ...}')
            yield number, found


def is_json_lines(path: str) -> bool:
    """Whether each of the first two lines of a file is a JSON object."""
    try:
        with open(path, "rb") as file:
            lines = [file.readline(_MAX_LINE).removeprefix(codecs.BOM_UTF8) for _ in range(2)]
        return all(isinstance(json.loads(line), dict) for line in lines)
    except (OSError, ValueError, RecursionError):
        return False


def _check_encoding(encoding: str | None) -> None:
    """Check that Python knows a text encoding of this name; raise UsageError otherwise."""
    if encoding is not None:
        try:
            b"a".decode(encoding)
        except UnicodeError:
            return  # not one of its texts, but known
        except LookupError:
            remedy = "common ones are latin-1, cp1252, utf-16, gbk and shift_jis"
            raise UsageError("encoding", f"got {encoding!r}, expected a text encoding", remedy) from None


class _JsonObject(list[tuple[str, Any]]):
    """A JSON object as its (key, value) pairs, doubled keys included."""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def cell_of(value: Any) -> Cell:
    """The cell of a value of JSON or Parquet."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, int | float):  # of Parquet; JSON's numbers stay text
        return repr(value)
    if isinstance(value, list) and not isinstance(value, _JsonObject):
        texts = [text for text in map(cell_of, value) if isinstance(text, str)]
        return tuple(texts) if len(texts) == len(value) else None
    return None


def _parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Each row of a Parquet file by column, without columns of bytes; of images with null bytes the path.

    Raises LabelFileError for a file that cannot be read, and one that has no column to read; MissingExtraError without
    pyarrow.
    """
    with needing_extra(path):
        import pyarrow as pa

    def is_bytes(kind: Any) -> bool:
        """Whether a column holds bytes, or structs with some."""
        if pa.types.is_struct(kind):
            return any(is_bytes(kind.field(i).type) for i in range(kind.num_fields))
        return any(
            is_it(kind) for is_it in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
        )

    def is_image(kind: Any) -> bool:
        """Whether a column is of Hugging Face's images: structs of bytes and a path."""
        return pa.types.is_struct(kind) and {"bytes", "path"} <= {kind.field(i).name for i in range(kind.num_fields)}

    with _parquet(path) as file:
        try:
            paths = {field.name for field in file.schema_arrow if is_image(field.type)}
            names = [field.name for field in file.schema_arrow if not is_bytes(field.type)]
            names += [f"{name}.path" for name in sorted(paths)]
            if not names:
                raise LabelFileError(path, "it has no column of texts or numbers", "give the list of files")
            for batch in file.iter_batches(_BATCH, columns=names, use_threads=False):
                for row in batch.to_pylist():
                    yield {name: value["path"] if name in paths else value for name, value in row.items()}
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of texts that are not UTF-8, too
            raise _no_parquet(path, error) from None


def _parquet(path: str) -> Any:
    """The file, by pyarrow. Raises LabelFileError for one that cannot be read, MissingExtraError without pyarrow."""
    with needing_extra(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _no_parquet(path, error) from None


def _no_parquet(path: str, error: Exception) -> LabelFileError:
    problem = f"cannot be read as Parquet: {escape(str(error)[:120])}"
    return LabelFileError(path, problem, "copy or download it again")
