"""Samples of containers, row by row, in compact columns; and the account of rows that cannot be taken."""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import CAPTION, RASTER
from shardfeed.converters.rejects import AnnotationCode, RejectCode, RejectedError
from shardfeed.converters.sources.classes import NamesFile, is_integer
from shardfeed.converters.sources.files.listing import split_in_cell
from shardfeed.converters.sources.look import SourceFiles
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.columns import (
    EXACT,
    Codes,
    KnownClasses,
    Labels,
    RowNames,
    Splits,
    UnlikeError,
    Values,
    as_array,
)
from shardfeed.converters.sources.rows.evidence import By
from shardfeed.converters.sources.rows.objects import BadRowError, ObjectColumns, ObjectGather, objects_of
from shardfeed.converters.sources.rows.roles import Roles
from shardfeed.converters.sources.rows.rows import ColumnarSource, Contents, Keys, Rasters, Rows
from shardfeed.errors import UsageError, argument, escape, name_bytes, name_text
from shardfeed.schema import FILENAME
from shardfeed.text import counted, listing, number

_MISSING: Any = object()
_NO_IMAGE = "write the files again with the images in them, or convert the images with another export of the labels"
_REMEDIES = {  # if all samples are rejected, by the code of the first
    RejectCode.NO_LABEL: f"name another column, {naming('label', 'COLUMN')}, or give {argument('unlabelled')}",
    RejectCode.NOT_IMAGE: _NO_IMAGE,
    RejectCode.EMPTY: _NO_IMAGE,
    RejectCode.MISSING: _NO_IMAGE,
    RejectCode.CORRUPT: "get the files again",
    RejectCode.TRUNCATED: "get the files again",
}


class Row(NamedTuple):
    """One sample as read from a file.

    `file`: the number of its file. `record`: its number in that file. `where`: integers that locate the image, followed
    by the integers that locate its mask, if any. `values`: values of the columns that have a role, by name; missing
    values are left out. `name`: the sample's own name, b"" if it has none. `ending`: the extension that is added if its
    name has none, such as b".jpg". `fault`: why the row cannot be used.

    Example:
        gather.add(Row(0, number, (offset, size), {"label": "cat", "name": "a.jpg"}, b"a.jpg"))
    """

    file: int
    record: int
    where: tuple[int, ...] = ()
    values: Mapping[str, Any] = {}
    name: bytes = b""
    ending: bytes = b""
    fault: tuple[RejectCode, str] | None = None


