"""Samples of arrays of images, one array after the other; choice of the arrays of images and labels.

An array is chosen by its usual name, or by the user. Labels are numbers, texts, or a 0 or 1 for each class.

ArrayBlocks are arrays or databases of images, one after the other.
"""

import os
import re
import shlex
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Protocol

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.look import Evidence, Look, find_files, missing_of
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rare.array_pixels import PixelLayout, shape_text
from shardfeed.converters.sources.rows.columns import CLASS, KnownClasses, Labels, Splits
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.rows.rows import ColumnarSource, Rows
from shardfeed.converters.sources.source import Content
from shardfeed.errors import ShardfeedError, UsageError, argument, escape
from shardfeed.split_words import usual_split
from shardfeed.text import counted, in_usual_order, listing, number

_AT_ONCE = 4 << 20  # bytes of labels that are examined at once
_MOST_CLASSES = 1 << 20  # different labels; with more, the values are not classes
LOOKED_AT = 8  # files of a folder that are examined to recognise it


_LETTERS = {"x": "image", "y": "label"}  # if there are both
_FILLING = frozenset(["set", "data", "dataset"])  # as in train_set_x
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SHOWN = 6


class Block(Protocol):
    """The images of one array or database, by number; picklable. `split`: of all of them."""

    @property
    def split(self) -> str | None: ...

    def __len__(self) -> int: ...

    def key(self, index: int, /) -> bytes: ...

    def content(self, index: int, /) -> Content: ...


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """The keys of the samples of `blocks`; `kept`: int64 [n], the places of those that are taken; None: all are."""

    blocks: Sequence[Block]
    kept: np.ndarray | None = None

    @property
    def numbered(self) -> bool:
        """Whether samples have numbers for names, so that lists cannot name them; those of a database have keys."""
        return all(getattr(block, "numbered", True) for block in self.blocks)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.blocks)))

    def __len__(self) -> int:
        return self._ends[-1] if self.kept is None else len(self.kept)

    def find(self, index: int) -> tuple[Block, int]:
        """The block of a sample, 0 or more, and its place in it."""
        index = index if self.kept is None else self.kept.item(index)
        block = bisect_right(self._ends, index) if len(self.blocks) > 1 else 0
        return self.blocks[block], index - (self._ends[block - 1] if block else 0)

    def __getitem__(self, index: int, /) -> bytes:
        block, place = self.find(index)
        return block.key(place)


@dataclass(frozen=True)
class BlockContents:
    """The images of blocks."""

    of: ArrayBlocks

    def __getitem__(self, index: int, /) -> Content:
        block, place = self.of.find(index)
        return block.content(place)


def block_source(
    blocks: Sequence[Block],
    rows: Rows,
    unlabelled: Mapping[int, str] | None = None,
    *,
    described: str = "",
    folder: object = None,
) -> ColumnarSource:
    """The source of all samples except `unlabelled` (index -> why it has no label). `rows`: of the labelled samples.

    `folder`: a temporary folder that must live as long as the source. Raises UsageError if no sample is left.
    """
    every = ArrayBlocks(blocks)
    for index, reason in (unlabelled or {}).items():
        rows.ledger.reject(every[index], RejectCode.NO_LABEL, reason)
    kept = np.delete(np.arange(len(every)), [*unlabelled]) if unlabelled else None
    keys = ArrayBlocks(blocks, kept)
    if not len(keys):
        first = next(iter(rows.ledger.rejected.values()), None)
        why = f", the first: {escape(first.key)}: {first.reason}" if first else ""
        problem = f"none of {number(len(every), 'sample')} can be used{why}"
        raise UsageError(rows.place, problem, "check its contents")
    if any(block.split is not None for block in blocks):
        of_block = np.arange(len(blocks)).repeat([*map(len, blocks)])
        rows.splits = Splits.coded([block.split for block in blocks], of_block if kept is None else of_block[kept])
    return rows.source(keys, BlockContents(keys), described=described, kept=folder)


