"""Check that a directory has room: on its file system, and, if that is in memory, within the memory limit.

A file system in memory reports room for half of the machine's memory, even in a container with a limit of a tenth of
it: files written there count against that limit, and the container is killed when it is reached.
"""

import errno
import os
from typing import NamedTuple

from shardfeed.budget import memory_budget, memory_free
from shardfeed.errors import StorageError
from shardfeed.text import size_text

KEPT_SHARE = 1 / 4  # share of the memory left for the reader of the files: about the size of a shuffle buffer
_IN_MEMORY = ("tmpfs", "ramfs")


class FreeSpace(NamedTuple):
    """Free space of a directory when it was measured: `free` bytes; `where` and `remedy` are words for errors."""

    directory: str
    free: int
    where: str
    remedy: str = ""

    def check(self, needed: int, remedy: str) -> None:
        """Raise StorageError (ENOSPC) if this is less than `needed` bytes; nothing is written."""
        if needed > self.free:
            problem = f"{size_text(needed)} are needed, {size_text(self.free)} are free {self.where}"
            raise StorageError(self.directory, problem, f"to fix this: {self.remedy}{remedy}", errno.ENOSPC)


def room_in(directory: str, kept_share: float = KEPT_SHARE) -> FreeSpace:
    """Measure an existing directory.

    If it is in memory, `kept_share` of this process's memory limit does not count as free, nor does any other use.
    """
    state = os.statvfs(directory)
    free = state.f_bavail * state.f_frsize
    if not is_in_memory(directory):
        return FreeSpace(directory, free, "in its file system")
    spare = max(0, memory_free() - int(memory_budget() * kept_share))
    if spare < free or state.f_blocks == 0:  # 0: a file system without a limit of its own
        kept = f", {kept_share:.0%} of which stay reserved" if kept_share else ""
        return FreeSpace(directory, spare, f"of the available memory{kept}")
    larger = "a larger one (docker run --shm-size=...), "
    return FreeSpace(directory, free, "in its in-memory file system", larger)


def is_in_memory(directory: str) -> bool:
    """Whether a directory's file system is in memory (tmpfs, like /dev/shm)."""
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as file:  # proc(5): "id parent major:minor ... - type source options"
            mounts = [line.split() for line in file]
    except OSError:  # not Linux
        return False
    return any(words[2] == wanted and words[words.index("-", 6) + 1] in _IN_MEMORY for words in mounts)
