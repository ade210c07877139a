"""Hugging Face's imagefolder: `metadata.jsonl` or `metadata.csv` beside the images, with objects or captions."""

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from shardfeed.annotations import CAPTION, IS_CROWD
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.gathering import (
    Ledger,
    Names,
    check_tasks,
    in_numbers,
    list_wanted,
    splits_of,
)
from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.tables.metadata_file import NAMES, MetadataFile, metadata_files
from shardfeed.converters.sources.annotations.tables.metadata_objects import (
    BadRowError,
    add_object,
    category_of,
    has_objects,
    objects_of,
)
from shardfeed.converters.sources.files.folder_splits import splits_by_folder
from shardfeed.converters.sources.files.image_lookup import PathLookup
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.rows.columns import TextColumn
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, UsageError, argument, escape

_CAPTIONS = ("text", "caption", "captions")
_LABELS = ("label", "labels", "class", "class_name", "category", "target")  # a label file then, not one of captions
_LOOKED_AT = 50  # rows that tell what is in a table


@dataclass(frozen=True)
class _Kinds:
    """What the columns of all tables hold."""

    objects: bool
    captions: tuple[str, ...]
    others: tuple[str, ...]


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """A metadata file, or a folder with one in it or in its folders of splits, that has objects or captions."""
    try:
        tables = metadata_files(path, options)
        if not tables:
            return None
        rows = [row for _, row in islice(tables[0].rows(), _LOOKED_AT)]
    except UsageError:
        return None
    name = escape(tables[0].folder + tables[0].table.name)
    if rows and "file_name" not in rows[0]:
        several = [key for key in rows[0] if key.endswith(("file_name", "file_names"))]
        found = f"{name} with the column {escape(several[0])}" if several else ""
        return Evidence("imagefolder", found, "no column file_name, of one image for each row") if several else None
    kinds = _kinds(dict.fromkeys(key for row in rows for key in row), objects=any(map(has_objects, rows)))
    if not kinds.objects and (not kinds.captions or any(key.casefold() in _LABELS for key in kinds.others)):
        return None
    files = [str(row.get("file_name")) for row in rows]
    if not kinds.objects and len({*files}) < len(files):  # a table with a row for each caption
        return None
    has = ["file_name", *(["objects"] if kinds.objects else []), *kinds.captions]
    return Evidence("imagefolder", f"{name} of a Hugging Face imagefolder, with {', '.join(map(escape, has))}")


