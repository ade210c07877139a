"""Buffers and options of tf.data."""

import os
import subprocess
import sys

import pytest

from shardfeed.pipelines.orders.choose_order import shuffle_buffer_records
from shardfeed.pipelines.tensorflow.assembly import data_options

GIB = 1 << 30


@pytest.mark.parametrize(
    ("records", "mean", "memory", "buffer"),
    [
        (1_000_000, 64 << 10, 64 * GIB, 16_384),
        (1_000_000, 64 << 10, 4 * GIB, 16_384),  # exactly a quarter
        (1_000_000, 64 << 10, 4 * GIB - 1, 8_192),
        (100, 64 << 10, 4 * GIB, 100),  # the whole split
        (100, 1 << 30, 2 * GIB, 1),
        (1_000_000, 1 << 40, GIB, 1),  # never none
    ],
)
def test_shuffle_buffer(records: int, mean: int, memory: int, buffer: int) -> None:
    assert shuffle_buffer_records(records, records * mean, memory) == buffer


def test_options_are_explicit() -> None:
    options = data_options(3)
    assert options.threading.private_threadpool_size == 3
    assert options.autotune.enabled is False
    assert options.deterministic is True


ARENAS = """
import ctypes, threading
from shardfeed.processes import limit_arenas
limit_arenas(2)
libc = ctypes.CDLL(None)
together = threading.Barrier(12)
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_stats()
"""


@pytest.mark.parametrize(
    ("setting", "most"),
    [({}, 2), ({"MALLOC_ARENA_MAX": "5"}, 5), ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, 4)],
)
def test_threads_share_arenas(setting: dict[str, str], most: int) -> None:
    """As many as asked for, or as the environment says, which comes first; malloc's own account."""
    done = subprocess.run(
        [sys.executable, "-c", ARENAS], env=os.environ | setting, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("Arena ") == most
