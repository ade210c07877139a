"""The rows of a label file, with the line and column of every cell: CSV, TSV, JSON Lines, or `path label` lines.

Lines and columns count from 1, as editors do. A column is a character's place in its line, not a cell's number; a
byte order mark is no character. A cell that begins after an embedded line break has the line on which it begins.
"""

import codecs
import csv
import io
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shardfeed.converters.sources.labels.cell_starts import (
    JsonObject,
    csv_starts,
    csv_stray,
    json_decoder,
    json_starts,
    text_starts,
)
from shardfeed.errors import LabelFileError, UsageError, escape

Format = Literal["csv", "tsv", "jsonl", "text"]
Column = int | str  # a cell's number from 0, or a key of a JSON object
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
}
# UTF-32's little-endian mark begins with UTF-16's.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MAX_LINE = 1 << 20  # characters; a longer line is no label but another kind of file, not to be read into memory
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Record:
    """One row: `line` from 1 where it begins, its cells by column, and its `text` with line ends."""

    line: int
    cells: Sequence[str] | Mapping[str, Cell]
    text: str


class LabelTable:
    """A label file's records, read anew at each iteration; blank lines are passed over.

    Raises LabelFileError with line and column for what cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], format: Format | None, delimiter: str | None) -> None:
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
        if self.format not in ("csv", "tsv", "jsonl", "text"):
            raise UsageError("format", f"got {format!r}, expected 'csv', 'tsv', 'jsonl' or 'text'")
        if delimiter is not None and (self.format not in ("csv", "tsv") or len(delimiter) != 1 or delimiter in '"\r\n'):
            raise UsageError("delimiter", f"got {delimiter!r}, expected one character that separates CSV cells")
        self.delimiter = delimiter or ("\t" if self.format == "tsv" else self._usual_delimiter())

    def __iter__(self) -> Iterator[Record]:
        if self.format == "jsonl":
            return self._objects()
        return self._pairs() if self.format == "text" else self._rows()

    def cell(self, record: Record, column: Column) -> Cell:
        """The cell of `record` in `column`. Raises LabelFileError for a key that a JSON object lacks."""
        if isinstance(record.cells, Mapping):
            if column not in record.cells:
                place = f"{self.path}:{record.line}:1"
                raise LabelFileError(place, f"the object has no key '{escape(column)}'", "add it, or leave the row out")
            return record.cells[str(column)]
        return record.cells[int(column)]

    def place(self, record: Record, column: Column) -> str:
        """`file:line:column` of a cell, or, where the record has no such cell, of the record's end."""
        starts = self._starts(record.text)
        if isinstance(starts, dict):
            offset = starts.get(str(column), 0)
        else:
            number = column if isinstance(column, int) else 0
            offset = starts[number] if number < len(starts) else len(record.text.rstrip("\r\n"))
        return self._at(record, offset)

    def places(self, lines: Iterable[int], column: Column) -> dict[int, str]:
        """The place of the cell in `column` for each record that begins on one of `lines`; reads the file again."""
        wanted = set(lines)
        records = self if wanted else ()
        return {record.line: self.place(record, column) for record in records if record.line in wanted}

    def _at(self, record: Record, offset: int) -> str:
        ends = [end.end() for end in _LINE_END.finditer(record.text, 0, offset)]
        return f"{self.path}:{record.line + len(ends)}:{offset - (ends[-1] if ends else 0) + 1}"

    def _starts(self, text: str) -> Sequence[int] | dict[str, int]:
        if self.format == "jsonl":
            return json_starts(text)
        return text_starts(text) if self.format == "text" else csv_starts(text, self.delimiter)

    def _usual_format(self, delimiter: str | None) -> Format:
        if delimiter is not None:
            return "csv"
        extension = os.path.splitext(self.path)[1].lower()
        if extension in _FORMATS:
            return _FORMATS[extension]
        problem = f"got the extension '{escape(extension)}', expected one of {', '.join(_FORMATS)}"
        raise LabelFileError(self.path, problem, "give format='csv', 'tsv', 'jsonl' or 'text'")

    def _usual_delimiter(self) -> str:
        if self.format == "csv":
            first = next((line for line in self._lines() if line.strip()), "")
            for delimiter in ",;\t":
                if len(csv_starts(first, delimiter)) > 1:
                    return delimiter
        return ","

    def _lines(self) -> Iterator[str]:
        with open(self.path, "rb") as file:
            head = file.read(4)
            encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
            file.seek(0)
            # Paths need not be UTF-8: their bytes survive as surrogates. Labels are checked later.
            errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
            number = 1
            try:
                text = io.TextIOWrapper(file, encoding, errors, newline="")
                while line := text.readline(_MAX_LINE + 1):
                    if len(line) > _MAX_LINE:
                        problem = f"more than {_MAX_LINE} characters in one line"
                        raise LabelFileError(f"{self.path}:{number}:1", problem, "see that this is the label file")
                    if "\0" in line:
                        place = f"{self.path}:{number}:{line.index(chr(0)) + 1}"
                        raise LabelFileError(place, "got a NUL character, expected text", "save the file as UTF-8")
                    yield line
                    number += 1
            except UnicodeDecodeError as error:
                place = f"{self.path}:{number}:1"
                problem = f"cannot be decoded as {encoding}: {error.reason}"
                raise LabelFileError(place, problem, "save the file as UTF-8") from None

    def _rows(self) -> Iterator[Record]:
        taken: list[str] = []

        def lines() -> Iterator[str]:
            for line in self._lines():
                taken.append(line)
                yield line

        reader = csv.reader(lines(), delimiter=self.delimiter, strict=True)
        number = 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                record = Record(number, [], "".join(taken))
                stray = csv_stray(record.text, self.delimiter)
                last = csv_starts(record.text, self.delimiter)[-1]
                problem = f"cannot be read as CSV: {escape(error)}"
                if stray is None and record.text.startswith('"', last):
                    problem = "the quote that opens here is not closed"
                remedy = 'quote the whole cell, and write a quote inside it twice ("")'
                place = self._at(record, last if stray is None else stray)
                raise LabelFileError(place, problem, remedy) from None
            if cells is None:
                return
            if any(cell.strip() for cell in cells):
                yield Record(number, cells, taken[0] if len(taken) == 1 else "".join(taken))
            number += len(taken)
            taken.clear()

    def _pairs(self) -> Iterator[Record]:
        for number, line in enumerate(self._lines(), 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            starts = text_starts(text)
            if len(starts) < 2:
                remedy = "write 'path label', or give format='csv' where cells are separated by commas"
                raise LabelFileError(f"{self.path}:{number}:1", "no blank between path and label", remedy)
            yield Record(number, [text[: starts[1]].rstrip(" \t"), text[starts[1] :].rstrip(" \t")], line)

    def _objects(self) -> Iterator[Record]:
        decode = json_decoder().decode
        for number, line in enumerate(self._lines(), 1):
            if not line.strip():
                continue
            place = f"{self.path}:{number}"
            try:
                found = decode(line)
            except json.JSONDecodeError as error:
                remedy = "write one JSON object on each line"
                raise LabelFileError(f"{place}:{error.pos + 1}", f"not JSON: {escape(error.msg)}", remedy) from None
            except (ValueError, RecursionError) as error:
                problem = f"not JSON: {str(error) if isinstance(error, ValueError) else 'nested too deep'}"
                raise LabelFileError(f"{place}:1", problem, "write plain numbers, texts and lists") from None
            if not isinstance(found, JsonObject):
                problem = "got no JSON object, expected one on each line"
                raise LabelFileError(f"{place}:1", problem, 'write {"path": ..., "label": ...}')
            cells = {key: _cell(value) for key, value in found}
            if len(cells) < len(found):
                twice = next(key for i, (key, _) in enumerate(found) if key in [k for k, _ in found[:i]])
                raise LabelFileError(f"{place}:1", f"the key '{escape(twice)}' is there twice", "leave one out")
            yield Record(number, cells, line)


def _cell(value: Any) -> Cell:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list) and not isinstance(value, JsonObject):
        texts = [text for text in map(_cell, value) if isinstance(text, str)]
        return tuple(texts) if len(texts) == len(value) else None
    return None
