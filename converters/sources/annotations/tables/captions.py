"""Captions, several of an image: Flickr8k's and 30k's token files, Kaggle's results.csv, Karpathy's JSON, a table.

1000092795.jpg#0<TAB>Two young guys ...                       token file, .token or .txt
image_name| comment_number| comment                           Kaggle's results.csv
{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}    Karpathy's dataset_flickr30k.json
image,caption                                                 a table, also JSON Lines or Parquet
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from shardfeed.converters.sources.annotations.tools.documents import load, objects_in, part
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import HEAD, Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.evidence import column_meaning
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import LabelFileError, ShardfeedError, UsageError, escape
from shardfeed.text import counted, number

_ENDS = (".token", ".txt", ".csv", ".tsv", ".json")
_KEYED = (".jsonl", ".ndjson", ".parquet")  # rows name their columns
_TABLES = (".csv", ".tsv", ".txt", *_KEYED)
_LOOKED_AT = 1000  # rows that show whether the values are captions
_TOKEN = re.compile(r"([^\t]+)#([0-9]+)\t(.*)\Z", re.DOTALL)
_RESULTS = ["image_name", "comment_number", "comment"]
_CAPTION_WORDS = (*WORDS["text"], "comment", "description", "raw")
_NUMBER_WORDS = ("caption_number", "comment_number")
_Caption = tuple[str, str, str, str | None]  # image, text, which of the image's it is ("": unknown), split


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Recognise the first lines of the file, or of the only file in a folder that has such lines."""
    del options
    found = _files(look)
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(escape(file) for file, _ in found)
        return Evidence("captions", f"captions in {names}", "name one of them instead of the folder")
    ((file, dialect),) = found
    return Evidence("captions", f"{_DIALECTS[dialect][0]} in {escape(file)}")


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """One sample for each named image, with all its captions, `image/caption`.

    A table named by the user may have other columns, and one row per image. Raises UsageError if no file has captions,
    LabelFileError for an ambiguous file.
    """
    files = _files(look)
    if not files and not look.is_folder and look.path.lower().endswith(_TABLES):
        files = [(next(look.files(), ""), "table")]
    if len(files) != 1:
        problem = "more than one file has captions" if files else "no captions in a known format"
        remedy = "name the file" if files else "a table needs an image column and one named caption or text"
        raise UsageError(look.path, problem, remedy)
    ((file, dialect),) = files
    found = Annotations(look.full(file), look, options, tasks=("captions",))
    found.unnamed = "image files without a caption"
    _DIALECTS[dialect][1](found)
    if not len(found):
        raise LabelFileError(found.place, "no image in it", "check that this is the file with the captions")
    return found.source()


def _files(look: Look) -> list[tuple[str, str]]:
    """Find the files with captions, the path itself or directly in the folder, each with its dialect."""
    names = list(look.files(_ENDS if look.is_folder else _ENDS + _KEYED, depth=1))
    found = [(name, dialect) for name in names if (dialect := _dialect(look.head(look.full(name))))]
    if found or look.is_folder or not names or not _one_for_each(look.full(names[0])):
        return found
    return [(names[0], "table")]  # with one caption an image, only where it is named: a folder may hold classes, too


def _dialect(data: bytes) -> str:
    """Find the dialect of a file in _DIALECTS by its first bytes; "" for none."""
    head = data.decode("utf-8-sig", "replace")
    if head.lstrip().startswith("{"):
        return "karpathy" if all(f'"{word}"' in head for word in ("images", "sentences", "raw")) else ""
    lines = [line for line in head.splitlines() if line.strip()]
    lines = lines[:-1] if len(data) == HEAD else lines  # the last may be cut
    if lines and _TOKEN.match(lines[0]):
        return "token"
    if lines and [cell.strip().casefold() for cell in lines[0].split("|")] == _RESULTS:
        return "results"
    return "table" if lines and _several_rows(lines) else ""


