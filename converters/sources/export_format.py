"""Interface of an export format: it takes records one by one, and knows the command that converts its files again."""

import os
import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from shardfeed.annotations import BOX, OBJECT_LABEL
from shardfeed.converters.sources.export_files import ExportFiles, check_name
from shardfeed.converters.sources.export_records import DroppedFeatures, ExportRecord, ExportRecords
from shardfeed.converters.sources.files.listing import is_hidden, names_image, usual_split
from shardfeed.errors import UsageError, escape
from shardfeed.schema import Schema
from shardfeed.text import shell_quoted, some

WORDS = {"train": "train", "validation": "val", "test": "test"}  # what most tools call a split
_PATHS = ("images", "labels", "class_names")  # arguments that name files of the export


@dataclass(frozen=True)
class ReconvertCommand:
    """Arguments that convert an export again: `open_source(path, **options)`, paths relative to the export's folder."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self, root: str) -> tuple[str, dict[str, Any]]:
        """The path and the arguments of `open_source`, for an export in `root`."""
        options = {key: os.path.join(root, value) if key in _PATHS else value for key, value in self.options.items()}
        return os.path.join(root, self.path) if self.path else root, options

    def command(self, root: str, raw: bool) -> str:
        """The command that does it; `raw`: the records hold pixels."""
        path, options = self.arguments(root)
        options = {**options, "encode": "raw"} if raw else options
        words = ["shardfeed convert", shell_quoted(path), "NEW"]
        for key, value in options.items():
            flag = f"--{(key.removesuffix('s') if key.endswith('columns') else key).replace('_', '-')}"
            words += [f"{flag} {shell_quoted(text)}" for text in _typed(key, value)]
        return " ".join(words)


def _typed(key: str, value: Any) -> list[str]:
    """Texts to type after a flag; the flag is repeated for each."""
    if key == "tasks":
        return [",".join(value)]
    if key == "number_columns":
        return [f"{name}:{'int' if feature.dtype == 'int64' else 'float'}" for name, feature in value.items()]
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    return list(value) if isinstance(value, list) else [str(value)]


class RestoredPart(NamedTuple):
    """Values that a conversion of the export restores: `features` of each image, and its objects if `objects`.

    `prefix`: prepended to the keys that `ExportFormat.add` gives.
    """

    features: Collection[str] = ()
    objects: bool = False
    prefix: bytes = b""


class ExportFormat:
    """One format, for one export. `notes`: sentences for the report. `parts`: the content of each later conversion.

    `storable(items)` returns the features of a dataset that the format can store; empty if its main content is missing.
    `add` writes a record and returns the key that its image gets when it is converted again. `finish` writes the rest,
    and returns how to read each part. Both raise UsageError for data that cannot be written.
    """

    NAME: ClassVar[str]
    NEEDS: ClassVar[str]
    SIDE_FILES: ClassVar[int] = 0  # beside each image

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        self.items, self._tree, self._losses = items, tree, losses
        self.notes: list[str] = []
        self.parts: list[RestoredPart] = []
        self._seen: set[str] = set()  # the objects of an image

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        raise NotImplementedError

    def add(self, item: ExportRecord) -> bytes:
        raise NotImplementedError

    def finish(self) -> list[ReconvertCommand]:
        raise NotImplementedError

    def class_names(self, key: str) -> tuple[str, ...]:
        """Class names of a label. Raise UsageError if there are none, or if one begins or ends with a blank."""
        names, place = self.items.schema.class_names.get(key, ()), self.items.directory
        if not names:
            raise UsageError(place, f"{key} has no class names, which {self.NAME} needs", "name them in the dataset")
        blank = [name for name in names if name != name.strip()]
        if blank:
            raise UsageError(place, f"the class {escape(blank[0])!r} begins or ends with a space", "rename it")
        return names

    def usual_words(self) -> dict[str, bytes]:
        """Folder or file name of each split. Raise UsageError for a split that has none in this format."""
        others = [split for split in self.items.splits if split not in WORDS]
        if others:
            problem = f"got the split {some(others)}, but {self.NAME} only has train, validation and test"
            raise UsageError(self.items.directory, problem, "export to csv or coco, which keep splits of any name")
        return {split: WORDS[split].encode() for split in self.items.splits}

    def folder_words(self, part: int) -> dict[str, bytes]:
        """Like `usual_words`, but keep the word that keys have as their part number `part`, if it means the split.

        So images that were converted from such folders get the same names again.
        """
        words = self.usual_words()
        for split in words:
            parts = (self.items.first(split).key or b"").split(b"/")
            if len(parts) > part + 1 and usual_split(parts[part]) == split:
                words[split] = parts[part]
        return words

    def write_lines(self, file: str, lines: Sequence[str]) -> None:
        """Write a text file, such as a class list, one per line in label order."""
        self._tree.write(file.encode(), "".join(f"{line}\n" for line in lines).encode(), file)

    def is_twin(self, text: str, item: ExportRecord) -> bool:
        """Whether an earlier object of the image is the same in this format, which would merge them: it is left out.

        Raise UsageError for one unless the user drops "twins".
        """
        if text not in self._seen:
            self._seen.add(text)
            return False
        if not self._losses.twins:
            raise self._losses.duplicates_error(item.where)
        self.items.left_out.update(["twins"])
        return True


def image_name(item: ExportRecord) -> bytes:
    """The path of a record's image below the folder of all: its key, changed where conversions would pass it over.

    Raises UsageError for one that leaves the folder or is no path.
    """
    key = item.key
    if key is None:
        return b"%s-%08d%s" % (item.split.name.encode(), item.place, item.extension)
    check_name(key, item.where)
    name = b"/".join(b"_" + part if is_hidden(part) else part for part in key.split(b"/"))
    return name if names_image(name) else name + item.extension


def stem(name: bytes) -> bytes:
    """A path without its extension."""
    return posixpath.splitext(name)[0]


def name_of(names: tuple[str, ...], label: Any, item: ExportRecord, key: str) -> str:
    """The name of a label. Raises UsageError for one that has none."""
    number = int(label)
    if not 0 <= number < len(names):
        problem = f"{key} is {number}, expected 0 to {len(names) - 1}"
        raise UsageError(item.where, problem, "remove such records first")
    return names[number]


def number_text(value: float) -> str:
    """The shortest decimal that is read as the same float64, without a decimal point for whole numbers."""
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))


def object_keys(schema: Schema, *more: str) -> frozenset[str]:
    """Keys of the boxes and classes of objects, and those of `more` in the schema; none if boxes have no class."""
    keys = schema.object_keys
    if OBJECT_LABEL not in keys:
        return frozenset()
    return frozenset({*BOX, OBJECT_LABEL, *(key for key in more if key in keys)})
