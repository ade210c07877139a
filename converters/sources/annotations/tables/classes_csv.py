"""Classes of images in tables of known tools: Roboflow's `_classes.csv`, Open Images' labels, Vertex AI's import files.

filename, cat, dog                    Roboflow: a column of 0 and 1 for each class, in train, valid and test, or alone
ImageID,Source,LabelName,Confidence   Open Images: a row for each label of an image
training,gs://bucket/a.jpg,daisy      Vertex AI: no header, one label an image
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.account import AnnotationCode
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.ledger import Names
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, UsageError, escape
from shardfeed.schema import is_plain
from shardfeed.text import number, some

_FILE = "_classes.csv"
_MARKS = {"0": False, "0.0": False, "1": True, "1.0": True}
_OPEN_IMAGES = b"ImageID,Source,LabelName,Confidence"
_USES = {"training": "train", "validation": "validation", "test": "test", "unassigned": None}


@dataclass(frozen=True)
class _Table:
    """One file: `folder`, with "/" at its end, is what its images are in, relative to the root; "" is the root."""

    path: str
    folder: str
    split: str | None


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """By the name of the file, which no other tool gives, and its header; or by the first line."""
    del options
    tables = _tables(look)
    if not tables:
        return Evidence("classes-csv", found) if (found := _by_head(look)) else None
    head = look.head(tables[0].path).partition(b"\n")[0].decode("utf-8-sig", "replace")
    if head.partition(",")[0].strip().casefold() != "filename":
        return Evidence("classes-csv", f"{_FILE}", "its first column is not called filename")
    splits = [table.split for table in tables if table.split is not None]
    where = f" of {', '.join(splits)}" if splits else ""
    return Evidence("classes-csv", f"Roboflow's {_FILE}{where}, {head.count(',')} classes")


def _by_head(look: Look) -> str:
    """Whose file it is, by its first line; "" for any other."""
    if not look.is_file or not look.path.lower().endswith(".csv"):
        return ""
    line = look.head(look.path).partition(b"\n")[0].strip()
    if line.removeprefix(b"\xef\xbb\xbf") == _OPEN_IMAGES:
        return "Open Images' labels of whole images"
    cells = line.decode("utf-8", "replace").split(",")
    vertex = len(cells) == 3 and cells[0].casefold() in _USES and cells[1].startswith("gs://") and cells[2].strip()
    return "an import file of Vertex AI, a label for each image" if vertex else ""


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """One sample for each image that a row names, with its classes: a set, or one where every row has exactly one.

    Raises UsageError where there is no such file, LabelFileError for what is not clear in one.
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
        single = _read_all(found, tables, class_list(options.class_names))
        said = f"{number(len(found), 'image')}, {'one class' if single else 'a set of classes'} each"
        return found.source(described=said)
    return found.source()


def _read_labels(found: Annotations) -> None:
    """Open Images: the labels that are said to be there, of each image."""
    table = LabelTable(found.place, "csv", ",", found.options.encoding)
    labels: dict[int, list[str]] = {}
    absent = 0
    for record in list(table)[1:]:
        cells = [str(cell).strip() for cell in record.cells]
        if len(cells) < 4 or not cells[0] or not cells[2] or cells[3] not in ("0", "1"):
            reason = f"{escape(table.name)}:{record.line}: expected ImageID,Source,LabelName,Confidence"
            found.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        of_image = labels.setdefault(found.image(cells[0], where=f"line {record.line}"), [])
        absent += cells[3] == "0"
        of_image += [cells[2]] if cells[3] == "1" else []
    for image, texts in labels.items():
        found.tags(image, texts)
    if absent:
        found.note(f"labels with the confidence 0, which are said not to be there: {absent:,}")


def _read_vertex(found: Annotations) -> None:
    """Vertex AI: a split, a path in a bucket whose last parts are looked for, and a label."""
    table = LabelTable(found.place, "csv", ",", found.options.encoding)
    for record in table:
        cells = [str(cell).strip() for cell in record.cells]
        if len(cells) != 3 or cells[0].casefold() not in _USES or not cells[2]:
            reason = f"{escape(table.name)}:{record.line}: expected the use, gs://BUCKET/PATH and one label"
            found.leave_out(table.name, AnnotationCode.LINE, reason)
            continue
        name = cells[1].removeprefix("gs://").partition("/")[2] if cells[1].startswith("gs://") else cells[1]
        split = _USES[cells[0].casefold()]
        found.label(found.image(name, where=f"line {record.line}", split=split, once=True), cells[2])


def _tables(look: Look) -> Sequence[_Table]:
    """Roboflow's files that a path means: itself, the one in that folder, or those in folders called like splits."""
    own = usual_split(os.path.basename(os.path.abspath(look.folder)))
    if not look.is_folder:
        return [_Table(look.path, "", own)] if os.path.basename(look.path) == _FILE else []
    if os.path.isfile(whole := os.path.join(look.path, _FILE)):
        return [_Table(whole, "", own)]
    folders = [name for name in look.names()[0] if usual_split(name)]
    found = [_Table(os.path.join(look.path, name, _FILE), f"{name}/", usual_split(name)) for name in folders]
    return [table for table in found if os.path.isfile(table.path)]


def _read_all(found: Annotations, tables: Sequence[_Table], given: tuple[str, ...] | None) -> bool:
    """Roboflow's. Whether every image has exactly one class."""
    marks: dict[int, tuple[tuple[bool, ...], str]] = {}  # of each class, by image, and where
    again = Names("rows that say again what an earlier row says")
    names: tuple[str, ...] = ()
    for table in tables:
        names = _read_table(found, table, names, marks, again)
    if not marks:
        raise LabelFileError(found.place, "no row but the header", "write one row for each image")
    if given is not None and len(given) != len(names):
        problem = f"got {len(given)} names for {len(names)} columns"
        raise UsageError("class_names", problem, "name each, or leave it out")
    found.stated = (given or names, ())
    found.settle()
    single = all(sum(row) == 1 for image, (row, _) in marks.items() if found.is_there(image))
    for image, (row, _) in marks.items():
        texts = [name for name, marked in zip(given or names, row, strict=True) if marked]
        if not single:
            found.tags(image, texts)
        elif texts:
            found.label(image, texts[0])
    found.ledger.notes += again.note
    return single


def _read_table(
    found: Annotations,
    table: _Table,
    names: tuple[str, ...],
    marks: dict[int, tuple[tuple[bool, ...], str]],
    again: Names,
) -> tuple[str, ...]:
    """Its classes, after those of the tables before it, which must be the same; adds what its rows say to `marks`."""
    text = LabelTable(table.path, "csv", ",", found.options.encoding)
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
        where = f"{table.folder}{_FILE}:{record.line}"
        image = found.image(cells[0], where=where, folder=table.folder, split=table.split)
        row = tuple(bool(said[i]) for i in order)
        before = marks.setdefault(image, (row, str(record.line)))
        if before[0] != row:
            problem = f"got other classes for '{escape(cells[0])}' than line {before[1]}"
            raise LabelFileError(place, problem, "leave one of the two rows out")
        if before[1] != str(record.line):
            again.add(f"line {record.line}")
    return names
