"""The source that all files of records come to: where each image is, what was gathered of it, what its classes are."""

import hashlib
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shardfeed.annotations import CAPTION, OBJECT_LABEL
from shardfeed.converters.images.sniff import HEAD_BYTES, image_kind
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.account import Account
from shardfeed.converters.sources.classes import BadLabelError, class_list
from shardfeed.converters.sources.classes import number_classes as number_texts
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.records.gather import Gather, Packed, Values
from shardfeed.converters.sources.containers.records.layout import Layout
from shardfeed.converters.sources.containers.records.numbering import Beside, number_classes
from shardfeed.converters.sources.rows.columns import ClassColumn, ListedColumn, NumberColumn, Splits, TextColumn
from shardfeed.converters.sources.rows.source import ColumnarSource, Contents
from shardfeed.converters.sources.source import Findings, Skipped
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import UsageError, argument, escape, name_bytes, name_text
from shardfeed.formats.format import Fields
from shardfeed.text import listing, number

_EXTENSIONS = {
    "": b"", "jpeg": b".jpg", "png": b".png", "gif": b".gif", "bmp": b".bmp", "tiff": b".tif", "webp": b".webp",
    "avif": b".avif", "jpeg2000": b".jp2", "pnm": b".ppm",
}  # fmt: skip
_KINDS = tuple(_EXTENSIONS)
_KNOWN = frozenset((*_EXTENSIONS.values(), b".jpeg", b".tiff", b".jpe", b".pgm", b".j2k")) - {b""}
_EXACT = 2**24  # the largest whole number up to which all have a float32, as which evaluators carry it
_CLASS = "image/class"


@dataclass(frozen=True, eq=False)
class RecordKeys:
    """What samples are called: as their records say, or `FILE/000017.jpg`, by file and record.

    `names` is None where records have no names that are unique and relative. Each has its format's extension.
    """

    names: Packed | None
    files: tuple[str, ...]
    file_of: np.ndarray
    record_of: np.ndarray
    kinds: np.ndarray

    def __len__(self) -> int:
        return len(self.file_of)

    def __getitem__(self, index: int, /) -> bytes:
        if self.names is None:
            file = self.files[self.file_of.item(index)]
            name = name_bytes(f"{file}/{self.record_of.item(index):06d}")
        else:
            name = self.names[index]
        known = os.path.splitext(name)[1].lower() in _KNOWN
        return name if known else name + _EXTENSIONS[_KINDS[self.kinds.item(index)]]


@dataclass(frozen=True)
class FoundFile:
    """A file of records: `name`, relative to what was opened; `split` by its name, None where that says none."""

    name: str
    split: str | None


