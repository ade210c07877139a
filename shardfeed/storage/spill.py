"""Bytes in memory, or in a temporary file without a name if they are many."""

import os
import tempfile

from shardfeed.storage.local import storage_error


class Spill:
    """Bytes to append to and to read by position: in memory up to `in_memory` bytes, above that in a file.

    The file lies in `directory`, by default the folder for temporary files. It has no name, so nothing of it is left
    when this object or its process ends, however it ends. Methods raise StorageError if the disk is full.
    """

    def __init__(self, directory: str | None = None, in_memory: int = 4_000_000) -> None:
        self.size = 0
        self._place = os.path.join(directory or tempfile.gettempdir(), "(temporary file)")
        self._file = tempfile.SpooledTemporaryFile(max_size=in_memory, dir=directory)  # noqa: SIM115  # closed with this
        self._at_end = True

    def append(self, data: bytes) -> int:
        """Append bytes, and return the new size."""
        try:
            if not self._at_end:
                self._file.seek(self.size)
            self.size += self._file.write(data)
        except OSError as error:
            raise storage_error(self._place, "write", error) from error
        self._at_end = True
        return self.size

    def read(self, start: int, size: int) -> bytes:
        """Read `size` bytes from position `start` on; fewer at the end."""
        self._at_end = False
        try:
            self._file.seek(start)
            return self._file.read(size)
        except OSError as error:
            raise storage_error(self._place, "read", error) from error
