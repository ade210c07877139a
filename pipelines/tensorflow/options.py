"""What tf.data is told about parallelism and buffers: explicit numbers, from what this process was granted.

TensorFlow looks at the host: its thread pools count every core of the machine and its memory budget is half of the
machine's free memory, also in a container that was granted a tenth of both.
"""

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

_M_ARENA_MAX = -8  # malloc.h
SHUFFLE_RECORDS = 16_384  # buffer where memory allows: 1 GB of 64 KB photos, filled in seconds from a local disk
SHUFFLE_SHARE = 1 / 4  # of the memory granted, at most: the model's host memory and decoded batches need the rest


def shuffle_buffer_records(records: int, record_bytes: int, memory: int) -> int:
    """How many records the shuffle buffer holds unless the caller says: at least 1, at most `records`.

    `record_bytes`: of all records together; `memory`: the budget in bytes. It is 16,384, halved until it takes at most
    a quarter of the memory: a step function, because the order of samples depends on it, and two machines with about
    the same memory should give the same order.
    """
    mean = record_bytes / records
    buffer = SHUFFLE_RECORDS
    while buffer > 1 and min(buffer, records) * mean > memory * SHUFFLE_SHARE:
        buffer //= 2
    return min(buffer, records)


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


def data_options(cpus: int) -> "tf.data.Options":
    """Options of a pipeline whose parallelism and buffers are explicit: `cpus` threads of its own, nothing tuned.

    Autotuning off: its thread delays the end of an iterator by up to seconds an epoch, it reads the host's memory, and
    with explicit numbers it has nothing to find. Deterministic: the same samples in the same order on any machine.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.threading.private_threadpool_size = cpus
    options.threading.max_intra_op_parallelism = 1  # samples run in parallel; splitting one resize only adds waiting
    options.experimental_optimization.inject_prefetch = False  # how much is buffered is the caller's to say
    # One op that decodes straight into the batch: the copy runs on all threads, into memory a GPU can read directly.
    options.experimental_optimization.map_and_batch_fusion = True
    # Should several workers share a pipeline: each takes every n-th sample. Sharding by file starves workers.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options
