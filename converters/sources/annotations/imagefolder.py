"""Hugging Face's imagefolder: metadata.jsonl, .csv or .parquet beside the images, with objects, captions or labels.

{"file_name": "a.png", "objects": {"bbox": [[left, top, width, height], ...], "categories": ["cat", ...]}}
{"file_name": "a.png", "text": "a cat"}
{"file_name": "a.png", "label": "cat"}
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode
from shardfeed.converters.sources.classes import BadLabelError, class_list
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.cells import Cell
from shardfeed.converters.sources.rows.columns import NumberColumn, take
from shardfeed.converters.sources.rows.inference import Distinct, label_column
from shardfeed.converters.sources.rows.label_table import LabelTable, cell_of, check_options
from shardfeed.converters.sources.rows.objects import BadRowError, class_text, objects_of, values_of
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, ShardfeedError, UsageError, argument, escape
from shardfeed.split_words import usual_split
from shardfeed.text import counted, number, some

_NAMES = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_FILE, _OBJECTS, _SPLIT = "file_name", "objects", "split"
_LOOKED_AT = 50  # rows of each table that show its content
_Row = Mapping[str, Any]


def _tables(look: Look, options: AnnotationOptions) -> list[tuple[LabelTable, str]]:
    """Find the metadata files at a path, each with its folder: "", or a path that ends in "/".

    Raises LabelFileError for two in one folder.
    """
    if not look.is_folder:
        places = {"": [name] if (name := os.path.basename(look.path)) in _NAMES else []}
    else:
        splits = [f"{name}/" for name in look.names()[0] if usual_split(name)]
        places = {at: [n for n in _NAMES if os.path.isfile(os.path.join(look.path, at, n))] for at in ("", *splits)}
    found = []
    for folder, names in places.items():
        if len(names) > 1:
            place = os.path.join(look.path, folder, names[1])
            raise LabelFileError(place, f"{names[0]} is also present", "leave one of the two out")
        for name in names:
            delimiter = options.delimiter if name.endswith(".csv") else None
            path = os.path.join(look.folder, folder, name)
            found.append((LabelTable(path, None, delimiter, options.encoding), folder))
    return found


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """A metadata file, or a folder with one in it or in its folders of splits, that has objects, captions or labels."""
    try:
        tables = _tables(look, options)
        first = [[row for _, row in islice(table.named(), _LOOKED_AT)] for table, _ in tables]
    except ShardfeedError:  # PyArrow may be missing
        return None
    rows = [row for of_table in first for row in of_table]
    if not rows:
        return None
    name = tables[0][1] + tables[0][0].name
    if _FILE not in rows[0]:
        several = [key for key in rows[0] if key.endswith((_FILE, "file_names"))]
        found = f"{name} with the column {escape(several[0])}" if several else ""
        return Evidence("imagefolder", found, "no column file_name with one image per row") if several else None
    columns = dict.fromkeys(key for row in rows for key in row)
    has = [_OBJECTS] if any(isinstance(row.get(_OBJECTS), dict | list) for row in rows) else []  # CSV has no lists
    has += [*_called("text", columns), *_called("label", columns)]
    repeated = any(len({str(row.get(_FILE)) for row in of_table}) < len(of_table) for of_table in first)
    if not has or (_OBJECTS not in has and repeated):  # a table with a row for each caption
        return None
    described = ", ".join(map(escape, (_FILE, *has)))
    return Evidence("imagefolder", f"{name} of a Hugging Face imagefolder, with {described}")


def _called(role: str, columns: Iterable[str]) -> list[str]:
    """The columns that are called like a role."""
    return [key for key in columns if key.casefold() in WORDS[role]]


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images named in file_name, with their objects, captions and labels.

    Columns of all files are used. If a file or a row lacks the label, its image is rejected (E_NO_LABEL); an image
    without a caption is kept. A row with lists of objects of different lengths is left out, E_LINE for each box, and
    its image rejected. Folders named train, validation, test are splits.

    Raises UsageError, LabelFileError.
    """
    tables = _tables(look, options)
    if not tables:
        raise UsageError(look.path, f"no {' or '.join(_NAMES)} in it", "check the path")
    check_options(options, look.path, [table.format for table, _ in tables])
    place = look.path if len(tables) > 1 else tables[0][0].path
    found = Annotations(place, look, options, tasks=("boxes", "captions", "classes"))
    found.unnamed = "images without a row, left out"
    reading = _MetadataRows(found)
    for table, folder in tables:
        reading.class_names |= table.class_names
        for line, row in table.named():
            reading.add(table.place(line), f"{escape(folder + table.name)}:{line}", folder, row)
    reading.finish(options)
    return found.source()


