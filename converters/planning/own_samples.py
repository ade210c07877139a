"""Checks of samples of a source of one's own: readers of this package keep these rules by themselves."""

from array import array
from collections import defaultdict
from typing import Any

import numpy as np

from shardfeed.converters.sources.source import Sample, Source
from shardfeed.declared import Seed, check
from shardfeed.errors import UsageError, escape
from shardfeed.naming import name_problem

_Id = Seed | None
_TYPES: dict[str, Any] = {"key": bytes, "split": str | None, "number": _Id}


class OwnSamples:
    """The ids of the samples seen so far, 8 bytes each. `check` does nothing if the package made the source."""

    def __init__(self, source: Source) -> None:
        self._is_own = not type(source).__module__.startswith("shardfeed.")
        self._ids: defaultdict[str | None, array[int]] = defaultdict(lambda: array("q"))  # of each split that is named
        self._without = -1  # the last sample without an id

    def check(self, i: int, sample: Sample) -> None:
        """Raise UsageError, whose place is `source[i]`, for a key, a split or an id that no dataset can hold."""
        if not self._is_own:
            return
        split, number = sample.split, sample.number
        usual = type(sample.key) is bytes and (split is None or (type(split) is str and split))
        if not usual or not (number is None or (type(number) is int and 0 <= number < 2**63)):  # the rest takes 15 us
            for name, kind in _TYPES.items():
                check(f"source[{i}].{name}", getattr(sample, name), kind)
        if problem := name_problem(sample.key):
            remedy = "give a name relative to a folder, such as b'rose/1.jpg'"
            raise UsageError(f"source[{i}].key", f"{escape(sample.key)!r} {problem}", remedy)
        if sample.record is not None:
            return
        ids = self._ids[split]
        if number is None:
            self._without = i
        else:
            ids.append(number)
        if self._without >= 0 and any(self._ids.values()):
            problem = "got None" if self._without == i else f"got {number}, and source[{self._without}] has none"
            raise UsageError(
                f"source[{i}].number", f"{problem}, expected ids of all samples, or of none", "add the rest"
            )

    def check_unique(self, source: Source) -> None:
        """Raise UsageError for an id that two samples of a split have."""
        for split, ids in self._ids.items():
            ordered = np.sort(np.frombuffer(ids, np.int64))
            for twin in ordered[1:][ordered[1:] == ordered[:-1]][:1].tolist():
                alike = (i for i in range(len(source)) if (source[i].split, source[i].number) == (split, twin))
                first, second = next(alike), next(alike)
                problem = f"got {twin}, which is also the id of source[{first}]"
                raise UsageError(f"source[{second}].number", problem, "ids must be unique in a split")
