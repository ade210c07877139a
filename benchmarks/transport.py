"""Cost of moving an array of 48 MB from one process to another: `python benchmarks/transport.py`.

One process gives the same float32 (4, 1,000,000, 3) again and again, the other takes it and reads a number of each
page, or all of it. No producer's work is in the figures. Contenders alternate; figures are medians over rounds.

`multiprocessing.Queue` pickles through a pipe. "named segments" makes a `multiprocessing.shared_memory` for each
batch, which its consumer unlinks. `torch.multiprocessing` (where installed) does the same with segments that are
unlinked at once. shardfeed is `prefetch_processes`.
"""

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np

from shardfeed.pipelines.prefetch import Worker, prefetch_processes

SHAPE = (4, 1_000_000, 3)
BYTES = 4 * int(np.prod(SHAPE))
BUFFER = 2


def same(worker: Worker | None = None) -> Iterator[np.ndarray]:
    batch = np.random.default_rng(0).random(SHAPE, np.float32)
    while True:
        yield batch


def put_all(queue: Any, count: int) -> None:
    for _, batch in zip(range(count), same(), strict=False):
        queue.put(batch)


def put_segments(queue: Any, count: int) -> None:
    for _, batch in zip(range(count), same(), strict=False):
        segment = shared_memory.SharedMemory(create=True, size=batch.nbytes)
        np.copyto(np.ndarray(batch.shape, batch.dtype, segment.buf), batch)
        queue.put(segment.name)
        segment.close()
    queue.put(None)


def put_tensors(queue: Any, count: int, done: Any) -> None:
    torch = importlib.import_module("torch")
    for _, batch in zip(range(count), same(), strict=False):
        queue.put(torch.from_numpy(batch.copy()))  # a copy, as shardfeed's: else the producer's own array is moved
    done.wait()  # what it holds goes with it


def through_queue(count: int) -> Iterator[np.ndarray]:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(BUFFER)
    process = context.Process(target=put_all, args=(queue, count), daemon=True)
    process.start()
    for _ in range(count):
        yield queue.get()
    process.join()


def through_segments(count: int) -> Iterator[np.ndarray]:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(BUFFER)
    process = context.Process(target=put_segments, args=(queue, count), daemon=True)
    process.start()
    while (name := queue.get()) is not None:
        segment = shared_memory.SharedMemory(name)
        yield np.ndarray(SHAPE, np.float32, segment.buf)
        segment.unlink()
        segment.close()
    process.join()


def through_torch(count: int) -> Iterator[np.ndarray]:
    context = importlib.import_module("torch.multiprocessing").get_context("spawn")
    queue, done = context.Queue(BUFFER), context.Event()
    process = context.Process(target=put_tensors, args=(queue, count, done), daemon=True)
    process.start()
    for _ in range(count):
        yield queue.get().numpy()
    done.set()
    process.join()


def through_slots(count: int) -> Iterator[np.ndarray]:
    with prefetch_processes([importlib.import_module("transport").same], buffer=BUFFER) as batches:
        for _, batch in zip(range(count), batches, strict=False):
            yield batch


CONTENDERS: dict[str, Callable[[int], Iterator[np.ndarray]]] = {
    "multiprocessing.Queue": through_queue,
    "named segments": through_segments,
    "torch.multiprocessing": through_torch,
    "shardfeed": through_slots,
}


def rate(name: str, count: int, whole: bool) -> float:
    """GB/s, the first batches left out: processes start, buffers fill."""
    batches = CONTENDERS[name](count + BUFFER + 2)
    for _ in range(BUFFER + 2):
        touch(next(batches), whole)
    began = time.perf_counter()
    taken = 0
    for batch in batches:
        touch(batch, whole)
        del batch
        taken += 1
    return taken * BYTES / (time.perf_counter() - began) / 1e9


def touch(batch: np.ndarray, whole: bool) -> None:
    flat = batch.reshape(-1)
    flat.sum() if whole else flat[::1024].sum()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    names = [name for name in CONTENDERS if "torch" not in name or importlib.util.find_spec("torch")]
    rates: dict[tuple[str, bool], list[float]] = {}
    for turn in range(options.rounds):
        for name in names if turn % 2 == 0 else names[::-1]:
            for whole in (False, True):
                rates.setdefault((name, whole), []).append(rate(name, options.batches, whole))
                print(f"round {turn + 1}: {name}: {rates[name, whole][-1]:.2f} GB/s", file=sys.stderr)
    print("| | received | received and read | speed / queue |\n|---|---|---|---|")
    for name in names:
        median, read = (statistics.median(rates[name, whole]) for whole in (False, True))
        pairs = zip(rates[name, False], rates[names[0], False], strict=True)
        times = statistics.median(ours / queue for ours, queue in pairs)
        print(f"| {name} | {median:.2f} GB/s | {read:.2f} GB/s | {times:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
