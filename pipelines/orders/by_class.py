"""Samples arranged by class, and the weight of each class, for orders that balance classes."""

from collections.abc import Mapping, Sequence

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.errors import UsageError, escape
from shardfeed.pipelines.orders.choices import Weights
from shardfeed.readers.rarest_class import rarest_classes
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL


def class_strata(split: Split, key: str, weights: Weights | None) -> tuple[Split, list[int], list[float]]:
    """The split arranged by the class of feature `key`, and the samples and weight of each class with samples."""
    labels = split.schema.class_names
    if key == "class":
        key = OBJECT_LABEL if OBJECT_LABEL in labels and (split.schema.key(LABEL) or LABEL) not in labels else LABEL
    key = split.schema.key(key) or key
    if key not in labels:
        problem = f"got {escape(key)!r}, expected a label whose classes have names"
        raise UsageError("balance", problem, f"there is {sorted(labels) or 'none'}")
    names = labels[key]
    if split.schema.features[key].scalar:
        column = split.column(key)
    else:  # several classes per record; samples without a class form the last class, "" in weights
        column, names = rarest_classes(split, key), (*names, "")
    sizes = np.bincount(column, minlength=len(names))
    by_class = _by_class(names, sizes, weights)
    kept = [label for label in range(len(names)) if sizes[label] and by_class[label] > 0]
    if not kept:
        raise UsageError("weights", "no class with samples has a weight above 0")
    in_order = np.argsort(column, kind="stable")
    if sizes[kept].sum() < len(column):
        in_order = in_order[np.isin(np.arange(len(names)), kept)[column[in_order]]]
    del column
    return split.select(in_order), [int(sizes[label]) for label in kept], [by_class[label] for label in kept]


def _by_class(names: Sequence[str], sizes: np.ndarray, weights: Weights | None) -> list[float]:
    """The weight of each class; 1 if none are given."""
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, Mapping):
        if unknown := sorted(set(weights) - set(names)):
            problem = f"got {escape(unknown[0])!r}, which is not a class"
            raise UsageError("weights", problem, f"the classes are {_first_names(names)}")
        absent = [name for name, size in zip(names, sizes, strict=True) if size and name not in weights]
        if absent:
            problem = f"no weight for {_first_names(absent)}"
            raise UsageError("weights", problem, "give one for each class; 0 leaves it out")
        return [float(weights.get(name, 0)) for name in names]
    if len(weights) != len(names):
        last = ", the last for samples without a class" if names[-1] == "" else ""
        raise UsageError("weights", f"got {len(weights)}, expected {len(names)}, one for each class{last}")
    return [float(weight) for weight in weights]


def _first_names(names: Sequence[str]) -> str:
    shown = ", ".join(escape(name) or "'' (samples without a class)" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
