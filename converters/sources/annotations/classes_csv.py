"""Classes of images in tables of known tools: Roboflow's `_classes.csv`, Open Images' labels, Vertex AI's import files.

filename, cat, dog                    Roboflow: a column of 0 and 1 for each class, in train, valid and test, or alone
ImageID,Source,LabelName,Confidence   Open Images: a row for each label of an image
training,gs://bucket/a.jpg,daisy      Vertex AI: no header, one label an image
"""

import os
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import is_plain
from shardfeed.split_words import usual_split
from shardfeed.text import some

_FILE = "_classes.csv"
_MARKS = {"0": False, "0.0": False, "1": True, "1.0": True}
_OPEN_IMAGES = b"ImageID,Source,LabelName,Confidence"
_USES = {"training": "train", "validation": "validation", "test": "test", "unassigned": None}


class _Table(NamedTuple):
    """One file: its images are in `folder`, with "/" at its end, relative to the root; "" is the root."""

    path: str
    folder: str
    split: str | None


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Recognise a file by its name, which no other tool gives, and its header; or by its first line."""
    del options
    tables = _tables(look)
    if not tables:
        return Evidence("classes-csv", found) if (found := _by_head(look)) else None
    head = look.head(tables[0].path).partition(b"\n")[0].decode("utf-8-sig", "replace")
    if head.partition(",")[0].strip().casefold() != "filename":
        return Evidence("classes-csv", f"{_FILE}", "its first column is not named filename")
    splits = [table.split for table in tables if table.split is not None]
    where = f" of {', '.join(splits)}" if splits else ""
    return Evidence("classes-csv", f"Roboflow's {_FILE}{where}, {head.count(',')} classes")


def _by_head(look: Look) -> str:
    """Recognise a file by its first line and describe it; "" for a file of any other kind."""
    if not look.is_file or not look.path.lower().endswith(".csv"):
        return ""
    line = look.head(look.path).partition(b"\n")[0].strip()
    if line.removeprefix(b"\xef\xbb\xbf") == _OPEN_IMAGES:
        return "Open Images' image labels"
    cells = line.decode("utf-8", "replace").split(",")
    vertex = len(cells) == 3 and cells[0].casefold() in _USES and cells[1].startswith("gs://") and cells[2].strip()
    return "an import file of Vertex AI, one label per image" if vertex else ""


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """One sample for each image named in a row, with its classes: a set, or one class if every row has exactly one.

    Raises UsageError if there is no such file, LabelFileError for an ambiguous one.
    """
    tables = _tables(look)
    kind = "" if tables else _by_head(look)
    if not tables and not kind:
        raise UsageError(look.path, f"no {_FILE} in it, in train, valid or test", "check the path")
    found = Annotations(tables[0].path if tables else look.path, look, options, tasks=("classes",))
    found.unnamed = "image files without a row"
    if kind.startswith("Open Images"):
        _read_labels(found)
    elif kind:
        _read_vertex(found)
    else:
        _read_marks(found, tables)
    return found.source()


def _read_labels(found: Annotations) -> None:
    """Open Images: the labels that are present in each image."""
    table = LabelTable(found.place, "csv", found.options.delimiter or ",", found.options.encoding)
    labels: dict[int, list[str]] = {}
    absent = 0
    for line, cells in islice(table.texts(), 1, None):
        if len(cells) < 4 or not cells[0] or not cells[2] or cells[3] not in ("0", "1"):
            reason = f"{escape(table.name)}:{line}: expected ImageID,Source,LabelName,Confidence"
            found.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        of_image = labels.setdefault(found.image(cells[0], where=f"line {line}"), [])
        absent += cells[3] == "0"
        of_image += [cells[2]] if cells[3] == "1" else []
    found.sets = True
    for image, texts in labels.items():
        found.label(image, *texts)
    if absent:
        found.note(f"labels with confidence 0 (absent classes), left out: {absent:,}")


def _read_vertex(found: Annotations) -> None:
    """Vertex AI: a split, a path in a bucket, matched by its last parts, and a label."""
    found.unassigned = True
    table = LabelTable(found.place, "csv", found.options.delimiter or ",", found.options.encoding)
    for line, cells in table.texts():
        if len(cells) != 3 or cells[0].casefold() not in _USES or not cells[2]:
            reason = f"{escape(table.name)}:{line}: expected the use, gs://BUCKET/PATH and one label"
            found.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        name = cells[1].removeprefix("gs://").partition("/")[2] if cells[1].startswith("gs://") else cells[1]
        found.label(found.image(name, where=f"line {line}", split=_USES[cells[0].casefold()], once=True), cells[2])


def _tables(look: Look) -> Sequence[_Table]:
    """Find Roboflow's files at a path: the file itself, the file in the folder, or the files in its split folders."""
    own = usual_split(os.path.basename(os.path.abspath(look.folder)))
    if not look.is_folder:
        return [_Table(look.path, "", own)] if os.path.basename(look.path) == _FILE else []
    if os.path.isfile(whole := os.path.join(look.path, _FILE)):
        return [_Table(whole, "", own)]
    folders = [name for name in look.names()[0] if usual_split(name)]
    found = [_Table(os.path.join(look.path, name, _FILE), f"{name}/", usual_split(name)) for name in folders]
    return [table for table in found if os.path.isfile(table.path)]


