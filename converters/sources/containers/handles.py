"""Open databases and files of libraries: each opened in the process that reads, none inherited through a fork.

LMDB refuses to open a database that the parent process has open, and HDF5 shares the parent's file with the child. So
all are closed before this process forks, and opened again when they are needed.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.errors import UsageError, escape

_KEPT = 8  # open at a time: a folder may have thousands of files


class _Closing(Protocol):
    def close(self) -> Any: ...


_Handle = TypeVar("_Handle", bound=_Closing)


class FileState(NamedTuple):
    """A file as it was when it was listed: its absolute path, size in bytes and time of modification."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> "FileState":
        """As it is now. Raises OSError."""
        found = os.stat(path)
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    @classmethod
    def listed(cls, path: str) -> "FileState":
        """As it is now, and can be read. Raises UsageError."""
        try:
            with open(path, "rb"):
                return cls.of(path)
        except OSError as error:
            raise UsageError(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from None

    def check(self) -> None:
        """Raises RejectedError (`E_SOURCE_CHANGED`, `E_UNREADABLE`) where it is not so any more."""
        try:
            now = FileState.of(self.path)
        except FileNotFoundError:
            raise RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(self.path)} was there and is gone") from None
        except OSError as error:
            problem = f"{escape(self.path)}: {os.strerror(error.errno or 0)} (errno {error.errno})"
            raise RejectedError(RejectCode.UNREADABLE, problem) from None
        if now != self:
            raise RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(self.path)} is not as it was when it was listed")


_open: OrderedDict[str, tuple[FileState, Any]] = OrderedDict()
_process = os.getpid()


def opened(state: FileState, open_file: Callable[[str], _Handle]) -> _Handle:
    """What `open_file` gives for the file's path, opened by this process; the last few stay open.

    The caller has checked that the file is as `state` says. Raises what `open_file` does.
    """
    global _process  # a fork that Python did not see: what is open is the parent's
    if _process != os.getpid():
        _process = os.getpid()
        _open.clear()
    if state.path in _open and _open[state.path][0] != state:
        close(state.path)
    if state.path not in _open:
        while len(_open) >= _KEPT:
            close(next(iter(_open)))
        _open[state.path] = state, open_file(state.path)
    _open.move_to_end(state.path)
    return _open[state.path][1]


def close(path: str) -> None:
    """Close the file of this absolute path, if it is open."""
    _, handle = _open.pop(path, (None, None))
    if handle is not None:
        handle.close()


def _close_all() -> None:
    for path in list(_open):
        close(path)


os.register_at_fork(before=_close_all)
