"""An encoded image, or another file, that is a part of a larger file."""

import os
from dataclasses import dataclass

from shardfeed.converters.rejects import RejectCode, RejectedError
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
