"""Memory that a worker has freed stays with it, for the next image."""

import ctypes
import os
from contextlib import suppress

_M_ARENA_MAX = -8  # malloc.h

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


def limit_arenas(cpus: int) -> None:
    """Have malloc share `cpus` arenas among all threads of this process from now on, at least 2, rather than 8 a core.

    Each iteration reads with new threads, and malloc gives each another arena, which keeps the room of all records that
    were ever read in it: a shuffle buffer of 260 MB took 2.6 GB after some epochs on 2 cores, and 0.7 with 2 arenas.
    Where the environment says how many (MALLOC_ARENA_MAX, GLIBC_TUNABLES), or the C library is not glibc, nothing
    happens.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, max(2, cpus))
