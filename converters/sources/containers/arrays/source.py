"""Samples of arrays of images, one array behind the other."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from shardfeed.converters.sources.annotations.recognise import Evidence, missing_of
from shardfeed.converters.sources.containers.arrays.labels import Rows, classes_of
from shardfeed.converters.sources.containers.arrays.names import Pair, described, not_taken, pairs_of, split_of
from shardfeed.converters.sources.containers.arrays.raw_arrays import RawImages
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.rows.columns import ListedColumn
from shardfeed.converters.sources.source import Content, Findings
from shardfeed.converters.sources.split_names import split_named
from shardfeed.errors import ShardfeedError, UsageError, escape
from shardfeed.text import listing, number

LOOKED_AT = 8  # files of a folder that tell what is in it


class Images(Protocol):
    """Images by number; picklable. `ending`: what their names end in, b".png"."""

    @property
    def ending(self) -> bytes: ...

    def __len__(self) -> int: ...

    def content(self, index: int, /) -> Content: ...


@dataclass(frozen=True)
class ArrayBlock:
    """See `Block`: the images of one array, called by their place in it; `prefix`: what their keys begin with."""

    images: Images
    split: str | None
    prefix: bytes

    def __len__(self) -> int:
        return len(self.images)

    def key(self, index: int, /) -> bytes:
        """What an image is called."""
        return b"%s%06d%s" % (self.prefix, index, self.images.ending)

    def content(self, index: int, /) -> Content:
        """What reads an image."""
        return self.images.content(index)


_Array = TypeVar("_Array", bound=Rows)
Imaged = Callable[[_Array], tuple[Images, list[str]]]  # raises UsageError for an array that is none of images


def source_of(
    path: str,
    files: Mapping[str, Mapping[str, _Array]],
    options: ContainerOptions,
    imaged: Imaged[_Array],
    *,
    labelled: bool,
    notes: Sequence[str] = (),
) -> BlockSource:
    """The source of the arrays in `files`: file name -> name of the array -> the array.

    `imaged`: makes images of an array, with notes. `labelled`: whether labels are read, too, and what is compressed is
    unpacked to see that it is whole; without, it is only good to see what is there. `notes`: more, for the report.
    Raises UsageError where it does not tell images and labels.
    """
    blocks: list[ArrayBlock] = []
    labels: list[Rows] = []
    taken: list[str] = []
    told: list[str] = []
    passed_over: dict[str, None] = {}
    for name, arrays in files.items():
        place = path if len(files) == 1 else os.path.join(path, name)
        stem = os.path.splitext(os.path.basename(name))[0]
        found = pairs_of(place, arrays, options)
        passed_over |= dict.fromkeys(not_taken(arrays, found))
        for pair in found:
            images, said = imaged(arrays[pair.image])
            if not len(images):
                raise UsageError(place, f"{escape(pair.image)} has no image", "leave it out")
            _check_lengths(place, arrays, pair)
            if labelled and isinstance(images, RawImages):
                images.array.check_whole()
            if pair.label:
                labels.append(arrays[pair.label])
            split = pair.split or split_of(stem) or (split_named(options.split) if options.split else None)
            prefix = f"{stem}/" if len(files) > 1 else ""
            prefix += f"{pair.split}/" if pair.split else ""
            blocks.append(ArrayBlock(images, split, os.fsencode(prefix)))
            taken.append(_taken(pair, len(images), split, stem if len(files) > 1 else ""))
            told += said
    if labels and len(labels) < len(blocks):
        raise UsageError(path, f"{len(labels)} of {len(blocks)} arrays of images have labels", "convert them apart")
    columns: list[ListedColumn] = []
    if labels and labelled:
        column, said = classes_of(path, labels, options)
        columns.append(column)
        told += said
    findings = Findings(notes=list(dict.fromkeys([*told, *passed_over, *notes])))
    return BlockSource(blocks, columns, findings, listing(taken, LOOKED_AT, "; "))


def _check_lengths(place: str, arrays: Mapping[str, Rows], pair: Pair) -> None:
    if not pair.label:
        return
    images, labels = arrays[pair.image], arrays[pair.label]
    if not labels.shape or images.shape[0] != labels.shape[0]:
        problem = f"got {described([images, labels])}, expected a label for each image"
        raise UsageError(place, problem, "correct the file, or name another array of labels")


def _taken(pair: Pair, count: int, split: str | None, stem: str) -> str:
    labelled = f"labels from {escape(pair.label)}" if pair.label else "no labels"
    into = f", split {split}" if split else ""
    of_file = f"{escape(stem)}: " if stem else ""
    return f"{of_file}{number(count, 'image')} from {escape(pair.image)}, {labelled}{into}"


def evidence_of(name: str, found: str, read: Callable[[], BlockSource]) -> Evidence:
    """What a reader says of files that are of its format; `read`: makes the source, where that is cheap."""
    try:
        source = read()
    except ShardfeedError as error:
        return Evidence(name, found, missing_of(error))
    return Evidence(name, f"{found}; {source.described}")


def files_of(path: str, ends: tuple[str, ...]) -> list[str]:
    """Names of the visible files in the folder `path` that end so, sorted; of a file its own, if it does.

    Links that lead out of the folder are not followed.
    """
    if os.path.isfile(path):
        return [os.path.basename(path)] if path.lower().endswith(ends) else []
    try:
        root = os.path.realpath(path)
        names = sorted(name for name in os.listdir(path) if name.lower().endswith(ends) and name[0] != ".")
    except OSError:
        return []  # whoever reads says that nothing is there
    inside = [name for name in names if os.path.dirname(os.path.realpath(os.path.join(path, name))) == root]
    return [name for name in inside if os.path.isfile(os.path.join(path, name))]