class _MetadataRows:
    """Reader of rows into `found`."""

    def __init__(self, found: Annotations) -> None:
        self.found = found
        self.rows: dict[int, tuple[str, bytes]] = {}  # by image: the place of its first row, and a digest of that row
        self.labels: dict[int, _Row] = {}  # by image: the cells that may be labels
        self.columns: dict[str, None] = {}
        self.class_names: dict[str, tuple[str, ...]] = {}  # in the files, by column
        self.again = Names("duplicate rows")
        self.silent = 0  # samples without a caption

    def add(self, place: str, where: str, folder: str, row: _Row) -> None:
        """Add a row; `where`: its position, for the report."""
        found = self.found
        self.columns |= dict.fromkeys(row)
        name, split = row.get(_FILE), row.get(_SPLIT)
        if not isinstance(name, str) or not name.strip():
            got = "an empty one" if isinstance(name, str) else "none"
            raise LabelFileError(place, f"expected a path in file_name, got {got}", "correct the row")
        split = split.strip() or None if isinstance(split, str) else None
        image = found.image(name.strip(), where=where, folder=folder, split=split, fields=row)
        digest = blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        first, before = self.rows.setdefault(image, (place, digest))
        if before != digest:
            problem = f"'{escape(found.key(image))}' appears twice: {first}"
            raise LabelFileError(place, problem, "write one row per image")
        try:
            objects = objects_of(row.get(_OBJECTS) or None)  # an empty CSV cell has no value
        except BadRowError as error:
            found.reject(image, RejectCode.NO_LABEL, f"{where}: {error.reason}")
            for _ in range(error.count):
                found.leave_out(image, AnnotationCode.LINE, f"{where}: {error.reason}")
            return
        if first != place:
            self.again.add(where)
            for _ in objects:
                found.leave_out(image, AnnotationCode.TWICE, f"{where}: duplicate row")
            return
        found.objects.set_size(image, row.get("width"), row.get("height"))
        for i, one in enumerate(objects, 1):
            try:
                found.object(image, i, **values_of(one))
            except BadAnnotationError as error:
                found.leave_out(image, error.code, f"object {i}: {error.reason}")
        self.labels[image] = {key: row[key] for key in _called("label", row)}
        values = [row[key] for key in _called("text", row)]
        texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
        texts = [text for text in texts if text is not None and text != ""]
        self.silent += not texts
        for text in texts:
            found.caption(image, text, f"{where}: caption")

    def finish(self, options: AnnotationOptions) -> None:
        """All rows are read. Raises UsageError if a requested task is missing, or two columns may be the label."""
        found = self.found
        if not len(found):
            raise LabelFileError(found.place, "no row has a file name", "write one row per image")
        found.settle()
        labels, texts = _called("label", self.columns), _called("text", self.columns)
        found.boxed = bool(len(found.objects)) or (_OBJECTS in self.columns and not texts and not labels)
        there = [task for task, has in (("boxes", found.boxed), ("captions", texts), ("classes", labels)) if has]
        if not there:
            raise LabelFileError(found.place, "got no column objects, text or label", "read it as a label file")
        if others := sorted(frozenset(options.tasks).difference(there)):
            problem = f"got the task '{others[0]}', expected {' or '.join(there)}"
            raise UsageError("tasks", problem, "request these tasks, or none")
        if len(labels) > 1:
            first, _ = next(iter(self.rows.values()))
            chosen = argument("label_columns", python=f"label_columns={labels[:1]!r}", typed=shlex.quote(labels[0]))
            problem = f"several columns may be the label: {some(labels)}"
            raise UsageError(found.place, problem, f"{_as_label_file(first)} and {chosen}")
        if labels and (not options.tasks or "classes" in options.tasks):
            self._add_labels(labels[0], [task for task in there if task != "classes"])
        found.ledger.notes += self.again.note
        if texts and self.silent:
            found.note(f"{number(self.silent, 'sample')} without captions")
        used = {_FILE, *labels, *texts, _SPLIT, options.group_column}
        used |= {_OBJECTS, "width", "height"} if found.boxed else set()
        if unused := [key for key in self.columns if key not in used]:
            found.note(counted("ignored columns (used only in a label file)", unused, len(unused)))

    def _add_labels(self, name: str, others: Sequence[str]) -> None:
        """Add the classes of all images, from the values of a column, as a label file understands them.

        `others`: the other tasks of the files. An image without a class is rejected. Raises LabelFileError if values
        are no classes.
        """
        found, cells = self.found, dict[int, Cell]()
        for image, row in self.labels.items():
            value = row.get(name)
            parts = value if isinstance(value, list) else [value]
            texts = tuple(map(_text, parts))
            if -1 in parts or not all(isinstance(text, str) and text for text in texts):
                found.label(image, *parts)  # which says why it is none
            else:
                cells[image] = texts if isinstance(value, list) else texts[0]  # type: ignore[assignment]  # texts
        if not cells:
            return
        several = any(isinstance(cell, tuple) for cell in cells.values())
        if several:  # then all are sets
            cells = {image: cell if isinstance(cell, tuple) else (str(cell),) for image, cell in cells.items()}
        codes = {cell: code for code, cell in enumerate(dict.fromkeys(cells.values()))}
        values = Distinct([*codes], np.array([codes[cell] for cell in cells.values()], np.int64)).listed()
        given = class_list(found.options.class_names) or self.class_names.get(name)
        try:
            column, notes = label_column(values, name, main=True, given=given, by="name")
            if isinstance(column, NumberColumn):
                problem = "got numbers that do not count classes, expected classes"
                raise BadLabelError(values.values[0], problem, "")
        except BadLabelError as error:
            row, _ = self.rows[[*cells][values.first(error.value)]]
            remedies = [error.remedy, f"{_as_label_file(row)} for numbers and options of columns"]
            if others:
                chosen = argument("tasks", python=f"tasks={others}", typed=",".join(others))
                remedies.insert(1, f"give {chosen} to leave it out")
            remedy = ", or ".join(filter(None, remedies))
            raise LabelFileError(f"{row}, column '{escape(name)}'", error.problem, remedy) from None
        column = take(column, values.codes)
        found.label_classes, found.sets = (column.names, column.ids), column.ends is not None
        found.ledger.notes += notes
        ends = range(1, len(cells) + 1) if column.ends is None else column.ends[1:].tolist()
        for image, start, end in zip(cells, [0, *ends], ends, strict=False):
            found.label(image, *(column.names[label] for label in column.numbers[start:end].tolist()))


def _as_label_file(row: str) -> str:
    """Return the remedy to read the file of a row, at `file:line`, by the rules of label files."""
    return f"give {escape(row.rpartition(':')[0])} as SOURCE with {argument('reader', 'labels')}"


def _text(value: Any) -> Cell:
    """The cell of a value; of a whole number as a class number: 3 for 3.0."""
    try:
        return class_text(value)
    except BadAnnotationError:
        return cell_of(value)
