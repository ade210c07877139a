"""Encoded files that are parts of larger files: offset and size in it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import escape


@dataclass(frozen=True)
class FilePart:
    """The `size` bytes of the file `path` from `offset` on: a content as `Sample.image` takes it.

    `file_size`, `mtime_ns`: of the whole file when it was listed; it is compared when it is read. Raises RejectedError
    (`E_SOURCE_CHANGED`, `E_UNREADABLE`) when called.
    """

    path: bytes
    offset: int
    size: int
    file_size: int
    mtime_ns: int

    def __call__(self) -> bytes:
        """The bytes."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                data = os.pread(file.fileno(), self.size, self.offset)
        except FileNotFoundError:
            raise RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(self.path)} was there and is gone") from None
        except OSError as error:
            problem = f"{escape(self.path)}: {os.strerror(error.errno or 0)} (errno {error.errno})"
            raise RejectedError(RejectCode.UNREADABLE, problem) from None
        if (state.st_size, state.st_mtime_ns) != (self.file_size, self.mtime_ns) or len(data) != self.size:
            raise RejectedError(RejectCode.SOURCE_CHANGED, f"{escape(self.path)} is not as it was when it was listed")
        return data


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of `files`: `numbers` int32 [n] says of which one, `offsets` and `sizes` int64 [n] where, in bytes."""

    files: Sequence[SourceFile]
    numbers: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    def __getitem__(self, index: int, /) -> FilePart:
        file = self.files[self.numbers.item(index)]
        offset, size = self.offsets.item(index), self.sizes.item(index)
        return FilePart(file.path, offset, size, file.size, file.mtime_ns)
