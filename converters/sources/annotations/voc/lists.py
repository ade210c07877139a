"""The lists of ImageSets/Main: which images there are, and the split of each."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.voc.layout import first_names
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, escape

_MARK = re.compile(r"(.*\S)\s+-?[01]\Z")  # of a line `2008_000008 -1`: what stands before the mark


class Listed(NamedTuple):
    """What a file in ImageSets/Main says of an image: its split, or None, and where."""

    split: str | None
    place: str


def read_lists(folder: str, by_stem: Mapping[bytes, object], options: AnnotationOptions) -> dict[bytes, Listed]:
    """What the files of ImageSets/Main say, by the path of an image without its extension.

    Raises LabelFileError where an image is in two splits.
    """
    found: dict[bytes, Listed] = {}
    names = [name for name in first_names(folder)[1] if name.lower().endswith(".txt")]
    splits = {name: usual_split(name[:-4]) for name in names}
    splits = {name: split for name, split in splits.items() if split or name[:-4].casefold() == "default"}
    if not {"train", "validation"} & {*splits.values()}:
        splits |= {name: "train" for name in names if name[:-4].casefold() == "trainval"}
    for name, split in splits.items():
        table = LabelTable(os.path.join(folder, name), "text", None, options.encoding, paths_only=True)
        for line, stem in _stems(table, by_stem):
            said = Listed(split, f"{escape(name)}:{line}")
            before = found.setdefault(stem, said)
            if before.split != split:
                problem = f"'{escape(stem)}' is in the split {before.split} already ({before.place})"
                raise LabelFileError(table.place(line), problem, "leave one of the two lines out")
    return found


def _stems(table: LabelTable, by_stem: Mapping[bytes, object]) -> Iterator[tuple[int, bytes]]:
    """Line and image, without its extension, of each line: `2008_000008`, `2008_000008 -1` or `2008_000008.jpg`."""
    for record in table:
        text = str(record.cells[0]).strip()  # type: ignore[index]  # a list: the table has no keys
        stem = text.encode("utf-8", "surrogateescape")
        marked = _MARK.match(text)
        if stem not in by_stem and marked:
            stem = marked[1].encode("utf-8", "surrogateescape")
        if stem not in by_stem and names_image(stem):
            stem = stem_of(stem)
        yield record.line, stem


def stem_of(key: bytes) -> bytes:
    """A path without its extension."""
    return os.path.splitext(key)[0]
