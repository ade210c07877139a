"""What the values or colours of masks mean: from a table, a known layout, names that are given, or two values alone.

Nothing is guessed that could be something else: where nobody says what a value is called, this is asked for, with the
values that the first masks have.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from shardfeed.annotations import Raster
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.annotations.masks.layouts import Layout
from shardfeed.converters.sources.annotations.masks.mask_file import MaskFile, read_mask
from shardfeed.converters.sources.annotations.masks.tables import ClassRow
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.objects import MaskTable
from shardfeed.converters.sources.reading import read_content
from shardfeed.converters.sources.source import Content, SourceFile
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import counted, listing, number

VOID, WIDE_VOID = 255, 65535  # of no class: in masks where nothing else is said, and in records
_MOST_CLASSES = 65535
_LATER = -1  # the void of a record, before it is known
_LOOKED_AT, _MOST_LOOKED_AT = 16, 500  # masks that tell what is in masks
_SHOWN = 8  # values or colours in a sentence
_BINARY = ("background", "foreground")
_USUAL = ", unless the option void says otherwise"


class Seen(NamedTuple):
    """What some masks hold. `values`: sorted; `colours`: sorted, of those that have no plain values.

    `looked_at`: how many were read; `problem`: why the first one could not be. `light_first`: whether a palette shows 0
    lighter than 1, so that 0 may not be the background.
    """

    values: tuple[int, ...] = ()
    colours: tuple[int, ...] = ()
    looked_at: int = 0
    problem: str = ""
    light_first: bool = False

    @classmethod
    def of(cls, masks: int, file: Callable[[int], SourceFile]) -> "Seen":
        """Reads some of so many mask files, as `of_contents` does."""
        return cls.of_contents(masks, lambda i: (escape(file(i).path.rpartition(b"/")[2]), file(i)))

    @classmethod
    def of_contents(cls, masks: int, named: Callable[[int], tuple[str, Content]]) -> "Seen":
        """Reads some of so many masks: spread over all of them, and more as long as all hold one value.

        `named`: what a message calls a mask, and its content.
        """
        values: set[int] = set()
        colours: set[int] = set()
        looked_at, problem, light_first = 0, "", False
        step = -(-masks // _LOOKED_AT)
        first = range(0, masks, step)
        more = (place for place in range(masks) if place % step)
        for count, place in enumerate(chain(first, more)):
            if count >= len(first) and (len(values) + len(colours) > 1 or count >= _MOST_LOOKED_AT):
                break
            name, content = named(place)
            try:
                mask = read_mask(read_content(content))
            except RejectedError as error:
                problem = problem or f"{name}: {error.reason}"
                continue
            looked_at += 1
            plain = mask.values()
            if plain is not None:
                values.update(np.unique(plain).tolist())
            else:
                colours.update(_few_colours(mask))
            if mask.palette is not None:
                light_first |= bool(mask.palette[0].sum(dtype=int) > mask.palette[1].sum(dtype=int))
        return cls(tuple(sorted(values)), tuple(sorted(colours)), looked_at, problem, light_first)


def _few_colours(mask: MaskFile) -> list[int]:
    codes = mask.colours()
    return [] if codes is None else np.unique(codes)[:1000].tolist()


class Meaning(NamedTuple):
    """What a record says of its raster, what a mask's values become, and sentences for the report."""

    raster: Raster
    table: MaskTable
    notes: tuple[str, ...]


def meaning_of(
    place: bytes, layout: Layout, rows: Sequence[ClassRow] | None, seen: Seen, options: AnnotationOptions
) -> Meaning:
    """Decide. `rows`: of a table that lies beside the masks or is given; `place`: the folder, for errors.

    Raises UsageError where nothing says what the values or colours are.
    """
    names = class_list(options.class_names)
    if rows is not None:
        border = [] if layout.border is None or options.void == "none" else [(*layout.border, _LATER)]
        return _by_rows(rows, names, options, (), border)
    known = layout.rows or ()
    if names is not None and known and not {row.name for row in known} >= set(names):
        classes = [row for row in known if not row.is_void]
        if len(names) != len(classes):
            return _by_values(place, names, seen, options)
        called = dict(zip(classes, names, strict=True))
        known, names = [row._replace(name=called.get(row, row.name)) for row in known], None
    if known:
        return _by_rows(known, names or layout.chosen, options, layout.notes)
    return _by_values(place, names, seen, options)


