"""The binary version of STL-10: an image is 27648 bytes, red, then green, then blue, each 96 columns of 96 rows.

Labels are bytes from 1 to 10, in a separate file.
"""

import os
from dataclasses import replace

from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import PixelLayout, byte_array
from shardfeed.converters.sources.rare.array_source import ArrayBlock, array_source, evidence_of, refuse_columns
from shardfeed.converters.sources.rare.cifar import names_in
from shardfeed.converters.sources.rows.columns import KnownClasses
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError

_LAYOUT = PixelLayout((3, 96, 96), (2, 1, 0))  # colours, columns, rows
_SPLITS = ("train", "test")
_FIRST = 1  # label of the first class


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Recognise a folder with `train_X.bin` and `train_y.bin`, or `test_X.bin` and `test_y.bin`."""
    splits = _splits(look)
    return evidence_of("stl10", f"STL-10's binary files ({', '.join(splits)})", read, look, options) if splits else None


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The labelled images of a folder with the binary version of STL-10. Raises UsageError."""
    splits, path = _splits(look), look.path
    if not splits:
        raise UsageError(path, "has neither train_X.bin and train_y.bin nor those of test", "check the path")
    refuse_columns(look, options, "STL-10")
    blocks = []
    for split in splits:
        images, labels = byte_array(path, f"{split}_X.bin", _LAYOUT.shape), byte_array(path, f"{split}_y.bin")
        blocks.append(ArrayBlock(images, _LAYOUT, labels, split, f"{split}/".encode()))
    notes = ["unlabeled_X.bin has no labels, and is left out"] if "unlabeled_X.bin" in look.names()[1] else []
    if options.label_map is None and not options.unlabelled:
        options = replace(options, label_offset=options.label_offset or _FIRST)
    known = KnownClasses(names=names_in(path, "class_names.txt"))
    return array_source(path, blocks, options, look_only=look_only, notes=notes, known=known)


def _splits(look: Look) -> list[str]:
    there = {name for name in look.names()[1] if os.path.isfile(os.path.join(look.path, name))}
    return [split for split in _SPLITS if {f"{split}_X.bin", f"{split}_y.bin"} <= there]
