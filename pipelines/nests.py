"""Nests: batches of mappings, tuples, named tuples and lists with leaves, and one function that walks them.

A leaf is anything else: an array, a tensor, a number, text.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def map_leaves(nest: Any, function: Callable[[Any], Any], *, lists: type = list) -> Any:
    """Return the nest with `function(leaf)` for each leaf; containers keep their types, except plain lists.

    `lists`: the type that plain lists get. A read-only mapping becomes a dict.
    """
    # Recursive without an inner function, which would refer to itself and its arguments: such a cycle would keep each
    # batch until the garbage collector runs.
    kind = type(nest)
    if kind is dict:
        return {key: map_leaves(value, function, lists=lists) for key, value in nest.items()}
    if kind is list or kind is tuple:
        parts = [map_leaves(value, function, lists=lists) for value in nest]
        return (lists if kind is list else tuple)(parts)
    if isinstance(nest, Mapping):
        made = copy.copy(nest) if isinstance(nest, MutableMapping) else dict(nest)
        for key, value in nest.items():
            made[key] = map_leaves(value, function, lists=lists)
        return made
    if isinstance(nest, tuple):  # a named tuple, or a subclass with any constructor
        return tuple.__new__(kind, [map_leaves(value, function, lists=lists) for value in nest])
    if isinstance(nest, list):
        made = copy.copy(nest)
        made[:] = [map_leaves(value, function, lists=lists) for value in nest]
        return made
    return function(nest)


def leaves(nest: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """(place, leaf) of each leaf; places look like `[0]['image']`."""
    if isinstance(nest, Mapping | tuple | list):
        for key, value in nest.items() if isinstance(nest, Mapping) else enumerate(nest):
            yield from leaves(value, f"{place}[{key!r}]")
    else:
        yield place, nest


@dataclass(frozen=True)
class Hole:
    """Placeholder for array number `index`."""

    index: int


def take_apart(batch: Any) -> tuple[Any, list[np.ndarray]]:
    """Return (the batch with a `Hole` for each array, the arrays).

    Everything else stays in place, including subclasses of arrays and arrays of Python objects.
    """
    arrays: list[np.ndarray] = []

    def hole(leaf: Any) -> Any:
        if type(leaf) is not np.ndarray or leaf.dtype.hasobject:
            return leaf
        arrays.append(leaf)
        return Hole(len(arrays) - 1)

    return map_leaves(batch, hole), arrays


def put_together(rest: Any, arrays: list[np.ndarray]) -> Any:
    """The batch that was passed to `take_apart`, with `arrays` in place of the original arrays."""
    return map_leaves(rest, lambda leaf: arrays[leaf.index] if type(leaf) is Hole else leaf)
