"""Pascal VOC: `JPEGImages`, `Annotations` with an XML file an image, lists of splits in `ImageSets`, coloured masks."""

import io
from typing import ClassVar

import numpy as np
from PIL import Image

from shardfeed.annotations import OBJECT_LABEL, OBJECTS, RASTER, Raster
from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.sources.annotations.masks_writer import class_table, mask_numbers, raster_options
from shardfeed.converters.sources.export_files import ExportFiles, StreamedFile
from shardfeed.converters.sources.export_format import (
    NO_LINE,
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    name_of,
    object_keys,
    stem,
)
from shardfeed.converters.sources.files.listing import MASK_FOLDERS
from shardfeed.errors import escape
from shardfeed.text import some

_IMAGES = b"JPEGImages/"
_FLAGS = ("truncated", "difficult", "occluded")
_EXACT = 2.0**-23  # of a side, for a whole number: as exact as a fraction of float32 is


class VocFormat(ExportFormat):
    """Boxes with a class, and a class for each pixel.

    As in the devkit, pixels count from 1, and xmax and ymax are the last of a box: readers take 1 from xmin and ymin.
    """

    NAME: ClassVar[str] = "voc"
    ANY_NAME: ClassVar[bool] = False
    SIDE_FILES: ClassVar[int] = 2
    NEEDS: ClassVar[str] = "objects with classes (boxes), or a class per pixel (rasters)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        self._boxes = OBJECT_LABEL in losses.storable
        self._raster = items.schema.raster if RASTER in losses.storable else None
        self.parts = [RestoredPart(objects=True)] if self._boxes else []
        if self._raster is not None:
            self.parts.append(RestoredPart(prefix=_IMAGES if self._boxes else b""))
        self._names = self.class_names(OBJECT_LABEL) if self._boxes else ()
        self._flags = [flag for flag in _FLAGS if self._boxes and f"{OBJECTS}{flag}" in items.schema.features]
        self._rounded, self._off, self._objects, self._others = 0, 0.0, 0, 0
        self._lists: dict[str, list[StreamedFile]] = {}
        for split, word in self.usual_words().items():
            kinds = [*(["Main"] if self._boxes else []), *(["Segmentation"] if self._raster else [])]
            self._lists[split] = [tree.stream(b"ImageSets/%s/%s.txt" % (kind.encode(), word)) for kind in kinds]

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """Boxes, classes, VOC's attributes of each object, and the raster."""
        schema = items.schema
        rasters = {RASTER} if schema.raster is not None and len(schema.raster.class_names) <= 256 else set[str]()
        return object_keys(schema, *(f"{OBJECTS}{flag}" for flag in _FLAGS)) | rasters

    def add(self, item: ExportRecord) -> bytes:
        """The image, its XML file and its mask."""
        name = image_name(item)
        name = name.removeprefix(_IMAGES) if self._raster is not None else name
        self._check_name(name, item)
        self._others += not name.endswith(b".jpg")
        self._tree.write(_IMAGES + name, item.image, item.where)
        if self._boxes:
            self._tree.write(b"Annotations/" + stem(name) + b".xml", self._xml(item, name), item.where)
        if self._raster is not None:
            mask = Image.fromarray(mask_numbers(bytes(item.values[RASTER]), item).astype(np.uint8))
            mask.putpalette(_PALETTE)
            self._tree.write(b"SegmentationClass/" + stem(name) + b".png", encode_png(mask), item.where)
        for lines in self._lists[item.split.name]:
            lines.write(stem(name) + b"\n")
        return name if self._boxes else _IMAGES + name

    def _check_name(self, name: bytes, item: ExportRecord) -> None:
        """Raise UsageError for a name that a list of ImageSets cannot store, or whose folder means masks."""
        self.check_line(stem(name), NO_LINE, item)
        folder = next((part for part in name.split(b"/")[:-1] if part.lower() in MASK_FOLDERS), None)
        if self._raster is not None and folder is not None:
            raise self.name_error(item, f"the folder {escape(folder)} in its name {escape(name)!r} is one of masks")

    def _xml(self, item: ExportRecord, name: bytes) -> bytes:
        width, height = item.size
        with Image.open(io.BytesIO(item.image)) as image:
            depth = len(image.getbands())
        lines = ["<annotation>", f"  <filename>{_escaped(item.text(name, 'its name').rpartition('/')[2])}</filename>"]
        lines += [f"  <size><width>{width}</width><height>{height}</height><depth>{depth}</depth></size>"]
        lines += [f"  <segmented>{int(self._raster is not None)}</segmented>"]
        self._seen.clear()
        for i in range(len(item.boxes)):
            left, top, right, bottom = self._whole(item.boxes[i] * (width, height, width, height), (width, height))
            sides = zip(("xmin", "ymin", "xmax", "ymax"), (left + 1, top + 1, right, bottom), strict=True)
            found = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
            flags = "".join(f"<{f}>{int(item.values[OBJECTS + f][i])}</{f}>" for f in self._flags)
            label = name_of(self._names, item.values[OBJECT_LABEL][i], item, OBJECT_LABEL)
            text = f"  <object><name>{_escaped(label)}</name>{flags}<bndbox>{found}</bndbox></object>"
            if not self.is_twin(text, item):
                lines.append(text)
        return "\n".join([*lines, "</annotation>", ""]).encode()

    def _whole(self, box: np.ndarray, size: tuple[int, int]) -> list[int]:
        """The nearest whole pixels, one wide at least."""
        whole = np.rint(box).astype(int)
        for axis in (0, 1):
            if whole[axis] >= whole[axis + 2]:
                whole[axis] = min(int(box[axis]), size[axis] - 1)
                whole[axis + 2] = whole[axis] + 1
        off = float(np.abs(whole - box).max())
        self._objects += 1
        self._rounded += off > _EXACT * max(size)
        self._off = max(self._off, off)
        return whole.tolist()

    def finish(self) -> list[ReconvertCommand]:
        """The lists of splits and of classes."""
        for of_split in self._lists.values():
            for lines in of_split:
                lines.close()
        if self._rounded:
            of = f"{self._rounded:,} of {self._objects:,}"
            self.notes.append(f"boxes are in whole pixels: {of} were rounded, by {self._off:.3g} pixels at most")
        if self._others:
            what = "files whose names do not end in .jpg"
            self.notes.append(f"{what}: {self._others:,}; torchvision looks for NAME.jpg, shardfeed takes any image")
        again = [self._of_boxes()] if self._boxes else []
        return again if self._raster is None else [*again, self._of_masks(self._raster)]

    def _of_boxes(self) -> ReconvertCommand:
        """The list of the classes of boxes, and labelmap.txt, by which CVAT and Datumaro know them."""
        names = self.write_classes("classes", self._names)
        unfit = [name for name in self._names if ":" in name or name.startswith("#")]
        if self._raster is None and unfit:
            self.notes.append(f"no labelmap.txt, which Datumaro needs: its format cannot store {some(unfit)}")
        elif self._raster is None:  # else it would have to list the colours of the masks
            lines = ["# label:color_rgb:parts:actions", *(f"{name}:::" for name in self._names)]
            self.write_lines("labelmap.txt", lines)
        return ReconvertCommand("", {"reader": "voc", "class_names": names, "voc_origin": 1})

    def _of_masks(self, raster: Raster) -> ReconvertCommand:
        """The table of the values of masks, and the list of their classes."""
        self._tree.write(b"_classes.csv", class_table(raster), "_classes.csv")
        names = self.write_classes("segmentation", raster.class_names)
        options = {"reader": "masks", "class_names": names, "tasks": ["rasters"]}
        return ReconvertCommand("", {**options, **raster_options(raster)})


def _escaped(text: str) -> str:
    """A text as XML has it."""
    for mark, name in (("&", "amp"), ("<", "lt"), (">", "gt")):
        text = text.replace(mark, f"&{name};")
    return text


# Red, green and blue of 256 values: VOC spreads the bits of a value, lowest first, over the three.
_BITS = [value >> channel for value in range(256) for channel in range(3)]
_PALETTE = [sum((bits >> 3 * place & 1) << 7 - place for place in range(3)) for bits in _BITS]
