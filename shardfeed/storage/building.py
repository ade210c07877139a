"""Atomic creation of a directory: one writer at a time, a hidden sibling, one rename.

    /data/.flowers.lock        its writer (an flock: released when its process ends)
    /data/.flowers.building/   the directory while it is being made

Paths are absolute, without a trailing slash.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardfeed.errors import StorageError
from shardfeed.storage.local import Lock, exchange, make_directory, publish, remove_tree


def hidden_sibling(out: str, kind: str) -> str:
    """Return a hidden path beside `out` for auxiliary files: `/data/.flowers.lock`."""
    parent, name = os.path.split(out)
    return os.path.join(parent, f".{name}.{kind}")


@contextmanager
def locked(out: str) -> Iterator[None]:
    """A block in which no other run makes or changes `out`. Raises BusyError, StorageError."""
    lock = Lock(hidden_sibling(out, "lock"), f"process {os.getpid()} on {socket.gethostname()}")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def built(out: str) -> Iterator[str]:
    """Context with a new, empty directory, which becomes `out` when the block ends; the caller holds the lock.

    If the block ends by an exception, nothing remains. The leftovers of a killed run are removed by the next one.
    Raises StorageError.
    """
    building = hidden_sibling(out, "building")
    remove_tree(building)
    make_directory(building)
    try:
        yield building
        _publish(building, out)
    except BaseException:
        with suppress(StorageError):
            remove_tree(building)
        raise


def _publish(building: str, out: str) -> None:
    """The same as `publish`, with its own error if the rename succeeded: the same command could not run again."""
    try:
        publish(building, out)
    except StorageError as error:
        if os.path.lexists(building) or not os.path.lexists(out):
            raise
        problem = f"is complete, but a power failure now might lose its name: {error.problem}"
        raise StorageError(out, problem, "check the disk, then run `sync` and `shardfeed verify DIR`") from error


def give_name(staged: str, out: str) -> None:
    """Rename a finished directory to `out`, or exchange it with the directory of this name."""
    if os.path.lexists(out):
        exchange(staged, out)
    else:
        publish(staged, out)


def discard(path: str, hidden: str) -> None:
    """Remove a directory, if it exists, after renaming it, so that a half-removed directory is never visible.

    `hidden`: that name; anything there may be removed, too.
    """
    remove_tree(hidden)
    if os.path.lexists(path):
        publish(path, hidden)
        remove_tree(hidden)
