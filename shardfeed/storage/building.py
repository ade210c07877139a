"""Atomic creation of a directory: one writer at a time, a hidden sibling, one rename.

    /data/.flowers.lock        who makes or changes /data/flowers (an flock: released when its owner ends)
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
    """The path beside `out` for what belongs to it and is no part of it: `/data/.flowers.lock`."""
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
    """A new, empty directory, which becomes `out` when the block ends; the caller holds the lock.

    When the block ends by an exception, nothing of it stays. What a run that was killed left is removed by the next
    one. Raises StorageError.
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
    """As `publish`, with an error of its own where the name is there already: the same command could not run again."""
    try:
        publish(building, out)
    except StorageError as error:
        if os.path.lexists(building) or not os.path.lexists(out):
            raise
        problem = f"is complete, but a power cut now may lose its name: {error.problem}"
        raise StorageError(out, problem, "look after the disk; `sync` and `shardfeed verify` say more") from error


def give_name(staged: str, out: str) -> None:
    """Make a finished directory `out` by one rename, or exchange it with the one that has this name."""
    if os.path.lexists(out):
        exchange(staged, out)
    else:
        publish(staged, out)


def discard(path: str, hidden: str) -> None:
    """Remove a directory, if it is there, by way of another name: stopped at any moment, nothing half removed is seen.

    `hidden`: that name, of which nothing may be kept.
    """
    remove_tree(hidden)
    if os.path.lexists(path):
        publish(path, hidden)
        remove_tree(hidden)
