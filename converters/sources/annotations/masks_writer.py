"""Images, and masks of the same names with class numbers as pixels; `_classes.csv` names the classes."""

import csv
import io
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from shardfeed.annotations import RASTER, Raster
from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    is_formula,
    stem,
)
from shardfeed.converters.sources.files.listing import IMAGE_FOLDERS
from shardfeed.errors import IntegrityError
from shardfeed.split_words import usual_split

_IMAGES = b"images/"
_USUAL_VOID = {8: 255, 16: 65535}


class MasksFormat(ExportFormat):
    """A class for each pixel. Folders of splits, unless all is in train and the first is in no folder called like one.

    Names that begin with images/ keep that.
    """

    NAME: ClassVar[str] = "masks"
    SIDE_FILES: ClassVar[int] = 1
    NEEDS: ClassVar[str] = "a class per pixel (rasters)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        self.parts = [RestoredPart()]
        assert items.schema.raster is not None
        self._raster = items.schema.raster
        first = items.first(items.splits[0]).key or b""
        self._inside = first.startswith(_IMAGES)
        self._flat = items.splits == ("train",) and not any(map(usual_split, first.split(b"/")[:-1]))
        words = self.folder_words(int(self._inside))
        self._words = {split: b"" if self._flat else word + b"/" for split, word in words.items()}
        if self._raster.void not in (None, _USUAL_VOID[self._raster.bits]):
            self.notes.append(f"void is {self._raster.void} in these masks, and becomes 255 or 65535 when converted")
        if self._raster.class_ids:
            self.notes.append("masks contain labels; the original class numbers are not kept")

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """The raster."""
        schema = items.schema
        return frozenset({RASTER}) if schema.raster is not None else frozenset()

    def add(self, item: ExportRecord) -> bytes:
        """Write the image and its mask, byte for byte."""
        name = image_name(item)
        name = name.removeprefix(_IMAGES) if self._inside else name
        word = self._words[item.split.name]
        name = _without_splits(name) if self._flat else word + name.removeprefix(word)
        self._tree.write(_IMAGES + name, item.image, item.where)
        mask, parts = name, name.split(b"/")
        at = next((i for i, part in enumerate(parts[:-1]) if part.lower() in IMAGE_FOLDERS), None)
        if at is not None and not self._inside:  # readers skip the first folder that is named like one of images
            mask = b"/".join([*parts[:at], *parts[at + 1 :]])
        self._tree.write(b"masks/" + stem(mask) + b".png", bytes(item.values[RASTER]), item.where)
        return _IMAGES + name if self._inside else name

    def finish(self) -> list[ReconvertCommand]:
        """Write the table of the classes and their list."""
        self._tree.write(b"_classes.csv", class_table(self._raster), "_classes.csv")
        self.note_formulas(sum(map(is_formula, self._raster.class_names)))
        names = self.write_classes("classes", self._raster.class_names)
        options: dict[str, Any] = {"reader": "masks", "class_names": names}
        options |= {} if self._inside else {"images": "images"}
        return [ReconvertCommand("", {**options, **raster_options(self._raster)})]


def _without_splits(name: bytes) -> bytes:
    """Change the folders of a path that are called like a split: readers would take them for it."""
    *folders, last = name.split(b"/")
    return b"/".join([*(b"_" + folder if usual_split(folder) else folder for folder in folders), last])


def raster_options(raster: Raster) -> dict[str, Any]:
    """Options that state the void value, which a table of classes cannot."""
    return {"void": "none" if raster.void is None else raster.void}


def class_table(raster: Raster) -> bytes:
    """The value of each class, as Roboflow's `_classes.csv` has it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("Pixel Value", "Class"), *enumerate(raster.class_names)])
    return text.getvalue().encode()


def mask_numbers(mask: bytes, item: ExportRecord) -> np.ndarray:
    """Decode a mask of a record to its value at each pixel, [height, width]. Raise IntegrityError if damaged."""
    try:
        with Image.open(io.BytesIO(mask)) as image:
            return np.asarray(image)
    except Exception as error:  # whatever Pillow raises for a damaged file
        raise IntegrityError(item.where, f"a mask that cannot be decoded: {error}", "restore it from a copy") from None
