"""The label of each sample, by which splits are drawn and classes are counted."""

import operator

import numpy as np

from shardfeed.converters.sources.source import Sample
from shardfeed.schema import LABEL, Schema


def has_label(schema: Schema) -> bool:
    """Whether every sample has one label by which its split can be drawn."""
    feature = schema.features.get(LABEL)
    return feature is not None and feature.scalar and schema.kind(LABEL) == "label"


def label_of(sample: Sample) -> int:
    """The first label; -1 for what cannot be one, which whoever encodes it refuses."""
    try:
        label = operator.index(sample.features[LABEL])  # type: ignore[arg-type]  # NumPy's integers are labels too
    except (KeyError, TypeError):
        return -1
    return label if 0 <= label < 2**31 else -1


def counts_of(labels: np.ndarray, classes: int) -> tuple[int, ...]:
    """How many of `labels`, int32 [n], are 0, 1, ... `classes` - 1."""
    return tuple(np.bincount(labels[(labels >= 0) & (labels < classes)], minlength=classes).tolist())
