"""CSV: `labels.csv` with a row an image, `boxes.csv` with a row an object, `captions.csv` with a row a caption."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from shardfeed.annotations import CAPTION, OBJECT_LABEL, OBJECTS
from shardfeed.converters.sources.export_files import ExportFiles, StreamedFile
from shardfeed.converters.sources.export_format import (
    RENAME,
    TRIMMED,
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    is_formula,
    name_of,
    number_text,
    object_keys,
)
from shardfeed.converters.sources.files.listing import split_named
from shardfeed.errors import UsageError, escape
from shardfeed.schema import IMAGE_KEYS, LABEL, TEXT, Feature, Schema

_IMAGES = b"images/"
_SEPARATORS = ("|", ";", "/", "~", "#")
# Open Images' columns by feature: with any of them the table is in fractions, with that header.
_NAMED_FLAGS = ("occluded", "truncated", "group_of", "depiction", "inside")
_FLAGS = {f"{OBJECTS}{name}": f"Is{name.title().replace('_', '')}" for name in _NAMED_FLAGS}
_NAN = "nan"
_TAKEN = ("path", "split", "label")  # columns of our own


class CsvFormat(ExportFormat):
    """A class or a set of classes, texts and numbers of images; boxes of objects; captions. Splits of any name."""

    NAME: ClassVar[str] = "csv"
    ANY_NAME: ClassVar[bool] = False
    WHOLE_PATHS: ClassVar[bool] = True
    _formulas = 0  # rows with a text that a spreadsheet evaluates
    NEEDS: ClassVar[str] = "labels, texts or numbers per image, captions, or objects with classes (boxes)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        schema = items.schema
        self._more = {key: _column(key.removesuffix("/label")) for key in _more_labels(items)}
        self._columns = {key: _column(key) for key in _values(schema)}
        self._boxes, self._captions = OBJECT_LABEL in losses.storable, CAPTION in losses.storable
        self._flags = {key: name for key, name in _FLAGS.items() if key in losses.storable}
        self._labelled = LABEL in losses.storable
        self._separator = ""
        self._names = self.class_names(LABEL) if self._labelled else ()
        self._class_names = {key: self.class_names(key) for key in self._more}
        if self._labelled and schema.kind(LABEL) == "tags":
            free = [mark for mark in _SEPARATORS if not any(mark in name for name in self._names)]
            if not free:
                problem = f"each of {' '.join(_SEPARATORS)} is in a class name, so none can separate the classes"
                raise UsageError(items.directory, problem, "rename a class")
            self._separator = free[0]
        self._features = {key: schema.features[key] for key in self._columns}
        self._object_names = self.class_names(OBJECT_LABEL) if self._boxes else ()
        self._missing: dict[str, str] = {}
        self._tables: dict[str, StreamedFile] = {}
        labels = [*self._columns, *self._more, *(key.removesuffix("label") + "text" for key in self._more)]
        labels += [key for key in (LABEL, TEXT) if self._labelled]
        labels = [key for key in labels if key in schema.features]
        self.parts = [RestoredPart(labels)] if labels else []
        self.parts += [RestoredPart(objects=True)] if self._boxes else []
        self.parts += [RestoredPart([CAPTION])] if self._captions else []
        if labels:
            label = ["label"] if self._labelled else []
            self._row("labels", ["path", "split", *label, *self._more.values(), *self._columns.values()])
        if self._boxes:
            sides = ["xmin", "ymin", "xmax", "ymax"]
            ours = ["filename", "split", "width", "height", "class", *sides]
            theirs = ["ImageID", "split", "LabelName", "XMin", "YMin", "XMax", "YMax", *self._flags.values()]
            self._row("boxes", theirs if self._flags else ours)
        if self._captions:
            self._row("captions", ["image", "split", "caption"])

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """Values of one cell, sets of classes, captions, and boxes with Open Images' attributes."""
        schema = items.schema
        label = {LABEL} if LABEL in schema.class_names and schema.kind(LABEL) in ("label", "tags") else set[str]()
        if label and not (schema.features[LABEL].scalar or schema.kind(LABEL) == "tags"):
            label = set()
        captions = {CAPTION} if CAPTION in schema.features and schema.features[CAPTION].ragged else set[str]()
        return frozenset({*label, *_more_labels(items), *_values(schema), *captions}) | object_keys(schema, *_FLAGS)

    def class_names(self, key: str) -> tuple[str, ...]:
        """Like `ExportFormat.class_names`. Raise UsageError if all are written like lists, which cells can hold."""
        names = super().class_names(key)
        if all(name.startswith("[") and name.endswith("]") for name in names):
            raise UsageError(self.items.directory, f"the class {escape(names[0])!r} would be read as a list", RENAME)
        return names

    @classmethod
    def lost_split(cls, items: ExportRecords) -> str:
        """The first split that a cell names otherwise, such as `Train`."""
        return next((split for split in items.splits if split_named(split) != split), "")

    def add(self, item: ExportRecord) -> bytes:
        """The image, and its rows."""
        name = image_name(item)
        if self._boxes or self._captions:
            self.check_line(name, TRIMMED, item)
        self._tree.write(_IMAGES + name, item.image, item.where)
        text, split = item.text(name, "its name"), item.split.name
        if "labels" in self._tables:
            cells = [*self._label(item), *(self._cell(key, item) for key in self._columns)]
            self._row("labels", [text, split, *cells])
        if self._boxes:
            self._boxes_of(text, split, item)
        if self._captions:
            self._captions_of(text, split, item)
        return name

    def _captions_of(self, text: str, split: str, item: ExportRecord) -> None:
        if not len(item.values[CAPTION]):
            problem = "has no caption, and captions.csv has a row for each caption"
            remedy = self.other_formats("WHOLE_PATHS", "which keeps such images")
            raise UsageError(item.where, problem, remedy or "remove such images first")
        for caption in item.values[CAPTION]:
            self._row("captions", [text, split, item.text(caption, "a caption")])

    def _label(self, item: ExportRecord) -> list[str]:
        """The cells of the class, and of further labels."""
        cells = []
        if self._labelled:
            found = item.values[LABEL]
            labels = found if self._separator else [found]
            cells.append(self._separator.join(name_of(self._names, label, item, LABEL) for label in labels))
        return [*cells, *(name_of(self._class_names[key], item.values[key], item, key) for key in self._more)]

    def _cell(self, key: str, item: ExportRecord) -> str:
        value, feature = item.values[key], self._features[key]
        if feature.dtype == "bytes":
            return item.text(value, key)
        if feature.dtype == "int64":
            return str(int(value))
        if math.isnan(value):
            self._missing[self._columns[key]] = _NAN
            return ""
        return repr(float(value))  # with a point: as whole numbers they would be integers

    def _boxes_of(self, text: str, split: str, item: ExportRecord) -> None:
        width, height = item.size
        size = [] if self._flags else [width, height]
        if not len(item.boxes):
            columns = 5 + len(self._flags)
            self._row("boxes", [text, split, *size, *[""] * columns])
        self._seen.clear()
        for i in range(len(item.boxes)):
            scale = (1, 1, 1, 1) if self._flags else (width, height, width, height)
            sides = [number_text(side) for side in (item.boxes[i] * scale).tolist()]
            label = name_of(self._object_names, item.values[OBJECT_LABEL][i], item, OBJECT_LABEL)
            row = [text, split, *size, label, *sides, *(int(item.values[key][i]) for key in self._flags)]
            if not self.is_twin(repr(row), item):
                self._row("boxes", row)

    def _row(self, table: str, cells: Sequence[object]) -> None:
        if table not in self._tables:
            self._tables[table] = self._tree.stream(f"{table}.csv".encode())
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        self._formulas += any(isinstance(cell, str) and is_formula(cell) for cell in cells)
        self._tables[table].write(text.getvalue().encode())

    def finish(self) -> list[ReconvertCommand]:
        """The tables, and lists of classes."""
        for lines in self._tables.values():
            lines.close()
        self.note_formulas(self._formulas)
        again = []
        if "labels" in self._tables:
            again.append(self._of_labels())
        if self._boxes:
            names = self.write_classes("objects", self._object_names)
            options = {"reader": "boxes-csv", "images": "images", "class_names": names}
            again.append(ReconvertCommand("boxes.csv", options))
        if self._captions:
            again.append(ReconvertCommand("captions.csv", {"reader": "captions", "images": "images"}))
        return again

    def _of_labels(self) -> ReconvertCommand:
        options: dict[str, Any] = {"labels": "labels.csv", "path_column": "path", "split_column": "split"}
        if self._labelled:
            options["class_names"] = self.write_classes("classes", self._names)
        if self._labelled or self._more:
            options["label_columns"] = [*(["label"] if self._labelled else []), *self._more.values()]
        if self._separator:
            options["label_separator"] = self._separator
        if texts := [self._columns[key] for key, feature in self._features.items() if feature.dtype == "bytes"]:
            options["text_columns"] = texts
        numbers = {name: Feature(self._features[key].dtype) for key, name in self._columns.items() if name not in texts}
        if numbers:
            options["number_columns"] = numbers
        if self._missing:
            options["missing"] = dict(self._missing)
        return ReconvertCommand("images", options)


