"""Boxes in tables and lists: any CSV with a row for each, Open Images', AutoML's, keras', Kaggle's, WIDER FACE's.

filename,width,height,class,xmin,ymin,xmax,ymax     a row for each object: corners, or sizes (x,y,w,h)
path left,top,right,bottom,class ...                keras-yolo3's lines
wider_face_split/wider_face_train_bbx_gt.txt        WIDER FACE
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PIL import Image

from shardfeed.converters.images.exif import ORIENTATION_TAG
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.box_columns import Dialect, DisorderedRunsError, dialect_of, region_of
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.listing import split_in_name
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.cells import read_size
from shardfeed.converters.sources.rows.label_table import LabelTable, check_options
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.split_words import usual_split
from shardfeed.text import counted, number

_ROBOFLOW = "_annotations.csv"  # in the folder of each split
OPEN_IMAGES, _ANNOTATIONS = "annotations-bbox.csv", "annotations"
_FACES = "wider_face_split/wider_face_{}_bbx_gt.txt"
_ENDS = (".csv", ".tsv", ".tab", ".txt")


@dataclass(frozen=True)
class BoxTable:
    """One file: its paths are relative to `folder` in the root, which ends in "/". `split`: split of all its rows."""

    table: LabelTable
    dialect: Dialect | str
    folder: str = ""
    split: str | None = None


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """A table with the header, or the shape of rows, of a dialect; or folders of splits with such tables."""
    try:
        found = find_tables(look, options)
    except UsageError:
        return None
    if not found:
        return None
    dialect, where = found[0].dialect, escape(found[0].table.name)
    if isinstance(dialect, str):
        return Evidence("boxes-csv", f"{where} has one row per object", dialect)
    return Evidence("boxes-csv", f"{where} has one row per object: {dialect.name}")


def find_tables(look: Look, options: AnnotationOptions) -> list[BoxTable]:
    """Find the tables at a path: the file itself, or the tables in a folder and its split folders; empty if none.

    Raises LabelFileError for a file that cannot be read.
    """
    places: list[tuple[str, str, str]] = [("", "", "")]
    if look.is_folder:
        splits = [name for name in look.names()[0] if usual_split(name)]
        places = [(os.path.join(name, _ROBOFLOW), f"{name}/" if name else "", name) for name in ("", *splits)]
        places += [(_FACES.format(name), f"WIDER_{name}/images/", name) for name in ("train", "val")]
        places += _tables_of_open_images(look)
    found = []
    for name, folder, split in places:
        path = os.path.join(look.path, name) if name else look.path
        if not path.lower().endswith(_ENDS) or not os.path.isfile(path):
            continue
        lines = path.lower().endswith(".txt")
        form, delimiter = ("text", None) if lines else (None, options.delimiter)
        table = LabelTable(path, form, delimiter, options.encoding, paths_only=lines)
        dialect = dialect_of(table)
        if dialect is not None:
            found.append(BoxTable(table, dialect, folder, usual_split(split) if split else None))
    return found


def _tables_of_open_images(look: Look) -> list[tuple[str, str, str]]:
    """The tables of Open Images in a folder or in its `annotations`, and the split of each; of image ids anywhere."""
    within = [name for name in look.names()[0] if name.lower() == _ANNOTATIONS]
    names = [os.path.join(folder, name) for folder in ("", *within) for name in look.names(folder)[1]]
    tables = [name for name in names if name.lower().endswith(OPEN_IMAGES)]
    splits = [split_in_name(os.path.basename(name)) or "" for name in tables]
    return (
        []
        if "" in splits and len({*splits}) > 1
        else [(name, "", split) for name, split in zip(tables, splits, strict=True)]
    )


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images named in the rows of a table, and their objects.

    Rows of one image may be anywhere. AutoML's gs:// paths are matched by their last parts. A row without coordinates
    means no objects, and the image is kept. The header decides whether numbers are pixels or fractions. Features:
    boxes, classes if there is a column of them, size and flags if the dialect has them; from runs of pixels, masks and
    areas. A row that cannot be read is left out, E_LINE, under the name of the table.

    Raises UsageError, LabelFileError.
    """
    tables = find_tables(look, options)
    if not tables:
        remedy = "add a header such as filename,width,height,class,xmin,ymin,xmax,ymax"
        raise LabelFileError(look.path, "its tables of objects have no known format", remedy)
    check_options(options, look.path, [one.table.format for one in tables])
    dialects: list[Dialect] = []
    for one in tables:
        if isinstance(one.dialect, str):
            raise LabelFileError(one.table.path, f"it has one row per object; {one.dialect}", "name it in the header")
        dialects.append(one.dialect)
    first = dialects[0]
    if len({(one.place, one.unit) for one in dialects}) > 1:
        problem = "its format differs from that of the first table"
        raise LabelFileError(tables[1].table.path, problem, "convert them separately")
    runs = first.place == "runs"
    found = Annotations(
        look.path if len(tables) > 1 else tables[0].table.path,
        look,
        options,
        what="line",
        unit=first.unit,
        masks=runs and (not options.tasks or "masks" in options.tasks),
        tasks=("boxes", "masks") if runs else ("boxes",),
        flags=tuple(first.flags),
    )
    found.objects.sized = first.place in ("sizes", "list")
    found.unnamed = "images without a row, left out; add a row without coordinates for an image without objects"
    reading = _BoxRows(found, options, _class_names(tables[0].table, first, options), _only_class(dialects, options))
    for one, dialect in zip(tables, dialects, strict=True):
        reading.table(one, dialect, several=len(tables) > 1)
    reading.finish(first)
    return found.source()


