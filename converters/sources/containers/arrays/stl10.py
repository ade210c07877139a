"""The binary version of STL-10: an image is 27648 bytes, red, then green, then blue, each 96 columns of 96 rows.

Labels are bytes from 1 to 10, in a file of their own.
"""

import os
from dataclasses import replace

import numpy as np

from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.containers.arrays.cifar import names_in
from shardfeed.converters.sources.containers.arrays.labels import classes_of
from shardfeed.converters.sources.containers.arrays.pixels import Layout
from shardfeed.converters.sources.containers.arrays.raw_arrays import PlainFile, RawArray, RawImages
from shardfeed.converters.sources.containers.arrays.source import ArrayBlock, evidence_of
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.source import Findings
from shardfeed.errors import UsageError, argument
from shardfeed.text import number

_LAYOUT = Layout((3, 96, 96), (2, 1, 0))  # colours, columns, rows
_SPLITS = ("train", "test")
_FIRST = 1  # label of the first class


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """A folder with `train_X.bin` and `train_y.bin`, or those of test."""
    if not (splits := _splits(path)):
        return None
    return evidence_of("stl10", f"STL-10's binary files ({', '.join(splits)})", lambda: _read(path, options, False))


def read(path: str, options: ContainerOptions) -> BlockSource:
    """The labelled images of a folder with the binary version of STL-10. Raises UsageError."""
    return _read(path, options, True)


def _splits(path: str) -> list[str]:
    both = {split: [os.path.join(path, f"{split}_{what}.bin") for what in "Xy"] for split in _SPLITS}
    return [split for split, files in both.items() if all(map(os.path.isfile, files))]


def _read(path: str, options: ContainerOptions, labelled: bool) -> BlockSource:
    splits = _splits(path)
    if not splits:
        raise UsageError(path, "has neither train_X.bin and train_y.bin nor those of test", "check the path")
    if options.columns:
        raise UsageError(path, f"{argument('columns')} is for named arrays, and STL-10's have none", "leave it out")
    blocks, labels, taken, notes = [], [], [], []
    for split in splits:
        images = _array(path, f"{split}_X.bin", _LAYOUT.shape)
        labels.append(_array(path, f"{split}_y.bin", ()))
        counts = images.shape[0], labels[-1].shape[0]
        if counts[0] != counts[1]:
            problem = f"has {counts[1]} labels, and {split}_X.bin {counts[0]} images"
            raise UsageError(os.path.join(path, f"{split}_y.bin"), problem, "copy both again")
        blocks.append(ArrayBlock(RawImages(images, _LAYOUT), split, f"{split}/".encode()))
        taken.append(f"{number(counts[0], 'image')} from {split}_X.bin, split {split}")
    if os.path.exists(os.path.join(path, "unlabeled_X.bin")):
        notes.append("unlabeled_X.bin has no labels, and is left out")
    if not labelled:
        return BlockSource(blocks, (), Findings(notes=notes), "; ".join(taken))
    numbered = replace(options, label_offset=options.label_offset or _FIRST)
    column, said = classes_of(path, labels, numbered, names_in(path, "class_names.txt"))
    return BlockSource(blocks, [column], Findings(notes=[*notes, *said]), "; ".join(taken))


def _array(path: str, name: str, shape: tuple[int, ...]) -> RawArray:
    """The array in a file of bytes. Raises UsageError where it is not whole."""
    place = os.path.join(path, name)
    state = FileState.listed(place)
    row = int(np.prod(shape, dtype=np.int64))
    count, rest = divmod(state.size, row)
    if rest or not count:
        raise UsageError(place, f"is {state.size} bytes long, expected a multiple of {row}", "copy it again")
    return RawArray(name, PlainFile(state), 0, (count, *shape), np.dtype(np.uint8), row)
