"""Some samples of a split: the check of a selection, and the search for a record by its values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.declared import check_length
from shardfeed.errors import UsageError, shown
from shardfeed.readers.record import has_values


def check_selection(name: str, which: Any) -> None:
    """Raise UsageError unless it becomes an array."""
    check_length(name, which)
    try:
        if (isinstance(which, Sequence) or hasattr(which, "__array__")) and not isinstance(which, str | bytes):
            np.asarray(which)
            return
    except (ValueError, OverflowError, RecursionError):  # lists of different lengths, or of too many levels
        pass
    raise UsageError(name, f"got {shown(which)}, expected a bool mask, or integers")


def indices_of(
    record: Any, samples: Sequence[Mapping[str, Any]], name_key: str | None, names: Callable[[str], np.ndarray]
) -> Iterator[int]:
    """Yield the indices of the samples with the values of a record, in ascending order; none for what is no record.

    `name_key`: the feature with file names, by which samples are chosen for reading; None: all are read. `names`: the
    values of a feature, bytes as objects [n].
    """
    if isinstance(record, Mapping):
        chosen = range(len(samples)) if name_key is None else _named(record.get(name_key), name_key, names)
        yield from (index for index in chosen if has_values(samples[index], record))


def _named(name: Any, key: str, names: Callable[[str], np.ndarray]) -> Iterable[int]:
    return np.flatnonzero(names(key) == name).tolist() if isinstance(name, bytes) else ()