def _only_class(dialects: Sequence[Dialect], options: AnnotationOptions) -> str | None:
    """The class of all objects, if the user names it and no column does. Raises UsageError if there are two."""
    names = None if options.class_names is None else class_list(options.class_names)
    if names is None:
        if any(one.numbers for one in dialects):
            problem = "it has class numbers, but no class names"
            raise UsageError("class_names", problem, f"give {argument('class_names', typed='FILE')}, one name per line")
        return None
    if any(one.label is not None for one in dialects):
        return None
    if len(names) > 1:
        problem = f"got {len(names)} classes, but the table has no class column"
        raise UsageError("class_names", problem, "give one class, or none")
    return next(iter(names))


def _class_names(table: LabelTable, dialect: Dialect, options: AnnotationOptions) -> Mapping[str, str]:
    """Open Images' class names by their codes in tables; from the file next to the table, if there is one.

    Names shared by several classes are distinguished by these codes. Empty if the class list has the codes.
    """
    if dialect.unit != "fractions" or dialect.place != "sides":
        return {}
    folder = os.path.dirname(table.path) or "."
    names = [name for name in sorted(os.listdir(folder)) if "class-descriptions" in name and name.endswith(".csv")]
    if not names:
        return {}
    name = next((name for name in names if "boxable" in name), names[0])
    found: dict[str, str] = {}
    for _, cells in LabelTable(os.path.join(folder, name), "csv", ",", options.encoding).texts():
        if len(cells) == 2 and cells[0] != "LabelName":
            found[cells[0]] = cells[1]
    given = class_list(options.class_names)
    if given is not None and not found.keys().isdisjoint(given):
        return {}
    counts = Counter(found.values())
    return {code: f"{text} ({code})" if counts[text] > 1 else text for code, text in found.items()}


