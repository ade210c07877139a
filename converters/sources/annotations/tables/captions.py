"""Captions, several of an image: Flickr8k's and 30k's token files, Kaggle's results.csv, Karpathy's JSON, a table.

1000092795.jpg#0<TAB>Two young guys ...                       token file, .token or .txt
image_name| comment_number| comment                           Kaggle's results.csv
{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}    Karpathy's dataset_flickr30k.json
image,caption                                                 a table with several rows of an image
"""

import csv
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardfeed.annotations import CAPTION
from shardfeed.converters.sources.account import Account, AnnotationCode, LeftOut
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.tables.named_images import NamedImages
from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.rows.columns import Splits, TextColumn
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.text import counted, number

NAME = "captions"
_HEAD = 65_536  # bytes of a file that tell what it is
_LOOKED_AT = 1000  # names in a folder among which the file is looked for
_ENDS = (".token", ".txt", ".csv", ".tsv", ".json")
_TOKEN = re.compile(r"([^\t]+)#([0-9]+)\t(.*)\Z", re.DOTALL)
_RESULTS = ["image_name", "comment_number", "comment"]
_IMAGE_WORDS = ("image", "image_name", "filename", "file_name", "path", "file", "img", "image_id", "id")
_CAPTION_WORDS = ("caption", "captions", "comment", "text", "sentence", "description", "raw")
_NUMBER_WORDS = ("caption_number", "comment_number")


