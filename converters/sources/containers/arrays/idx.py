"""MNIST's IDX files, also gzipped: pairs of images and labels, by the names that all data sets of this kind have.

A file is two zeros, the type of its values (8: unsigned byte), how many sides the array has, each side as a big-endian
number of 32 bits, and the values.
"""

import gzip
import math
import os
import re
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.containers.arrays.labels import classes_of
from shardfeed.converters.sources.containers.arrays.pixels import layout_of
from shardfeed.converters.sources.containers.arrays.raw_arrays import PackedFile, PlainFile, RawArray, RawImages
from shardfeed.converters.sources.containers.arrays.source import ArrayBlock, evidence_of, files_of
from shardfeed.converters.sources.containers.handles import FileState
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.rows.columns import ListedColumn
from shardfeed.converters.sources.source import Findings
from shardfeed.converters.sources.split_names import split_named, usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import number, some

# train-images-idx3-ubyte.gz, t10k-labels.idx1-ubyte, emnist-letters-train-images-idx3-ubyte
_NAME = re.compile(r"(?P<what>.*?)(?P<split>[a-z0-9]*)-(?P<role>images|labels)[-.]idx[0-9]-ubyte(\.gz)?", re.I)
_OTHER_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


def recognise(path: str, options: ContainerOptions) -> Evidence | None:
    """A folder with a file of images by its usual name, or such a file."""
    names = [name for name in files_of(path, ("ubyte", ".gz")) if _NAME.fullmatch(name)]
    if not names:
        return None
    return evidence_of("idx", f"IDX files ({some(names)})", lambda: _read(path, options, labelled=False))


def read(path: str, options: ContainerOptions) -> BlockSource:
    """The images of a folder of IDX files, train- and t10k-, or of one file, with the labels in the file beside it.

    Raises UsageError.
    """
    return _read(path, options, labelled=True)


