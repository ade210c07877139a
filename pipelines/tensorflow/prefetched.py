"""A prefetcher's batches as a tf.data.Dataset. TensorFlow is imported when one is made."""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.prefetch.prefetcher import Batches, Prefetcher

if TYPE_CHECKING:
    import tensorflow as tf

_LOOKED_AT = 2  # batches, to see which dimensions vary


def as_dataset(prefetcher: Prefetcher, *, signature: Any = None, steps: int | None = None) -> "tf.data.Dataset":
    """Whole batches for Keras `fit` or any tf.data code; each iteration is an epoch of the prefetcher.

    `signature`: a nesting of `tf.TensorSpec` as of the batches, lists as tuples. Without one the first two batches are
    taken at once, and given first in the first iteration: the first dimension of each array is None, as a last batch
    is often smaller; others are what both batches have, or None where they differ. A batch that does not fit, and a
    producer's exception, end the dataset with a tf.errors.OpError whose message has the reason.
    `steps`: batches of an epoch, where known; Keras shows them, and an epoch of another number ends with an error.

    Raises UsageError where there is no batch to look at, or one that holds something else than arrays and numbers.
    """
    import tensorflow as tf

    begun: list[tuple[list[Any], Batches]] = []
    if signature is None:
        batches = iter(prefetcher)
        seen = [_for_tensors(batch) for batch in islice(batches, _LOOKED_AT)]
        if not seen:
            raise UsageError("as_dataset", "the producers gave no batch to look at", "pass signature=")
        signature = _signature(seen)
        begun.append((seen, batches))
    guard = threading.Lock()

    def rows() -> Iterator[Any]:
        with guard:
            seen, batches = begun.pop() if begun else ([], iter(prefetcher))
        number = 0
        while seen:
            yield seen.pop(0)
            number += 1
        for batch in batches:
            found = _for_tensors(batch)
            _check(found, signature, number)
            yield found
            number += 1

    # One ahead: turning arrays into tensors copies them, which then happens while the model computes.
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature).prefetch(1)
    return dataset if steps is None else dataset.apply(tf.data.experimental.assert_cardinality(steps))


def _for_tensors(batch: Any) -> Any:
    """The batch with tuples for lists, which TensorFlow would take for one tensor each, and arrays for numbers."""
    if isinstance(batch, dict):
        return {key: _for_tensors(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_for_tensors, batch))
    if isinstance(batch, (tuple, list)):
        return tuple(map(_for_tensors, batch))
    array = np.asarray(batch)
    if array.dtype.hasobject and not all(isinstance(value, (str, bytes)) for value in array.flat):
        raise UsageError("as_dataset", f"got a {type(batch).__name__} of Python objects, expected arrays and numbers")
    return array


def _signature(seen: list[Any]) -> Any:
    import tensorflow as tf

    def spec(*arrays: np.ndarray) -> tf.TensorSpec:
        dtypes = {tf.as_dtype(array.dtype) for array in arrays}  # texts of other lengths are of one
        if len(dtypes) > 1:
            raise ValueError("an array of the first batches has another dtype in each")
        shapes = [array.shape for array in arrays]
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError("an array of the first batches has another number of dimensions in each")
        dimensions = [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)]
        return tf.TensorSpec([None, *dimensions[1:]] if dimensions else [], dtypes.pop())

    try:
        return tf.nest.map_structure(spec, *seen)
    except (TypeError, ValueError) as error:
        raise UsageError("as_dataset", f"the batches do not make tensors: {error}", "pass signature=") from error


def _check(batch: Any, signature: Any, number: int) -> None:
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(batch, signature)
    except (TypeError, ValueError) as error:
        raise UsageError(f"batch {number}", f"is nested otherwise: {' '.join(str(error).split())}") from None
    for (path, array), spec in zip(_leaves(batch), tf.nest.flatten(signature), strict=True):
        if not spec.shape.is_compatible_with(array.shape) or spec.dtype != tf.as_dtype(array.dtype):
            got, wanted = f"{array.dtype} {list(array.shape)}", f"{spec.dtype.name} {spec.shape}"
            raise UsageError(f"batch {number}{path}", f"got {got}, expected {wanted}", "pass signature= to as_dataset")


def _leaves(batch: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """(where, array) in TensorFlow's order, which sorts the keys of dicts."""
    if isinstance(batch, dict):
        for key in sorted(batch):
            yield from _leaves(batch[key], f"{path}[{key!r}]")
    elif isinstance(batch, tuple):
        for index, value in enumerate(batch):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, batch