@dataclass
class _Captions:
    """What a file says, by name of the image: `texts`, each with what the report calls it; `places`, where the image is
    first named; `splits`; `ids`, its own numbers. `left_out`: what is no caption. `notes`: for the report.
    """

    texts: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _numbered: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def name(self, image: str, place: str) -> None:
        """An image that is there, with captions or without."""
        self.places.setdefault(image, place)
        self.texts.setdefault(image, [])

    def add(self, image: str, text: Any, place: str, which: str, numbered: str = "") -> None:
        """A caption of an image. `numbered`: which of its captions; the same one again is left out.

        Raises LabelFileError where two captions of an image have one number.
        """
        self.name(image, place)
        try:
            encoded = text.strip().encode()
        except (AttributeError, UnicodeEncodeError):
            self.leave_out(image, AnnotationCode.LINE, f"{which}: expected a text in UTF-8")
            return
        if not encoded:
            self.leave_out(image, AnnotationCode.LINE, f"{which}: the caption is empty")
            return
        before = self._numbered.get((image, numbered)) if numbered else None
        if before is not None:
            if before != encoded:
                problem = f"got another caption {escape(numbered)} of '{escape(image)}' than before"
                raise LabelFileError(place, problem, "number them, or leave one of the two out")
            self.leave_out(image, AnnotationCode.TWICE, f"{which}: caption {escape(numbered)} is there already")
            return
        if numbered:
            self._numbered[image, numbered] = encoded
        self.texts[image].append((which, encoded))

    def leave_out(self, image: str, code: AnnotationCode, reason: str) -> None:
        """What is read and no caption of a record; `image` may be the name of the file."""
        self.left_out.append(LeftOut(image.encode("utf-8", "surrogateescape"), code.value, reason))

    def in_split(self, image: str, split: str, place: str) -> None:
        """Raises LabelFileError where an image is in two, or a name cannot be one."""
        try:
            found = split_named(split.strip())
        except UsageError as error:
            raise LabelFileError(place, f"the split: {error.problem}", error.remedy) from None
        if self.splits.setdefault(image, found) != found:
            problem = f"got the split '{found}', expected '{self.splits[image]}' as before for '{escape(image)}'"
            raise LabelFileError(place, problem, "correct one of the two")


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """By the first lines of the file, or of the only one in a folder that has such lines."""
    del options
    found = _files(path)
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(escape(os.path.basename(file)) for file, _ in found)
        return Evidence(NAME, f"captions in {names}", "name one of them instead of the folder")
    ((file, dialect),) = found
    return Evidence(NAME, f"{_DIALECTS[dialect].called} in {escape(os.path.basename(file))}")


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """One sample for each image that is named, with all its captions, `image/caption`.

    A table that is named may have other columns, and one row an image. Raises UsageError where no file is of captions,
    LabelFileError for one that is not clear.
    """
    found = _files(path)
    if not found and os.path.isfile(path) and path.lower().endswith((".csv", ".tsv", ".txt")):
        found = [(path, "table")]
    if len(found) != 1:
        problem = "more than one file has captions" if found else "no captions in it, of any form that is known"
        remedy = "name the file" if found else "a table needs a column of images and one called caption or text"
        raise UsageError(path, problem, remedy)
    if options.tasks and "captions" not in options.tasks:
        raise UsageError(path, f"it has captions, not {', '.join(sorted(options.tasks))}", "leave the task out")
    ((file, dialect),) = found
    said = _Captions()
    _DIALECTS[dialect].read(file, said)
    if not said.places:
        raise LabelFileError(file, "no image in it", "see that this is the file with the captions")
    root = options.images if options.images is not None else os.path.dirname(os.path.abspath(file))
    listing = list_files(root, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
    images = NamedImages(listing, said.places)
    for name in images.skipped:
        for which, _ in said.texts[name]:
            said.leave_out(name, AnnotationCode.IMAGE, f"{which}: its image was left out")
    chosen = images.chosen()
    by_file: dict[int, list[str]] = {}
    for name, number_of in images.files.items():
        by_file.setdefault(number_of, []).append(name)
    names = [by_file[number_of] for number_of in chosen.tolist()]
    account = Account(read=len(said.left_out), left_out=tuple(said.left_out)) if said.left_out else None
    notes = [*listing.notes, *images.notes, *said.notes, *images.unnamed(chosen, "a caption")]
    texts = [[text for name in of_file for _, text in said.texts[name]] for of_file in names]
    return AnnotatedSource(
        listing.take(chosen),
        columns=[TextColumn.of_lists(CAPTION, texts)],
        splits=_splits(names, said, options.split),
        findings=Findings(images.rejected, notes, account=account),
        numbers=_numbers(names, said),
        described=f"{number(len(said.places), 'image')}, {number(sum(map(len, said.texts.values())), 'caption')}",
    )


def _splits(names: list[list[str]], said: _Captions, split: str | None) -> Splits | None:
    """The split of each image; None where nothing says it. Raises LabelFileError where it is said of some."""
    found = [next((said.splits[name] for name in of_file if name in said.splits), split) for of_file in names]
    if None in found:
        if set(found) == {None}:
            return None
        first = names[found.index(None)][0]
        raise LabelFileError(
            said.places[first], f"'{escape(first)}' has no split, and others have one", "say it of all"
        )
    return Splits.of(found)


def _numbers(names: list[list[str]], said: _Captions) -> np.ndarray | None:
    """The own number of each image; None unless all have one, each another."""
    found = [said.ids[name] for of_file in names for name in of_file[:1] if name in said.ids]
    return np.array(found, np.int64) if len(set(found)) == len(names) else None


def _files(path: str) -> list[tuple[str, str]]:
    """The file, or those right in the folder, that have captions, each with its dialect."""
    if os.path.isfile(path):
        files = [path]
    else:
        try:
            inside = sorted(os.listdir(path))[:_LOOKED_AT]
        except OSError:
            return []
        files = [os.path.join(path, name) for name in inside if name.lower().endswith(_ENDS)]
    return [(file, dialect) for file in files if os.path.isfile(file) and (dialect := _dialect(file))]


def _dialect(path: str) -> str:
    """Which of _DIALECTS a file is in by its first lines; "" for none."""
    if not path.lower().endswith(_ENDS):
        return ""
    try:
        with open(path, "rb") as file:
            data = file.read(_HEAD)
    except OSError:
        return ""
    head = data.decode("utf-8-sig", "replace")
    if head.lstrip().startswith("{"):
        return "karpathy" if all(f'"{word}"' in head for word in ("images", "sentences", "raw")) else ""
    lines = [line for line in head.splitlines() if line.strip()]
    lines = lines[:-1] if len(data) == _HEAD else lines  # the last may be cut
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

    image, caption = first(_IMAGE_WORDS), first(_CAPTION_WORDS)
    if image is None or caption is None:
        return None
    return image, caption, first(("split",)), first(_NUMBER_WORDS)


def _read_token(path: str, said: _Captions) -> None:
    table = LabelTable(path, "text", None, paths_only=True)
    for record in table:
        line, (text,) = record.line, record.cells
        match = _TOKEN.match(str(text))
        which = f"{escape(table.name)}:{line}"
        if match:
            said.add(match[1], match[3], table.place(line), which, match[2])
        else:
            said.leave_out(table.name, AnnotationCode.LINE, f"{which}: expected NAME#NUMBER, a tab, and the caption")


def _read_results(path: str, said: _Captions) -> None:
    table = LabelTable(path, "text", None, paths_only=True)
    for i, record in enumerate(table):
        cells = [cell.strip() for cell in str(next(iter(record.cells))).split("|", 2)]
        which = f"{escape(table.name)}:{record.line}"
        if i and len(cells) == len(_RESULTS) and cells[0] and cells[1].isdecimal():
            said.add(cells[0], cells[2], table.place(record.line), which, cells[1])
        elif i:  # the one known file has one such line, whose second delimiter is missing
            image = cells[0] or table.name
            reason = f"{which}: got {number(len(cells), 'cell')}, expected image_name| comment_number| comment"
            said.leave_out(image, AnnotationCode.LINE, reason)


def _read_table(path: str, said: _Captions) -> None:
    table = LabelTable(path, "csv", None)
    heads: list[str] = []
    columns = None
    for record in table:
        cells = [str(cell).strip() for cell in record.cells]
        if columns is None:
            heads, columns = cells, _table_columns(cells)
            unused = [escape(head) for i, head in enumerate(heads) if i not in (columns or ())]
            said.notes += [counted("columns not used", unused, len(unused))] if unused else []
            if columns is None:
                problem = f"got the columns {', '.join(map(escape, heads))}, expected one of images and one of captions"
                raise LabelFileError(table.place(record.line), problem, "call them image and caption")
            continue
        image, caption, split, numbered = columns
        which = f"{escape(table.name)}:{record.line}"
        if len(cells) != len(heads) or not cells[image]:
            reason = f"{which}: got {number(len(cells), 'cell')}, expected {len(heads)}, and the name of an image"
            said.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        place = table.place(record.line)
        said.add(cells[image], cells[caption], place, which, "" if numbered is None else cells[numbered])
        if split is not None:
            said.in_split(cells[image], cells[split], place)


def _read_karpathy(path: str, said: _Captions) -> None:
    name = escape(os.path.basename(path))
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
    for i, image in enumerate(images):
        place = f"{path}: images[{i}]"
        if not isinstance(image, Mapping) or not isinstance(image.get("filename"), str) or not image["filename"]:
            raise LabelFileError(place, "got no 'filename'", "correct the entry")
        file_name = "/".join(
            part for part in (image.get("filepath"), image["filename"]) if isinstance(part, str) and part
        )
        if file_name in said.places:
            raise LabelFileError(place, f"the image '{escape(file_name)}' is there already", "leave one of them out")
        said.name(file_name, place)
        sentences = image.get("sentences")
        for n, sentence in enumerate(sentences if isinstance(sentences, list) else []):
            raw = sentence.get("raw") if isinstance(sentence, Mapping) else None
            said.add(file_name, raw, place, f"{name}: images[{i}], sentence {n}")
        if isinstance(split := image.get("split"), str):
            restval += split == "restval"
            said.in_split(file_name, "train" if split == "restval" else split, place)
        if type(own := image.get("cocoid")) is int and own >= 0:
            said.ids[file_name] = own
    if restval:
        said.notes.append(f"images of the split 'restval', which are train: {restval}")


@dataclass(frozen=True)
class _Dialect:
    called: str
    read: Callable[[str, _Captions], None]


_DIALECTS = {
    "token": _Dialect("captions of the form NAME#NUMBER", _read_token),
    "results": _Dialect("captions of the form image_name| comment_number| comment", _read_results),
    "karpathy": _Dialect("Karpathy's captions with splits", _read_karpathy),
    "table": _Dialect("a table with several captions of an image", _read_table),
}