def _by_values(place: bytes, names: tuple[str, ...] | None, seen: Seen, options: AnnotationOptions) -> Meaning:
    """Of masks of which only class names may be known."""
    if seen.colours:
        shown = listing([f"({c >> 16}, {c >> 8 & 255}, {c & 255})" for c in seen.colours], _SHOWN)
        problem = f"its masks have colours, {shown}, and nothing says which class each is"
        remedy = f"name them in a table with the header name,r,g,b: {argument('colours', typed='FILE')}"
        raise UsageError(place, problem, remedy)
    two = seen.values in ((0, VOID), (VOID,)) or (options.void == "none" and seen.values == (0,))
    if options.void in (None, "none") and two and (names is None or len(names) == 2):
        rows = [ClassRow(name, None, value) for name, value in zip(names or _BINARY, (0, VOID), strict=True)]
        note = f"masks hold nothing but 0 and 255: 255 is the class 1, {escape(rows[1].name)}, and none is void{_USUAL}"
        return _meaning(rows, [], (note,))
    if names is None and seen.values in ((0, 1), (1,)) and not seen.light_first:
        rows = [ClassRow(name, None, value) for value, name in enumerate(_BINARY)]
        note = "masks hold 0 and 1 alone, which become background and foreground"
        return _meaning(rows, [options.void] if isinstance(options.void, int) else [], (note,))
    if names is None:
        raise _unnamed(place, seen, options)
    if options.void is None and len(names) == 2 and seen.values == (0,):
        problem = (
            f"the {seen.looked_at} masks that were looked at hold 0 alone, so that 255 may be the class 1, or void"
        )
        either = f"{argument('void', 'none')} or {argument('void', VOID)}"
        raise UsageError(place, problem, f"say which: {either}")
    if len(names) > _MOST_CLASSES:
        raise UsageError("class_names", f"{len(names):,} classes, masks have {_MOST_CLASSES:,} at most", "name fewer")
    void = (VOID if len(names) <= VOID else WIDE_VOID) if options.void is None else options.void
    values = [value for value in range(len(names) + 1) if value != void][: len(names)]
    rows = [ClassRow(name, None, value) for name, value in zip(names, values, strict=True)]
    return _meaning(rows, [] if void == "none" else [void], ())


def _unnamed(place: bytes, seen: Seen, options: AnnotationOptions) -> UsageError:
    """The error where masks have values that nobody has named."""
    if not seen.looked_at:
        return UsageError(place, f"none of its masks can be read, the first: {seen.problem}", "see what they are")
    void = VOID if options.void is None else options.void
    shown = listing([str(value) for value in seen.values], 20)
    count = max((value for value in seen.values if value != void), default=0) + 1
    problem = (
        f"nothing says what the values of its masks mean: {number(seen.looked_at, 'mask')} looked at, with {shown}"
    )
    without = f" ({void} is void)" if void in seen.values else ""
    remedy = f"name the classes of 0, 1, 2, ...{without}, one a line, {count} or more of them: "
    return UsageError(place, problem, remedy + argument("class_names", typed="FILE"))


def _by_rows(
    rows: Sequence[ClassRow],
    names: tuple[str, ...] | None,
    options: AnnotationOptions,
    notes: Sequence[str],
    borders: Sequence[tuple[int, int, int, int]] = (),
) -> Meaning:
    """Of masks whose values or colours are listed; `names`: those that are classes, in label order; None: all."""
    by_name = {row.name: row for row in rows}
    if lacking := [name for name in names or () if name not in by_name]:
        problem = f"got the class {escape(lacking[0])}, which the masks do not have"
        raise UsageError("class_names", problem, f"name some of {listing([escape(row.name) for row in rows], 12)}")
    coloured = rows[0].colour is not None
    if coloured and isinstance(options.void, int):
        remedy = "call a class of the table void, or leave it out"
        raise UsageError("void", f"got the value {options.void}, and the classes have colours", remedy)
    default = [row.name for row in rows if options.void == "none" or not _is_void(row, options)]
    kept = [by_name[name] for name in names or default]
    wanted = {row.name for row in kept}
    others = [row for row in rows if row.name not in wanted]
    said = list(notes)
    if others and not notes:
        said.append(counted("classes that are void", [row.name for row in others], len(others)))
    void = [row.value for row in others if row.value is not None]
    known = {row.value for row in rows}
    if isinstance(options.void, int):
        void.append(options.void)
    elif options.void is None and not coloured and VOID not in known:
        void.append(VOID)
    colours = [(*row.colour, _LATER) for row in others if row.colour is not None]
    colours += [border for border in borders if coloured and border[:3] not in {row.colour for row in rows}]
    return _meaning(kept, void, said, colours)


def _is_void(row: ClassRow, options: AnnotationOptions) -> bool:
    return row.is_void or (row.value is not None and row.value == options.void)


def _meaning(
    rows: Sequence[ClassRow],
    void: Sequence[int],
    notes: Sequence[str],
    void_colours: Sequence[tuple[int, int, int, int]] = (),
) -> Meaning:
    """`rows`: the classes; `void`, `void_colours`: values and colours of no class."""
    if not rows:
        raise UsageError("class_names", "no class is left, all are void", "name those that are classes")
    names = tuple(row.name for row in rows)
    stored = None
    if void or void_colours:
        stored = VOID if len(rows) <= VOID else WIDE_VOID
    if rows[0].colour is not None:
        colours = [(*row.colour, label) for label, row in enumerate(rows) if row.colour is not None]
        colours += [(*colour[:3], stored or 0) for colour in void_colours]
        return Meaning(Raster(names, stored), MaskTable(colours=tuple(sorted(colours))), tuple(notes))
    ids = tuple(row.value or 0 for row in rows)
    values = {value: label for label, value in enumerate(ids)}
    values |= {value: stored or 0 for value in void if value not in values}
    same = ids == tuple(range(len(ids)))
    table = MaskTable(values=tuple(sorted(values.items())))
    return Meaning(Raster(names, stored, () if same else ids), table, tuple(notes))
