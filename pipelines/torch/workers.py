"""How many worker processes, how many batches ahead, and whether shared memory has room for what is under way."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from shardfeed.machine.budget import cpu_budget, memory_budget
from shardfeed.machine.free_space import Room, room_in
from shardfeed.pipelines.arguments import at_least

SHARED = "/dev/shm"
_AHEAD = 2  # batches for each worker: one is made where another waits to be taken
_SHARE = 1 / 4  # of the memory granted, at most, for batches under way by default


class Workers(NamedTuple):
    """`number` of processes, 0 for none; `prefetch` batches ahead for each."""

    number: int
    prefetch: int

    def under_way(self) -> int:
        """Batches in shared memory at once: those ahead, the one in use, and the one before it, not yet let go."""
        return self.number * self.prefetch + 2


def plan_workers(count: int | None, prefetch: int | None, batch_bytes: int | None, local_ranks: int) -> Workers:
    """As given; else a worker for each CPU granted, shared out among the processes of this machine, two batches ahead.

    One batch ahead where two would take more than a quarter of the memory granted. Raises UsageError.
    """
    if count is None:
        count = max(1, cpu_budget() // local_ranks)
    count = at_least("workers", count, 0)
    if prefetch is not None:
        return Workers(count, at_least("prefetch", prefetch, 1))
    wanted = Workers(count, _AHEAD)
    large = wanted.under_way() * (batch_bytes or 0) * local_ranks > memory_budget() * _SHARE
    return Workers(count, 1) if large else wanted


def shared_memory_check(workers: Workers, local_ranks: int) -> Callable[[int], None] | None:
    """What raises StorageError where batches of so many bytes have no room in shared memory: a worker would die of it.

    `local_ranks` processes of this machine are about to take as much each. Shared memory is looked at now, before there
    are workers: the later one looks, the more of it their own batches have. Pickles; None where nothing goes there.
    """
    if not workers.number or not os.path.isdir(SHARED):
        return None
    return partial(_check_batches, room_in(SHARED, kept_share=0), workers.under_way() * local_ranks)


def _check_batches(room: Room, batches: int, batch_bytes: int) -> None:
    room.check(batches * batch_bytes, "fewer workers=, prefetch=1, smaller batches")


def batch_bytes(batch: Any) -> int:
    """Bytes of the tensors and arrays of a batch, or of its samples."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        return batch.nbytes
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple | list) else ()
    return sum(map(batch_bytes, parts))
