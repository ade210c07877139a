"""Samples of arrays of images, one array after the other; choice of the arrays of images and labels.

An array is chosen by its usual name, or by the user.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.containers.arrays.labels import Array, read_labels
from shardfeed.converters.sources.containers.arrays.pixels import Layout, shape_text
from shardfeed.converters.sources.look import Look, find_files
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.readers import Evidence, missing_of
from shardfeed.converters.sources.rows.blocks import block_source
from shardfeed.converters.sources.rows.image_classes import KnownClasses, Labels
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import Rows
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.source import Content
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import ShardfeedError, UsageError, argument, escape
from shardfeed.text import counted, in_usual_order, listing, number

LOOKED_AT = 8  # files of a folder that are examined to recognise it


Files = Mapping[str, Mapping[str, Array]]  # name of a file -> name of an array in it -> the array
_LETTERS = {"x": "image", "y": "label"}  # if there are both
_FILLING = frozenset(["set", "data", "dataset"])  # as in train_set_x
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SHOWN = 6


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
        """Describe which arrays the images and labels come from."""
        labelled = f"labels from {escape(self.labels.named)}" if self.labels else "no labels"
        into = f", split {self.split}" if self.split else ""
        return f"{number(len(self), 'image')} from {escape(self.images.named)}, {labelled}{into}"


@dataclass(frozen=True)
class Named:
    """An array and the role in its name: "image", "label" or "". `file`: the stem of its file's name."""

    file: str
    array: Array
    role: str
    split: str | None


def array_source(
    place: str,
    blocks: Sequence[ArrayBlock],
    options: ColumnOptions,
    *,
    look_only: bool = False,
    notes: Sequence[str] = (),
    known: KnownClasses | None = None,
    more: Sequence[Labels] = (),
    named: bool = False,
) -> ColumnarSource:
    """The source of arrays. `known`: what is known of the classes; `more`: further labels; `named`: arrays have names.

    `look_only`: only find the arrays; else labels are read, and compressed data is unpacked into a temporary folder
    (TMPDIR). Raises UsageError, StorageError.
    """
    for block in blocks:
        if not len(block):
            raise UsageError(place, f"{escape(block.images.named)} has no images", "leave it out")
        if block.labels is not None and block.labels.shape[:1] != (len(block),):
            count = block.labels.shape[0] if block.labels.shape else 0
            problem = f"{escape(block.labels.named)} has {number(count, 'label')}, and {escape(block.images.named)} "
            problem += f"{number(len(block), 'image')}, expected a label for each image"
            raise UsageError(place, problem, "correct the files, or name another array of labels")
    described = listing([block.described for block in blocks], LOOKED_AT, "; ")
    if look_only:
        return block_source(blocks, Rows(place, ColumnOptions()), described=described)
    rows, folder, unlabelled = Rows(place, options), Unpacked(), dict[int, str]()
    rows.names_columns = named
    unpacked = [replace(block, images=block.images.unpacked(folder)) for block in blocks]
    if not options.unlabelled and any(block.labels for block in blocks):
        labels = [len(block) if block.labels is None else block.labels.unpacked(folder) for block in blocks]
        of_class, unlabelled, of_labels = read_labels(place, labels, known)
        rows.labels.append(of_class)
        notes = [*notes, *of_labels]
    rows.labels += more
    rows.ledger.notes += dict.fromkeys([*notes, *folder.note])
    return block_source(unpacked, rows, unlabelled, described=described, folder=folder)


def named_source(
    place: str, files: Files, options: ColumnOptions, *, look_only: bool = False, notes: Sequence[str] = ()
) -> ColumnarSource:
    """The source of the arrays of images in `files`, each with its labels; otherwise as `array_source`.

    Files with names that differ only in the word for images or labels belong together. Raises UsageError if two arrays
    would fit, or none does.
    """
    unknown = [role for role in options.columns if role not in ("image", "label")]
    if unknown:
        problem = f"got {unknown[0]!r} in {argument('columns')}, expected image and label, the only columns of arrays"
        raise UsageError(place, problem, "leave it out")
    arrays = [array for of_file in files.values() for array in of_file.values()]
    for asked in options.columns.values():
        if not any(asked in of_file for of_file in files.values()):
            problem = f"there is no array {escape(asked)}; it has {_described(arrays)}"
            raise UsageError(place, problem, f"correct {argument('columns')}")
    groups = _groups(files)
    blocks: list[ArrayBlock] = []
    of_images: list[str] = []
    others: list[str] = []
    passed_over: list[str] = []
    for group in groups:
        images, labels = (_found(place, group, options, role) for role in ("image", "label"))
        one_pair = len(images) == len(labels) == 1 and bool(options.columns)
        order = [*images.keys() & {None}, *in_usual_order(split for split in images if split is not None)]
        taken = []
        for split in order:
            image, label = images[split], next(iter(labels.values())) if one_pair else labels.get(split)
            taken += [image, label]
            folder, stem = os.path.split(image.file)
            prefix = (f"{image.file}/" if len(groups) > 1 else "") + (f"{split}/" if split else "")
            into = split or split_of(stem) or split_of(os.path.basename(folder))
            array, layout, ending, said_of_it = image.array.imaged()
            of_images += said_of_it
            labelled = label.array if label else None
            blocks.append(ArrayBlock(array, layout, labelled, into, os.fsencode(prefix), ending))
        rest = [named.array for named in group if named not in taken]
        if not images:
            passed_over += dict.fromkeys(named.file for named in group)
        elif rest:
            others.append(f"ignored arrays: {_described(rest)}")
    if not blocks:
        single = [array for array in arrays if _is_one_image(array)]
        if len(single) > 1 and len(single) == len(arrays):
            problem = f"each of its {len(single)} arrays is one image, such as {_described(single[:1])}"
            remedy = "write one array of all images, and one of their labels, or read it with a Source of your own: "
            raise UsageError(place, problem, remedy + "docs/your-own-source.md")
        problem = f"no array is named like images; it has {_described(arrays)}"
        names = [(len(array.shape), name) for of_file in files.values() for name, array in of_file.items()]
        first = max(names, key=lambda one: one[0])[1] if names else "x"  # images have the most dimensions
        typed = shlex.quote(f"image={first},label=NAME")
        columns = argument("columns", python=f"columns={{'image': {first!r}}}", typed=typed)
        raise UsageError(place, problem, f"name the array of images: {columns}")
    if passed_over:
        others.append(counted("files without an array named like images", passed_over, len(passed_over)))
    notes = [*of_images, *others, *notes]
    return array_source(place, blocks, options, look_only=look_only, notes=notes, named=True)


