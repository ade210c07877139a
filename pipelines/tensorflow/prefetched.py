"""A prefetcher's batches as a tf.data.Dataset."""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.declared import checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.nests import leaves, map_leaves
from shardfeed.pipelines.prefetch.prefetcher import Batches, Prefetcher

_LOOKED_AT = 2  # batches, to see which dimensions vary


@checked
def as_dataset(prefetcher: Prefetcher, *, signature: Any = None, steps: int | None = None) -> tf.data.Dataset:
    """A tf.data.Dataset of a prefetcher's batches, for Keras `fit` or any tf.data code; each iteration is an epoch.

    A batch that does not fit the signature, or an exception in a producer, ends the dataset with a tf.errors.OpError
    whose message contains the reason.

    Args:
        prefetcher: result of `prefetch_threads`, `prefetch_processes` or `prefetch_ray`; its batches are arrays and
            numbers, or a nest of them.
        signature: a nested structure of `tf.TensorSpec`, like the batches, but with tuples instead of lists. None:
            inferred from the first two batches, which are read now and returned first in the first iteration. The first
            dimension of each array is None, because a last batch is often smaller; other dimensions are as in both
            batches, or None if they differ.
        steps: batches per epoch, if known: Keras shows it, and an epoch with more or fewer batches ends with an error.

    Raises:
        UsageError: if there is no batch to inspect, or if a batch holds anything but arrays and numbers.

    Example:
        with prefetch_processes([producer] * 4) as batches:
            model.fit(as_dataset(batches, steps=100), epochs=3, shuffle=False)
    """
    begun: list[tuple[list[Any], Batches]] = []
    if signature is None:
        batches = iter(prefetcher)
        seen = [_for_tensors(batch) for batch in islice(batches, _LOOKED_AT)]
        if not seen:
            raise UsageError("as_dataset", "the producers yielded no batch", "pass signature=")
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

    # One ahead: arrays are copied to tensors while the model computes.
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature).prefetch(1)
    return dataset if steps is None else dataset.apply(tf.data.experimental.assert_cardinality(steps))


def _for_tensors(batch: Any) -> Any:
    """The batch with arrays for numbers, and tuples for lists, which TensorFlow would make tensors of."""
    return map_leaves(batch, _array, lists=tuple)


def _array(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.hasobject and not all(isinstance(value, (str, bytes)) for value in array.flat):
        raise UsageError("as_dataset", f"got a {type(leaf).__name__} of Python objects, expected arrays and numbers")
    return array


def _signature(seen: list[Any]) -> Any:
    def spec(*arrays: np.ndarray) -> tf.TensorSpec:
        dtypes = {tf.as_dtype(array.dtype) for array in arrays}  # texts of all lengths have one dtype
        if len(dtypes) > 1:
            raise ValueError("an array has different dtypes in the first batches")
        shapes = [array.shape for array in arrays]
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError("an array has different numbers of dimensions in the first batches")
        dimensions = [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)]
        return tf.TensorSpec([None, *dimensions[1:]] if dimensions else [], dtypes.pop())

    try:
        return tf.nest.map_structure(spec, *seen)
    except (TypeError, ValueError) as error:
        problem = f"the batches cannot be converted to tensors: {error}"
        raise UsageError("as_dataset", problem, "pass signature=") from error


def _check(batch: Any, signature: Any, number: int) -> None:
    try:
        tf.nest.assert_same_structure(batch, signature)
    except (TypeError, ValueError) as error:
        raise UsageError(f"batch {number}", f"has another structure: {' '.join(str(error).split())}") from None
    specs = dict(leaves(signature))
    for place, array in leaves(batch):
        spec = specs[place]
        if not spec.shape.is_compatible_with(array.shape) or spec.dtype != tf.as_dtype(array.dtype):
            got, wanted = f"{array.dtype} {list(array.shape)}", f"{spec.dtype.name} {spec.shape}"
            raise UsageError(f"batch {number}{place}", f"got {got}, expected {wanted}", "pass signature= to as_dataset")
