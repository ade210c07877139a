"""Files that hold many samples, read only while each is the one that was listed: parts of them, and open databases.

LMDB refuses to open a database that the parent process has open, and HDF5 shares the parent's file with the child. So
what their libraries open is opened in the process that reads, and closed before this one forks.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape

_KEPT = 8  # open at a time: a folder may have thousands of files


@contextmanager
def as_listed(path: bytes | str, size: int, mtime_ns: int) -> Iterator[int]:
    """A descriptor of a file with the size and modification time that were listed.

    Raises RejectedError (`E_SOURCE_CHANGED`, `E_UNREADABLE`), also for an OSError while it is used.
    """
    try:
        with open_regular(path, buffering=0) as file:
            _check(path, os.fstat(file.fileno()), size, mtime_ns)
            yield file.fileno()
    except OSError as error:
        raise _refused(path, error) from None


def check_listed(path: bytes | str, size: int, mtime_ns: int) -> None:
    """Check a file like `as_listed`, without opening it."""
    try:
        _check(path, os.stat(path), size, mtime_ns)
    except OSError as error:
        raise _refused(path, error) from None


def _check(path: bytes | str, now: os.stat_result, size: int, mtime_ns: int) -> None:
    if (now.st_size, now.st_mtime_ns) != (size, mtime_ns):
        raise changed(path)


def _refused(path: bytes | str, error: OSError) -> RejectedError:
    if isinstance(error, FileNotFoundError):
        return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} was deleted after it was listed")
    problem = f"{escape(path)}: {os.strerror(error.errno or 0)} (errno {error.errno})"
    return RejectedError(RejectCode.UNREADABLE, problem)


def changed(path: bytes | str) -> RejectedError:
    """The error for a file that is another than the one that was listed."""
    return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} changed after it was listed")


class FilePart(NamedTuple):
    """The `size` bytes of the file `path` from `offset` on: a content as `Sample.image` takes it.

    `file_size`, `mtime_ns`: of the whole file when it was listed; it is compared when it is read. Raises RejectedError
    (`E_TRUNCATED`, `E_SOURCE_CHANGED`, `E_UNREADABLE`) when called.
    """

    path: bytes
    offset: int
    size: int
    file_size: int
    mtime_ns: int

    def __call__(self) -> bytes:
        """The bytes."""
        with as_listed(self.path, self.file_size, self.mtime_ns) as file:
            if self.offset + self.size > self.file_size:
                missing = self.offset + self.size - self.file_size
                reason = f"{escape(self.path)} ends {missing} bytes before the image does"
                raise RejectedError(RejectCode.TRUNCATED, reason)
            data = os.pread(file, self.size, self.offset)
        if len(data) != self.size:
            raise changed(self.path)
        return data


@dataclass(frozen=True, eq=False)
class Parts:
    """Byte ranges in `files`: `numbers` int32 [n] are the file numbers, `offsets` and `sizes` int64 [n] are in bytes.

    `unpacked`: a temporary folder with some of the files, which exists as long as this object.

    Example:
        images = Parts(files.files, gather.file_of, gather.where(0), gather.where(1))
        source = gather.source(images, "pack")
    """

    files: Sequence[SourceFile]
    numbers: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    unpacked: Unpacked | None = None

    def __getitem__(self, index: int, /) -> FilePart:
        file = self.files[self.numbers.item(index)]
        offset, size = self.offsets.item(index), self.sizes.item(index)
        return FilePart(file.path, offset, size, file.size, file.mtime_ns)


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
