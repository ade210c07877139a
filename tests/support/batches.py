"""Batches of tf.data as arrays, and their comparison."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Batches = list[tuple[np.ndarray, ...]]


def taken(dataset: Any, count: int = -1) -> Batches:
    """The first batches of a `tf.data.Dataset`; all by default."""
    return list(dataset.take(count).as_numpy_iterator())


def same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether both have the same batches, and these the same arrays."""
    return len(some) == len(others) > 0 and all(
        len(one) == len(other) and all(map(np.array_equal, one, other)) for one, other in zip(some, others, strict=True)
    )
