"""The rows of a label file, with the line on which each begins: CSV, TSV, JSON Lines, Parquet, `path label` lines.

Lines count from 1, as in editors; a row with line breaks in its cells has its first line.
"""

import codecs
import csv
import io
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeVar, get_args

from shardfeed.converters.sources.files.annotation_files import LABEL_FORMATS
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.parquet_file import (
    class_names_of,
    features_of,
    item_of,
    kind_of_type,
    parquet_file,
    struct_fields,
)
from shardfeed.converters.sources.files.text import MARKS, check_encoding, encoding_of, problem_of
from shardfeed.converters.sources.options import AnnotationOptions, Column, Format, LabelOptions
from shardfeed.errors import LabelFileError, UsageError, argument, escape

_Object = TypeVar("_Object")

_HEAD = 1 << 16  # bytes by which the encoding is known
_LOOKED_AT = 1000  # rows of JSON that determine the columns
ABSENT: Any = object()
_BATCH = 4096  # rows of Parquet in memory at once


def column_text(column: Column, word: str = "column ") -> str:
    """A column in a message: by its name, or by its number as the caller counts, from 0 in Python, typed from 1."""
    if isinstance(column, str):
        return f"{word}'{column}'" if word else column
    return argument("column", python=f"{word}{column}", typed=str(column + 1))


class Record(NamedTuple):
    """One row: `line` from 1 where it begins, and its cells; ABSENT in place of one that a JSON object lacks."""

    line: int
    cells: Sequence[Any]


class LabelTable:
    """Iterate over a label file's records, reading it from the start each time; blank lines are skipped.

    `encoding`: of the text; None: by the byte order mark, else UTF-8. `paths_only`: whether a line of the format "text"
    is a path without a label. `late`: keys of JSON objects that are no columns, because the first objects lack them.
    Raises LabelFileError with the line if it cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: Format | None,
        delimiter: str | None,
        encoding: str | None = None,
        *,
        paths_only: bool = False,
        longest: int = 1 << 20,
    ) -> None:
        self.encoding, self.paths_only, self._longest = encoding, paths_only, longest
        self._codec = "utf-8"
        check_encoding(encoding)
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
        self.late: dict[str, None] = {}
        self.at_first = False  # of lines of text: whether the label is what follows the first blank
        self.counted = self.format == "text" and not paths_only and self._is_counted()
        self.delimiter = delimiter or ("\t" if self.format == "tsv" else self._usual_delimiter())

    def __iter__(self) -> Iterator[Record]:
        if self.keyed:
            return self._keyed()
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

    def placed(self) -> Iterator[tuple[int, int, list[str]]]:
        """Offset and size, in bytes, and cells of each row of CSV, where each is a line in an encoding beyond ASCII."""
        with open(self.path, "rb") as file:
            offset = len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
        for line in self.lines():
            size = len(line.encode(self._codec, "surrogateescape"))
            if line.strip():
                yield offset, size, cells_of(line, self.delimiter)
            offset += size

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
        with parquet_file(self.path, LabelFileError) as file:
            features = features_of(file.schema_arrow.metadata)
        named = {name: class_names_of(item_of(about)) for name, about in features.items()}
        return {name: names for name, names in named.items() if names is not None}

    @property
    def keyed(self) -> bool:
        """Whether rows name their columns themselves, so that there is no header."""
        return self.format in ("jsonl", "parquet")

    @cached_property
    def keys(self) -> list[str]:
        """The columns of a table whose rows name them, by the first rows."""
        return list(dict.fromkeys(key for _, row in islice(self._objects(), _LOOKED_AT) for key in row))

    def _keyed(self) -> Iterator[Record]:
        keys = self.keys
        known = {*keys}
        for line, row in self._objects():
            if not row.keys() <= known:
                self.late |= dict.fromkeys(key for key in row if key not in known)
            yield Record(line, [cell_of(row.get(key, ABSENT)) for key in keys])

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
        if extension in LABEL_FORMATS:
            return LABEL_FORMATS[extension]
        if names_image(os.fsencode(self.path)):
            problem = "is an image, expected a folder of images or a label file"
            raise LabelFileError(self.path, problem, "give its folder")
        problem = f"got the extension '{escape(extension)}', expected one of {', '.join(LABEL_FORMATS)}"
        raise LabelFileError(self.path, problem, f"give {argument('format', 'csv')}, tsv, jsonl or text")

    def _usual_delimiter(self) -> str:
        if self.format == "csv":
            first = next((line for line in self.lines() if line.strip()), "")
            return next((delimiter for delimiter in ",;\t" if len(cells_of(first, delimiter)) > 1), ",")
        return ","

    def lines(self) -> Iterator[str]:
        """Yield the lines as text, ends included. Raises LabelFileError for other content, and for an overlong line."""
        with open(self.path, "rb") as file:
            head = file.read(_HEAD)
            encoding = self._codec = encoding_of(head, self.encoding)
            file.seek(next((len(mark) for mark in MARKS if head.startswith(mark)), 0))
            # Paths need not be UTF-8: their bytes survive as surrogates. Labels are checked later.
            errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
            number = 1
            try:
                text = io.TextIOWrapper(file, encoding, errors, newline="")
                while line := text.readline(self._longest + 1):
                    if len(line) > self._longest:
                        problem = f"more than {self._longest} characters in one line"
                        raise LabelFileError(self.place(number), problem, "check that this is the label file")
                    if "\0" in line:
                        problem = "got a NUL character, expected text"
                        raise LabelFileError(self.place(number), problem, "save it as text, in UTF-8")
                    yield line
                    number += 1
            except UnicodeDecodeError as error:
                problem = f"cannot be decoded as {encoding}: {error.reason}"
                raise LabelFileError(self.place(number), *problem_of(error.object, problem)) from None

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

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """As `named`, of rows that name their columns; JSON's numbers stay text, for the whole column decides."""
        if self.format == "parquet":
            yield from self.named()
            return
        decode = json.JSONDecoder(
            object_pairs_hook=_JsonObject, parse_int=str, parse_float=str, parse_constant=_refuse_constant
        ).decode
        for line, pairs in self._json(decode, _JsonObject):
            found = dict(pairs)
            if len(found) < len(pairs):
                twice = next(key for i, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:i]])
                problem = f"the key '{escape(twice)}' appears twice"
                raise LabelFileError(self.place(line), problem, "leave one out")
            yield line, found

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


