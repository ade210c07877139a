"""How much longer a step of pure Python takes beside the threads of a loader, which share the interpreter's lock.

    python benchmarks/python_step.py DATASET [--loader torch|arrays|processes] [--batch-size 16] [--image-size 224]

Each round has 50 steps with a new batch each, and 50 steps with none, while the loader's threads wait because their
batches are ready. A step is a loop of Python that takes 20 ms alone. Printed is what a batch adds to a step, in
milliseconds, as medians over the rounds and quartiles: the time, and of it the CPU time of the step's own thread, its
waits for a CPU (as the kernel counts them; there are none on an idle machine with enough CPUs), and its waits for the
lock or for a batch.
"""

import argparse
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import shardfeed

STEPS = 50  # of a round, with and without batches
STEP = 0.020  # seconds


def spin(count: int) -> int:
    """Work that never waits nor gives the lock away."""
    total = 0
    for number in range(count):
        total += number & 3
    return total


def clocks() -> tuple[float, float, float]:
    """Seconds: the time, and of this thread its CPU time, and its waits for a CPU."""
    waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()[1]
    return time.perf_counter(), time.thread_time(), int(waits) / 1e9


def calibrated() -> int:
    """How much of it takes a step, alone."""
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        spin(100_000)
        seconds.append(time.perf_counter() - began)
    return round(100_000 * STEP / min(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--loader", choices=["torch", "arrays", "processes"], default="torch")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    split = shardfeed.open(asked.dataset)["train"]
    options: Any = {"batch_size": asked.batch_size, "image_size": asked.image_size, "start_step": 0}
    if asked.loader == "arrays":
        batches = iter(shardfeed.array_batches(split, workers=asked.workers, **options))
    else:
        from shardfeed.pipelines.torch import Workers

        workers = Workers(asked.workers, processes=asked.loader == "processes")
        batches = iter(shardfeed.torch_loader(split, workers=workers, **options))
    count = calibrated()

    def steps(fed: bool) -> list[float]:
        """Milliseconds of a step: in all, of its CPU, of waits for a CPU, and of other waits."""
        began = clocks()
        for _ in range(STEPS):
            if fed:
                next(batches)
            spin(count)
        whole, used, queued = ((now - then) / STEPS * 1e3 for now, then in zip(clocks(), began, strict=True))
        return [whole, used, queued, whole - used - queued]

    steps(True)
    added = []
    for _ in range(asked.rounds):
        fed = steps(True)
        time.sleep(0.2)  # until all batches ahead are made
        added.append([more - less for more, less in zip(fed, steps(False), strict=True)])
    print(f"{asked.loader}, {asked.batch_size} images of {asked.image_size} pixels, {asked.workers} workers")
    for name, values in zip(
        ("in all", "own CPU", "for a CPU", "for lock or batch"), zip(*added, strict=True), strict=True
    ):
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"  {name:18} {middle:+6.2f} ms ({low:+.2f} to {high:+.2f}), {middle / STEP / 1e3:+.1%} of a step")


if __name__ == "__main__":
    main()
