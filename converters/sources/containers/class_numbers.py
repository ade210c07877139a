"""Labels that a file gives as numbers: 0-based, each with the name of its class."""

import numpy as np

from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.rows.columns import ClassColumn
from shardfeed.errors import UsageError, argument

_NAMES = argument("class_names", typed="FILE")


def numbered_classes(
    place: str,
    labels: np.ndarray,
    options: ContainerOptions,
    named: tuple[str, ...] | None = None,
    prefix: str = "image/class",
) -> ClassColumn:
    """The classes of samples whose labels are `labels`, int64 [n], as the file has them.

    `named`: the names of the classes that the format has itself, in label order; a class list in `options` goes first.
    Without either the labels must be 0 to K-1 after `options.label_offset`, and their numbers are their names.
    Raises UsageError for a label that has no class, naming the first one and `place`.
    """
    refuse_label_map(place, options)
    names = class_list(options.class_names) or named
    offset = options.label_offset
    labels = labels - offset if offset else labels
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    if low < 0:
        first = int(np.flatnonzero(labels < 0)[0])
        problem = f"got the label {low + offset} (the first below {offset} is that of sample {first}), expected"
        remedy = "correct it" if not offset else f"correct {argument('label_offset', offset)}"
        raise UsageError(place, f"{problem} {offset} or more", remedy)
    if names is not None:
        if high >= len(names):
            first = int(np.flatnonzero(labels >= len(names))[0])
            value, top = int(labels[first]) + offset, len(names) - 1 + offset
            problem = f"got the label {value} (of sample {first}), expected {offset} to {top}: {len(names)} classes"
            shift = f"give {argument('label_offset', 1)} where 1 is the first class, or " if not offset and low else ""
            raise UsageError(place, f"{problem} have names", f"{shift}name every class in {_NAMES}")
        return ClassColumn(prefix, names, labels)
    found = np.unique(labels)
    if len(labels) and len(found) != high + 1:
        gap = int(np.flatnonzero(found != np.arange(len(found)))[0])
        problem = f"got {len(found)} different labels from {low + offset} to {high + offset}, expected "
        problem += f"{offset} to {len(found) - 1 + offset}: there is no {gap + offset}"
        remedy = f"give {_NAMES} with {high + 1} names, in label order"
        if low and low + len(found) == high + 1:
            remedy = f"give {argument('label_offset', low + offset)} if that is the first class, or {remedy[5:]}"
        raise UsageError(place, problem, remedy)
    return ClassColumn(prefix, tuple(str(number) for number in range(high + 1)), labels)


def refuse_label_map(place: str, options: ContainerOptions) -> None:
    """Raises UsageError where a label map was given, for formats whose labels it cannot number."""
    if options.label_map is not None:
        problem = f"{argument('label_map', options.label_map)} is for records that have a class's id"
        raise UsageError(place, problem, f"give {_NAMES}, one name a line in label order")