class LabelArray(Protocol):
    """An array, [n, ...]; `named`: its name, for messages."""

    @property
    def named(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Some rows. Raises RejectedError."""
        ...


class Array(LabelArray, Protocol):
    """An array on disk; picklable."""

    def imaged(self) -> "tuple[Array, PixelLayout | None, bytes, list[str]]":
        """Return the array to read images from, the pixel layout, the file extension, and notes. Raises UsageError."""
        ...

    def content(self, index: int, layout: PixelLayout | None) -> Content:
        """A row as an image: plain pixels, or an encoded file."""
        ...

    def unpacked(self, folder: Unpacked) -> "Array":
        """The same array with random access to rows. Raises UsageError, StorageError."""
        ...


Files = Mapping[str, Mapping[str, Array]]  # name of a file -> name of an array in it -> the array


def read_labels(
    place: str, arrays: Sequence[LabelArray | int], known: KnownClasses | None = None, *, prefix: str = CLASS
) -> tuple[Labels, dict[int, str], list[str]]:
    """The labels of all samples of `arrays`, one after the other; samples without one, and why; and notes.

    An array is [n] or [n, 1] of integers, whole numbers or texts; or [n, K] of zeros and ones, one column per class:
    one class if every row has a single one, else a set. A number instead of an array: this many samples without labels.
    `known`, `prefix`: as of `Labels`. Raises UsageError for anything else.
    """
    there = [one for one in arrays if not isinstance(one, int)]
    widths = {_width(place, array) for array in there}
    texts = {array.dtype.kind in "SUO" for array in there}
    if len(widths) > 1 or len(texts) > 1:
        each = ", ".join(f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in there)
        raise UsageError(place, f"got labels of different kinds: {each}", "save the same kind in each split")
    width, first = widths.pop(), there[0]
    what = f"{escape(first.named)} is {shape_text(first.shape, first.dtype)}"
    known = replace(known or KnownClasses(), place=place, column=first.named, kind="array", what=what, by="name")
    labels = Labels("one" if width == 1 else "marks", known, prefix=prefix)
    notes, unlabelled, at = list[str](), dict[int, str](), 0
    for array in arrays:
        if isinstance(array, int):
            unlabelled |= dict.fromkeys(range(at, at + array), "it has no array of labels, but others have")
            at += array
            continue
        for part in _slices(place, array, width):
            if width > 1:
                labels.add_marks(*_marks(place, array, part), width)
            else:
                _add(labels, place, array, part, at, unlabelled)
            at += len(part)
        if array.dtype.kind == "f" and width == 1:
            notes.append(f"{escape(array.named)}: integers stored as floats, used as labels")
    return labels, unlabelled, notes


def _width(place: str, array: LabelArray) -> int:
    """Labels of a sample. Raises UsageError."""
    kind, sides = array.dtype.kind, [side for side in array.shape[1:] if side != 1]
    if kind not in "biufSUO" or len(sides) > 1 or (sides and kind in "SUO") or not array.shape or 0 in sides:
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)}"
        raise UsageError(place, f"{problem}, expected labels: [n], [n, 1], or [n, classes] of zeros and ones")
    if sides and sides[0] > _MOST_CLASSES:
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)}"
        raise UsageError(
            place, f"{problem}, expected at most {_MOST_CLASSES:,} classes", "save the class of each image"
        )
    return sides[0] if sides else 1


def _slices(place: str, array: LabelArray, width: int) -> Iterator[np.ndarray]:
    """The array in pieces, [m] or [m, width]; read when they are asked for."""
    step = max(1, _AT_ONCE // (max(array.dtype.itemsize, 1) * width))
    for start in range(0, array.shape[0], step):
        try:
            part = array.rows(start, min(start + step, array.shape[0]))
        except RejectedError as error:
            raise UsageError(place, f"cannot read {escape(array.named)}: {error.reason}", "save it again") from None
        yield part.reshape(-1) if width == 1 else part.reshape(-1, width)


def _add(labels: Labels, place: str, array: LabelArray, part: np.ndarray, at: int, unlabelled: dict[int, str]) -> None:
    """Append one label per sample; values that mean "no label" go to `unlabelled`. Raises UsageError."""
    values, places = np.unique(part, return_inverse=True)
    texts = [_text(place, array, value) for value in values.tolist()]
    none = [i for i, text in enumerate(texts) if text in ("-1", "")]
    if none:
        without = np.isin(places, none)
        for i in np.flatnonzero(without).tolist():
            got = "-1, which means no label" if texts[places[i]] else "got an empty value, expected a name or a number"
            unlabelled[at + i] = f"label from {escape(array.named)}: {got}"
        places = places[~without]
        kept = [i for i in range(len(texts)) if i not in none]
        texts, places = [texts[i] for i in kept], np.searchsorted(kept, places)
    labels.add_many(texts, places)
    if labels.different > _MOST_CLASSES:
        problem = f"{escape(array.named)} has more than {_MOST_CLASSES:,} different labels, too many for classes"
        raise UsageError(place, problem, f"name the array of labels with {argument('columns')}")


def _text(place: str, array: LabelArray, value: Any) -> str:
    """A label as text: a whole number, or a name; "" for NaN. Raises UsageError."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            problem = f"{escape(array.named)} has {value!r}, which is not UTF-8"
            raise UsageError(place, problem, "save the labels as UTF-8 text") from None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**53):
        return str(int(value))
    problem = f"{escape(array.named)} has {value!s}, expected labels: integers"
    raise UsageError(place, problem, "name the array of labels, or save them as integers")


def _marks(place: str, array: LabelArray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes marked 1 in rows of one 0 or 1 per class, and their number per row. Raises UsageError."""
    marks = part == 1
    if not (marks | (part == 0)).all():
        value = part[~(marks | (part == 0))][0]
        problem = f"{escape(array.named)} is {shape_text(array.shape, array.dtype)} and has {value!s}, "
        problem += "expected one label per sample, or zeros and ones, one column per class"
        raise UsageError(place, problem, "save the labels in this form")
    return np.nonzero(marks)[1].astype(np.int32), marks.sum(axis=1).astype(np.int64)


class Read(Protocol):
    """The function of a reader, which may only look."""

    def __call__(self, look: Look, options: ColumnOptions, *, look_only: bool = False) -> ColumnarSource: ...


@dataclass(frozen=True)
class ArrayBlock:
    """See `Block`: the images of one array, called by their place in it, with labels; None without.

    `layout`: of pixels; None: images are encoded. `prefix`, `ending`: what keys begin with and end in.
    """

    images: Array
    layout: PixelLayout | None
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
            into = split or _split_of_file(folder, stem, files)
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


def _split_of_file(folder: str, stem: str, files: Collection[str]) -> str | None:
    """The split by the name of a file or of its folder; "extra", as SVHN has it, beside files of usual splits."""
    found = split_of(stem) or split_of(os.path.basename(folder))
    if found is None and "extra" in _words(stem):
        beside = any(split_of(os.path.splitext(os.path.basename(file))[0]) for file in files)
        return "extra" if beside else None
    return found


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
