"""Batches taken apart into arrays and the rest, and put together again."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Hole:
    """Stands where array number `index` was."""

    index: int


def take_apart(batch: Any) -> tuple[Any, list[np.ndarray]]:
    """(the batch with a `Hole` for each array, the arrays), through dicts, tuples, named tuples and lists.

    Everything else stays where it is, subclasses of arrays and arrays of Python objects included.
    """
    arrays: list[np.ndarray] = []
    return _holed(batch, arrays), arrays


def _holed(part: Any, arrays: list[np.ndarray]) -> Any:
    # Not a function within `take_apart`, which would refer to itself and to the arrays: a cycle, and each batch would
    # stay until the garbage collector comes by.
    kind = type(part)
    if kind is np.ndarray and not part.dtype.hasobject:
        arrays.append(part)
        return Hole(len(arrays) - 1)
    if kind is dict:
        return {key: _holed(value, arrays) for key, value in part.items()}
    if kind in (tuple, list):
        return kind([_holed(value, arrays) for value in part])
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return kind(*[_holed(value, arrays) for value in part])
    return part


def put_together(rest: Any, arrays: list[np.ndarray]) -> Any:
    """The batch that `take_apart` was given, with `arrays` in place of its own."""
    kind = type(rest)
    if kind is Hole:
        return arrays[rest.index]
    if kind is dict:
        return {key: put_together(value, arrays) for key, value in rest.items()}
    if kind in (tuple, list):
        return kind([put_together(value, arrays) for value in rest])
    if isinstance(rest, tuple) and hasattr(rest, "_fields"):
        return kind(*[put_together(value, arrays) for value in rest])
    return rest