def cells_of(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line of CSV; none of a line that cannot be read."""
    line = line.rstrip("\r\n")
    if '"' not in line:
        return line.split(delimiter)
    with suppress(csv.Error):
        return next(csv.reader([line], delimiter=delimiter), [])
    return []


def is_json_lines(path: str) -> bool:
    """Whether each of the first two lines of a file is a JSON object."""
    try:
        with open(path, "rb") as file:
            lines = [file.readline(1 << 20).removeprefix(codecs.BOM_UTF8) for _ in range(2)]
        return all(isinstance(json.loads(line), dict) for line in lines)
    except (OSError, ValueError, RecursionError):
        return False


def is_index(name: str) -> bool:
    """Whether a column of this name, in a header, is the index that pandas writes: the numbers of the rows."""
    return re.fullmatch(r"(?:Unnamed: \d+)?", name.strip()) is not None


def check_options(options: LabelOptions | AnnotationOptions, path: str, formats: Collection[str]) -> None:
    """Raise UsageError for options of tables that no table of a source takes; `formats`: those of its tables."""
    if options.delimiter is not None and {"text", "jsonl", "parquet"}.issuperset(formats):
        problem = f"{argument('delimiter')} is for tables of CSV, and there is none"
        raise UsageError(path, problem, "leave it out")


class _JsonObject(list[tuple[str, Any]]):
    """A JSON object as its (key, value) pairs, doubled keys included."""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def cell_of(value: Any) -> Any:
    """The cell of a value of JSON or Parquet."""
    if isinstance(value, str) or value is ABSENT:
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
    """Each row of a Parquet file by column, without columns of images, but with the paths of Hugging Face's.

    Raises LabelFileError for a file that cannot be read, and one that has no column to read; MissingExtraError without
    pyarrow.
    """
    with parquet_file(path, LabelFileError) as file:
        fields = {field.name: field.type for field in file.schema_arrow}
        paths = sorted(name for name, kind in fields.items() if {"bytes", "path"} <= struct_fields(kind).keys())
        names = [name for name, kind in fields.items() if name not in paths and kind_of_type(kind) != "image"]
        if not names and not paths:
            raise LabelFileError(path, "it has no column of texts or numbers", "give the list of files")
        columns = [*names, *(f"{name}.path" for name in paths)]
        for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
            for row in batch.to_pylist():
                yield {name: value and value["path"] if name in paths else value for name, value in row.items()}