def _several_rows(lines: list[str]) -> bool:
    """Whether a table has a column of images, one of captions and none of labels, and two captions of one image."""
    delimiter = max(",;\t", key=lines[0].count)
    try:
        heads, *rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return False
    columns = _table_columns(heads)
    if columns is None or len(heads) > sum(column is not None for column in columns):
        return False
    image, caption = columns[:2]
    first: dict[str, str] = {}
    whole = [row for row in rows if len(row) == len(heads)]
    return any(first.setdefault(row[image], row[caption]) != row[caption] for row in whole)


def _one_for_each(path: str) -> bool:
    """Whether a file is a table of images and captions, by the names of its columns and by its values, and no more."""
    if path.rpartition("/")[2].startswith("metadata.") or not path.lower().endswith(_TABLES):  # an imagefolder's
        return False
    with suppress(ShardfeedError):
        table = _table(path, None, None)
        heads, rows = _rows(table)
        columns = _table_columns(heads)
        name = "" if columns is None else heads[columns[1]].casefold()
        if columns is None or len(heads) > sum(column is not None for column in columns) or name not in WORDS["text"]:
            return False
        counts = Counter(cells[columns[1]] for _, cells in islice(rows, _LOOKED_AT) if len(cells) == len(heads))
        phrases = sum(len(text.split()) > 1 for text in counts)
        unlike = column_meaning(name, counts).kind not in ("text", "identifiers", "classes")
        return not unlike and (2 * phrases >= len(counts) > 0 or 2 * len(counts) > sum(counts.values()))
    return False


def _table(path: str, delimiter: str | None, encoding: str | None) -> LabelTable:
    """The table at a path: JSON Lines and Parquet by their names, else CSV."""
    keyed = path.lower().endswith(_KEYED)
    return LabelTable(path, None if keyed else "csv", None if keyed else delimiter, encoding)


def _rows(table: LabelTable) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and line and cells of each row; where rows have lists of captions, a row for each."""
    if not table.keyed:
        rows = table.texts()
        return next(rows, (0, []))[1], rows
    heads = list(dict.fromkeys(key for _, row in islice(table.named(), _LOOKED_AT) for key in row))

    def texts() -> Iterator[tuple[int, list[str]]]:
        for line, row in table.named():
            cells = [row.get(head) for head in heads]
            for i in range(max([1, *(len(cell) for cell in cells if isinstance(cell, list))])):
                parts = [cell[i] if isinstance(cell, list) and i < len(cell) else cell for cell in cells]
                yield line, ["" if part is None or isinstance(part, list) else str(part).strip() for part in parts]

    return heads, texts()


def _table_columns(heads: list[str]) -> tuple[int, int, int | None, int | None] | None:
    """Find the columns of image, caption, split and the caption's number; None without the first two."""
    folded = [head.strip().casefold() for head in heads]

    def first(words: tuple[str, ...]) -> int | None:
        return next((folded.index(word) for word in words if word in folded), None)

    image, caption = first(WORDS["path"]), first(_CAPTION_WORDS)
    if image is None or caption is None:
        return None
    return image, caption, first(("split",)), first(_NUMBER_WORDS)


class _BadLine(Exception):
    """Reason why a line has no caption, and its image if the line names one."""


def _token(text: str) -> _Caption:
    if not (match := _TOKEN.match(f"{text}\t")):  # which a line without a caption has lost
        raise _BadLine("expected NAME#NUMBER, a tab, and the caption", "")
    return match[1], match[3].strip(), match[2], None


def _results(text: str) -> _Caption:
    cells = [cell.strip() for cell in text.split("|", 2)]
    if len(cells) != len(_RESULTS) or not cells[0] or not cells[1].isdecimal():
        # the known file of this kind has one line without the second delimiter
        got = f"got {number(len(cells), 'cell')}"
        raise _BadLine(f"{got}, expected image_name| comment_number| comment", cells[0])
    return cells[0], cells[2], cells[1], None