def _kinds(columns: Iterable[str], *, objects: bool) -> _Kinds:
    captions = tuple(key for key in columns if key in _CAPTIONS)
    used = {"file_name", *captions, *(["objects", "width", "height"] if objects else [])}
    return _Kinds(objects, captions, tuple(key for key in columns if key not in used))


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images that `metadata.jsonl` or `metadata.csv` name in file_name, with their objects and captions.

    `objects` is `{"bbox": [[left, top, width, height], ...], "categories": [...]}`, in pixels, in JSON Lines only; also
    with "category" or "label", "area" and "iscrowd"; or a list with an object each. Categories are names, or integers,
    which are kept as `class_ids`. The columns text, caption and captions become `image/caption`. Other columns are not
    read: `LabelFile` takes them. Where the folder has folders train, validation, test, those are splits.

    A row whose lists of objects differ in length is left out, E_LINE for each box, and its image rejected. Raises
    UsageError, LabelFileError.
    """
    tables = metadata_files(path, options)
    if not tables:
        raise UsageError(path, f"no {' or '.join(NAMES)} in it", "check the path")
    return _Reading(path, tables, options).source()


class _Reading:
    """Reads the tables twice: for images, classes and columns, and then for the objects and captions."""

    def __init__(self, path: str, tables: Sequence[MetadataFile], options: AnnotationOptions) -> None:
        self.tables, self.options, self.ledger = tables, options, Ledger()
        root = options.images or (path if os.path.isdir(path) else os.path.dirname(path) or ".")
        self.listing = list_wanted(root, options)
        self.ledger.notes += self.listing.notes
        self.lookup = PathLookup(self.listing)
        self.file_of: dict[tuple[str, int], int] = {}  # by folder and line: of rows whose objects are to be read
        self.classes: set[str] = set()
        self.extras: set[str] = set()  # which of "class", "area", "iscrowd" any object has
        self.unwanted = Names("rows' images that include and exclude leave out")
        self.kinds = self._look()
        self.taken = sorted({*self.file_of.values()})
        if not self.taken:
            raise self._nothing_found()
        self.place = {file: i for i, file in enumerate(self.taken)}

    def source(self) -> AnnotatedSource:
        """Everything read."""
        has: dict[Task, bool] = {"boxes": self.kinds.objects, "captions": bool(self.kinds.captions)}
        possible: list[Task] = [task for task, there in has.items() if there]
        first = self.tables[0]
        if not possible:
            raise LabelFileError(first.table.path, "got no column objects, text or caption", "read it as a label file")
        check_tasks("tasks", self.options, possible)
        wanted = self.options.tasks or frozenset(possible)
        classes = ObjectClasses(self.classes, self.options.class_names)
        labelled = "class" in self.extras or self.options.class_names is not None
        table = None
        if "boxes" in wanted:
            self.ledger.notes += classes.notes if labelled else ()
            table = ObjectTable(
                classes.names if labelled else None,
                class_ids=classes.ids if labelled else (),
                what="object",
                upright=self.options.upright,
                columns=[IS_CROWD] if "iscrowd" in self.extras else [],
                areas="area" in self.extras,
            )
        captions: list[list[bytes]] = [[] for _ in self.taken]
        self._fill(table, classes if labelled else None, captions if "captions" in wanted else None)
        self._note_others()
        taken = self.listing.take(np.array(self.taken, np.int64))
        return AnnotatedSource(
            taken,
            objects=table,
            columns=[TextColumn.of_lists(CAPTION, captions)] if "captions" in wanted else [],
            splits=splits_of(splits_by_folder(self.listing, taken), self.options),
            findings=self.ledger.findings(),
            described=in_numbers(len(taken), table),
        )

    def _look(self) -> _Kinds:
        """The first reading."""
        rows_of: dict[int, tuple[str, bytes]] = {}  # by file: where it is named first, and a digest of that row
        again = Names("rows that say again what an earlier row says")
        columns: dict[str, None] = {}
        any_objects = False
        for of in self.tables:
            for line, row in of.rows():
                columns |= dict.fromkeys(row)
                any_objects = any_objects or has_objects(row)
                file = self._find(of, line, row)
                try:
                    objects = objects_of(row)
                except BadRowError as error:
                    self._leave_out_row(of, line, file, error)
                    objects, bad = [], True
                else:
                    bad = False
                for one in objects:
                    self.extras |= one.has
                    if isinstance(category := category_of(one.category), str):
                        self.classes.add(category)
                if isinstance(file, Skipped):
                    if not bad:
                        self._miss(of, line, file, len(objects))
                    continue
                digest = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=8).digest()
                where, before = rows_of.setdefault(file, (of.place(line), digest))
                if where == of.place(line):
                    self.file_of |= {} if bad else {(of.folder, line): file}
                elif before == digest:
                    again.add(f"line {line}")
                    reason = f"line {line} of {escape(of.table.name)}: the same row is there already"
                    for _ in objects:
                        self.ledger.leave_out(self.listing.key(file), AnnotationCode.TWICE, reason)
                else:
                    problem = f"'{escape(self.listing.key(file))}' is there already: {where}"
                    raise LabelFileError(of.place(line), problem, "write one row for each image")
        self.ledger.notes += again.note
        return _kinds(columns, objects=any_objects)

    def _find(self, of: MetadataFile, line: int, row: Mapping[str, Any]) -> int | Skipped:
        """The file of a row, or why there is none."""
        name = row.get("file_name")
        if not isinstance(name, str) or not name.strip():
            got = "an empty one" if isinstance(name, str) else "none"
            raise LabelFileError(of.place(line), f"expected a path in file_name, got {got}", "correct the row")
        name = name.strip()
        key = (of.folder + name).encode("utf-8", "backslashreplace")
        norm = posixpath.normpath(name)
        if "://" in name or norm.startswith(("/", "../")) or norm == "..":
            reason = "a URL: nothing is fetched" if "://" in name else "it leaves the folder of the metadata file"
            return Skipped(key, RejectCode.PATH_ESCAPE.value, reason)
        try:
            return self.lookup.find(of.folder + name)
        except UnicodeError:
            return Skipped(key, RejectCode.MISSING.value, "the path is not Unicode")

    def _miss(self, of: MetadataFile, line: int, file: Skipped, objects: int) -> None:
        """A row whose image is not there, with so many objects."""
        if not self.listing.choice.wants(file.key):
            self.unwanted.add(file.key)
            return
        place = f"{escape(of.table.name)}:{line}"
        self.ledger.reject(file.key, RejectCode(file.code), f"{place}: {file.reason}")
        for number in range(1, objects + 1):
            reason = f"object {number} of line {line}: its image is not there"
            self.ledger.leave_out(file.key, AnnotationCode.IMAGE, reason)

    def _leave_out_row(self, of: MetadataFile, line: int, file: int | Skipped, error: BadRowError) -> None:
        """A row whose objects cannot be told apart: with its image."""
        if isinstance(file, Skipped):
            self._miss(of, line, file, error.count)
            return
        key, place = self.listing.key(file), f"{escape(of.table.name)}:{line}"
        self.ledger.reject(key, RejectCode.NO_LABEL, f"{place}: {error.reason}")
        for _ in range(error.count):
            self.ledger.leave_out(key, AnnotationCode.LINE, f"{place}: {error.reason}")

    def _fill(
        self, table: ObjectTable | None, classes: ObjectClasses | None, captions: list[list[bytes]] | None
    ) -> None:
        """The second reading."""
        for of in self.tables:
            for line, row in of.rows():
                file = self.file_of.get((of.folder, line))
                if file is None:
                    continue
                place = self.place[file]
                if captions is not None:
                    captions[place] += self._captions(of, line, row)
                if table is None:
                    continue
                width, height = row.get("width"), row.get("height")
                if type(width) is int and type(height) is int and width > 0 and height > 0:
                    table.set_size(place, width, height)
                seen: set[str] = set()
                for number, one in enumerate(objects_of(row), 1):
                    try:
                        add_object(table, place, number, one, classes, seen)
                    except BadAnnotationError as error:
                        reason = f"object {number}: {error.reason}"
                        self.ledger.leave_out(self.listing.key(file), error.code, reason)

    def _captions(self, of: MetadataFile, line: int, row: Mapping[str, Any]) -> list[bytes]:
        """The captions of a row that are not empty. Raises LabelFileError for what is no text."""
        found = []
        for column in self.kinds.captions:
            value = row.get(column)
            for text in value if isinstance(value, list) else [value]:
                try:
                    if text is not None and not isinstance(text, str):
                        raise ValueError(f"got {type(text).__name__}")
                    if text and text.strip():
                        found.append(text.strip().encode("utf-8"))
                except ValueError as error:  # surrogates, too: they are no UTF-8
                    problem = "not Unicode" if isinstance(error, UnicodeError) else str(error)
                    place = f"{of.place(line)}, column '{escape(column)}'"
                    raise LabelFileError(place, f"{problem}, expected text", "correct the row") from None
        return found

    def _nothing_found(self) -> LabelFileError:
        missing = next(iter(self.ledger.rejected.values()), None)
        problem = "no row names a file that is wanted"
        if missing is not None:
            problem = f"no row names a file that can be used: '{escape(missing.key)}': {missing.reason}"
        remedy = f"give the folder that file_name is relative to as {argument('images')}"
        return LabelFileError(self.tables[0].table.path, problem, remedy)

    def _note_others(self) -> None:
        unnamed = Names("images that no row names, not taken")
        unused = Names("columns that are not read here (a label file's are)")
        for i, key in enumerate(self.listing):
            if i not in self.place and names_image(key) and key not in self.ledger.rejected:
                unnamed.add(key)
        for name in self.kinds.others:
            unused.add(name)
        self.ledger.notes += [*unnamed.note, *self.unwanted.note, *unused.note]
