"""The second reading of tables with one row an object: the objects."""

import math
import os

from PIL import Image

from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.gathering import Names, read_size
from shardfeed.converters.sources.annotations.tables.row_dialects import region_of
from shardfeed.converters.sources.annotations.tables.row_images import RowImages
from shardfeed.converters.sources.annotations.tables.row_tables import Row, RowTable
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, escape

_FAR = 2.0  # a fraction beyond it is none: rounding leaves the image by less
_ORIENTATION = 0x0112  # the EXIF tag


class Filling:
    """The objects of all rows: into the table, or left out."""

    def __init__(self, images: RowImages, table: ObjectTable, classes: ObjectClasses | None) -> None:
        self.images, self.table, self.classes, self.ledger = images, table, classes, images.ledger
        self.sizes: dict[int, tuple[tuple[int, int], int]] = {}  # by place of the image, with the line that says it
        self.seen: set[tuple[str, ...]] = set()
        self.most, self.far = 0.0, 0  # the largest coordinate, and boxes with one that is no fraction

    def fill(self) -> None:
        """Reads all tables."""
        nowhere = Names("rows with a class and no coordinates, taken for images without objects")
        unknown = Names("flags that are -1, which is unknown, taken for 0")
        for of in self.images.tables:
            for row in of.rows():
                if row.problem:
                    reason = f"{escape(of.table.name)}:{row.line}: {row.problem}"
                    self.ledger.leave_out(os.fsencode(of.table.name), AnnotationCode.LINE, reason)
                    continue
                file = self.images.file_of(of, row)
                place = self.images.place[file] if isinstance(file, int) else -1
                if place >= 0 and of.dialect.size is not None:
                    self._size(of, row, place)
                if of.dialect.empty(row.cells):
                    if self.images.class_of(of, row):
                        nowhere.add(f"line {row.line}")
                    continue
                if isinstance(file, Skipped):
                    if self.images.listing.choice.wants(file.key):
                        reason = f"line {row.line} of {escape(of.table.name)}: its image is not there"
                        self.ledger.leave_out(file.key, AnnotationCode.IMAGE, reason)
                    continue
                try:
                    self._add(of, row, file, place, unknown)
                except BadAnnotationError as error:
                    key = self.images.listing.key(file)
                    self.ledger.leave_out(key, error.code, f"line {row.line}: {error.reason}")
        self.ledger.notes += [*nowhere.note, *unknown.note]
        self._check_unit()

    def _add(self, of: RowTable, row: Row, file: int, place: int, unknown: Names) -> None:
        """One object. Raises BadAnnotationError."""
        if hash((of.folder, *row.cells)) in self.images.again:
            same = (of.folder, *row.cells)
            if same in self.seen:
                raise BadAnnotationError(AnnotationCode.TWICE, "the same row is there already")
            self.seen.add(same)
        dialect = of.dialect
        label = self.classes.label(self.images.class_of(of, row)) if self.classes is not None else 0
        columns = {key: self._flag(row.cells[column], row, unknown) for key, column in dialect.flags.items()}
        if dialect.place == "runs":
            size = self._pixels(place, file)
            if size is None:
                raise BadAnnotationError(AnnotationCode.OUTLINE, "the size of its image cannot be read")
            region = region_of(dialect.cells(row.cells)[0], size)
            self.table.add(place, row.line, region.box, label, area=region.area, outline=region.outline)
            return
        box = dialect.box(row.cells)
        largest = max((abs(side) for side in box if math.isfinite(side)), default=0.0)
        self.most, self.far = max(self.most, largest), self.far + (largest > _FAR)
        self.table.add(place, row.line, box, label, columns=columns)

    def _flag(self, text: str, row: Row, unknown: Names) -> int:
        text = text.strip()
        if text == "-1":
            unknown.add(f"line {row.line}")
        if text not in ("", "0", "1", "-1"):
            raise BadAnnotationError(AnnotationCode.VALUE, f"got the flag '{escape(text)}', expected 0, 1 or -1")
        return int(text == "1")

    def _size(self, of: RowTable, row: Row, place: int) -> None:
        """Remembers the size that a row says of its image. Raises LabelFileError where another row says another."""
        assert of.dialect.size is not None
        width, height = of.dialect.size
        size = read_size(row.cells[width].strip(), row.cells[height].strip())
        if size is None:
            return
        before, line = self.sizes.setdefault(place, (size, row.line))
        if before != size:
            problem = f"got {size[0]} x {size[1]} pixels, expected {before[0]} x {before[1]} as line {line} says of it"
            raise LabelFileError(of.table.place(row.line), problem, "correct one of the two rows")
        self.table.set_size(place, *size)

    def _pixels(self, place: int, file: int) -> tuple[int, int] | None:
        """(width, height) of an image of which runs of pixels are: as rows say it, else from its header."""
        if place not in self.sizes:
            upright = self.images.options.upright is True
            size = _header_size(self.images.listing.file(file).path, upright=upright)
            if size is None:
                return None
            self.sizes[place] = (size, 0)
        return self.sizes[place][0]

    def _check_unit(self) -> None:
        """Raises LabelFileError where the numbers of boxes cannot be what the table says."""
        first = self.images.tables[0]
        if first.dialect.place == "runs" or not len(self.table):
            return
        if first.dialect.unit == "pixels" and self.most <= 1:
            problem = f"no coordinate is larger than {self.most:g}, and this table ({first.dialect.name}) has pixels"
            remedy = "multiply them by width and height, or write Open Images' header for fractions: "
            remedy += "ImageID,LabelName,XMin,XMax,YMin,YMax"
            raise LabelFileError(first.table.path, problem, remedy)
        if first.dialect.unit == "fractions" and self.far * 2 > len(self.table):
            problem = f"{self.far:,} of {len(self.table):,} boxes have coordinates beyond {_FAR:g}, and this table "
            problem += f"({first.dialect.name}) has fractions"
            remedy = "divide them by width and height, or for pixels write the header "
            remedy += "filename,class,xmin,ymin,xmax,ymax"
            raise LabelFileError(first.table.path, problem, remedy)


def _header_size(path: bytes, *, upright: bool) -> tuple[int, int] | None:
    """(width, height) of an image file, as it is or as its EXIF turns it; None where its header cannot be read."""
    try:
        with Image.open(os.fsdecode(path)) as image:
            lying = upright and image.getexif().get(_ORIENTATION, 1) in range(5, 9)
            return (image.height, image.width) if lying else (image.width, image.height)
    except Exception:  # whatever Pillow raises for a damaged file: the worker rejects it, and says why
        return None
