"""Which array holds the images and which their labels, by their usual names or by what the user says."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardfeed.converters.sources.containers.arrays.labels import Rows
from shardfeed.converters.sources.containers.arrays.pixels import shape_text
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import in_usual_order, listing

_IMAGES = frozenset(["images", "image", "imgs", "img", "x"])
_LABELS = frozenset(["labels", "label", "targets", "target", "y"])
_FILLING = frozenset(["set", "data", "dataset"])  # as in train_set_x
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SHOWN = 6

_Array = TypeVar("_Array", bound=Rows)


@dataclass(frozen=True)
class Pair:
    """`image`, `label`: names of arrays, "" without labels. `split`: by their names; None where those do not say."""

    image: str
    label: str
    split: str | None


def split_of(name: str) -> str | None:
    """The split that a file's name without its ending speaks of: `mnist_train`; None where it names none or several."""
    found = {split for word in _words(name) if (split := usual_split(word))}
    return found.pop() if len(found) == 1 else None


def pairs_of(place: str, arrays: Mapping[str, Rows], options: ContainerOptions) -> list[Pair]:
    """The arrays of images in the order of their splits' names, each with its labels.

    Raises UsageError where two would do, none does, or some have labels and others not.
    """
    unknown = [role for role in options.columns if role not in ("image", "label")]
    if unknown:
        problem = f"got {unknown[0]!r} in {argument('columns')}, expected image and label: arrays have no other"
        raise UsageError(place, problem, "leave it out")
    images = _found(place, arrays, options, "image", _IMAGES)
    labels = _found(place, arrays, options, "label", _LABELS)
    if not images:
        problem = f"no array is called like images; it has {described(arrays.values())}"
        first = next(iter(arrays), "x")
        columns = argument("columns", python=f"columns={{'image': {first!r}}}", typed=f"image={first},label=NAME")
        raise UsageError(place, problem, f"say which holds them: {columns}")
    if len(images) == 1 and len(labels) == 1 and ("image" in options.columns or "label" in options.columns):
        return [Pair(image, next(iter(labels.values())), split) for split, image in images.items()]
    lacking = [image for split, image in images.items() if split not in labels]
    if labels and lacking:
        problem = f"{listing([escape(name) for name in lacking])} has no labels beside it, and others have; "
        problem += f"it has {described(arrays.values())}"
        raise UsageError(place, problem, f"name one array of images and its labels by {argument('columns')}")
    order = [*images.keys() & {None}, *in_usual_order(split for split in images if split is not None)]
    return [Pair(images[split], labels.get(split, ""), split) for split in order]


def described(arrays: Iterable[Rows]) -> str:
    """`x uint8 [10, 28, 28], y int64 [10]`, for a message."""
    return listing([f"{escape(array.named)} {shape_text(array.shape, array.dtype)}" for array in arrays], _SHOWN)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _found(
    place: str, arrays: Mapping[str, Rows], options: ContainerOptions, role: str, called: frozenset[str]
) -> dict[str | None, str]:
    """Split -> the name of the array that has the role in it."""
    if role in options.columns:
        name = options.columns[role]
        if name not in arrays:
            problem = f"there is no array {escape(name)}; it has {described(arrays.values())}"
            raise UsageError(place, problem, f"correct {argument('columns')}")
        return {split_of(name): name}
    found: dict[str | None, str] = {}
    for name in arrays:
        words = [word for word in _words(name) if word not in _FILLING]
        splits = [split for word in words if (split := usual_split(word))]
        roles = [word for word in words if not usual_split(word)]
        if len(roles) != 1 or len(splits) > 1 or roles[0] not in called:
            continue
        split = splits[0] if splits else None
        if split in found:
            columns = argument("columns", python=f"columns={{{role!r}: {name!r}}}", typed=f"{role}={name}")
            problem = f"two arrays are called like {role}s: {escape(found[split])} and {escape(name)}"
            raise UsageError(place, problem, f"say which is meant: {columns}")
        found[split] = name
    return found


def not_taken(arrays: Mapping[str, Rows], pairs: Sequence[Pair]) -> list[str]:
    """A note of the arrays that no pair has, where there are any."""
    taken = {name for pair in pairs for name in (pair.image, pair.label)}
    others = [array for name, array in arrays.items() if name not in taken]
    return [f"arrays passed over: {described(others)}"] if others else []
