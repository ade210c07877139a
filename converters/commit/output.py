"""Where a dataset goes: whether it can, and a directory beside it that gets the name by one rename."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardfeed.converters.commit.staging import Staging
from shardfeed.errors import (
    IntegrityError,
    OutputExistsError,
    StorageError,
    UsageError,
    escape,
)
from shardfeed.manifest import has_manifest, read_manifest
from shardfeed.naming import MANIFEST, is_dataset_file
from shardfeed.storage.local import (
    TEMPORARY,
    Lock,
    make_directory,
    publish,
    remove_tree,
)


@contextmanager
def new_dataset(out: str) -> Iterator[str]:
    """A directory to build a dataset in, which becomes `out` (absolute) by one rename when the block ends.

    When it ends by an exception, nothing stays. What a run that was killed left is removed by the next one. Raises
    UsageError, OutputExistsError, StorageError where `out` cannot be created, BusyError where another run makes it.
    """
    check_new_output(out)
    parent, name = os.path.split(out)
    building = os.path.join(parent, f".{name}.building")
    lock = Lock(Staging(out).lock, owner())
    try:
        check_new_output(out)  # another run may have made it since
        remove_tree(building)
        make_directory(building)
        try:
            yield building
            _publish(building, out)
        except BaseException:
            with suppress(StorageError):
                remove_tree(building)
            raise
    finally:
        lock.release()


def _publish(building: str, out: str) -> None:
    """As `publish`, with an error of its own where the name is there already: the same command could not run again."""
    try:
        publish(building, out)
    except StorageError as error:
        if os.path.lexists(building) or not os.path.lexists(out):
            raise
        problem = f"is complete, but a power cut now may lose its name: {error.problem}"
        raise StorageError(out, problem, "look after the disk; `sync` and `shardfeed verify` say more") from error


def owner() -> str:
    """What a lock says of its owner."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def check_new_output(out: str) -> None:
    """Raises UsageError, OutputExistsError or StorageError where the directory `out` (absolute) cannot be created."""
    if os.path.lexists(out):
        raise OutputExistsError(out, "exists already", "choose another name")
    check_parent(out)


def check_parent(out: str) -> None:
    """Raises UsageError or StorageError where nothing can be created beside `out` (absolute)."""
    parent = os.path.dirname(out)
    if not os.path.isdir(parent):
        raise UsageError(out, "its parent directory does not exist", f"create {parent} first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(parent, "cannot be written", "choose another place, or change its permissions")


def check_output(out: str, *, replace: bool) -> None:
    """Refuse before any image is read what could not be written in the end."""
    if os.path.lexists(out) and not os.path.isdir(out):
        raise OutputExistsError(out, "exists and is no directory", "choose another name")
    if replace and os.path.isdir(out):
        _check_replaceable(out)
    check_parent(out)


def _check_replaceable(out: str) -> None:
    """Raises OutputExistsError unless the directory holds a dataset and nothing else: all of it is about to go."""
    if not has_manifest(out):
        raise OutputExistsError(
            out, f"holds no {MANIFEST} of ours: not a dataset, so not replaced", "choose another name"
        )
    names = sorted(os.listdir(out))
    try:
        ours = read_manifest(out).files().keys() | {MANIFEST}
    except IntegrityError:  # a damaged dataset may be replaced
        ours = {name for name in names if is_dataset_file(name)}
    for name in names:
        if name.removesuffix(TEMPORARY) not in ours or not os.path.isfile(os.path.join(out, name)):
            problem = f"holds {escape(name)}, which is no part of the dataset and would be lost"
            raise OutputExistsError(out, problem, "move it away, or choose another name")
