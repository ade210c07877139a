"""How the rows of a list name images: which cell is the name, and by what it finds an image; decided for all rows.

The rule that explains most rows is taken. A list whose rows are mostly explained by none is not a list of these images.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.splits.image_names import Finder, ImageNames
from shardfeed.converters.sources.splits.list_file import ListPart, ListRow, View, parts_of, views_of
from shardfeed.errors import LabelFileError, name_bytes

_LOOKED_AT = 200  # rows of a part, spread over all of them
_MOST_BESIDE = 20  # files next to a list that may say which image an id is
# First cells of a line that names columns, in lower case.
_HEADINGS = frozenset(
    (
        *("image", "images", "image_id", "image_name", "imageid", "img", "img_id", "file", "files", "filename"),
        *("file_name", "name", "path", "id", "index"),
    )
)


class Matching(NamedTuple):
    """The rule of a part: which cell is the name, and what finds the images of a name. `share`: of rows explained.

    `numbers`: whether all names are numbers. `doubtful`: whether these may be labels as well: some repeat, or they are
    only a part of the names of images.
    """

    view: View
    finder: Finder
    share: float
    numbers: bool = False
    doubtful: bool = False

    def found(self, row: ListRow) -> list[int]:
        """The numbers of the images that a row may mean."""
        return self.finder(self.view.name(row))


def match(part: ListPart, names: ImageNames, beside: str = "") -> Matching | None:
    """The rule that explains most rows of a part; None if no row means an image.

    `beside`: the path of the list, next to which a file may say which image an id is.
    """
    sample = part.rows[:: max(1, len(part.rows) // _LOOKED_AT)]
    best = _best(part, sample, names.by_path)
    if best is None:
        best = _best(part, sample, names.by_base)
        best = best if best and best.share == 1 else None  # a folder that is not there must not be passed over
    if (best is None or 2 * best.share < 1) and beside:
        tried = (_best(part, sample, finder) for finder in _by_ids(beside, names))
        best = next((one for one in tried if one and 2 * one.share >= 1), best)
    if best is None:
        best = _best(part, sample, names.by_number)
        best = best and best._replace(doubtful=True)
    return best


def _best(part: ListPart, sample: Sequence[ListRow], finder: Finder) -> Matching | None:
    """The view with which `finder` finds images for most rows, the first of equals; None if it finds none."""
    best, most = None, 0
    paths = any(map(_is_path, part.rows[0].cells)) if part.rows else False
    for view in views_of(part):
        if paths and all(view.name(row).isdecimal() for row in sample):
            continue  # a label beside a path
        count = sum(bool(finder(view.name(row))) for row in sample)
        if count > most:
            best, most = view, count
        if most == len(sample):
            break
    if best is None:
        return None
    asked = [best.name(row) for row in sample]
    numbers = all(map(str.isdecimal, asked))
    return Matching(best, finder, most / len(sample), numbers, doubtful=numbers and len({*asked}) < len(asked))


def _is_path(cell: str) -> bool:
    """Whether a cell, or a word in it, is a path or has the extension of an image."""
    return any("/" in word or names_image(name_bytes(word)) for word in re.split(r"[\s,;]+", cell))


def _by_ids(path: str, names: ImageNames) -> Iterator[Finder]:
    """Yield finders of images by ids, by the files next to a list that have an id and a name in each row: `1 a.jpg`."""
    folder = os.path.dirname(path)
    with suppress(OSError):
        others = sorted(name for name in os.listdir(folder or ".") if name.lower().endswith((".txt", ".csv", ".tsv")))
        for name in [other for other in others if other != os.path.basename(path)][:_MOST_BESIDE]:
            if image_of := _image_of_id(os.path.join(folder, name), names):
                yield lambda id_, image_of=image_of: image_of.get(id_, [])  # type: ignore[misc]


def _image_of_id(path: str, names: ImageNames) -> Mapping[str, list[int]]:
    """The images by the ids of a file with two cells in each row, an id and a name; empty for another file."""
    with suppress(LabelFileError):
        part = parts_of(path)[0]
        rule = match(part, names)
        if rule is not None and rule.view.separator != "last" and 2 * rule.share >= 1:
            other = 0 if rule.view.column else 1
            rows = [(rule.view.cells(row), rule.found(row)) for row in part.rows]
            pairs = [(cells[other].strip(), found) for cells, found in rows if found and len(cells) > other]
            image_of = dict(pairs)
            return image_of if len(image_of) == len(pairs) else {}
    return {}


def is_heading(part: ListPart, rule: Matching) -> bool:
    """Whether the first row names the columns, or counts the rows, and is no image."""
    if not part.rows or rule.found(part.rows[0]):
        return False
    cells = [cell.strip().casefold() for cell in rule.view.cells(part.rows[0]) or part.rows[0].cells]
    counts = cells == [str(len(part.rows) - 1)]
    return counts or bool(_HEADINGS.intersection(cells)) or (part.table and not part.header and not part.key)
