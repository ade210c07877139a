"""Find the meaning of the values or colours of masks: from a table, a known layout, given names, or just two values.

Nothing ambiguous is guessed: where the name of a value is missing, an error asks the user for it and shows the values
of the first masks.

Tables that define the values or the colours are files next to the masks:

name,r,g,b            CamVid's class_dict.csv, or any CSV file: a header, then a row a class
64 128 64    Animal   CamVid's label_colors.txt: red, green and blue, then the name
cat:128,0,0::         CVAT's labelmap.txt: name, colour, parts, actions
Pixel Value, Class    Roboflow's _classes.csv: a header, then the value of each class
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from shardfeed.annotations import Raster
from shardfeed.converters.images.mask_file import read_mask
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.classes import ClassList, class_list
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import read_content, read_whole
from shardfeed.converters.sources.rows.label_table import cells_of
from shardfeed.converters.sources.rows.rows import Contents, Keys
from shardfeed.converters.sources.source import MaskTable, RasterImage
from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_bytes
from shardfeed.schema import is_plain
from shardfeed.text import counted, listing, number

_MAX_BYTES = 1 << 20
_NAMES = {"name", "class", "class_name", "class name", "label", "category"}
_VALUES = {"pixel value", "value", "id", "index", "class_id", "class id", "label_id"}
_RGB = ({"r", "red"}, {"g", "green"}, {"b", "blue"})
_COLOUR_FIRST = re.compile(r"(?P<r>\d+)[ \t]+(?P<g>\d+)[ \t]+(?P<b>\d+)[ \t]+(?P<name>.+)")
_LABEL_MAP = re.compile(r"(?P<name>[^:]+):(?P<r>\d+),(?P<g>\d+),(?P<b>\d+):[^:]*:[^:]*")
_REMEDY = "write a header `name,r,g,b` and one row per class, or lines of `64 128 64 name`"
_OF_NO_CLASS = {"void", "ignore", "ignored", "unlabeled", "unlabelled"}
VOID, WIDE_VOID = 255, 65535  # the default void value, in masks and in records
_MOST_CLASSES = 65535
_LOOKED_AT, _MOST_LOOKED_AT = 16, 500  # masks read to learn their values
_SHOWN = 8  # values or colours in a sentence
_MOST_COLOURS, _MOST_VALUES = 256, 150  # of classes, in the masks looked at
_WITHOUT_LABELS = (
    f"give {argument('unlabelled', python='LabelOptions(unlabelled=True)')}, "
    f"with {argument('exclude', typed='PATTERN')} for files of masks, for images without labels"
)
_BINARY = ("background", "foreground")
_USUAL = ", unless the option void changes it"
Colour = tuple[int, int, int]


class ClassRow(NamedTuple):
    """A class: its name, and its colour (red, green, blue) or the value that masks have for it."""

    name: str
    colour: tuple[int, int, int] | None
    value: int | None

    @property
    def is_void(self) -> bool:
        """Whether its name means pixels without a class."""
        return self.name.casefold() in _OF_NO_CLASS

    def has(self, value: object) -> bool:
        """Whether masks have this value for it."""
        return self.value is not None and self.value == value


def read_class_table(path: str) -> list[ClassRow]:
    """The classes of a table, in its order. Raises LabelFileError with file and line."""
    text = read_whole(path, _MAX_BYTES, _REMEDY).decode()
    lines = [(f"{path}:{number}", line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(place, line) for place, line in lines if line and not line.startswith("#")]
    rows: list[ClassRow] = []
    seen: dict[tuple[str, object], str] = {}
    for place, name, numbers in _cells(lines):
        if not is_plain(name):
            raise LabelFileError(place, f"got the class name '{escape(name)}', expected text", "name the class")
        red, *rest = (_number(place, text, 255 if len(numbers) > 1 else 65535) for text in numbers)
        row = ClassRow(name, (red, rest[0], rest[1]), None) if rest else ClassRow(name, None, red)
        for what, cell in row._asdict().items():
            before = place if cell is None else seen.setdefault((what, cell), place)
            if before != place:
                problem = f"the {what} {escape(cell)} is already on line {before.rpartition(':')[2]}"
                raise LabelFileError(place, problem, f"give each class a unique {what}")
        rows.append(row)
    if not rows:
        raise LabelFileError(path, "a header without classes" if lines else "got no class", _REMEDY)
    return rows


def _cells(lines: list[tuple[str, str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Place, name, and red, green and blue or one value, of each class; `lines`: with the place of each."""
    pattern = next((one for one in (_COLOUR_FIRST, _LABEL_MAP) if lines and one.fullmatch(lines[0][1])), None)
    for place, line in lines if pattern else ():
        found = pattern.fullmatch(line) if pattern else None
        if found is None:
            raise LabelFileError(place, f"got {escape(line[:60])!r}, unlike line 1", _REMEDY)
        yield place, found["name"].strip(), [found[side] for side in "rgb"]
    if pattern or not lines:
        return
    delimiter = next((mark for mark in ",;\t" if mark in lines[0][1]), ",")
    header: list[str] = []
    columns: list[int] = []
    for place, line in lines:
        cells = [cell.strip() for cell in cells_of(line, delimiter)]
        if header and len(cells) != len(header):
            raise LabelFileError(place, f"got {len(cells)} cells, the header has {len(header)}", _REMEDY)
        if header:
            yield place, cells[columns[0]], [cells[i] for i in columns[1:]]
            continue
        header = [cell.casefold() for cell in cells]
        columns = [next((i for i, cell in enumerate(header) if cell in words), -1) for words in (_NAMES, *_RGB)]
        if min(columns[1:]) < 0:
            columns[1:] = [next((i for i, cell in enumerate(header) if cell in _VALUES), -1)]
        if min(columns) < 0:
            problem = f"got the columns {escape(', '.join(cells))[:80]}, expected name, r, g, b"
            raise LabelFileError(place, problem, _REMEDY)


