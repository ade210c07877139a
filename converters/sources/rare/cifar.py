"""The binary version of CIFAR-10 and CIFAR-100.

A record is the label, in CIFAR-100 the coarse one and the fine one, one byte each, and 3072 bytes of pixels: red, then
green, then blue, each 32 rows of 32. The python version is pickles, which are not loaded.
"""

import os
from dataclasses import replace

from shardfeed.converters.sources.classes import read_class_list
from shardfeed.converters.sources.look import Evidence, Look, missing_of
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import PixelLayout, byte_array
from shardfeed.converters.sources.rare.array_source import (
    ArrayBlock,
    array_source,
    evidence_of,
    read_labels,
    refuse_columns,
)
from shardfeed.converters.sources.rows.columns import KnownClasses
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError
from shardfeed.text import listing

_LAYOUT = PixelLayout((3, 32, 32), (1, 2, 0))
# File -> its split, for CIFAR-10 and for CIFAR-100.
_TEN = {**{f"data_batch_{i}.bin": "train" for i in range(1, 6)}, "test_batch.bin": "test"}
_HUNDRED = {"train.bin": "train", "test.bin": "test"}
_NAMES_TEN, _NAMES_FINE, _NAMES_COARSE = "batches.meta.txt", "fine_label_names.txt", "coarse_label_names.txt"
_META = {"batches.meta": "cifar-10", "meta": "cifar-100"}  # of the python version: its name -> the binary one's


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """A folder with `data_batch_1.bin` or `test_batch.bin`, or `train.bin` and the names of fine labels."""
    if pickles := _pickles(look):
        return Evidence("cifar", "the python version of CIFAR", missing_of(pickles))
    files = _files(look)
    return evidence_of("cifar", f"CIFAR's binary files ({', '.join(files)})", read, look, options) if files else None


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The images of a folder with the binary version of CIFAR-10 or CIFAR-100.

    Of CIFAR-100 the fine label is the class, `image/class`, and the coarse one is `image/coarse`. Raises UsageError.
    """
    if pickles := _pickles(look):
        raise pickles
    files, path = _files(look), look.path
    if not files:
        problem = f"has none of {', '.join([*_TEN, *_HUNDRED])}, the latter with {_NAMES_FINE}"
        raise UsageError(path, problem, "give the folder of the unpacked binary version")
    refuse_columns(look, options, "CIFAR")
    hundred = files.keys() <= _HUNDRED.keys()
    before = 2 if hundred else 1  # bytes of labels
    blocks, coarse = [], []
    for name, split in files.items():
        record = byte_array(path, name, (before + _LAYOUT.size,))
        images = replace(record, offset=before, shape=(*record.shape[:1], *_LAYOUT.shape))
        labels = [replace(record, offset=at, shape=record.shape[:1]) for at in range(before)]
        coarse += labels[:-1]
        prefix = "" if hundred or split == "test" else f"{name.removesuffix('.bin')}/"
        blocks.append(ArrayBlock(images, _LAYOUT, labels[-1], split, f"{split}/{prefix}".encode()))
    lacking = [name for name in (_HUNDRED if hundred else _TEN) if name not in files]
    notes = [f"missing, so not read: {listing(lacking)}"] if lacking else []
    more = []
    if hundred and not look_only and not options.unlabelled:
        more = [read_labels(path, coarse, KnownClasses(names=names_in(path, _NAMES_COARSE)), prefix="image/coarse")[0]]
    known = KnownClasses(names=names_in(path, _NAMES_FINE if hundred else _NAMES_TEN))
    return array_source(path, blocks, options, look_only=look_only, notes=notes, known=known, more=more)


def _pickles(look: Look) -> UsageError | None:
    """The error for the python version; None for other files."""
    for meta in _META.keys() & set(look.names()[1]):
        place = os.path.join(look.path, meta)
        if look.head(place).startswith((b"(d", b"}q", b"\x80")):
            problem = (
                f"is the python version: its files ({meta}, ...) are pickles, and loading one can run arbitrary code"
            )
            remedy = f"give the binary version: {_META[meta]}-binary.tar.gz, unpacked, of the same images"
            return UsageError(look.path, problem, remedy)
    return None


def _files(look: Look) -> dict[str, str]:
    """Return file -> split of the existing files; empty if the folder has another format."""
    there = {name for name in look.names()[1] if os.path.isfile(os.path.join(look.path, name))}
    ten = {name: split for name, split in _TEN.items() if name in there}
    return ten or {name: split for name, split in _HUNDRED.items() if {name, _NAMES_FINE} <= there}


def names_in(path: str, name: str) -> tuple[str, ...] | None:
    """The names in a file; None without the file. Raises LabelFileError."""
    place = os.path.join(path, name)
    return read_class_list(place) if os.path.isfile(place) else None
