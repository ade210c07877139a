"""A builder writes the rows of a rule in the format of its reader.

A row is a dict; one that lacks a key has no such value, and a value may be None:

    image (bytes; None: named, and not there), key, label, caption, objects, number, tags, mask (uint8 [40, 60])

Objects are dicts of COCO's keys, or one dict of lists; `outline` is a polygon, x, y, x, y, ...
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from object_images import HEIGHT, WIDTH, put

from shardfeed.converters import ColumnOptions
from shardfeed.converters.sources.options import Options

Row = Mapping[str, Any]
Files = Mapping[str, Sequence[Row]]  # name of a file without its ending -> its rows
MASKED = ["background", "cat", "dog"]  # the classes of masks
SIDES = (WIDTH, HEIGHT, WIDTH, HEIGHT)  # of the images, in the order of BOX


@dataclass(frozen=True)
class Builder:
    """How a reader's files are written, and what they can say: see the page of rules.

    `path`: of the file that is opened, in the folder; default the folder. `kind`: of the reader's options; `masks`,
    `numbers`, `hot`: those by which it takes masks, numbers as image/size, and columns of 0 and 1. `refuses`: for a
    table that people write, by rule a part of the error, where readers of other formats list the row.
    """

    write: Callable[[Path, Files], None]
    says: frozenset[str]
    fractions: bool = False
    path: str = ""
    masks: Mapping[str, Any] = field(default_factory=lambda: {"class_names": MASKED})
    numbers: Mapping[str, Any] = field(default_factory=lambda: {"columns": {"image/size": "number"}})
    hot: Mapping[str, Any] = field(default_factory=lambda: {"one_hot": ["cat", "dog"]})
    kind: type[Options] = ColumnOptions
    refuses: Mapping[str, str] = field(default_factory=dict)


def rows_of(files: Files) -> list[Row]:
    """All rows."""
    return [row for rows in files.values() for row in rows]


def objects_of(row: Row) -> Sequence[Mapping[str, Any]]:
    """The objects of a row."""
    return row.get("objects", ())


def put_images(folder: Path, files: Files) -> None:
    """The images of all rows, those that are there."""
    for row in rows_of(files):
        if row["image"] is not None:
            put(folder / f"{row['key']}.png", row["image"])


def put_texts(folder: Path, files: Files, name: str, text: Callable[[Row], str]) -> None:
    """A text for each row; `name`: of its file, with the key for {}."""
    for row in rows_of(files):
        put(folder / name.format(row["key"]), text(row))


def corners(one: Mapping[str, Any]) -> list[float]:
    """Left, top, right, bottom of an object; NaN where it has no box."""
    left, top, width, height = one["bbox"] or [math.nan] * 4
    return [left, top, left + width, top + height]
