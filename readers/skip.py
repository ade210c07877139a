"""Policy for damaged records: raise an error, which is the default, or leave the record out, count it, and continue.

It is for a training run that must not be interrupted. The lost records are listed afterwards, and `shardfeed salvage`
makes a dataset without them.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from shardfeed.declared import Natural, checked
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.user_warnings import warn_user


@checked
class Skip:
    """Skip up to `limit` different damaged records; one more raises IntegrityError.

    Example:
        damaged = Skip(10)
        batches = train_batches(data["train"], batch_size=256, image_size=224, damaged=damaged)
        model.fit(batches, epochs=3)
        print(damaged.found)

    `found`: a RecordError for each damaged record, in the order of detection. A record is counted and warned about
    once, even if several epochs read it. One Skip may serve several datasets and threads; each process counts its own.
    """

    def __init__(self, limit: Natural) -> None:
        self.limit = limit
        self._found: dict[str, RecordError] = {}
        self._lock = threading.Lock()

    @property
    def found(self) -> tuple[RecordError, ...]:
        """The errors of the skipped records, one per record."""
        with self._lock:
            return tuple(self._found.values())

    def __getstate__(self) -> tuple[int, dict[str, RecordError]]:
        return self.limit, dict(self._found)

    def __setstate__(self, state: tuple[int, dict[str, RecordError]]) -> None:
        self.limit, self._found = state
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Skip({self.limit}), {len(self.found)} left out"

    @checked
    def note(self, error: RecordError) -> None:
        """Count a damaged record. Raises IntegrityError if it exceeds the limit."""
        with self._lock:
            if error.place in self._found:
                return
            if len(self._found) >= self.limit:
                raise IntegrityError(
                    error.place,
                    f"damaged record number {len(self._found) + 1}, {self.limit} may be left out: {error.problem}",
                    "`shardfeed verify DIR` lists all, `shardfeed salvage DIR OUT` makes a dataset without them",
                ) from error
            self._found[error.place] = error
            number = len(self._found)
        warn_user(f"left out, {number} of at most {self.limit}: {error}", RuntimeWarning)


SkipLike = Annotated[Skip, "damaged=Skip(10) leaves out up to 10"]
Damaged = SkipLike | None


@dataclass(frozen=True)
class IntactRecords:
    """Payloads of the intact records of a request.

    `payloads`: n payloads. `rows`: int64 [n], the row of the request for each. `again`: bool [n], whether the payload
    repeats another record's, in place of a damaged record.
    """

    payloads: list[bytes]
    rows: np.ndarray
    again: np.ndarray


def read_intact(
    read: Callable[[np.ndarray], list[bytes]],
    indices: np.ndarray,
    note: Callable[[RecordError], None],
    *,
    fill: bool,
    place: object,
) -> IntactRecords:
    """Read the records at `indices`, int64 [k], except damaged ones: `note` is called with the RecordError of each.

    `fill`: an intact neighbour replaces each: the one before, or the first that follows. Else they are left out.

    Raises any other error of `read`, and errors of `note`; IntegrityError, naming `place`, if no intact record can
    replace one.
    """
    found: Sequence[bytes | None]
    try:
        found = read(indices)
    except RecordError:  # one by one, to find the damaged ones and check that the others are intact
        found = []
        for i in range(len(indices)):
            try:
                found += read(indices[i : i + 1])
            except RecordError as error:
                note(error)
                found.append(None)
    intact = np.flatnonzero([payload is not None for payload in found])
    if not fill:
        return IntactRecords([payload for payload in found if payload is not None], intact, np.zeros(len(intact), bool))
    if len(indices) and not len(intact):
        raise IntegrityError(place, f"{len(indices)} records read together are all damaged", _REMEDY)
    rows = np.arange(len(indices))
    near = intact[np.maximum(np.searchsorted(intact, rows, "right") - 1, 0)]
    payloads: Any = [found[row] for row in near]
    return IntactRecords(payloads, rows, near != rows)


_REMEDY = "`shardfeed salvage DIR OUT` makes a dataset of the intact records"