class Assembly:
    """Records in by `add`, with the errors of those that cannot be offered; the source out by `finish`.

    `place`: what was opened, for errors. `beside`: names of classes that lie beside the files, by their feature's key
    there; "" for what names labels without saying which.
    """

    def __init__(
        self,
        gather: Gather,
        files: Sequence[FoundFile],
        options: ContainerOptions,
        place: str,
        beside: Mapping[str, Beside],
    ) -> None:
        self.gather, self._files, self._options, self._place, self._beside = gather, files, options, place, beside
        self._files_of, self._records_of, self._kinds = array("i"), array("q"), array("B")
        self._rejected: list[Skipped] = []

    def __len__(self) -> int:
        return len(self._files_of)

    @property
    def file_of(self) -> np.ndarray:
        """The number of the file of each sample, int32 [n]; once all are added."""
        return np.frombuffer(self._files_of, np.int32)

    @property
    def record_of(self) -> np.ndarray:
        """The number of each sample's record in its file, int64 [n]; once all are added."""
        return np.frombuffer(self._records_of, np.int64)

    def add(self, file: int, record: int, features: Fields, image: bytes | None, kind: str | None = None) -> bool:
        """Whether record `record` of file number `file` is a sample; else it is listed.

        `image`: its first 4096 bytes or more; None where there is none. `kind`: its format, where that is known.
        """
        try:
            if not image:
                code = RejectCode.NOT_IMAGE if image is None else RejectCode.EMPTY
                raise RejectedError(code, f"no image in {escape(self.gather.layout.image)}")
            self.gather.add(features)
        except RejectedError as error:
            self.reject(file, record, error.code, error.reason)
            return False
        self._files_of.append(file)
        self._records_of.append(record)
        self._kinds.append(_KINDS.index(kind if kind is not None else _kind(image)))
        return True

    def reject(self, file: int, record: int, code: RejectCode, reason: str) -> None:
        """A record that cannot be offered."""
        key = name_bytes(f"{self._files[file].name}, record {record}")
        self._rejected.append(Skipped(key, code.value, reason))

    def finish(self, contents: Contents, notes: Sequence[str], folder: bytes | None, what: str) -> ColumnarSource:
        """The source; `what`: one of the files, in words.

        Raises UsageError where no record is a sample, or nothing tells what a class is.
        """
        gather = self.gather
        if not len(self):
            why = f": {name_text(self._rejected[0].key)}: {self._rejected[0].reason}" if self._rejected else ""
            raise UsageError(self._place, f"no record in it is a sample{why}", "check what it is")
        files = tuple(file.name for file in self._files)
        keys = RecordKeys(gather.names, files, self.file_of, self.record_of, np.frombuffer(self._kinds, np.uint8))
        said = []
        if not _are_names(keys):
            if "key" in self._options.columns or not gather.layout.key:
                self._refuse_keys(keys)
            else:
                said = [f"{escape(gather.layout.key)} is not one relative name for each image: files and records are"]
            keys = replace(keys, names=None)
        columns, class_notes = self._columns()
        numbers = np.frombuffer(gather.numbers, np.int64)
        usable = numbers.min() >= 0 and numbers.max() <= _EXACT and len(np.unique(numbers)) == len(numbers)
        rejected = sorted(self._rejected, key=lambda skipped: skipped.key)
        account = Account() if gather.objects is not None else None
        return ColumnarSource(
            keys,
            contents,
            columns,
            self._splits(self.file_of),
            gather.objects,
            numbers=numbers if usable else None,
            findings=Findings(rejected, [*notes, *said, *class_notes], folder, account),
            described=f"{number(len(files), what)}; {described(gather.layout)}",
        )

    def _refuse_keys(self, keys: RecordKeys) -> None:
        """Raises UsageError where the user said what the names are, and they are none."""
        given = self._options.columns.get("key")
        if given is not None:
            problem = f"{escape(given)} is not one relative name for each image (or one comes twice)"
            raise UsageError(self._place, problem, "leave it out: images are then called by file and record")

    def _columns(self) -> tuple[list[ListedColumn], list[str]]:
        """The columns of labels, texts and numbers, and notes; names the classes of the objects, too."""
        gather, layout = self.gather, self.gather.layout
        columns: list[ListedColumn] = []
        notes: list[str] = []
        if gather.label is not None:
            ids: tuple[int, ...] = ()
            if layout.label:
                found = np.unique(gather.label.numbers)
                classes = self._numbered(found, gather.texts.names if layout.label_text else None, layout.label, notes)
                names, ids, labels = classes.names, classes.ids, classes.labels(gather.label.numbers)
            else:
                names, labels = self._by_text(gather.label, notes)
            ends = gather.label.ends
            columns.append(ClassColumn(_CLASS, names, labels, ends, ends is not None and _are_sets(labels, ends), ids))
        if gather.captions is not None:
            columns.append(TextColumn(CAPTION, gather.captions.flat, gather.captions.numbers, gather.captions.ends))
        for ours, values in gather.others.items():
            if isinstance(values.flat, Packed):
                columns.append(TextColumn(ours, values.flat, values.numbers, values.ends))
            else:
                columns.append(NumberColumn(ours, values.numbers, values.ends))
        if gather.objects is not None and gather.objects.class_names is not None and layout.objects is not None:
            numbers = gather.objects.labels
            found, key = np.unique(numbers), layout.objects.columns[OBJECT_LABEL]
            classes = self._numbered(found, gather.object_texts.names, key, notes)
            gather.objects.name_classes(classes.names, classes.ids, classes.labels(numbers))
        return columns, notes

    def _numbered(self, found: np.ndarray, texts: Mapping[int, str] | None, key: str, notes: list[str]):
        """The classes of a feature, by all that names them."""
        place = f"{self._place}, {key}"
        if not len(found):
            raise UsageError(place, "no class in any record", "give files with some")
        beside = self._beside.get(key, self._beside.get(""))
        classes = number_classes(found.tolist(), texts or None, beside, self._options, place)
        notes += classes.notes
        return classes

    def _by_text(self, values: Values, notes: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
        """Class names, and the label of each value, where classes are texts."""
        place = f"{self._place}, {values.key}"
        for name in ("label_offset", "label_map"):
            if getattr(self._options, name):
                raise UsageError(
                    place, f"classes are texts there, and {argument(name)} is about numbers", "leave it out"
                )
        texts = {name_text(text) for text in values.flat}
        try:
            found = number_texts(texts, class_list(self._options.class_names), integers_are_labels=True)
        except BadLabelError as error:
            raise UsageError(place, error.problem, error.remedy) from None
        notes += found.notes
        labels = (found.labels[name_text(text)] for text in values.flat)
        return found.names, np.fromiter(labels, np.int64, len(values.flat))

    def _splits(self, file_of: np.ndarray) -> Splits:
        """By a column, else by the names of the files, else the one that is given."""
        if self.gather.layout.split:
            return Splits(tuple(map(split_named, self.gather.split_names)), np.frombuffer(self.gather.splits, np.int16))
        names: list[str | None] = list(dict.fromkeys(file.split or self._options.split for file in self._files))
        of_file = np.array([names.index(file.split or self._options.split) for file in self._files], np.int64)
        return Splits(tuple(names), of_file[file_of])


def described(layout: Layout) -> str:
    """What was taken for what, in words, for the user."""
    taken = {"image": layout.image, "label": layout.label or layout.label_text, "split": layout.split}
    taken |= {"captions": layout.captions, **layout.others}
    if layout.objects is not None:
        taken |= {"boxes": " ".join(layout.objects.box), "classes": layout.objects.columns.get(OBJECT_LABEL, "")}
    said = ", ".join(f"{role} from {escape(key)}" for role, key in taken.items() if key)
    left = listing([escape(key) for key in layout.left])
    return f"{said}; not taken: {left}" if left else said


def _kind(image: bytes) -> str:
    """The format of an image, by its bytes; "" where it is none that is known: a worker says so when it reads it."""
    try:
        return image_kind(image[:HEAD_BYTES])
    except RejectedError:
        return ""


def _are_names(keys: RecordKeys) -> bool:
    """Whether all names are relative paths, and none comes twice."""
    hashes = array("Q")
    for i in range(len(keys.file_of)):
        name = keys[i]
        parts = name.split(b"/")
        if not (keys.names and keys.names[i]) or b"\0" in name or any(part in (b"", b".", b"..") for part in parts):
            return False
        hashes.append(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))
    return len(np.unique(np.frombuffer(hashes, np.uint64))) == len(hashes)


def _are_sets(labels: np.ndarray, ends: np.ndarray) -> bool:
    """Whether no sample has a class twice."""
    owners = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return len(np.unique(np.stack([owners, labels]), axis=1).T) == len(labels) if len(labels) else True
