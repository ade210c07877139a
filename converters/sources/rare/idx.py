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
from functools import partial

import numpy as np

from shardfeed.converters.sources.classes import NamesFile
from shardfeed.converters.sources.files.parts import listed
from shardfeed.converters.sources.files.unpack import unpacked
from shardfeed.converters.sources.guard import budget, open_regular
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import ColumnOptions
from shardfeed.converters.sources.rare.array_pixels import RawArray
from shardfeed.converters.sources.rare.array_source import (
    ArrayBlock,
    array_source,
    evidence_of,
    inside,
    refuse_columns,
    split_of,
)
from shardfeed.converters.sources.rows.columns import KnownClasses
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError, escape
from shardfeed.text import some

# train-images-idx3-ubyte.gz, t10k-labels.idx1-ubyte, emnist-letters-train-images-idx3-ubyte
_NAME = re.compile(r"(?P<what>.*?)(?P<split>[a-z0-9]*)-(?P<role>images|labels)[-.]idx[0-9]-ubyte(\.gz)?", re.I)
_ENDS = ("ubyte", "ubyte.gz")
_OTHER_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_MAPPING = re.compile(r"([0-9]{1,9}) ([0-9]{1,7})( [0-9]{1,7})*")  # a line of EMNIST's: a label, characters by code
_MAPPING_BYTES = 1 << 16


def recognise(look: Look, options: ColumnOptions) -> Evidence | None:
    """Recognise an IDX file of images by its usual name, or a folder that contains one."""
    names = [name for name in inside(look, _ENDS) if _NAME.fullmatch(os.path.basename(name))]
    return evidence_of("idx", f"IDX files ({some(names)})", read, look, options) if names else None


def read(look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource:
    """The images of a folder of IDX files, train- and t10k-, or of one file, with the labels in the file beside it.

    Raises UsageError.
    """
    refuse_columns(look, options, "IDX")
    pairs, notes = _pairs(look)
    blocks = []
    for image, label, word in pairs:
        array, layout, *_ = _array(image).imaged()
        split = _split(word)
        prefix = f"{split}/".encode() if split and len(pairs) > 1 else b""
        blocks.append(ArrayBlock(array, layout, _array(label) if label else None, split, prefix))
    if any("emnist" in block.images.named.lower() for block in blocks):
        notes.append("EMNIST files have rows and columns of each image swapped: stored unchanged")
    if not any(block.labels for block in blocks):
        notes.append("no labels: no file is named like train-labels-idx1-ubyte")
    known = KnownClasses(beside=_mapping(pairs[0][0]))
    return array_source(look.path, blocks, options, look_only=look_only, notes=notes, known=known)


def _split(word: str) -> str | None:
    return "test" if word.lower() == "t10k" else split_of(word)


def _pairs(look: Look) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(path of images, of labels or "", the word for the split) of each pair of files, training first; and notes.

    Raises UsageError if there are several datasets.
    """
    folder = Look(look.folder) if not look.is_folder else look
    # Uncompressed files come last, so they win over a .gz of the same name.
    paths = sorted(map(folder.full, inside(folder, _ENDS)), key=lambda path: (not path.endswith(".gz"), path))
    named = [(path, parts) for path in paths if (parts := _parts(path))]
    found = {parts: path for path, parts in named}
    images = [parts[:2] for parts in found if parts[2] == "images"]
    if not look.is_folder:
        path = folder.full(os.path.basename(look.path))
        own = _parts(path)
        if own is None or own[2] != "images":
            problem = "is not named like a file of images"
            raise UsageError(look.path, problem, "give train-images-idx3-ubyte, or the folder")
        found[own] = path
        images = [own[:2]]
    if not images:
        problem = "has no file named like train-images-idx3-ubyte"
        raise UsageError(look.path, problem, "check the path, or rename the files")
    if len({what for what, _ in images}) > 1:
        several = some(sorted(os.path.relpath(found[*each, "images"], look.folder) for each in images))
        problem = f"has several data sets ({several})"
        raise UsageError(look.path, problem, "give the file of images, or a folder with one")
    images.sort(key=lambda each: (_split(each[1]) != "train", each[1]))
    twice = [path for path, _ in named if path not in found.values()] if look.is_folder else []
    notes = [f"ignored, as it is also present uncompressed: {escape(os.path.basename(path))}" for path in twice]
    return [(found[*each, "images"], found.get((*each, "labels"), ""), each[1]) for each in images], notes


def _parts(path: str) -> tuple[str, str, str] | None:
    """The data set's folder and name, the word for the split or "", and images or labels; None for other names."""
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    what, word, role = f"{folder}/{match['what']}", match["split"], match["role"].lower()
    return (what, word, role) if _split(word) else (what + word, "", role)


def _mapping(images: str) -> NamesFile | None:
    """Read the characters of EMNIST's labels from the mapping file; None if it is missing."""
    name = re.sub("-(train|test)-images.*", "-mapping.txt", os.path.basename(images))
    try:
        with open_regular(os.path.join(os.path.dirname(images), name)) as file:
            lines = file.read(_MAPPING_BYTES).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    matches = [_MAPPING.fullmatch(line.strip()) for line in lines if line.strip()]
    names = {int(match[1]): chr(int(match[2])) for match in matches if match and int(match[2]) <= 0x10FFFF}
    return NamesFile(name, names, is_map=True) if names and len(set(names.values())) == len(matches) else None


def _array(place: str) -> RawArray:
    """The array in a file. Raises UsageError."""
    state = listed(place)
    packed = place.endswith(".gz")
    try:
        with gzip.open(place) if packed else open(place, "rb") as file:
            magic = file.read(4)
            sides = file.read(4 * magic[3]) if len(magic) == 4 and magic[:2] == b"\0\0" else b""
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(place, f"cannot be read: {error}", "copy it again") from None
    if magic[:2] != b"\0\0" or len(magic) < 4:
        problem = f"begins with {magic!r}, expected 00 00 08 and the number of dimensions"
        raise UsageError(place, problem, "copy it again")
    if magic[2] != 8:
        kind = _OTHER_TYPES.get(magic[2], f"type 0x{magic[2]:02x}")
        raise UsageError(place, f"contains values of {kind}, expected unsigned bytes (0x08)", "save it as such")
    shape = struct.unpack(f">{len(sides) // 4}I", sides[: len(sides) // 4 * 4])
    expected = 3 if "images" in os.path.basename(place).lower() else 1
    if len(shape) != magic[3] or len(shape) not in (expected, expected * 4 // 3):
        problem = f"has {magic[3]} dimensions, expected {expected}: the magic number 0x0000080{expected}"
        raise UsageError(place, problem, "copy it again")
    budget().rows(shape[0], state.size, place)
    size, header = math.prod(shape), 4 + len(sides)
    if not packed and state.size != header + size:
        problem = f"is {state.size} bytes long, expected {header + size} for {' x '.join(map(str, shape))} values"
        raise UsageError(place, problem, "it is truncated or incomplete: copy it again")
    pieces = partial(unpacked, place, "gz", place) if packed else None
    named, row = os.path.basename(place), math.prod(shape[1:])
    return RawArray(named, state, header, shape, np.dtype(np.uint8), row, pieces, header + size)
