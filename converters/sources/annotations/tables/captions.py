"""Captions, several of an image: Flickr8k's and 30k's token files, Kaggle's results.csv, Karpathy's JSON, a table.

1000092795.jpg#0<TAB>Two young guys ...                       token file, .token or .txt
image_name| comment_number| comment                           Kaggle's results.csv
{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}    Karpathy's dataset_flickr30k.json
image,caption                                                 a table with several rows of an image
"""

import csv
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from shardfeed.converters.sources.account import AnnotationCode
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.text import counted, number

_ENDS = (".token", ".txt", ".csv", ".tsv", ".json")
_TABLES = (".csv", ".tsv", ".txt")
_TOKEN = re.compile(r"([^\t]+)#([0-9]+)\t(.*)\Z", re.DOTALL)
_RESULTS = ["image_name", "comment_number", "comment"]
_CAPTION_WORDS = (*WORDS["text"], "comment", "sentence", "description", "raw")
_NUMBER_WORDS = ("caption_number", "comment_number")
_WHOLE_HEAD = 65_536  # bytes: a head of so many may be cut


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """By the first lines of the file, or of the only one in a folder that has such lines."""
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
    """One sample for each image that is named, with all its captions, `image/caption`.

    A table that is named may have other columns, and one row an image. Raises UsageError where no file is of captions,
    LabelFileError for one that is not clear.
    """
    files = _files(look)
    if not files and not look.is_folder and look.path.lower().endswith(_TABLES):
        files = [(next(look.files(), ""), "table")]
    if len(files) != 1:
        problem = "more than one file has captions" if files else "no captions in it, of any form that is known"
        remedy = "name the file" if files else "a table needs a column of images and one called caption or text"
        raise UsageError(look.path, problem, remedy)
    ((file, dialect),) = files
    found = Annotations(look.full(file), look, options, tasks=("captions",))
    found.unnamed = "image files without a caption"
    said = _Captions(found)
    _DIALECTS[dialect][1](found.place, said)
    if not len(found):
        raise LabelFileError(found.place, "no image in it", "see that this is the file with the captions")
    return found.source(described=f"{number(len(found), 'image')}, {number(said.count, 'caption')}")


class _Captions:
    """Adds captions to `found`; the same one of an image again is left out. `count`: how many there are."""

    def __init__(self, found: Annotations) -> None:
        self.found, self.count = found, 0
        self._numbered: dict[tuple[int, str], Any] = {}

    def add(self, image: int, text: Any, place: str, which: str, numbered: str = "") -> None:
        """A caption. `numbered`: which of the image's. Raises LabelFileError where two have one number."""
        before = self._numbered.get((image, numbered)) if numbered else None
        if before is None:
            self._numbered |= {(image, numbered): text} if numbered else {}
            self.found.caption(image, text, which)
            self.count += 1
        elif before != text:
            problem = f"got another caption {escape(numbered)} of '{escape(self.found.key(image))}' than before"
            raise LabelFileError(place, problem, "number them, or leave one of the two out")
        else:
            reason = f"{which}: caption {escape(numbered)} is there already"
            self.found.leave_out(image, AnnotationCode.TWICE, reason)


def _files(look: Look) -> list[tuple[str, str]]:
    """The file, or those right in the folder, that have captions, each with its dialect."""
    names = look.files(_ENDS, depth=1)
    return [(name, dialect) for name in names if (dialect := _dialect(look.head(look.full(name))))]


def _dialect(data: bytes) -> str:
    """Which of _DIALECTS a file is in by its first bytes; "" for none."""
    head = data.decode("utf-8-sig", "replace")
    if head.lstrip().startswith("{"):
        return "karpathy" if all(f'"{word}"' in head for word in ("images", "sentences", "raw")) else ""
    lines = [line for line in head.splitlines() if line.strip()]
    lines = lines[:-1] if len(data) == _WHOLE_HEAD else lines  # the last may be cut
    if lines and _TOKEN.match(lines[0]):
        return "token"
    if lines and [cell.strip().casefold() for cell in lines[0].split("|")] == _RESULTS:
        return "results"
    return "table" if lines and _several_rows(lines) else ""


def _several_rows(lines: list[str]) -> bool:
    """Whether a table has a column of images and one of captions, nothing that may be a label, and rows in which an
    image comes again with another caption.
    """
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


def _table_columns(heads: list[str]) -> tuple[int, int, int | None, int | None] | None:
    """Where image, caption, split and the caption's number are; None without the first two."""
    folded = [head.strip().casefold() for head in heads]

    def first(words: tuple[str, ...]) -> int | None:
        return next((folded.index(word) for word in words if word in folded), None)

    image, caption = first(WORDS["path"]), first(_CAPTION_WORDS)
    if image is None or caption is None:
        return None
    return image, caption, first(("split",)), first(_NUMBER_WORDS)


