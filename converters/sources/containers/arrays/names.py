"""Which array holds the images and which their labels, by their usual names or by what the user says."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardfeed.converters.sources.containers.arrays.labels import Array
from shardfeed.converters.sources.containers.arrays.pixels import shape_text
from shardfeed.converters.sources.options import ColumnOptions, naming
from shardfeed.converters.sources.rows.roles import WORDS
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import counted, in_usual_order, listing

_LETTERS = {"x": "image", "y": "label"}  # where there are both
_FILLING = frozenset(["set", "data", "dataset"])  # as in train_set_x
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SHOWN = 6

Files = Mapping[str, Mapping[str, Array]]  # name of a file -> name of an array in it -> the array


@dataclass(frozen=True)
class Named:
    """An array and what its name says: `role` is "image", "label" or "". `file`: the stem of its file's name."""

    file: str
    array: Array
    role: str
    split: str | None


@dataclass(frozen=True)
class Pair:
    """Images and their labels, None without. `prefix`: what keys begin with; `split`: None where no name says it."""

    images: Array
    labels: Array | None
    split: str | None
    prefix: str


def split_of(name: str) -> str | None:
    """The split that a name speaks of, such as `mnist_train`; None where it names none or several."""
    found = {split for word in _words(name) if (split := usual_split(word))}
    return found.pop() if len(found) == 1 else None


def pairs_of(place: str, files: Files, options: ColumnOptions) -> tuple[list[Pair], list[str]]:
    """The arrays of images in `files`, each with its labels; and notes.

    Files whose names differ in the word for images or labels alone belong together. Raises UsageError where two arrays
    would do, or none does.
    """
    unknown = [role for role in options.columns if role not in ("image", "label")]
    if unknown:
        problem = f"got {unknown[0]!r} in {argument('columns')}, expected image and label: arrays have no other"
        raise UsageError(place, problem, "leave it out")
    arrays = [array for of_file in files.values() for array in of_file.values()]
    for asked in options.columns.values():
        if not any(asked in of_file for of_file in files.values()):
            problem = f"there is no array {escape(asked)}; it has {described(arrays)}"
            raise UsageError(place, problem, f"correct {argument('columns')}")
    groups = _groups(files)
    pairs: list[Pair] = []
    notes: list[str] = []
    passed_over: list[str] = []
    for group in groups:
        images, labels = (_found(place, group, options, role) for role in ("image", "label"))
        said = len(images) == len(labels) == 1 and bool(options.columns)
        order = [*images.keys() & {None}, *in_usual_order(split for split in images if split is not None)]
        taken = []
        for split in order:
            image, label = images[split], next(iter(labels.values())) if said else labels.get(split)
            taken += [image, label]
            folder, stem = os.path.split(image.file)
            prefix = (f"{image.file}/" if len(groups) > 1 else "") + (f"{split}/" if split else "")
            into = split or split_of(stem) or split_of(os.path.basename(folder))
            pairs.append(Pair(image.array, label.array if label else None, into, prefix))
        others = [named.array for named in group if named not in taken]
        if not images:
            passed_over += dict.fromkeys(named.file for named in group)
        elif others:
            notes.append(f"arrays passed over: {described(others)}")
    if not pairs:
        problem = f"no array is called like images; it has {described(arrays)}"
        first = next(iter(next(iter(files.values()), {})), "x")
        columns = argument("columns", python=f"columns={{'image': {first!r}}}", typed=f"image={first},label=NAME")
        raise UsageError(place, problem, f"say which holds them: {columns}")
    if passed_over:
        notes.append(counted("files without an array that is called like images", passed_over, len(passed_over)))
    return pairs, list(dict.fromkeys(notes))


def described(arrays: Iterable[Array]) -> str:
    """`x uint8 [10, 28, 28], y int64 [10]`, for a message."""
    return listing([f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in arrays], _SHOWN)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _said(name: str) -> str:
    """The words of an array's name beside those for splits; "" where it names several splits."""
    words = [word for word in _words(name) if word not in _FILLING]
    rest = [word for word in words if not usual_split(word)]
    return "_".join(rest) if len(words) - len(rest) < 2 else ""


def _groups(files: Files) -> list[list[Named]]:
    """The arrays of files that belong together, in the order of the first file of each."""
    stems = {file: os.path.splitext(file)[0] for file in files}
    every = {_said(name) for arrays in files.values() for name in arrays}
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
        by_name = {name: role_of.get(_said(name), "") for name in arrays}
        for name, array in arrays.items():
            role = by_name[name] or ("" if any(by_name.values()) else by_file)
            group.append(Named(stems[file], array, role, split_of(name)))
    return list(groups.values())


def _found(place: str, group: Sequence[Named], options: ColumnOptions, role: str) -> dict[str | None, Named]:
    """The array of a group that has the role, by split. Raises UsageError where two would do."""
    asked = options.columns.get(role)
    fits = [named for named in group if (named.role == role if asked is None else named.array.named == asked)]
    if asked is not None and len(fits) > 1:
        fits = [named for named in fits if named.role == role] or fits
    found: dict[str | None, Named] = {}
    for named in fits:
        if (other := found.setdefault(named.split, named)) is not named:
            problem = f"two arrays are called like {role}s: {escape(other.array.named)} and {escape(named.array.named)}"
            raise UsageError(place, problem, f"say which is meant: {naming(role, named.array.named)}")
    return found
