"""Temporary folders that outlive no process: each is locked by its owner, and the next one removes what is not.

    $TMPDIR/shardfeed-unpacked-4711-x3k_2f9a/    kind, process, and a name that is not taken; the lock is an flock on
                                                 the folder itself, released when its process and its children end

A process that is killed removes nothing. Whoever makes the next folder there removes the folders without an owner.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress

from shardfeed.storage.local import open_own, storage_error

_PREFIX = "shardfeed-"


class TemporaryFolder:
    """A folder below TMPDIR for files of this process and its children, removed with this object or its process.

    `kind`: a word of its name. Raises StorageError if it cannot be made.
    """

    def __init__(self, kind: str) -> None:
        parent = tempfile.gettempdir()
        remove_abandoned(parent, f"{_PREFIX}{kind}-", ["."], shutil.rmtree)
        try:
            self.path, owned = _make_locked(parent, f"{_PREFIX}{kind}-{os.getpid()}-")
        except OSError as error:
            raise storage_error(parent, "make a folder in", error) from error
        self.remove = weakref.finalize(self, _remove, self.path, owned, os.getpid())

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def folders_of(process: int, parent: str) -> str:
    """The pattern, for `glob`, of the paths of a process's temporary folders; `parent` is a pattern, too."""
    return os.path.join(parent, f"{_PREFIX}*-{process}-*")


def remove_abandoned(
    parent: str, prefix: str, locks: Sequence[str], remove: Callable[[str], object], *, spare: str = ""
) -> None:
    """Call `remove` with each folder of this user in `parent` whose name begins with `prefix`, if no owner lives.

    `locks`: names in the folder that owners lock; "." is the folder itself. `spare`: a path that is left alone.
    """
    with suppress(OSError):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            if name.startswith(prefix) and path != spare and _is_own_folder(path):
                _remove_unlocked(path, locks, remove)


def lock_existing(path: str) -> int:
    """Lock a file or folder, and return its descriptor. Raises OSError if it is missing, or a living process has it."""
    is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    descriptor = _open_folder(path) if is_folder else open_own(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _make_locked(parent: str, prefix: str) -> tuple[str, int]:
    """Make a folder; return its path, and a descriptor with its lock. Raises OSError."""
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)
        with suppress(FileNotFoundError):  # another process took it for abandoned before it was locked
            descriptor = _open_folder(path)
            with suppress(OSError):  # no locks on this file system: nobody else removes it
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return path, descriptor
            os.close(descriptor)


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_own_folder(path: str) -> bool:
    try:
        state = os.lstat(path)
    except FileNotFoundError:  # removed meanwhile
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()


def _remove_unlocked(path: str, locks: Sequence[str], remove: Callable[[str], object]) -> None:
    held: list[int] = []
    with suppress(OSError):  # in use, or removed meanwhile
        for name in locks:
            held.append(lock_existing(os.path.normpath(os.path.join(path, name))))
        remove(path)
    for descriptor in held:
        os.close(descriptor)


def _remove(path: str, owned: int, process: int) -> None:
    if os.getpid() == process:  # not in a worker, which inherits this
        shutil.rmtree(path, ignore_errors=True)
        os.close(owned)
