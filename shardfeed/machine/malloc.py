"""Memory that a worker has freed stays with it, for the next image."""

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 << 20  # bytes, freed at the end of the heap, before any are given back
_MAPPED = 32 << 20  # bytes: larger blocks are mapped on their own and given back at once; glibc's greatest value


def keep_heap() -> None:
    """Have malloc keep what is freed rather than give it back to the system after each image and fault it in again.

    That took a third of the system's time of writing a shard. For processes of our own; where the C library is not
    glibc, nothing happens.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED)