def refuse_columns(look: Look, options: ColumnOptions, what: str) -> None:
    """Raise UsageError if the user named columns for a format whose arrays have no names."""
    if options.columns:
        problem = f"{argument('columns')} is for named columns, but {what} has none"
        raise UsageError(look.path, problem, "leave it out")


def evidence_of(name: str, found: str, read: Read, look: Look, options: ColumnOptions) -> Evidence:
    """The evidence for files of a reader's format; `read`: the reader's function, which finds what is missing."""
    try:
        return Evidence(name, f"{found}; {read(look, options, look_only=True).described}")
    except ShardfeedError as error:
        return Evidence(name, found, missing_of(error))


def files_of(look: Look, ends: tuple[str, ...], *, look_only: bool) -> dict[str, str]:
    """Name -> path of the files at a path with these suffixes; only the first few for a look.

    Raises UsageError if there is none.
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


def split_of(name: str) -> str | None:
    """Return the split in a name such as `mnist_train`; None if it has none or several."""
    found = {split for word in _words(name) if (split := usual_split(word))}
    return found.pop() if len(found) == 1 else None


def _is_one_image(array: Array) -> bool:
    """Whether an array is an image by itself: [height, width], or with 1, 3 or 4 channels."""
    sides = array.shape
    pixels = (len(sides) == 2 and min(sides) > 1) or (len(sides) == 3 and sides[2] in (1, 3, 4))
    return pixels and array.dtype.kind == "u"


def _described(arrays: Iterable[Array]) -> str:
    """`x uint8 [10, 28, 28], y int64 [10]`, for a message."""
    return listing([f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in arrays], _SHOWN)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _without_split_words(name: str) -> str:
    """Return the words of an array's name except those for splits; "" if it names several splits."""
    words = [word for word in _words(name) if word not in _FILLING]
    rest = [word for word in words if not usual_split(word)]
    return "_".join(rest) if len(words) - len(rest) < 2 else ""


def _groups(files: Files) -> list[list[Named]]:
    """The arrays of files that belong together, in the order of the first file of each."""
    stems = {file: os.path.splitext(file)[0] for file in files}
    every = {_without_split_words(name) for arrays in files.values() for name in arrays}
    every |= {word for stem in stems.values() for word in _words(os.path.basename(stem))}
    role_of = {word: role for role in ("image", "label") for word in WORDS[role]}
    role_of |= _LETTERS if _LETTERS.keys() <= every else {}
    groups: dict[tuple[str, ...], list[Named]] = {}
    for file, arrays in files.items():
        folder, stem = os.path.split(stems[file])
        words = _words(stem)
        roles = {role_of[word] for word in words if word in role_of}
        by_file = roles.pop() if len(roles) == 1 else ""
        rest = [word for word in words if word not in role_of] if by_file else [stem]
        group = groups.setdefault((folder, *rest), [])
        by_name = {name: role_of.get(_without_split_words(name), "") for name in arrays}
        for name, array in arrays.items():
            role = by_name[name] or ("" if any(by_name.values()) else by_file)
            group.append(Named(stems[file], array, role, split_of(name)))
    return list(groups.values())


def _found(place: str, group: Sequence[Named], options: ColumnOptions, role: str) -> dict[str | None, Named]:
    """Find the array with a role, for each split. Raises UsageError if two arrays fit."""
    asked = options.columns.get(role)
    fits = [named for named in group if (named.role == role if asked is None else named.array.named == asked)]
    if asked is not None and len(fits) > 1:
        fits = [named for named in fits if named.role == role] or fits
    found: dict[str | None, Named] = {}
    for named in fits:
        if (other := found.setdefault(named.split, named)) is not named:
            problem = f"two arrays are named like {role}s: {escape(other.array.named)} and {escape(named.array.named)}"
            raise UsageError(place, problem, f"choose one: {naming(role, named.array.named)}")
    return found
