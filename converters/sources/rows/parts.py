"""Encoded files that are parts of larger files: offset and size in it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import escape


@contextmanager
def as_listed(path: bytes | str, size: int, mtime_ns: int) -> Iterator[int]:
    """A descriptor of a file, of which size and time of modification are as they were when it was listed.

    Raises RejectedError (`E_SOURCE_CHANGED`, `E_UNREADABLE`), for an OSError while it is used, too.
    """
    try:
        with open(path, "rb", buffering=0, opener=_at_once) as file:
            _check(path, os.fstat(file.fileno()), size, mtime_ns)
            yield file.fileno()
    except OSError as error:
        raise _refused(path, error) from None


def check_listed(path: bytes | str, size: int, mtime_ns: int) -> None:
    """As `as_listed`, of a file that is open already."""
    try:
        _check(path, os.stat(path), size, mtime_ns)
    except OSError as error:
        raise _refused(path, error) from None


def _check(path: bytes | str, now: os.stat_result, size: int, mtime_ns: int) -> None:
    if (now.st_size, now.st_mtime_ns) != (size, mtime_ns):
        raise changed(path)


def _refused(path: bytes | str, error: OSError) -> RejectedError:
    if isinstance(error, FileNotFoundError):
        return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} was there and is gone")
    problem = f"{escape(path)}: {os.strerror(error.errno or 0)} (errno {error.errno})"
    return RejectedError(RejectCode.UNREADABLE, problem)


def _at_once(path: bytes | str, flags: int) -> int:
    """Open a file, and do not wait where a pipe is in its place."""
    return os.open(path, flags | os.O_NONBLOCK)


def changed(path: bytes | str) -> RejectedError:
    """The error for a file that is another than the one that was listed."""
    return RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(path)} is not as it was when it was listed")


@dataclass(frozen=True)
class FilePart:
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
                raise RejectedError(
                    RejectCode.TRUNCATED, f"{escape(self.path)} ends {missing} bytes before the image does"
                )
            data = os.pread(file, self.size, self.offset)
        if len(data) != self.size:
            raise changed(self.path)
        return data


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of `files`: `numbers` int32 [n] says of which one, `offsets` and `sizes` int64 [n] where, in bytes.

    `unpacked`: a temporary folder that some of the files are in, and that is there while this is.
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
