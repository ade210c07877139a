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
from shardfeed.converters.sources.splits.list_file import ListPart, ListRow, NameView, parts_of, views_of
from shardfeed.errors import LabelFileError, name_bytes

_FIRST = 5  # rows that show whether cells are paths
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

    view: NameView
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
    for finder in _other_finders(names, beside, by_path=best):
        if best is not None and best.share == 1 and not best.doubtful:
            break
        other = _best(part, sample, finder)
        if other is None or (finder == names.by_base and other.share < 1):
            continue  # a folder that is not there must not be passed over
        other = other._replace(doubtful=other.doubtful or finder == names.by_number)
        if best is None or (other.share, not other.doubtful) > (best.share, not best.doubtful):
            best = other
    return best


def _other_finders(names: ImageNames, beside: str, *, by_path: Matching | None) -> Iterator[Finder]:
    """Yield the ways to find images other than by paths, the likelier first."""
    if by_path is None:
        yield names.by_base
    yield from _by_ids(beside, names) if beside else ()
    if by_path is None:
        yield names.by_number


def _best(part: ListPart, sample: Sequence[ListRow], finder: Finder) -> Matching | None:
    """The view with which `finder` finds images for most rows, the first of equals; None if it finds none."""
    best, most = None, (0, 0)
    body = sample[1:] or sample  # the first row may name the columns
    for view in _likely_views(part, sample):
        found = [len(finder(view.name(row))) for row in sample]
        score = (len(found) - found.count(0), found.count(1))
        if score > most:
            best, most = view, score
        if most[1] == len(sample):
            break
    if best is None:
        return None
    asked = [best.name(row) for row in body]
    numbers = all(map(str.isdecimal, asked))
    return Matching(best, finder, most[0] / len(sample), numbers, doubtful=numbers and len({*asked}) < len(asked))


def _likely_views(part: ListPart, sample: Sequence[ListRow]) -> Iterator[NameView]:
    """Yield the views of a part; of rows with a path none whose names are numbers, as these are labels."""
    paths = any(_is_path(cell) for row in sample[:_FIRST] for cell in row.cells)
    body = sample[1:] or sample
    for view in views_of(part):
        if not (paths and all(view.name(row).isdecimal() for row in body)):
            yield view


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


def without_heading(part: ListPart, rule: Matching) -> tuple[Sequence[str], ListPart]:
    """The names of the columns, if there are any, and the rows without comments and without the row of these names."""
    part = part._replace(rows=_without_comments(part.rows, rule))
    rows = part.rows
    if not rows or part.header or part.key or rule.found(rows[0]):
        return part.header, part
    cells = [cell.strip() for cell in rule.view.cells(rows[0]) or rows[0].cells]
    counts = cells == [str(len(rows) - 1)]
    if counts or part.table or _HEADINGS.intersection(map(str.casefold, cells)):
        return cells, part._replace(rows=rows[1:])
    return (), part


def _without_comments(rows: Sequence[ListRow], rule: Matching) -> Sequence[ListRow]:
    """The rows that do not begin with "#", but for names of images."""
    if not any(_is_comment(row) for row in rows[:_FIRST]):
        return rows
    return [row for row in rows if not _is_comment(row) or rule.found(row)]


def _is_comment(row: ListRow) -> bool:
    return bool(row.cells) and row.cells[0].startswith("#")
