"""Parts of larger files: they are read only while the file is the one that was listed."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import escape


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
