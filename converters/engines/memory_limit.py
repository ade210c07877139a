"""A limit on the memory of a worker, so that a file that makes a decoder ask for too much costs one image.

Without it the kernel's out-of-memory killer decides, and may choose the user's training job instead of us. What a
header declares is refused before (`limits`); this is for what no header says.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# The same on every machine, as it decides what is rejected. A legitimate image of MAX_PIXELS with alpha, the most
# expensive kind, takes less than half of it: docs/design/014-memory-of-a-worker.md has the figures.
ALLOWANCE = 6 << 30  # bytes, above what the worker has taken when it starts


def limit_memory(allowance: int = ALLOWANCE) -> None:
    """Let this process take `allowance` bytes more than it has; beyond that allocations fail (MemoryError).

    Counted is private memory that can be written, not files that are mapped, not address space that is only reserved.
    A lower limit of the system's stays. For processes of our own; where the system is not Linux, nothing happens.
    """
    # Where the limit cannot be set a worker works without it, as it did before there was one.
    with suppress(OSError, ValueError):
        limit = _data_bytes() + allowance
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = min([limit, *(given for given in (soft, hard) if given != resource.RLIM_INFINITY)])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@contextmanager
def limited_memory(allowance: int) -> Iterator[None]:
    """A block in which this process may take `allowance` bytes more than it has; see `limit_memory`."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(allowance)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """What the kernel counts against RLIMIT_DATA now: data and stack, the sixth number of /proc/self/statm (pages)."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