def _read_token(path: str, said: _Captions) -> None:
    table = LabelTable(path, "text", None, paths_only=True)
    for record in table:
        match = _TOKEN.match(f"{next(iter(record.cells))}\t")  # which a line without a caption has lost
        which = f"{escape(table.name)}:{record.line}"
        if match:
            image = said.found.image(match[1], where=f"line {record.line}")
            said.add(image, match[3], table.place(record.line), which, match[2])
        else:
            reason = f"{which}: expected NAME#NUMBER, a tab, and the caption"
            said.found.leave_out(table.name, AnnotationCode.LINE, reason)


def _read_results(path: str, said: _Captions) -> None:
    table = LabelTable(path, "text", None, paths_only=True)
    for i, record in enumerate(table):
        cells = [cell.strip() for cell in str(next(iter(record.cells))).split("|", 2)]
        which = f"{escape(table.name)}:{record.line}"
        if i and len(cells) == len(_RESULTS) and cells[0] and cells[1].isdecimal():
            image = said.found.image(cells[0], where=f"line {record.line}")
            said.add(image, cells[2], table.place(record.line), which, cells[1])
        elif i:  # the one known file has one such line, whose second delimiter is missing
            reason = f"{which}: got {number(len(cells), 'cell')}, expected image_name| comment_number| comment"
            said.found.leave_out(cells[0] or table.name, AnnotationCode.LINE, reason)


def _read_table(path: str, said: _Captions) -> None:
    options = said.found.options
    table = LabelTable(path, "csv", options.delimiter, options.encoding)
    heads: list[str] = []
    columns = None
    for record in table:
        cells = [str(cell).strip() for cell in record.cells]
        if columns is None:
            heads, columns = cells, _table_columns(cells)
            if columns is None:
                problem = f"got the columns {', '.join(map(escape, heads))}, expected one of images and one of captions"
                raise LabelFileError(table.place(record.line), problem, "call them image and caption")
            if unused := [escape(head) for i, head in enumerate(heads) if i not in columns]:
                said.found.note(counted("columns not used", unused, len(unused)))
            continue
        image, caption, split, numbered = columns
        which = f"{escape(table.name)}:{record.line}"
        if len(cells) != len(heads) or not cells[image]:
            reason = f"{which}: got {number(len(cells), 'cell')}, expected {len(heads)}, and the name of an image"
            said.found.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        found = said.found.image(
            cells[image], where=f"line {record.line}", split=None if split is None else cells[split]
        )
        said.add(found, cells[caption], table.place(record.line), which, "" if numbered is None else cells[numbered])


def _read_karpathy(path: str, said: _Captions) -> None:
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise LabelFileError(place, f"not JSON: {error.msg}", "see that the file is whole") from None
    except (OSError, ValueError, RecursionError) as error:
        raise LabelFileError(path, f"cannot be read as JSON: {escape(str(error))}", "see that it is whole") from None
    images = content.get("images") if isinstance(content, Mapping) else None
    if not isinstance(images, list):
        raise LabelFileError(path, "got no list 'images'", "see that this is a file of Karpathy's form")
    restval = 0
    splits = {isinstance(image.get("split"), str) for image in images if isinstance(image, Mapping)}
    for i, image in enumerate(images):
        where = f"images[{i}]"
        if not isinstance(image, Mapping) or not isinstance(image.get("filename"), str) or not image["filename"]:
            raise LabelFileError(f"{path}, {where}", "got no 'filename'", "correct the entry")
        parts = (image.get("filepath"), image["filename"])
        name = "/".join(part for part in parts if isinstance(part, str) and part)
        split: Any = image.get("split")
        if not isinstance(split, str) and len(splits) > 1:
            problem = f"'{escape(name)}' has no split, and others have one"
            raise LabelFileError(f"{path}, {where}", problem, "say it of all")
        split = {"restval": "train", "": None}.get(split, split) if isinstance(split, str) else None
        restval += image.get("split") == "restval"
        own = image.get("cocoid")
        own = own if type(own) is int and own >= 0 else None
        found = said.found.image(name, where=where, split=split, number=own, once=True)
        sentences = image.get("sentences")
        for n, sentence in enumerate(sentences if isinstance(sentences, list) else []):
            raw = sentence.get("raw") if isinstance(sentence, Mapping) else None
            said.add(found, raw, f"{path}, {where}", f"{where}, sentence {n}")
    if restval:
        said.found.note(f"images of the split 'restval', which are train: {restval}")


# Name -> what the file is called, and what reads it.
_DIALECTS: Mapping[str, tuple[str, Callable[[str, _Captions], None]]] = {
    "token": ("captions of the form NAME#NUMBER", _read_token),
    "results": ("captions of the form image_name| comment_number| comment", _read_results),
    "karpathy": ("Karpathy's captions with splits", _read_karpathy),
    "table": ("a table with several captions of an image", _read_table),
}
