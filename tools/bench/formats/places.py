"""Where the bytes of a dataset are when it is read: on the disk, in the page cache, mapped, or all in memory."""

import mmap
import os
import time
from collections.abc import Hashable, Iterable

from shardfeed.storage.local_reading import LOCAL, LocalStorage
from shardfeed.storage.storage import OpenFile, Storage, whole

DISK, CACHE, MAPPED, PRELOADED = "disk", "cache", "mapped", "preloaded"
_SETTLE = 0.1  # seconds: pages that are still on their way from the disk, read ahead, cannot be dropped
MODES = (DISK, CACHE, MAPPED, PRELOADED)
SAID = {
    DISK: "from the disk: pages dropped from memory before",
    CACHE: "from the page cache, where the kernel keeps what was read",
    MAPPED: "the same pages, mapped into the process",
    PRELOADED: "all files read into the process first",
}


class _InMemory:
    """See `OpenFile`: a file whose bytes are at hand, mapped or read."""

    def __init__(self, file: OpenFile, data: bytes | mmap.mmap) -> None:
        self.path, self.size = file.path, file.size
        self.version: Hashable = file.version
        self._data = data

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]


class _Mapped(LocalStorage):
    """The local disk; files are mapped."""

    def open(self, path: str) -> OpenFile:
        file = LOCAL.open(path)
        if not file.size:
            return file  # nothing can be mapped
        with open(path, "rb") as opened:
            return _InMemory(file, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


class _Preloaded(LocalStorage):
    """The local disk; a file is read whole when it is opened."""

    def open(self, path: str) -> OpenFile:
        file = LOCAL.open(path)
        return _InMemory(file, whole(file))


def storage_of(mode: str) -> Storage:
    """What a dataset is read through in a mode."""
    return {MAPPED: _Mapped(), PRELOADED: _Preloaded()}.get(mode, LOCAL)


def drop_pages(paths: Iterable[str]) -> None:
    """Ask the kernel to forget what it keeps of some files. Raises OSError."""
    time.sleep(_SETTLE)
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def fetch_pages(paths: Iterable[str]) -> None:
    """Read some files through once, so that the kernel keeps them. Raises OSError."""
    for path in paths:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass


def bytes_fetched() -> int | None:
    """Bytes that this process had fetched from disks so far; None where the kernel does not say."""
    try:
        with open("/proc/self/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))
    except (OSError, StopIteration):
        return None


def files_below(directory: str) -> list[str]:
    """All files of a directory, sorted."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