class _BoxRows:
    """Reader of rows into `found`. `display`: the name of a class by its code. `only`: the class of all objects."""

    def __init__(
        self, found: Annotations, options: AnnotationOptions, display: Mapping[str, str], only: str | None
    ) -> None:
        self.found, self.options, self.display, self.only = found, options, display, only
        self.images: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}  # by folder and text: number, other cells
        self.buckets: dict[int, str] = {}
        self.runs: list[tuple[int, int, str, str | None, list[str]]] = []
        self.several = self.disordered = 0  # rows of several runs, and those whose runs are not in order
        self.nowhere = Names("rows with a class but no coordinates, treated as images without objects")
        self.unknown = Names("flags of -1 (unknown), treated as 0")

    def table(self, one: BoxTable, dialect: Dialect, *, several: bool) -> None:
        """Take the rows of a table."""
        name = f"{one.folder}{one.table.name}" if several else one.table.name
        for line, cells, problem in dialect.rows(one.table):
            if problem:
                self.found.leave_out(one.table.name, AnnotationCode.LINE, f"{escape(name)}:{line}: {problem}")
                continue
            image = self._image(one, dialect, line, cells, f"{escape(name)}:{line}" if several else f"line {line}")
            label = self.only
            if dialect.label is not None:
                text = cells[dialect.label].strip() if dialect.label < len(cells) else ""
                label = self.display.get(text, text)
            if dialect.empty(cells):
                if label and self.only is None:
                    self.nowhere.add(f"line {line}")
                continue
            try:
                flags = {key: self._flag(cells[column], line) for key, column in dialect.flags.items()}
                if dialect.place == "runs":
                    self.runs.append((image, line, dialect.cells(cells)[0], label, cells))
                    if self.found.path(image) is not None:
                        self._add_runs()
                else:
                    self.found.object(image, line, dialect.box(cells), label, flags=flags, own_id=tuple(cells))
            except BadAnnotationError as error:
                self.found.leave_out(image, error.code, f"line {line}: {error.reason}")

    def _image(self, one: BoxTable, dialect: Dialect, line: int, cells: Sequence[str], where: str) -> int:
        text = cells[dialect.image].strip()
        split = one.split if dialect.split is None else cells[dialect.split].strip()
        sides = () if dialect.size is None else tuple(cells[column].strip() for column in dialect.size)
        properties = (split or "", *sides)
        fields = {name: cells[i] for name, i in dialect.fields.items()} if self.options.group_column else {}
        properties += (fields.get(self.options.group_column or "", ""),)
        known, before = self.images.get((one.folder, text), (-1, ()))
        if before == properties:
            return known
        if dialect.place == "corners" and split is not None:
            split = {"validate": "validation", "unassigned": None, "": None}.get(split.casefold(), split)
            self.found.unassigned = True
        name = text[len("gs://") :].partition("/")[2] if text.startswith("gs://") else text
        size = read_size(*sides) if sides else None
        image = self.found.image(name, where=where, folder=one.folder, split=split, size=size, fields=fields)
        self.images[one.folder, text] = image, properties
        if text.startswith("gs://") and self.buckets.setdefault(image, text) != text:
            problem = f"'{escape(text)}' and '{escape(self.buckets[image])}' end alike, so their files cannot be told "
            raise LabelFileError(one.table.place(line), problem + "apart", "keep the folders of the bucket")
        return image

    def _flag(self, text: str, line: int) -> int:
        text = text.strip()
        if text == "-1":
            self.unknown.add(f"line {line}")
        if text not in ("", "0", "1", "-1"):
            raise BadAnnotationError(AnnotationCode.VALUE, f"got the flag '{escape(text)}', expected 0, 1 or -1")
        return int(text == "1")

    def _add_runs(self) -> None:
        """Add the regions of runs; their images' sizes must be known, because runs go down the columns."""
        for image, line, cell, label, cells in self.runs:
            try:
                size = self.found.objects.size(image) or self._header_size(image)
                if size is None:
                    raise BadAnnotationError(AnnotationCode.OUTLINE, "the size of its image cannot be read")
                self.several += len(cell.split()) > 2
                region = region_of(cell, size)
                known = {"area": region.area, "outline": region.outline, "own_id": tuple(cells)}
                self.found.object(image, line, region.box, label, **known)
            except BadAnnotationError as error:
                self.disordered += isinstance(error, DisorderedRunsError)
                self.found.leave_out(image, error.code, f"line {line}: {error.reason}")
        self.runs.clear()

    def _header_size(self, image: int) -> tuple[int, int] | None:
        """(width, height) of an image file, stored or upright by EXIF; None if its header cannot be read."""
        path = self.found.path(image)
        if path is None:
            raise BadAnnotationError(AnnotationCode.IMAGE, "its image is missing")
        try:
            with Image.open(os.fsdecode(path)) as file:
                sideways = self.options.upright and file.getexif().get(ORIENTATION_TAG, 1) in range(5, 9)
                return (file.height, file.width) if sideways else (file.width, file.height)
        except Exception:  # Pillow's errors for a damaged file: the worker rejects it with a reason
            return None

    def _check_order(self) -> None:
        """Raise LabelFileError if most rows of several runs have them out of order: then the file means others."""
        if self.disordered > 1 and 2 * self.disordered > self.several:
            rows = f"{self.disordered:,} of {number(self.several, 'row')} with several runs"
            problem = f"in {rows} a start is before the end of the run before: these starts may be relative to it"
            raise LabelFileError(self.found.place, problem, "count each start from 1, the first pixel of the image")

    def finish(self, first: Dialect) -> None:
        """Finish after the last row. Raises LabelFileError if there was no row, or if the unit is in doubt."""
        found = self.found
        if not len(found):
            raise LabelFileError(found.place, "no rows after the header", "write one row per object")
        if self.runs:
            found.settle()
            self._add_runs()
        self._check_order()
        small = len(found.objects) and found.objects.largest <= 1
        if first.doubt and (self.options.unit == "fractions" or (self.options.unit is None and small)):
            problem = f"boxes are fractions of the image (at most {found.objects.largest:g}), and {first.doubt}"
            raise LabelFileError(found.place, problem, "name them x_center,y_center or left,top in the header")
        found.ledger.notes += [*self.nowhere.note, *self.unknown.note]
        if unused := [name for name in first.unused if name != self.options.group_column]:
            found.note(counted("unused columns", unused, len(unused)))
