"""Bytes in memory, or in a temporary file without a name if they are many."""

import os
import tempfile
import weakref
from typing import BinaryIO

from shardfeed.storage.local import disk_errors


class Spill:
    """Bytes to append to and to read by position: in memory up to `in_memory` bytes, above that in a file.

    Any number of threads, and of processes that were forked since, may read at once. The file lies in `directory`, by
    default the folder for temporary files. It has no name, so nothing of it is left when this object or its process
    ends, however it ends. Methods raise StorageError if the disk is full.
    """

    def __init__(self, directory: str | None = None, in_memory: int = 4_000_000) -> None:
        self.size = 0
        self._directory, self._in_memory = directory or tempfile.gettempdir(), in_memory
        self._place = os.path.join(self._directory, "(temporary file)")
        self._memory = bytearray()
        self._file: BinaryIO | None = None

    def append(self, data: bytes) -> int:
        """Append bytes, and return the new size."""
        if self._file is None and self.size + len(data) <= self._in_memory:
            self._memory += data
        else:
            self._write(data)
        self.size += len(data)
        return self.size

    def _write(self, data: bytes) -> None:
        with disk_errors(self._place, "write"):
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0, dir=self._directory)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
                data, self._memory = bytes(self._memory) + data, bytearray()
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]

    def read(self, start: int, size: int) -> bytes:
        """Read `size` bytes from position `start` on; fewer at the end."""
        if self._file is None:
            return bytes(self._memory[start : start + size])
        with disk_errors(self._place, "read"):
            return os.pread(self._file.fileno(), size, start)
