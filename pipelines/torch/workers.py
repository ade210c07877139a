"""Numbers of threads or worker processes, of batches made ahead, and a check that shared memory has room for those."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch

from shardfeed.budget import cpu_budget, memory_budget
from shardfeed.declared import Positive, Range, checked
from shardfeed.errors import UsageError
from shardfeed.free_space import FreeSpace, room_in
from shardfeed.pipelines.nests import leaves
from shardfeed.pipelines.samples import Mixture, Samples
from shardfeed.processes import MOST_WORKERS, in_daemon
from shardfeed.readers.split import Split

SHARED = "/dev/shm"
_AHEAD = 2  # batches for each worker: one is made while another waits to be taken
_SHARE = 1 / 4  # maximum share of the available memory for prefetched batches by default
LoaderWorkers = Annotated[int, Range(0, MOST_WORKERS)]


@checked
@dataclass(frozen=True)
class Workers:
    """The threads or worker processes of a loader, which read and decode.

    Threads of the training process make batches if none of your Python runs for an image: with `image_size`, our crops,
    `detection` and `segmentation`. They take less time and a quarter of the memory, and need neither a start method nor
    /dev/shm. Other transforms, and a `collate_fn`, run in worker processes, which live as long as the loader; each has
    one PyTorch thread and one OpenCV thread. A transform that needs more threads can set their number.

    Args:
        count: number of threads that decode, or of processes; 0 to 4,096. With 0, each batch is made when it is asked
            for, in your thread. None: available CPUs, divided among the ranks of this machine; no processes in a
            daemon process, such as those of multiprocessing.Pool, which cannot start others.
        prefetch: number of batches that each process prepares in advance, or all threads together; 1 or more. None: 2,
            or for processes 1 if 2 from each would take more than a quarter of the available memory.
        pin_memory: whether batches are in pinned (page-locked) memory. None: True if there is a CUDA GPU.
        start_method: of processes, "fork", "spawn" or "forkserver". None: Python's default, but "forkserver" if workers
            read from a bucket or a web server, where "fork" is an error.
        processes: whether processes are used where threads could be, too. None: if there is a start method.

    Raises:
        UsageError: for values out of range; and when a loader is made, for `processes=False` with a function of yours.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, workers=Workers(8, prefetch=4))
    """

    count: LoaderWorkers | None = None
    prefetch: Positive | None = None
    pin_memory: bool | None = None
    start_method: Literal["fork", "spawn", "forkserver"] | None = None
    processes: bool | None = None


class Threads(NamedTuple):
    """Threads that make batches, a `number` of images at once, and the number of batches that are `ready` in advance.

    `pinned`: images are in pinned memory.
    """

    number: int
    ready: int
    pinned: bool


@dataclass(frozen=True)
class WorkerPlan:
    """Workers that a loader starts: `count` processes, each with `prefetch` batches ahead, or `threads`.

    `batch_bytes`: of the largest batch, 0 if unknown.
    """

    count: int
    prefetch: int
    pin_memory: bool
    start_method: str | None
    threads: Threads | None = None
    batch_bytes: int = 0

    def batches_in_memory(self) -> int:
        """Batches in shared memory at once: those ahead, the one in use, and the previous one, not yet released."""
        return self.count * self.prefetch + 2


def plan_workers(
    asked: int | Workers | None, batch_bytes: int, local_ranks: int, *, threads: bool = False
) -> WorkerPlan:
    """Return the workers: as requested, else one per available CPU, divided among this machine's processes.

    A daemon process starts no processes.

    `batch_bytes`: of the largest batch, 0 if unknown. `threads`: whether threads can make the batches.

    Raises UsageError.
    """
    workers = asked if isinstance(asked, Workers) else Workers(asked)
    if workers.processes is False and not threads:
        problem = "got False, and a function of yours runs for each sample or batch, which needs processes"
        raise UsageError("processes", problem, "leave it out")
    threads = threads and not (workers.start_method if workers.processes is None else workers.processes)
    count = workers.count
    if count is None:
        count = 0 if in_daemon() and not threads else max(1, cpu_budget() // local_ranks)
    pin_memory = torch.cuda.is_available() if workers.pin_memory is None else workers.pin_memory
    if threads:
        made = Threads(count, workers.prefetch or _AHEAD, pin_memory)
        return WorkerPlan(0, 0, pin_memory, None, made)
    planned = WorkerPlan(count, workers.prefetch or _AHEAD, pin_memory, workers.start_method, None, batch_bytes)
    large = planned.batches_in_memory() * batch_bytes * local_ranks > memory_budget() * _SHARE
    return replace(planned, prefetch=1) if large and workers.prefetch is None else planned


def start_method(workers: WorkerPlan, samples: Samples) -> str | None:
    """Return the start method: as requested; "forkserver" if workers read a storage that does not survive a fork.

    Raises UsageError for "fork" then: such workers could only fail.
    """
    parts = samples.parts if isinstance(samples, Mixture) else (samples,)
    shards = [part.shards for part in parts if isinstance(part, Split)]
    if all(each.storage.survives_fork or each.copy is not None for each in shards):
        return workers.start_method
    if workers.start_method == "fork":
        problem = "got 'fork', but the client for buckets and web servers does not survive a fork"
        raise UsageError("start_method", problem, 'use "forkserver" or "spawn"')
    return workers.start_method or "forkserver"


def shared_memory_check(workers: WorkerPlan, local_ranks: int) -> Callable[[int], int] | None:
    """Return a check that raises StorageError if batches of a given size overfill shared memory: a worker would die.

    It returns the number of batches whose memory each worker may keep for its next ones: 0 if that would not fit.

    `local_ranks` processes of this machine will take the same amount each. Shared memory is measured now, before
    workers start, because their batches fill it. The check pickles; None if shared memory is not used.
    """
    if not workers.count or not os.path.isdir(SHARED):
        return None
    return partial(_check_batches, room_in(SHARED, kept_share=0), workers, local_ranks)


def _check_batches(room: FreeSpace, workers: WorkerPlan, local_ranks: int, batch_bytes: int) -> int:
    ours = local_ranks * max(batch_bytes, workers.batch_bytes)  # later batches may have a larger shape
    room.check(workers.batches_in_memory() * ours, "fewer workers, Workers(prefetch=1), smaller batches")
    kept = workers.prefetch + 1  # another one is in use
    return kept if workers.count * (kept + 1) * ours <= room.free else 0


def batch_bytes(batch: Any) -> int:
    """Bytes of the tensors, arrays and encoded images of a batch, or of its samples."""
    return sum(getattr(leaf, "nbytes", 0) for _, leaf in leaves(batch))
