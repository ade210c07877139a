"""Open databases and files of libraries: each opened in the process that reads, none inherited through a fork.

LMDB refuses to open a database that the parent process has open, and HDF5 shares the parent's file with the child. So
all are closed before this process forks, and opened again when they are needed.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from shardfeed.converters.sources.files.parts import as_listed, check_listed
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError

_KEPT = 8  # open at a time: a folder may have thousands of files


class _Closing(Protocol):
    def close(self) -> Any: ...


_Handle = TypeVar("_Handle", bound=_Closing)


def listed(path: str) -> SourceFile:
    """A readable file with its current size and time. Raises UsageError."""
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        raise UsageError(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from None
    return SourceFile(os.fsencode(os.path.abspath(path)), found.st_size, found.st_mtime_ns)


_open: OrderedDict[bytes, tuple[SourceFile, Any]] = OrderedDict()
_process = os.getpid()


def opened(file: SourceFile, open_file: Callable[[str], _Handle]) -> _Handle:
    """Return the handle that `open_file` opens at the file's path, in this process; the last few stay open.

    Raises the errors of `open_file`, and RejectedError (`E_SOURCE_CHANGED`, `E_UNREADABLE`) if the file has changed
    since it was listed.
    """
    check_listed(file.path, file.size, file.mtime_ns)
    global _process  # a fork that Python did not notice: open files belong to the parent
    if _process != os.getpid():
        _process = os.getpid()
        _open.clear()
    if file.path in _open and _open[file.path][0] != file:
        close(file.path)
    if file.path not in _open:
        while len(_open) >= _KEPT:
            close(next(iter(_open)))
        with as_listed(file.path, file.size, file.mtime_ns):  # it can be read
            pass
        _open[file.path] = file, open_file(os.fsdecode(file.path))
    _open.move_to_end(file.path)
    return _open[file.path][1]


def close(path: bytes) -> None:
    """Close the file of this absolute path, if it is open."""
    _, handle = _open.pop(path, (None, None))
    if handle is not None:
        with suppress(RuntimeError):  # some say once more then that they met damage
            handle.close()


os.register_at_fork(before=lambda: [close(path) for path in list(_open)])
