"""Datasets on the local disk, read."""

import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from shardfeed.errors import escape
from shardfeed.storage.checksum import crc32c, extend_crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.storage import Entry, OpenFile, Storage

_CHUNK = 1 << 20  # bytes that stay in the processor's cache


class _LocalFile:
    """A file descriptor, read by `pread`, which has no shared position."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        state = os.fstat(self._fd)
        self.size = state.st_size
        self.version: Hashable = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns

    def read(self, start: int, size: int) -> bytes:
        return os.pread(self._fd, size, start)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """`close` is bound here: at the interpreter's end `os` may be gone before a split that a global holds."""
        if hasattr(self, "_fd"):
            close(self._fd)


class LocalStorage:
    """The local disk, and what is mounted as one."""

    def entries(self, directory: str) -> list[Entry]:
        with os.scandir(directory) as entries:
            return [Entry(entry.name, _size(entry)) for entry in entries]

    def open(self, path: str) -> OpenFile:
        return _LocalFile(path)


LOCAL: Storage = LocalStorage()


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size if entry.is_file() else -1
    except FileNotFoundError:  # removed since it was listed
        return -1


def file_checksum(path: str, storage: Storage = LOCAL) -> tuple[int, int]:
    """Size in bytes and CRC-32C of a whole file as it is now. Raises OSError."""
    size = crc = 0
    for chunk in _chunks(storage.open(path)):
        size += len(chunk)
        crc = extend_crc32c(crc, chunk)
    return size, crc


def _chunks(file: OpenFile) -> Iterator[bytes]:
    """Its bytes in pieces, up to its end, which may have moved since it was opened."""
    start = 0
    while chunk := file.read(start, _CHUNK):
        yield chunk
        start += len(chunk)


def not_a_file(directory: str, name: str) -> str:
    """What a shard of the local disk is that is no file: a link whose end is gone, or something else."""
    path = os.path.join(directory, name)
    if os.path.islink(path) and not os.path.exists(path):
        return f"a link to {escape(os.readlink(path))}, which is gone"
    return "not a file"


@dataclass(frozen=True)
class FileInfo:
    """A file as it was written: `size` in bytes, CRC-32C of all of it."""

    size: int
    crc32c: int

    @classmethod
    def of(cls, content: bytes) -> "FileInfo":
        """Of a file that holds `content`."""
        return cls(len(content), crc32c(content))

    @classmethod
    def of_file(cls, path: str, storage: Storage = LOCAL) -> "FileInfo":
        """Of the file at `path` as it is now. Raises StorageError where it cannot be read."""
        try:
            return cls(*file_checksum(path, storage))
        except OSError as error:
            raise storage_error(path, "read", error) from error

    def difference(self, found: "FileInfo") -> str:
        """What is wrong with a file that was to be this one; "" where nothing is."""
        if found.size != self.size:
            return f"has {found.size} bytes, expected {self.size}"
        return "" if found == self else f"its CRC-32C is {found.crc32c:08x}, expected {self.crc32c:08x}"