def _read_marks(found: Annotations, tables: Sequence[_Table]) -> None:
    """Roboflow's columns of 0 and 1, the same in all tables."""
    marks: dict[int, tuple[frozenset[str], int]] = {}  # the classes of each image, and their line
    again = Names("duplicate rows")
    names: list[str] = []
    for one in tables:
        table = LabelTable(one.path, "csv", found.options.delimiter, found.options.encoding)
        rows = table.texts()
        heads = _heads(table, next(rows, None))
        names = names or heads
        if set(names) != set(heads):
            only = some(sorted(set(names) ^ set(heads)))
            problem = f"its classes differ from those of the previous file: {only} in only one"
            raise LabelFileError(table.place(1), problem, "export all splits together")
        for line, (path, *cells) in rows:
            if len(cells) != len(heads) or not path:
                problem = f"got {len(cells) + 1} cells, expected {len(heads) + 1}, the first an image name"
                raise LabelFileError(table.place(line), problem, "correct the row")
            for head, cell in zip(heads, cells, strict=True):
                if cell not in _MARKS:
                    problem = f"got '{escape(cell)}', expected 0 or 1"
                    raise LabelFileError(table.place(line, head), problem, "correct it")
            classes = frozenset(head for head, cell in zip(heads, cells, strict=True) if _MARKS[cell])
            image = found.image(path, where=f"{one.folder}{_FILE}:{line}", folder=one.folder, split=one.split)
            before, first = marks.setdefault(image, (classes, line))
            if before != classes:
                problem = f"got other classes for '{escape(path)}' than in line {first}"
                raise LabelFileError(table.place(line), problem, "remove one of the two rows")
            if first != line:
                again.add(f"line {line}")
    if not marks:
        raise LabelFileError(found.place, "no rows after the header", "write one row per image")
    found.stated = (names, ())
    for image, (classes, _) in marks.items():
        found.label(image, *(name for name in names if name in classes))
    found.ledger.notes += again.note


def _heads(table: LabelTable, first: tuple[int, list[str]] | None) -> list[str]:
    """The classes named in the first row, after `filename`. Raises LabelFileError."""
    if first is None:
        raise LabelFileError(table.path, "no rows in it", "write one row per image")
    line, (path, *heads) = first
    if path.casefold() != "filename" or not heads:
        problem = f"got the columns {some([path, *heads])}, expected filename and one column per class"
        raise LabelFileError(table.place(line), problem, "check that this is a file of Roboflow")
    for i, head in enumerate(heads):
        if not is_plain(head) or head in heads[:i]:
            problem = f"got the class '{escape(head)}', expected unique plain-text names"
            raise LabelFileError(table.place(line), problem, "rename the column")
    return heads
