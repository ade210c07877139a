"""A dataset that is made at one go, as an adoption or a salvage is: there is nothing of an earlier run to take up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from shardfeed.converters.commit.output import check_parent
from shardfeed.errors import OutputExistsError
from shardfeed.storage.building import built, locked


@contextmanager
def new_dataset(out: str) -> Iterator[str]:
    """A directory to build a dataset in, which becomes `out` (absolute) by one rename when the block ends.

    If the block raises, nothing remains. Leftovers of a killed run are removed by the next one. Raises UsageError,
    OutputExistsError, StorageError if `out` cannot be created, BusyError if another run is making it.
    """
    check_new_output(out)
    with locked(out):
        check_new_output(out)  # another run may have made it since
        with built(out) as directory:
            yield directory


def check_new_output(out: str) -> None:
    """Raise UsageError, OutputExistsError or StorageError if the directory `out` (absolute) cannot be created."""
    if os.path.lexists(out):
        raise OutputExistsError(out, "exists already", "choose another name")
    check_parent(out)
