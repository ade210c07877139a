"""Roboflow's export for classification: `_classes.csv`, with a column of 0 and 1 for each class, beside the images.

`train/_classes.csv`, `valid/_classes.csv` and `test/_classes.csv`, or one alone: `filename, A, B, ...`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.tables.named_images import NamedImages
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.rows.columns import ClassColumn, Splits
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import is_plain
from shardfeed.text import counted, number, some

NAME = "classes-csv"
_FILE = "_classes.csv"
_MARKS = {"0": False, "0.0": False, "1": True, "1.0": True}


@dataclass(frozen=True)
class _Table:
    """One file: `folder`, with "/" at its end, is what its images are in, relative to the root; "" is the root."""

    path: str
    folder: str
    split: str | None


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """By the name of the file, which no other tool gives, and its header."""
    del options
    tables = _tables(path)
    if not tables:
        return None
    with open(tables[0].path, "rb") as file:
        head = file.readline(4096).decode("utf-8-sig", "replace")
    if head.partition(",")[0].strip().casefold() != "filename":
        return Evidence(NAME, f"{_FILE}", "its first column is not called filename")
    splits = [table.split for table in tables if table.split is not None]
    where = f" of {', '.join(splits)}" if splits else ""
    return Evidence(NAME, f"Roboflow's {_FILE}{where}, {head.count(',')} classes")


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """One sample for each image that a row names, with its classes: a set, or one where every row has exactly one.

    Raises UsageError where there is no such file, LabelFileError for what is not clear in one.
    """
    tables = _tables(path)
    if not tables:
        raise UsageError(path, f"no {_FILE} in it, in train, valid or test", "check the path")
    if options.tasks and "classes" not in options.tasks:
        raise UsageError(path, f"{_FILE} says classes, not {', '.join(sorted(options.tasks))}", "leave the task out")
    inside = os.path.dirname(os.path.abspath(path)) if os.path.isfile(path) else path
    root = options.images if options.images is not None else inside
    listing = list_files(root, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
    places: dict[str, str] = {}
    marks: dict[str, tuple[bool, ...]] = {}
    split_of: dict[str, str] = {}
    doubled: list[str] = []
    names: tuple[str, ...] = ()
    for table in tables:
        names = _read_table(table, names, places, marks, doubled)
        split = table.split or options.split
        split_of |= dict.fromkeys(places.keys() - split_of.keys(), split) if split else {}
    if not marks:
        raise LabelFileError(tables[0].path, "no row but the header", "write one row for each image")
    images = NamedImages(listing, places)
    chosen = images.chosen()
    by_file = {file: name for name, file in images.files.items()}
    rows = np.array([marks[by_file[file]] for file in chosen.tolist()], bool).reshape(len(chosen), len(names))
    single = bool((rows.sum(axis=1) == 1).all())
    numbers = np.nonzero(rows)[1].astype(np.int64)
    ends = None if single else np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int64)
    given = class_list(options.class_names)
    if given is not None and len(given) != len(names):
        raise UsageError(
            "class_names", f"got {len(given)} names for {len(names)} columns", "name each, or leave it out"
        )
    splits = None
    if split_of:
        splits = Splits.of([split_of[by_file[file]] for file in chosen.tolist()])
    notes = [*listing.notes, *images.notes, *images.unnamed(chosen, "a row")]
    if doubled:
        notes.append(counted("rows that say again what an earlier row says", doubled, len(doubled)))
    return AnnotatedSource(
        listing.take(chosen),
        columns=[ClassColumn("image/class", given or names, numbers, ends, tags=not single)],
        splits=splits,
        findings=Findings(images.rejected, notes),
        described=f"{number(len(marks), 'image')}, {'one class' if single else 'a set of classes'} each",
    )


def _tables(path: str) -> Sequence[_Table]:
    """The files that `path` means, sorted: itself, the one in that folder, or those in folders called like splits."""
    if os.path.isfile(path):
        split = usual_split(os.path.basename(os.path.dirname(os.path.abspath(path))))
        return [_Table(path, "", split)] if os.path.basename(path) == _FILE else []
    if os.path.isfile(whole := os.path.join(path, _FILE)):
        return [_Table(whole, "", usual_split(os.path.basename(os.path.abspath(path))))]
    try:
        folders = sorted(name for name in os.listdir(path) if usual_split(name))
    except OSError:
        return []
    found = [_Table(os.path.join(path, name, _FILE), f"{name}/", usual_split(name)) for name in folders]
    return [table for table in found if os.path.isfile(table.path)]


def _read_table(
    table: _Table,
    names: tuple[str, ...],
    places: dict[str, str],
    marks: dict[str, tuple[bool, ...]],
    doubled: list[str],
) -> tuple[str, ...]:
    """Its classes, after those of the tables before it, which must be the same; adds what its rows say.

    `marks`: of each class in the order of `names`, by name of the image. `doubled`: places of rows that are again.
    """
    text = LabelTable(table.path, "csv", ",")
    records = iter(text)
    first = next(records, None)
    if first is None:
        raise LabelFileError(table.path, "no row in it", "write one row for each image")
    path, *heads = [str(cell).strip() for cell in first.cells]
    if path.casefold() != "filename" or not heads:
        problem = f"got the columns {some([path, *heads])}, expected filename and a column for each class"
        raise LabelFileError(text.place(first.line), problem, "see that this is a file of Roboflow's")
    for i, head in enumerate(heads):
        if not is_plain(head) or head in heads[:i]:
            problem = f"got the class '{escape(head)}', expected names that are plain text, each once"
            raise LabelFileError(text.place(first.line), problem, "rename the column")
    names = names or tuple(heads)
    if set(names) != set(heads):
        only = sorted(set(names) ^ set(heads))
        problem = f"its classes differ from those of the file before it: {some(only)} in one alone"
        raise LabelFileError(text.place(first.line), problem, "export all splits together")
    order = [heads.index(name) for name in names]
    for record in records:
        cells = [str(cell).strip() for cell in record.cells]
        place = text.place(record.line)
        if len(cells) != len(heads) + 1 or not cells[0]:
            problem = f"got {len(cells)} cells, expected {len(heads) + 1}, the first the name of an image"
            raise LabelFileError(place, problem, "correct the row")
        said = [_MARKS.get(cell) for cell in cells[1:]]
        if None in said:
            i = said.index(None)
            problem = f"got '{escape(cells[1 + i])}', expected 0 or 1"
            raise LabelFileError(text.place(record.line, heads[i]), problem, "correct it")
        name = table.folder + cells[0]
        row = tuple(bool(said[i]) for i in order)
        if marks.setdefault(name, row) != row:
            before = places[name].rpartition(":")[2]
            problem = f"got other classes for '{escape(cells[0])}' than line {before}"
            raise LabelFileError(place, problem, "leave one of the two rows out")
        if name in places:
            doubled.append(f"line {record.line}")
        places.setdefault(name, place)
    return names