def _more_labels(items: ExportRecords) -> list[str]:
    """Keys of further labels, sorted, whose class lists a table can restore: they are in order and all classes occur.

    Only if images have a class, because the first label column is taken as the class.
    """
    schema = items.schema
    found = []
    for key, names in sorted(schema.class_names.items()):
        one = key.startswith("image/") and key.endswith("/label") and schema.features[key].scalar
        if not one or key in (LABEL, OBJECT_LABEL) or LABEL not in schema.class_names:
            continue
        numbers = names == tuple(map(str, range(len(names))))
        ordered = list(names) == sorted(names, key=str.encode) and not all(name.isdigit() for name in names)
        free = _column(key.removesuffix("/label")) not in _TAKEN
        if (numbers or ordered) and free and items.occur(key):
            found.append(key)
    return found


def _values(schema: Schema) -> list[str]:
    """Keys of texts and numbers with one value per image, sorted."""
    made = {*IMAGE_KEYS, LABEL, TEXT}
    keys = []
    for key, feature in sorted(schema.features.items()):
        one = feature.scalar and key.startswith("image/") and not key.startswith(OBJECTS) and key not in made
        one = one and _column(key) not in _TAKEN
        named = key in schema.class_names  # another label: its order is nowhere in a table
        text = feature.dtype == "bytes" and schema.kind(key) == "text"
        of_label = key.endswith("/text") and key.removesuffix("text") + "label" in schema.class_names
        if one and not named and (text or feature.dtype != "bytes") and not of_label:
            keys.append(key)
    return [key for key in keys if key != "image/segmentation/class/format"]


def _column(key: str) -> str:
    """Name of the column for a feature."""
    return key.removeprefix("image/")