class Gather:
    """Collector of rows; its method `source` creates a source from them.

    Args:
        files: the files that the rows come from, in order.
        roles: the role of each column.
        options: options given by the user.
        prefixes: for each file, the prefix of the names of unnamed rows; default: the file's name without its
            extension, followed by "/".
        digits: number of digits after the prefix.
        upright: whether boxes refer to the upright image; None if unknown.
        fractions: whether boxes are in fractions of the image; else in pixels.
        offered: columns of numbers by feature key, which are used if every row has a value.

    Example:
        gather = Gather(files, roles, options)
        for number, (offset, size, label) in enumerate(rows):
            gather.add(Row(0, number, (offset, size), {"label": label}))
        images = Parts(files.files, gather.file_of, gather.where(0), gather.where(1))
        source = gather.source(images, "pack")
    """

    def __init__(
        self,
        files: SourceFiles,
        roles: Roles,
        options: ColumnOptions,
        *,
        prefixes: Sequence[str] | None = None,
        digits: int = 8,
        upright: bool | None = None,
        fractions: bool = False,
        offered: Mapping[str, str] | None = None,
    ) -> None:
        self.files, self.roles, self.options = files, roles, options
        self.rows = Rows(files.place, options)
        self.ledger = self.rows.ledger
        stems = [f"{os.path.splitext(name)[0]}/" for name in files.names]
        self._names = RowNames(stems if prefixes is None else prefixes, digits)
        self._label, self._label_text = roles.name("label"), roles.name("label text")
        self._beside = self._label_text if self._label is not None else None
        self._one_hot, self._separator = [info.name for info in roles.one_hot], options.label_separator
        self._text, self._split = roles.name("text"), roles.name("split")
        self._key, self._number, self._objects = roles.name("key"), roles.name("number"), roles.name("objects")
        self._named_by = None if {"key", FILENAME} & options.columns.keys() else self._key  # a row may lack its name
        kind = roles.by_role["label"].kind if self._label is not None else ""
        self._lists = kind in ("integers", "texts", "floats") or self._separator is not None
        self._whole = kind not in ("text", "texts", "")
        if self._one_hot:
            self.rows.labels.append(Labels("marks"))
        elif self._label is not None or self._label_text is not None:
            numbered = self._label is not None and roles.by_role["label"].class_names is not None  # by the format
            self.rows.labels.append(Labels("set" if self._lists else "one", unsure=self._lists and not numbered))
        if self._separator is not None and kind not in ("text", ""):
            problem = f"is for labels that are texts, but {escape(self._label)} holds {kind} values"
            raise UsageError("label_separator", problem, "leave it out")
        self._splits = Codes()
        self._splits_of_files = files.splits() if self._split is None else ()
        self._captions = Values(CAPTION, lists=True)
        self._extras = {key: (info.name, Values(key)) for key, info in roles.extra.items()}
        self._offered = {key: (column, Values(key)) for key, column in (offered or {}).items()}
        if self._objects is not None:
            self.rows.objects = _object_gather(roles, fractions=fractions, upright=upright)
        self._file_of, self._record_of, self._numbers = array("i"), array("i"), array("q")
        self._where = array("q")  # as many of each row
        self._zeros: set[str] = set()  # for no class, in columns of classes
        self._lacking: Counter[tuple[str, int]] = Counter()  # (role, file): samples that have no value for it
        self._seen = 0

    def __len__(self) -> int:
        return len(self._file_of)

    def reject(self, file: int, record: int, code: RejectCode, reason: str, name: bytes = b"") -> None:
        """List a row that cannot be used, by name unless another rejected row has the same name."""
        place = f"{self.files.names[file]}:{record}"
        if name and name not in self.ledger.rejected:
            self.ledger.reject(name, code, f"{escape(place)}: {reason}")
        else:
            self.ledger.reject(name_bytes(place), code, reason)

    def add(self, row: Row) -> bool:
        """Add a row and return True, or list it as rejected and return False. Raises UsageError for a bad value."""
        self._seen += 1
        if self._named_by is not None and not row.name:
            row = row._replace(name=_name_in(row.values.get(self._named_by)))
        try:
            if row.fault is not None:
                raise RejectedError(*row.fault)
            labels = self._labels_of(row)
            split = self._one(row, "split", self._split) if self._split is not None else None
            name = row.name
            if self._key is not None and self._named_by is None:
                name = name_bytes(self._one(row, "key", self._key))
            for what, (column, _) in self._extras.items():
                if row.values.get(column) is None:
                    raise self._no_value(row, what, column)
            objects = self._objects_of(row) if self._objects is not None else ()
        except RejectedError as error:
            self.reject(row.file, row.record, error.code, error.reason, row.name)
            return False
        if self._extras or self._offered:
            self._take_features(row)
        for one in self.rows.labels:
            one.add(labels, row.values.get(self._beside) if self._beside is not None else None)
        if split is not None:
            self._splits.add(split)
        if self._text is not None:
            self._captions.add(self._captions_of(row))
        if objects and self.rows.objects is not None:
            for code, reason in self.rows.objects.take(len(self._file_of), objects):
                key = row.name or name_bytes(self._names.numbered(row.file, row.record))
                self.ledger.leave_out(key, code, reason)
        self._file_of.append(row.file)
        self._record_of.append(row.record)
        self._where.extend(row.where)
        self._names.add(name, row.ending)
        if self._number is not None:
            own = str(row.values.get(self._number))
            self._numbers.append(int(own) if is_integer(own) and 0 <= int(own) < 2**63 else -1)
        return True

    def _no_value(self, row: Row, what: str, column: str) -> RejectedError:
        """The error for a row that has no value in a column."""
        file = escape(self.files.names[row.file])
        got = "null" if column in row.values else f"{file} or the sample has no such column"
        return RejectedError(RejectCode.NO_LABEL, f"{what} from {escape(column)}: {got}")

    def _one(self, row: Row, what: str, column: str) -> str:
        """A name or a whole number as text. Raises RejectedError."""
        value = row.values.get(column)
        if value is None:
            raise self._no_value(row, what, column)
        return _text(what, column, value)

    def _labels_of(self, row: Row) -> Sequence[str]:
        """Return the labels of a row as text; empty without a label column. Raises RejectedError."""
        if self._one_hot:
            return self._marks_of(row)
        column = self._label or self._label_text
        if column is None:
            return ()
        value = row.values.get(column)
        if value is None:
            raise self._no_value(row, "label", column)
        items = value if isinstance(value, list | tuple) else (value,)
        if self._separator is not None and isinstance(value, str):
            items = [part for text in value.split(self._separator) if (part := text.strip())]
        if not self._lists and len(items) != 1:
            raise RejectedError(RejectCode.NO_LABEL, f"label from {escape(column)}: got {len(items)}, expected one")
        if -1 in items:
            raise RejectedError(RejectCode.NO_LABEL, f"label from {escape(column)}: -1, which means no label")
        fraction = next((item for item in items if isinstance(_whole(item), float) and item == item), None)
        if fraction is not None:
            problem = f"has the number {fraction:g}, expected labels: names, or whole numbers"
            place, ways = f"{self.files.place}, column {column}", naming("image/value", column)
            raise UsageError(place, problem, f"for numbers, give {ways}")
        texts = [str(item) if type(item) is int else _text("label", column, _whole(item)) for item in items]
        if self._whole and (odd := next((text for text in texts if not is_integer(text)), None)) is not None:
            reason = f"label from {escape(column)}: got '{escape(odd[:40])}', expected an integer, as in other rows"
            raise RejectedError(RejectCode.NO_LABEL, reason)
        return texts

    def _marks_of(self, row: Row) -> Sequence[str]:
        """Return 0 or 1 for each class, from columns of 0 and 1, or of -1 and 1. Raises RejectedError, UsageError."""
        texts: list[str] = []
        for column in self._one_hot:
            if row.values.get(column) is None:
                raise self._no_value(row, "a class", column)
            text = str(_whole(row.values[column]))
            if text not in ("0", "1", "-1"):
                reason = f"a class from {escape(column)}: got {escape(text[:40])}, expected 0 or 1"
                raise RejectedError(RejectCode.NO_LABEL, reason)
            self._zeros.update({text} - {"1"})
            if len(self._zeros) > 1:
                problem = "columns of classes have 0 and -1, expected 0 and 1, or -1 and 1"
                raise UsageError(f"{self.files.place}, column {column}", problem, "write 0 for no class")
            texts.append("0" if text == "-1" else text)
        return texts

    def _captions_of(self, row: Row) -> list[str]:
        """The captions of a row; a row without captions is kept, and counted or listed."""
        value = row.values.get(self._text or "", _MISSING)
        if value is _MISSING:
            self._lacking["text", row.file] += 1
            return []
        found = [text.strip() for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        found = [text for text in found if text and _is_unicode(text)]
        if not found:
            self._leave_out(row, f"the row has no caption in {self._text}")
        return found

    def _objects_of(self, row: Row) -> Sequence[Mapping[str, Any]] | ObjectColumns:
        """The objects of a row. Raises RejectedError if they cannot be separated; all are then listed."""
        try:
            value = self._objects_value(row)
            if value is _MISSING:
                self._lacking["objects", row.file] += 1
                return ()
            if isinstance(value, BadRowError):
                raise value
            if not isinstance(value, ObjectColumns):
                return objects_of(value)
            value.check()
            return value
        except BadRowError as error:
            for _ in range(error.count):
                self._leave_out(row, error.reason)
            raise RejectedError(RejectCode.NO_LABEL, error.reason) from None

    def _objects_value(self, row: Row) -> Any:
        """The value of the column of objects, or of the columns of our own. Raises BadRowError."""
        if self.roles.own is None:
            return row.values.get(self._objects or "", _MISSING)
        found = self.roles.own.value(row.values)
        return _MISSING if found is None else found

    def _leave_out(self, row: Row, reason: str) -> None:
        key = row.name or name_bytes(f"{self.files.names[row.file]}:{row.record}")
        self.ledger.leave_out(key, AnnotationCode.LINE, reason)

    def set_size(self, width: Any, height: Any) -> None:
        """Set the size, in pixels, at which the image of the last added row was annotated."""
        assert self.rows.objects is not None
        self.rows.objects.set_size(len(self) - 1, width, height)

    def _take_features(self, row: Row) -> None:
        """Take the values that were asked for, and numbers that were not, or none of their column from here on."""
        for column, values in self._extras.values():
            try:
                values.add(row.values[column])
            except UnlikeError as error:
                place = f"{name_text(self.files.files[row.file].path)}, row {row.record}, column {column}"
                remedy = "leave the column out, or write it in the same form in all rows"
                raise UsageError(place, str(error), remedy) from None
        for key, (column, values) in [*self._offered.items()]:
            value = row.values.get(column)
            try:
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise UnlikeError("some samples have no number")
                values.add(value)
            except UnlikeError:
                del self._offered[key]

    @property
    def file_of(self) -> np.ndarray:
        """The file number of each sample, int32 [n]."""
        return as_array(self._file_of)

    @property
    def record_of(self) -> np.ndarray:
        """The index of each sample within its file, int32 [n]."""
        return as_array(self._record_of)

    def where(self, place: int) -> np.ndarray:
        """Return element `place` of `Row.where` for each sample, int64 [n]."""
        return as_array(self._where).reshape(len(self), -1)[:, place] if self._where else np.zeros(0, np.int64)

    def source(
        self,
        images: Contents,
        what: str,
        *,
        beside: Mapping[str, NamesFile] | None = None,
        rasters: Callable[[str, Keys], tuple[Rasters, Sequence[str]]] | None = None,
        notes: Sequence[str] = (),
        is_rest: bool = False,
    ) -> ColumnarSource:
        """Create the source. `what`: a word for one of its files. `beside`: class names from separate files, by column.

        `is_rest`: whether the label is a column that nobody called a label, so its values must look like classes.
        `rasters`: a function that gets the files' path (for errors) and the keys, and returns masks and notes. Raises
        UsageError if no row can be used, if nothing names the classes, or if something asked for is not used.
        """
        if not len(self):
            raise self._no_rows_error(what)
        by_role, rows, notes = self.roles.by_role, self.rows, [*self.files.notes, *notes]
        keys = self._keys(notes)
        masks = None
        if rasters is not None:
            try:
                masks, of_masks = rasters(self.files.place, keys)
            except UsageError as error:
                if {"mask", RASTER} & self.options.columns.keys() or self.options.class_names is not None:
                    raise
                place, problem, remedy = error.args
                raise UsageError(place, problem, f"{remedy}; without masks: {argument('unlabelled', True)}") from None
            notes += of_masks
        elif "mask" in by_role:  # a reader that forgets it must not lose it
            raise UsageError(self.files.place, f"masks in {what}s cannot be read", "leave the mask out")
        for labels in rows.labels:
            label = by_role.get("label", by_role.get("label text"))
            by: By = "user" if "label" in self.options.columns else "rest" if is_rest else "name"
            if label is None:
                names: Sequence[str] | None = [info.word or info.name for info in self.roles.one_hot]
                labels.known = self._known(self._one_hot[0], number(len(names), "column"), names, beside, by)
            else:
                marks = f"{escape(label.name)}, lists of 0 and 1"
                labels.known = self._known(label.name, marks, label.class_names, beside, by)
        if self._objects is not None:
            rows.of_objects = self._known(self._objects, "", by_role["objects"].class_names, beside)
        if self._text is not None:
            rows.columns.append(self._captions.column())
        rows.values += [values for _, values in (*self._extras.values(), *self._offered.values())]
        rows.splits = self._split_column()
        notes += self._lacking_notes()
        offered = {column: key for key, (column, _) in self._offered.items()}
        if unused := [column for column in self.roles.unused if column not in offered]:
            named = listing([*map(escape, unused)])  # each may hold labels
            notes.append(f"unused columns: {len(unused)} ({named})")
        notes += [counted("columns used as numbers", offered, len(offered))] if offered else []
        self.ledger.notes += notes
        self.ledger.skip(self.files.skipped)
        described = f"{number(len(self.files.files), what)}, {number(len(self), 'sample')}: {self.roles.described}"
        return rows.source(
            keys,
            images,
            ids=None if self._number is None else as_array(self._numbers),
            rasters=masks,
            described=described,
            folder=self.files.folder,
        )

    def _known(
        self,
        column: str,
        what: str,
        names: Sequence[str] | None,
        beside: Mapping[str, NamesFile] | None,
        by: By = "name",
    ) -> KnownClasses:
        file = (beside or {}).get(column, (beside or {}).get(""))
        return KnownClasses(place=self.files.place, column=column, what=what, names=names, beside=file, by=by)

    def _keys(self, notes: list[str]) -> Keys:
        """Return the name of each sample; adds a note if names are made of file and number."""
        if (own := self._names.unique()) is not None:
            return own
        if self._key is not None and self._named_by is None:
            place = f"{self.files.place}, column {self._key}"
            raise UsageError(place, "a value is not a key, or repeats", "name a column of unique relative names")
        notes.append("keys are made of file and number: no column has unique names")
        return self._names.numbers(self.file_of, self.record_of)

    def _lacking_notes(self) -> Iterator[str]:
        """Notes on columns that some files do not have, and on what our own do not say."""
        yield from self.roles.own.notes if self.roles.own is not None else ()
        for role, what in (("text", "captions"), ("objects", "objects")):
            files = {self.files.names[file]: count for (one, file), count in self._lacking.items() if one == role}
            if files:
                samples = number(sum(files.values()), "sample")
                yield counted(f"{samples} without {what}, in files", files, len(files))

    def _split_column(self) -> Splits | None:
        if self._split is not None:
            try:
                return Splits.coded(map(split_in_cell, self._splits.values), self._splits.codes)
            except UsageError as error:
                place = f"{self.files.place}, column {self._split}"
                raise UsageError(place, error.problem, error.remedy) from None
        found = self._splits_of_files
        return None if set(found) == {None} else Splits.coded(map(str, found), self.file_of)

    def _no_rows_error(self, what: str) -> UsageError:
        if not self.ledger.rejected:
            problem = f"no sample in its {number(len(self.files.files), what)}"
            return UsageError(self.files.place, problem, "check the path")
        first = self.ledger.rejected[min(self.ledger.rejected)]
        problem = f"none of {number(self._seen, 'sample')} can be used, the first: {escape(first.key)}: {first.reason}"
        return UsageError(self.files.place, problem, _REMEDIES.get(RejectCode(first.code), "check the path"))


def _object_gather(roles: Roles, *, fractions: bool, upright: bool | None) -> ObjectGather:
    """The collector of objects; those of our records are in fractions of the stored image."""
    if roles.own is not None:
        return ObjectGather(unit="fractions", upright=False)
    return ObjectGather(unit="fractions" if fractions else "pixels", upright=upright)


def _text(what: str, column: str, value: Any) -> str:
    """A name or a whole number as text. Raises RejectedError."""
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer) or value == "":
        got = "null" if value is None else "nothing" if value == "" else type(value).__name__
        raise RejectedError(RejectCode.NO_LABEL, f"{what} from {escape(column)}: {got}, expected a name or a number")
    if isinstance(value, str) and not _is_unicode(value):
        raise RejectedError(RejectCode.NO_LABEL, f"{what} from {escape(column)}: it is not Unicode")
    return str(value)


def _whole(value: Any) -> Any:
    """A whole number that is stored as a float, or a bool, as an integer; anything else unchanged."""
    whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer() and abs(value) <= EXACT)
    return int(value) if whole else value


def _name_in(value: Any) -> bytes:
    """Return the name of a row from a value of any type; empty if the value is no name."""
    return value if isinstance(value, bytes) else name_bytes(str(value)) if isinstance(value, str | int) else b""


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
