"""Samples of arrays of images, one array after the other."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.arrays.labels import Array, label_column
from shardfeed.converters.sources.containers.arrays.names import Files, pairs_of
from shardfeed.converters.sources.containers.arrays.pixels import Layout
from shardfeed.converters.sources.files.source_files import find_files
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.blocks import block_source
from shardfeed.converters.sources.rows.class_column import NamesBeside
from shardfeed.converters.sources.rows.columns import ListedColumn
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Content
from shardfeed.errors import ShardfeedError, UsageError, argument, escape
from shardfeed.text import listing, number

LOOKED_AT = 8  # files of a folder that tell what is in it


class Read(Protocol):
    """The function of a reader, which may only look."""

    def __call__(self, look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource: ...


@dataclass(frozen=True)
class ArrayBlock:
    """See `Block`: the images of one array, called by their place in it, with labels; None without.

    `layout`: of pixels; None: images are encoded. `prefix`, `ending`: what keys begin with and end in.
    """

    images: Array
    layout: Layout | None
    labels: Array | None
    split: str | None
    prefix: bytes
    ending: bytes = b".png"

    def __len__(self) -> int:
        return self.images.shape[0]

    def key(self, index: int, /) -> bytes:
        """The name of an image."""
        return b"%s%06d%s" % (self.prefix, index, self.ending)

    def content(self, index: int, /) -> Content:
        """A callable that reads an image."""
        return self.images.content(index, self.layout)

    @property
    def described(self) -> str:
        """In words, where images and labels are from."""
        labelled = f"labels from {escape(self.labels.named)}" if self.labels else "no labels"
        into = f", split {self.split}" if self.split else ""
        return f"{number(len(self), 'image')} from {escape(self.images.named)}, {labelled}{into}"


def array_source(
    place: str,
    blocks: Sequence[ArrayBlock],
    options: ColumnOptions,
    *,
    look_only: bool = False,
    notes: Sequence[str] = (),
    stated: Sequence[str] | None = None,
    beside: NamesBeside | None = None,
    more: Sequence[ListedColumn] = (),
) -> ColumnarSource:
    """The source of arrays. `more`: columns beside the classes; the others as in `label_column`.

    `look_only`: whether it only has to say what is there; else labels are read, and what is compressed is unpacked into
    a temporary folder (TMPDIR). Raises UsageError, StorageError.
    """
    for block in blocks:
        if not len(block):
            raise UsageError(place, f"{escape(block.images.named)} has no image", "leave it out")
        if block.labels is not None and block.labels.shape[:1] != (len(block),):
            count = block.labels.shape[0] if block.labels.shape else 0
            problem = f"{escape(block.labels.named)} has {number(count, 'label')}, and {escape(block.images.named)} "
            problem += f"{number(len(block), 'image')}, expected a label for each image"
            raise UsageError(place, problem, "correct the files, or name another array of labels")
    described = listing([block.described for block in blocks], LOOKED_AT, "; ")
    if look_only:
        return block_source(place, blocks, described=described)
    folder, columns, told = Unpacked(), [*more], []
    unlabelled: dict[int, str] = {}
    unpacked = [replace(block, images=block.images.unpacked(folder)) for block in blocks]
    if not options.unlabelled and any(block.labels for block in blocks):
        labels = [len(block) if block.labels is None else block.labels.unpacked(folder) for block in blocks]
        column, unlabelled, told = label_column(place, labels, options, stated=stated, beside=beside)
        columns.insert(0, column)
    said = [*dict.fromkeys([*notes, *told, *folder.note])]
    return block_source(place, unpacked, columns, unlabelled, notes=said, described=described, folder=folder)


# The array as images are read of it, how pixels lie or None, what names end in, and notes. Raises UsageError.
Imaged = Callable[[Any], tuple[Array, Layout | None, bytes, list[str]]]


def named_source(
    place: str,
    files: Files,
    options: ColumnOptions,
    imaged: Imaged,
    *,
    look_only: bool = False,
    notes: Sequence[str] = (),
) -> ColumnarSource:
    """The source of the arrays in `files`. Raises UsageError where nothing tells images and labels."""
    pairs, passed_over = pairs_of(place, files, options)
    blocks, told = [], []
    for pair in pairs:
        images, layout, ending, said = imaged(pair.images)
        blocks.append(ArrayBlock(images, layout, pair.labels, pair.split, os.fsencode(pair.prefix), ending))
        told += said
    return array_source(place, blocks, options, look_only=look_only, notes=[*told, *passed_over, *notes])


def refuse_columns(look: Look, options: ColumnOptions, what: str) -> None:
    """Raises UsageError where columns are named, for a format that has no names of arrays."""
    if options.columns:
        problem = f"{argument('columns')} is for named columns, and {what} has none"
        raise UsageError(look.path, problem, "leave it out")


def evidence_of(name: str, found: str, read: Read, look: Look, options: ColumnOptions) -> Evidence:
    """The evidence for files that are of a reader's format; `read`: its own, by which it is known what they lack."""
    try:
        return Evidence(name, f"{found}; {read(look, options, look_only=True).described}")
    except ShardfeedError as error:
        return Evidence(name, found, missing_of(error))


def files_of(look: Look, ends: tuple[str, ...], *, look_only: bool) -> dict[str, str]:
    """Name -> path of the files with these ends that a path means; the first few where it is only a look.

    Raises UsageError where there is none.
    """
    if look_only:
        return {name: look.full(name) for name in islice(inside(look, ends), LOOKED_AT)}
    found = find_files(look.path, ends)
    return {name: os.fsdecode(file.path) for name, file in zip(found.names, found.files, strict=True)}


def inside(look: Look, ends: tuple[str, ...], depth: int = 3) -> Iterator[str]:
    """The regular files that `look.files` gives, without links that lead out of the folder."""
    root = os.path.join(os.path.realpath(look.folder), "")
    for name in look.files(ends, depth):
        path = look.full(name)
        if os.path.isfile(path) and (not look.is_folder or os.path.realpath(path).startswith(root)):
            yield name
