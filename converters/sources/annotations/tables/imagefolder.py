"""Hugging Face's imagefolder: `metadata.jsonl` or `metadata.csv` beside the images, with objects, captions or labels.

{"file_name": "a.png", "objects": {"bbox": [[left, top, width, height], ...], "categories": ["cat", ...]}}
{"file_name": "a.png", "text": "a cat"}
{"file_name": "a.png", "label": "cat"}
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.ledger import Names
from shardfeed.converters.sources.rows.objects import (
    BOX_KEYS,
    CLASS_KEYS,
    BadRowError,
    class_text,
    corners_of,
    flags_of,
    objects_of,
)
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import number, some

_NAMES = ("metadata.jsonl", "metadata.csv")
_FILE, _OBJECTS, _SPLIT = "file_name", "objects", "split"
_LOOKED_AT = 50  # rows of each table that tell what is in it


@dataclass(frozen=True)
class _Table:
    """One metadata file; `folder`, which ends in "/" or is empty, is where it lies in the root."""

    table: LabelTable
    folder: str

    @property
    def name(self) -> str:
        """For people."""
        return escape(self.folder + self.table.name)

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line and columns of each row. Raises LabelFileError for one that cannot be read."""
        if self.table.format == "jsonl":
            yield from self._json()
            return
        records = iter(self.table)
        header = next(records, None)
        names = [str(name).strip() for name in header.cells] if header else []
        for record in records:
            if len(record.cells) != len(names):
                problem = f"got {len(record.cells)} cells, expected {len(names)} as in the first row"
                raise LabelFileError(self.table.place(record.line), problem, "quote cells that contain the delimiter")
            yield record.line, dict(zip(names, map(str, record.cells), strict=True))

    def _json(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in enumerate(self.table.lines(), 1):
            if not text.strip():
                continue
            place = self.table.place(line)
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                problem = f"not JSON: {escape(error.msg)}, at character {error.pos + 1}"
                raise LabelFileError(place, problem, "write one JSON object on each line") from None
            except (ValueError, RecursionError):
                problem = "not JSON: nested too deep, or a number that is too long"
                raise LabelFileError(place, problem, "write plain numbers, texts and lists") from None
            if not isinstance(row, dict):
                raise LabelFileError(place, "got no JSON object", 'write {"file_name": ..., "objects": ...}')
            yield line, row


def _tables(look: Look, options: AnnotationOptions) -> list[_Table]:
    """The metadata files that a path means; none where it means none. Raises LabelFileError for two in one folder."""
    if not look.is_folder:
        places = {"": [name] if (name := os.path.basename(look.path)) in _NAMES else []}
    else:
        splits = [f"{name}/" for name in look.names()[0] if usual_split(name)]
        places = {at: [n for n in _NAMES if os.path.isfile(os.path.join(look.path, at, n))] for at in ("", *splits)}
    found = []
    for folder, names in places.items():
        if len(names) > 1:
            place = os.path.join(look.path, folder, names[1])
            raise LabelFileError(place, f"{names[0]} is there, too", "leave one of the two out")
        for name in names:
            of_csv = name.endswith(".csv")
            path = os.path.join(look.folder, folder, name)
            delimiter = options.delimiter if of_csv else None
            found.append(_Table(LabelTable(path, "csv" if of_csv else "jsonl", delimiter, options.encoding), folder))
    return found


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """A metadata file, or a folder with one in it or in its folders of splits, that has objects, captions or labels."""
    try:
        tables = _tables(look, options)
        first = [[row for _, row in islice(one.rows(), _LOOKED_AT)] for one in tables]
    except UsageError:
        return None
    rows = [row for of_table in first for row in of_table]
    if not rows:
        return None
    name = tables[0].name
    if _FILE not in rows[0]:
        several = [key for key in rows[0] if key.endswith((_FILE, "file_names"))]
        found = f"{name} with the column {escape(several[0])}" if several else ""
        return Evidence("imagefolder", found, "no column file_name, of one image for each row") if several else None
    columns = dict.fromkeys(key for row in rows for key in row)
    has = [_OBJECTS] if any(_has_objects(row) for row in rows) else []
    has += [key for key in columns if key.casefold() in (*WORDS["text"], *WORDS["label"])]
    repeated = any(len({str(row.get(_FILE)) for row in of_table}) < len(of_table) for of_table in first)
    if not has or (_OBJECTS not in has and repeated):  # a table with a row for each caption
        return None
    described = ", ".join(map(escape, (_FILE, *has)))
    return Evidence("imagefolder", f"{name} of a Hugging Face imagefolder, with {described}")


def _has_objects(row: Mapping[str, Any]) -> bool:
    """Whether a row has objects as JSON, which a CSV file cannot."""
    return isinstance(row.get(_OBJECTS), dict | list)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the rows name in file_name, with their objects, captions and labels.

    Columns are those of all files. Where a file or a row lacks the label, its image is rejected (E_NO_LABEL); without
    a caption an image stays. A row whose lists of objects differ in length is left out, E_LINE for each box, and its
    image rejected. Where the folder has folders train, validation, test, those are splits.

    Raises UsageError, LabelFileError.
    """
    tables = _tables(look, options)
    if not tables:
        raise UsageError(look.path, f"no {' or '.join(_NAMES)} in it", "check the path")
    place = look.path if len(tables) > 1 else tables[0].table.path
    found = Annotations(place, look, options, tasks=("boxes", "captions", "classes"))
    found.unnamed = "images that no row names, not taken"
    reading = _Reading(found)
    for one in tables:
        for line, row in one.rows():
            reading.add(one, line, row)
    reading.finish(options)
    return found.source()


class _Reading:
    """Reads rows into `found`."""

    def __init__(self, found: Annotations) -> None:
        self.found = found
        self.rows: dict[int, tuple[str, bytes]] = {}  # by image: where it is named first, and a digest of that row
        self.labels: dict[int, tuple[str, Mapping[str, Any]]] = {}  # by image: where, and the cells that may be labels
        self.columns: dict[str, None] = {}
        self.again = Names("rows that say again what an earlier row says")
        self.silent = 0  # samples without a caption

    def add(self, of: _Table, line: int, row: Mapping[str, Any]) -> None:
        """Take a row."""
        found, place = self.found, of.table.place(line)
        self.columns |= dict.fromkeys(row)
        name = row.get(_FILE)
        if not isinstance(name, str) or not name.strip():
            got = "an empty one" if isinstance(name, str) else "none"
            raise LabelFileError(place, f"expected a path in file_name, got {got}", "correct the row")
        where = f"{of.name}:{line}"
        split = row.get(_SPLIT)
        split = split.strip() if isinstance(split, str) and split.strip() else None
        image = found.image(name.strip(), where=where, folder=of.folder, split=split)
        digest = blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        first, before = self.rows.setdefault(image, (place, digest))
        if before != digest:
            problem = f"'{escape(found.key(image))}' is there already: {first}"
            raise LabelFileError(place, problem, "write one row for each image")
        try:
            objects = [] if isinstance(row.get(_OBJECTS), str) else objects_of(row.get(_OBJECTS))
        except BadRowError as error:
            found.reject(image, RejectCode.NO_LABEL, f"{where}: {error.reason}")
            for _ in range(error.count):
                found.leave_out(image, AnnotationCode.LINE, f"{where}: {error.reason}")
            return
        if first != place:
            self.again.add(f"line {line}")
            for _ in objects:
                found.leave_out(image, AnnotationCode.TWICE, f"line {line} of {of.name}: the same row is there already")
            return
        found.objects.set_size(image, row.get("width"), row.get("height"))
        for place_in_row, one in enumerate(objects, 1):
            self._object(image, place_in_row, one)
        self.labels[image] = (where, {key: row[key] for key in row if key.casefold() in WORDS["label"]})
        self._captions(image, where, [row[key] for key in row if key.casefold() in WORDS["text"]])

    def _object(self, image: int, place: int, one: Mapping[str, Any]) -> None:
        box = corners_of(next((one[key] for key in BOX_KEYS if key in one), None))
        named = next((key for key in CLASS_KEYS if key in one), None)
        try:
            label = None if named is None else class_text(one[named])
        except BadAnnotationError as error:
            self.found.leave_out(image, error.code, f"object {place}: {error.reason}")
            return
        known = {"area": one.get("area"), "flags": flags_of(one), "own_id": one.get("id")}
        self.found.object(image, place, box, label, **known)

    def _captions(self, image: int, where: str, values: Sequence[Any]) -> None:
        texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
        texts = [text for text in texts if text is not None and text != ""]
        self.silent += not texts
        for text in texts:
            self.found.caption(image, text, f"{where}: caption")

    def finish(self, options: AnnotationOptions) -> None:
        """All rows are read. Raises UsageError where an asked task is not there, or two columns may be the label."""
        found = self.found
        if not len(found):
            raise LabelFileError(found.place, "no row names a file", "write one row for each image")
        found.settle()
        labels = [key for key in self.columns if key.casefold() in WORDS["label"]]
        texts = [key for key in self.columns if key.casefold() in WORDS["text"]]
        found.boxed = bool(len(found.objects)) or (_OBJECTS in self.columns and not texts and not labels)
        there = [task for task, has in (("boxes", found.boxed), ("captions", texts), ("classes", labels)) if has]
        if not there:
            raise LabelFileError(found.place, "got no column objects, text or label", "read it as a label file")
        if others := sorted(frozenset(options.tasks).difference(there)):
            problem = f"got the task '{others[0]}', expected {' or '.join(there)}, which it has"
            raise UsageError("tasks", problem, "ask for those, or for none in particular")
        if len(labels) > 1:
            remedy = f"read it as a label file: {argument('reader', 'labels')} with {argument('label_columns')}"
            raise UsageError(found.place, f"several columns may be the label: {some(labels)}", remedy)
        if labels and (not options.tasks or "classes" in options.tasks):
            self._take_labels(labels[0])
        found.ledger.notes += self.again.note
        if texts and self.silent:
            found.note(f"{number(self.silent, 'sample')} without captions")
        used = {_FILE, *labels, *texts, _SPLIT, *((_OBJECTS, "width", "height") if found.boxed else ())}
        unused = Names("columns that are not read here (a label file's are)")
        for key in self.columns:
            if key not in used:
                unused.add(key)
        found.ledger.notes += unused.note

    def _take_labels(self, column: str) -> None:
        """The label of each image, or all as sets where any has a list."""
        found = self.found
        several = any(isinstance(cells.get(column), list) for _, cells in self.labels.values())
        for image, (where, cells) in self.labels.items():
            value = cells.get(column)
            try:
                if value == -1:
                    raise BadAnnotationError(AnnotationCode.CATEGORY, f"{escape(column)} is -1")
                texts = [class_text(one) for one in (value if isinstance(value, list) else [value])]
                if not all(texts):
                    lacks = "is empty" if column in cells else "is no column of the row"
                    raise BadAnnotationError(AnnotationCode.CATEGORY, f"{escape(column)} {lacks}")
            except BadAnnotationError as error:
                if found.is_there(image):
                    found.reject(image, RejectCode.NO_LABEL, f"{where}: no label: {error.reason}")
                continue
            if several:
                found.tags(image, texts)
            else:
                found.label(image, texts[0])