def _read(path: str, options: ContainerOptions, *, labelled: bool) -> BlockSource:
    if options.columns:
        raise UsageError(path, f"{argument('columns')} is for named arrays, and IDX files have none", "leave it out")
    path = os.path.abspath(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    pairs, twice = _pairs(path, folder)
    blocks, labels, taken, notes = [], [], [], list(twice)
    for image, label, word in pairs:
        array = _array(os.path.join(folder, image))
        layout, _ = layout_of(array.file.state.path, array.named, array.shape, array.dtype)
        note = array.check_readable(f"`gunzip {escape(image)}` and give the folder again")
        split = _split(word) or (split_named(options.split) if options.split else None)
        blocks.append(
            ArrayBlock(RawImages(array, layout), split, f"{split}/".encode() if split and len(pairs) > 1 else b"")
        )
        taken.append(f"{number(array.shape[0], 'image')} from {escape(image)}{f', split {split}' if split else ''}")
        notes += [note] if note else []
        if not array.shape[0]:
            raise UsageError(array.file.state.path, "has no image", "leave it out")
        if labelled:
            array.check_whole()
        if label:
            labels.append(_array(os.path.join(folder, label)))
            if labels[-1].shape[:1] != array.shape[:1]:
                problem = f"has {labels[-1].shape[0]} labels, and {escape(image)} {array.shape[0]} images"
                raise UsageError(labels[-1].file.state.path, problem, "copy both again")
    if labels and len(labels) < len(blocks):
        lacking = [image for image, label, _ in pairs if not label]
        raise UsageError(path, f"{escape(lacking[0])} has no labels beside it, and others have", "copy them, too")
    if any("emnist" in image.lower() for image, _, _ in pairs):
        notes.append("EMNIST's files have rows and columns of each image exchanged: stored as they are")
    if not labels:
        notes.append("no labels: no file is called like train-labels-idx1-ubyte")
    columns: Sequence[ListedColumn] = ()
    if labels and labelled:
        column, said = classes_of(path, labels, options)
        columns, notes = [column], notes + said
    return BlockSource(blocks, columns, Findings(notes=notes), "; ".join(taken))


def _split(word: str) -> str | None:
    return "test" if word.lower() == "t10k" else usual_split(word)


def _pairs(path: str, folder: str) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(images, labels or "", the word for the split) of each pair of files, training first; and notes.

    Raises UsageError where there are several data sets.
    """
    names = _named(folder)
    found = {_parts(match): name for name, match in names}
    images = [(what, split) for what, split, role in found if role == "images"]
    if not os.path.isdir(path):
        own = os.path.basename(path)
        match = _NAME.fullmatch(own)
        if match is None or match["role"].lower() != "images":
            raise UsageError(path, "is not called like a file of images", "give train-images-idx3-ubyte, or the folder")
        found[_parts(match)] = own
        images = [_parts(match)[:2]]
    if not images:
        raise UsageError(path, "has no file called like train-images-idx3-ubyte", "check the path, or rename the files")
    if len({what for what, _ in images}) > 1:
        several = some(sorted(found[*each, "images"] for each in images))
        raise UsageError(path, f"has several data sets ({several})", "give the file of images, or a folder with one")
    images.sort(key=lambda each: (_split(each[1]) != "train", each[1]))
    twice = [name for name, _ in names if name not in found.values()]
    notes = [f"passed over, as it is there unpacked: {escape(name)}" for name in twice if os.path.isdir(path)]
    return [(found[*each, "images"], found.get((*each, "labels"), ""), each[1]) for each in images], notes


def _parts(match: re.Match[str]) -> tuple[str, str, str]:
    """What the data set is called, the word for the split or "", and images or labels."""
    what, word, role = match["what"], match["split"], match["role"].lower()
    return (what, word, role) if _split(word) else (what + word, "", role)


def _named(folder: str) -> list[tuple[str, re.Match[str]]]:
    """Files that are called so; those that are not packed come last, and so stand for both."""
    names = sorted(files_of(folder, ("ubyte", ".gz")), key=lambda name: (not name.endswith(".gz"), name))
    return [(name, match) for name in names if (match := _NAME.fullmatch(name))]


def _array(place: str) -> RawArray:
    """The array in a file. Raises UsageError."""
    state = FileState.listed(place)
    packed = place.endswith(".gz")
    try:
        with gzip.open(place) if packed else open(place, "rb") as file:
            magic = file.read(4)
            sides = file.read(4 * magic[3]) if len(magic) == 4 and magic[:2] == b"\0\0" else b""
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(place, f"cannot be read: {error}", "copy it again") from None
    if magic[:2] != b"\0\0" or len(magic) < 4:
        raise UsageError(place, f"begins with {magic!r}, expected 00 00 08 and the number of sides", "copy it again")
    if magic[2] != 8:
        kind = _OTHER_TYPES.get(magic[2], f"type 0x{magic[2]:02x}")
        raise UsageError(place, f"holds values of {kind}, expected unsigned bytes (0x08)", "save it as such")
    shape = struct.unpack(f">{len(sides) // 4}I", sides[: len(sides) // 4 * 4])
    expected = 3 if "images" in os.path.basename(place).lower() else 1
    if len(shape) != magic[3] or len(shape) not in (expected, expected * 4 // 3):
        problem = f"has {magic[3]} sides, expected {expected}: the magic number 0x0000080{expected}"
        raise UsageError(place, problem, "copy it again")
    budget().rows(shape[0], state.size, place)
    size, header = math.prod(shape), 4 + len(sides)
    if not packed and state.size != header + size:
        problem = f"is {state.size} bytes long, expected {header + size} for {' x '.join(map(str, shape))} values"
        raise UsageError(place, problem, "it is cut, or not whole: copy it again")
    file = PackedFile(state, header + size) if packed else PlainFile(state)
    return RawArray(os.path.basename(place), file, header, shape, np.dtype(np.uint8), math.prod(shape[1:]))