def _read_token(found: Annotations) -> None:
    table = LabelTable(found.place, "text", None, paths_only=True)
    _take(found, table, table.texts(), lambda cells: _token(*cells))


def _read_results(found: Annotations) -> None:
    table = LabelTable(found.place, "text", None, paths_only=True)
    _take(found, table, islice(table.texts(), 1, None), lambda cells: _results(*cells))


def _read_table(found: Annotations) -> None:
    table = _table(found.place, found.options.delimiter, found.options.encoding)
    heads, rows = _rows(table)
    if not heads:
        return
    columns = _table_columns(heads)
    if columns is None:
        problem = f"got the columns {', '.join(map(escape, heads))}, expected one image column and one caption column"
        raise LabelFileError(table.place(1), problem, "name them image and caption")
    if unused := [escape(head) for i, head in enumerate(heads) if i not in columns]:
        found.note(counted("unused columns", unused, len(unused)))
    image, caption, split, numbered = columns

    def parse(cells: Sequence[str]) -> _Caption:
        if len(cells) != len(heads) or not cells[image]:
            raise _BadLine(f"got {number(len(cells), 'cell')}, expected {len(heads)}, with an image name", "")
        caption_number = "" if numbered is None else cells[numbered]
        return cells[image], cells[caption], caption_number, None if split is None else cells[split]

    _take(found, table, rows, parse)


def _take(
    found: Annotations,
    table: LabelTable,
    rows: Iterable[tuple[int, list[str]]],
    parse: Callable[[Sequence[str]], _Caption],
) -> None:
    """Read captions line by line, without duplicates. Raises LabelFileError if two captions have the same number."""
    before: dict[tuple[int, str], str] = {}
    for line, cells in rows:
        place = f"{escape(table.name)}:{line}"
        try:
            name, text, numbered, split = parse(cells)
        except _BadLine as error:
            problem, name = error.args
            found.leave_out(name or table.name, AnnotationCode.LINE, f"{place}: {problem}")
            continue
        image = found.image(name, where=f"line {line}", split=split)
        if not numbered or (image, numbered) not in before:
            found.caption(image, text, place)
            before[image, numbered] = text
        elif before[image, numbered] != text:
            problem = f"got two different captions {escape(numbered)} of '{escape(found.key(image))}'"
            raise LabelFileError(table.place(line), problem, "renumber them, or leave one out")
        else:
            found.leave_out(image, AnnotationCode.TWICE, f"{place}: caption {escape(numbered)} appears twice")


def _read_karpathy(found: Annotations) -> None:
    images = part(load(found.place), "images", list, found.place)
    restval = 0
    splits = {isinstance(image.get("split"), str) for image in images if isinstance(image, Mapping)}
    for i, image in enumerate(images):
        where = f"images[{i}]"
        place = f"{found.place}, {where}"
        parts = (image.get("filepath") if isinstance(image, dict) else None, part(image, "filename", str, place))
        name = "/".join(part for part in parts if isinstance(part, str) and part)
        split: Any = image.get("split")
        if not isinstance(split, str) and len(splits) > 1:
            raise LabelFileError(place, f"'{escape(name)}' has no split, but others have one", "add it to all")
        restval += split == "restval"
        split = {"restval": "train", "": None}.get(split, split) if isinstance(split, str) else None
        taken = found.image(name, where=where, split=split, number=image.get("cocoid"), once=True)
        for n, sentence in objects_in(found, taken, image.get("sentences")):
            found.caption(taken, sentence.get("raw"), f"{where}, sentence {n}")
    if restval:
        found.note(f"images of the split 'restval', added to train: {restval}")


# Name -> the format's name for messages, and its reader.
_DIALECTS: Mapping[str, tuple[str, Callable[[Annotations], None]]] = {
    "token": ("captions in lines NAME#NUMBER", _read_token),
    "results": ("captions in lines image_name| comment_number| comment", _read_results),
    "karpathy": ("Karpathy's captions with splits", _read_karpathy),
    "table": ("a table of captions", _read_table),
}