def _number(place: str, text: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise LabelFileError(place, f"got {escape(text)!r}, expected a number from 0 to {most}", "correct the table")
    return int(text)


def is_class_table(look: Look, path: str) -> bool:
    """Whether a file among masks defines their values: by its name, or for a CSV file by its header."""
    name = os.path.basename(path).lower()
    if name in ("class_dict.csv", "label_colors.txt", "label_colours.txt", "labelmap.txt"):
        return True
    header = look.head(path).partition(b"\n")[0][:1000].decode("utf-8-sig", "replace") if name.endswith(".csv") else ""
    called = {cell.strip(' "\r').casefold() for cell in re.split("[,;\t]", header)}
    return bool(called & _NAMES) and ("pixel value" in called or all(called & words for words in _RGB))


@dataclass(frozen=True, eq=False)
class Masks:
    """The masks of all images, and the meaning of their values in records: the `Rasters` of a source.

    Image i has the mask `contents[places[i]]`; `places`: int64 [n], None for i itself. `names`: names of the contents,
    for the report.
    """

    contents: Contents
    raster: Raster
    table: MaskTable
    names: Keys | None = None
    places: np.ndarray | None = None
    upright: bool | None = None

    def of_image(self, image: int) -> RasterImage:
        """The mask of one image."""
        place = image if self.places is None else self.places.item(image)
        name = "its mask" if self.names is None else os.fsdecode(self.names[place])
        return RasterImage(self.contents[place], self.table, name, self.upright)


def read_masks(
    contents: Contents, class_names: ClassList | None, place: str, keys: Keys
) -> tuple[Masks, tuple[str, ...]]:
    """The masks of images that are parts of larger files, and notes; `keys`: of their samples.

    Some masks are read to find their values. Raises UsageError if the meaning of the values is unknown.
    """
    seen = Seen.of(contents, range(len(keys)), lambda i: escape(keys[i]))
    if seen.colours:  # a table of colours is for files of masks
        problem = "its masks have colours, expected one channel with the number of a class in each pixel"
        raise UsageError(place, problem, "write them so, or as files beside the images and a table of their colours")
    options = AnnotationOptions(class_names=class_names)
    raster, table, notes = meaning_of(name_bytes(place), seen, options)
    return Masks(contents, raster, table), notes


class Seen(NamedTuple):
    """Values found in some of the masks. `values`: sorted; `colours`: sorted, of the masks without plain values.

    `looked_at`: how many masks were read; `problem`: why the first unreadable mask was unreadable. `light_first`:
    whether a palette shows 0 lighter than 1, so that 0 may not be the background.
    """

    values: tuple[int, ...] = ()
    colours: tuple[int, ...] = ()
    looked_at: int = 0
    problem: str = ""
    light_first: bool = False

    @classmethod
    def of(cls, contents: Contents, places: Sequence[int], name: Callable[[int], str]) -> "Seen":
        """Read some of the masks at `places`: spread over all of them, and more as long as all hold one value.

        `name`: returns the name of the mask at a place, for messages.
        """
        values: set[int] = set()
        colours: set[int] = set()
        looked_at, problem, light_first = 0, "", False
        step = -(-len(places) // _LOOKED_AT)
        first = range(0, len(places), step)
        more = (i for i in range(len(places)) if i % step)
        for count, i in enumerate(chain(first, more)):
            if count >= len(first) and (len(values) + len(colours) > 1 or count >= _MOST_LOOKED_AT):
                break
            try:
                mask = read_mask(read_content(contents[places[i]]))
            except RejectedError as error:
                problem = problem or f"{name(places[i])}: {error.reason}"
                continue
            looked_at += 1
            plain = mask.values()
            if plain is not None:
                values.update(np.unique(plain).tolist())
            elif (codes := mask.colours()) is not None:
                colours.update(np.unique(codes)[:1000].tolist())
            if mask.palette is not None:
                light_first |= bool(mask.palette[0].sum(dtype=int) > mask.palette[1].sum(dtype=int))
        return cls(tuple(sorted(values)), tuple(sorted(colours)), looked_at, problem, light_first)


class Meaning(NamedTuple):
    """Meaning of masks: metadata of the raster in records, the mapping of mask values, and notes for the report."""

    raster: Raster
    table: MaskTable
    notes: tuple[str, ...]


def meaning_of(
    place: bytes,
    seen: Seen,
    options: AnnotationOptions,
    rows: Sequence[ClassRow] | None = None,
    *,
    known: Sequence[ClassRow] = (),
    chosen: tuple[str, ...] | None = None,
    border: Colour | None = None,
    notes: Sequence[str] = (),
) -> Meaning:
    """Decide the meaning of the values. `rows`: of the table that applies, if any; `place`: the folder, for errors.

    `known`: the classes of a layout (only `chosen` ones are used), and `notes` about them. `border`: a colour that is
    always void. Raises UsageError if nothing defines the values or colours.
    """
    names = class_list(options.class_names, from_zero=True)
    if rows is not None:
        return _by_rows(rows, names, options, (), None if options.void == "none" else border)
    if names is not None and known and not {row.name for row in known} >= set(names):
        classes = [row for row in known if not row.is_void]
        called = dict(zip(classes, names, strict=False))
        known = [row._replace(name=called.get(row, row.name)) for row in known] if len(names) == len(classes) else ()
        chosen = names = None if known else names
    if known:
        return _by_rows(known, names or chosen, options, notes)
    return _by_values(place, names, seen, options)


def _by_values(place: bytes, names: tuple[str, ...] | None, seen: Seen, options: AnnotationOptions) -> Meaning:
    """Return the meaning of masks without a table of their values; class names may be given."""
    if seen.colours:
        shown = listing([f"({c >> 16}, {c >> 8 & 255}, {c & 255})" for c in seen.colours], _SHOWN)
        problem = f"its masks have colours, {shown}, and the class of each colour is unknown"
        remedy = f"list them in a table with the header name,r,g,b: {argument('colours', typed='FILE')}"
        if len(seen.colours) > _MOST_COLOURS:
            problem = f"its masks have as many colours as photos, {shown}"
            remedy = f"save masks without loss and with one colour per class, or {_WITHOUT_LABELS}"
        raise UsageError(place, problem, remedy)
    highest = max(seen.values, default=0) or (VOID if options.void == "none" else 0)
    two = highest in (VOID, WIDE_VOID) and seen.values in ((0, highest), (highest,), (0,))
    if options.void in (None, "none") and two and (names is None or len(names) == 2):
        rows = [ClassRow(name, None, value) for name, value in zip(names or _BINARY, (0, highest), strict=True)]
        called = f"{highest} is class 1, {escape(rows[1].name)}, and no value is void"
        return _meaning(rows, (), (f"masks contain only 0 and {highest}: {called}{_USUAL}",))
    if names is None and seen.values in ((0, 1), (1,)) and not seen.light_first:
        rows = [ClassRow(name, None, value) for value, name in enumerate(_BINARY)]
        note = "masks contain only 0 and 1, which become background and foreground"
        return _meaning(rows, [options.void] if isinstance(options.void, int) else (), (note,))
    if names is None:
        raise _unnamed(place, seen, options)
    if options.void is None and len(names) == 2 and seen.values == (0,):
        problem = f"the {seen.looked_at} masks that were sampled contain only 0, so 255 may be class 1, or void"
        either = f"{argument('void', 'none')} or {argument('void', VOID)}"
        raise UsageError(place, problem, f"say which: {either}")
    if len(names) > _MOST_CLASSES:
        raise UsageError("class_names", f"{len(names):,} classes, masks have {_MOST_CLASSES:,} at most", "name fewer")
    void = _void(len(names)) if options.void is None else options.void
    values = [value for value in range(len(names) + 1) if value != void][: len(names)]
    others, known = set(seen.values) - {*values, void}, set(seen.values) & {*values}
    one_each = len(seen.values) in (len(names), len(names) + 1)
    if others and one_each and len(others) >= len(known):  # not one odd mask, but names of values that are not 0, 1, 2
        shown = listing([str(value) for value in seen.values], _SHOWN)
        problem = f"{number(len(names), 'name')} for 0, 1, 2, ..., but masks have {shown}"
        raise UsageError("class_names", problem, f"list the class of each value in {_table()} instead")
    rows = [ClassRow(name, None, value) for name, value in zip(names, values, strict=True)]
    notes = [f"masks have {void}, which is void{_USUAL}"] if options.void is None and void in seen.values else []
    return _meaning(rows, () if void == "none" else [void], notes)


def _table() -> str:
    return f"a table with the header name,value: {argument('colours', typed='FILE')}"


def _void(classes: int) -> int:
    """Return the value that means no class, for this number of classes."""
    return VOID if classes <= VOID else WIDE_VOID


def _unnamed(place: bytes, seen: Seen, options: AnnotationOptions) -> UsageError:
    """The error for masks with values without a name."""
    if not seen.looked_at:
        return UsageError(place, f"none of its masks can be read, the first: {seen.problem}", f"or {_WITHOUT_LABELS}")
    void = VOID if options.void is None else options.void
    shown = listing([str(value) for value in seen.values], 20)
    count = max((value for value in seen.values if value != void), default=0) + 1
    problem = f"the meaning of its mask values is unknown: {number(seen.looked_at, 'mask')} sampled, with {shown}"
    if len(seen.values) > _MOST_VALUES:
        problem += "; so many values may number objects, and are not their classes"
        remedy = f"save the class of each pixel instead, or list the class of each value in {_table()}"
        return UsageError(place, problem, remedy)
    if count > 2 * len(seen.values):
        return UsageError(place, problem, f"list the class of each value, void for no class, in {_table()}")
    without = f" ({void} is void)" if void in seen.values else ""
    remedy = f"name the classes of 0, 1, 2, ...{without}, one per line, at least {count}: "
    return UsageError(place, problem, remedy + argument("class_names", typed="FILE"))


def _by_rows(
    rows: Sequence[ClassRow],
    names: tuple[str, ...] | None,
    options: AnnotationOptions,
    notes: Sequence[str],
    border: Colour | None = None,
) -> Meaning:
    """Return the meaning of masks by their table. `names`: the classes, in label order; None: all but void."""
    by_name = {row.name: row for row in rows}
    if lacking := [name for name in names or () if name not in by_name]:
        problem = f"got the class {escape(lacking[0])}, which the masks do not have"
        raise UsageError("class_names", problem, f"name some of {listing([escape(row.name) for row in rows], 12)}")
    coloured = rows[0].colour is not None
    if coloured and isinstance(options.void, int):
        remedy = "name a class of the table void, or leave this option out"
        raise UsageError("void", f"got the value {options.void}, but the classes have colours", remedy)
    default = [row.name for row in rows if options.void == "none" or not (row.is_void or row.has(options.void))]
    kept = [by_name[name] for name in names or default]
    others = [row for row in rows if row not in kept]
    all_notes = list(notes)
    if others and not notes:
        all_notes.append(counted("classes that are void", [row.name for row in others], len(others)))
    if coloured:
        void = [row.colour for row in others]
        return _meaning(kept, void + [border] * (border not in {None, *(row.colour for row in rows)}), all_notes)
    values = [row.value for row in others]
    if isinstance(options.void, int):
        values.append(options.void)
    elif options.void is None and VOID not in {row.value for row in rows}:
        values.append(VOID)
    return _meaning(kept, values, all_notes)


def _meaning(rows: Sequence[ClassRow], void: Sequence[int | Colour | None], notes: Sequence[str]) -> Meaning:
    """`rows`: the classes; `void`: values or colours of no class."""
    if not rows:
        raise UsageError("class_names", "all classes are void", "list the other classes")
    names, stored = tuple(row.name for row in rows), _void(len(rows)) if void else None
    labels: dict[int | Colour | None, int] = dict.fromkeys(void, stored or 0)
    if rows[0].colour is not None:
        labels |= {row.colour: label for label, row in enumerate(rows)}
        colours = sorted((*colour, label) for colour, label in labels.items() if isinstance(colour, tuple))
        return Meaning(Raster(names, stored), MaskTable(colours=tuple(colours)), tuple(notes))
    ids = tuple(row.value or 0 for row in rows)
    labels |= {value: label for label, value in enumerate(ids)}
    values = sorted((value, label) for value, label in labels.items() if isinstance(value, int))
    shown = () if ids == tuple(range(len(ids))) else ids
    return Meaning(Raster(names, stored, shown), MaskTable(tuple(values)), tuple(notes))
