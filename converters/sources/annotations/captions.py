"""Captions, several of an image: Flickr8k's and 30k's token files, Kaggle's results.csv, Karpathy's JSON, a table.

1000092795.jpg#0<TAB>Two young guys ...                       token file, .token or .txt
image_name| comment_number| comment                           Kaggle's results.csv
{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}    Karpathy's dataset_flickr30k.json
image,caption                                                 a table, also JSON Lines or Parquet
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import objects_in, part
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.evidence import column_meaning
from shardfeed.converters.sources.rows.label_table import LabelTable, check_options, is_index
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import ColumnarSource
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
    names = look.files(_ENDS if look.is_folder else _ENDS + _KEYED, depth=1)
    return [(name, dialect) for name in names if (dialect := _dialect(look, look.full(name)))]


def _dialect(look: Look, path: str) -> str:
    """Find the dialect of a file in _DIALECTS; "" for none."""
    head, keyed = look.head(path).decode("utf-8-sig", "replace").lstrip(), path.lower().endswith(_KEYED)
    if head.startswith("{") and not keyed:
        return "karpathy" if all(f'"{word}"' in head for word in ("images", "sentences", "raw")) else ""
    first = head.partition("\n")[0].rstrip("\r")
    if _TOKEN.match(first):
        return "token"
    if [cell.strip().casefold() for cell in first.split("|")] == _RESULTS:
        return "results"
    # Most files are spared the reading.
    named = keyed or any(word in head[:1000].casefold() for word in _CAPTION_WORDS)
    return "table" if named and path.lower().endswith(_TABLES) and _is_table(path, alone=not look.is_folder) else ""


def _is_table(path: str, *, alone: bool) -> bool:
    """Whether a file is a table of images and captions, by the names of its columns, and no more.

    Images have several captions, or one, if the file is named `alone`: a folder may hold classes, too.
    """
    with suppress(ShardfeedError):
        heads, rows = _rows(_table(path, None, None))
        columns = _table_columns(heads)
        if columns is None or sum(not is_index(head) for head in heads) > sum(column is not None for column in columns):
            return False
        image, caption = columns[:2]
        whole = [cells for _, cells in islice(rows, _LOOKED_AT) if len(cells) == len(heads)]
        if len({(row[image], row[caption]) for row in whole}) > len({row[image] for row in whole}):
            return True
        name, counts = heads[caption].casefold(), Counter(row[caption] for row in whole)
        of_imagefolder = path.rpartition("/")[2].startswith("metadata.")
        if not alone or name not in WORDS["text"] or of_imagefolder:
            return False
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


def _read_lines(found: Annotations, parse: Callable[[str], _Caption], first: int = 0) -> None:
    check_options(found.options, found.place, ["text"])
    table = LabelTable(found.place, "text", None, found.options.encoding, paths_only=True)
    _take(found, table, islice(table.texts(), first, None), lambda cells: parse(*cells))


def _read_table(found: Annotations) -> None:
    table = _table(found.place, found.options.delimiter, found.options.encoding)
    check_options(found.options, found.place, [table.format])
    heads, rows = _rows(table)
    if not heads:
        return
    columns = _table_columns(heads)
    if columns is None:
        problem = f"got the columns {', '.join(map(escape, heads))}, expected one image column and one caption column"
        raise LabelFileError(table.place(1), problem, "name them image and caption")
    if unused := [escape(head) or f"column{i + 1}" for i, head in enumerate(heads) if i not in columns]:
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
    check_options(found.options, found.place, [])
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
    "token": ("captions in lines NAME#NUMBER", partial(_read_lines, parse=_token)),
    "results": ("captions in lines image_name| comment_number| comment", partial(_read_lines, parse=_results, first=1)),
    "karpathy": ("Karpathy's captions with splits", _read_karpathy),
    "table": ("a table of captions", _read_table),
}
