"""How long a training step waits for its batch: a consumer that takes one, then lets the CPU alone for a while.

That is what a step on a GPU does to an input pipeline, at its best: a real one also takes CPU time for launching
kernels, copying the batch to the device and running callbacks.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Waits:
    """Waits for batches. `first_ms`: for the first one, from the start of the iteration.

    `waits_ms`: float64 [steps], for each later one. `step_ms`: what a step really took without its wait, on average.
    """

    first_ms: float
    waits_ms: np.ndarray
    step_ms: float

    def summary(self, *, steady: bool = False) -> dict[str, float]:
        """Statistics of the waits: of all, or of the last three quarters, when buffers are no fuller than they stay."""
        waits = self.waits_ms[len(self.waits_ms) // 4 :] if steady else self.waits_ms
        mean = float(waits.mean())
        return {
            "steps": len(waits),
            "mean_wait_ms": mean,
            "p50_wait_ms": float(np.percentile(waits, 50)),
            "p99_wait_ms": float(np.percentile(waits, 99)),
            "max_wait_ms": float(waits.max()),
            "lost_share": mean / (mean + self.step_ms),
        }


def measure_waits(batches: Iterable[object], model_ms: float, steps: int) -> Waits:
    """Take `steps` batches after the first one, with a pause of `model_ms` after each; fewer where they end.

    Raises ValueError for fewer than two batches.
    """
    pause = model_ms / 1000
    start = time.perf_counter()
    iterator = iter(batches)
    marks = []  # before a batch was asked for, when it came
    first = start
    try:
        next(iterator)
        first = time.perf_counter()
        for _ in range(steps):
            time.sleep(pause)
            asked = time.perf_counter()
            next(iterator)
            marks.append((asked, time.perf_counter()))
    except StopIteration:
        if not marks:
            raise ValueError("got fewer than two batches, expected enough to wait for") from None
    times = np.array(marks)
    came = np.array([first, *times[:-1, 1]])
    return Waits((first - start) * 1e3, (times[:, 1] - times[:, 0]) * 1e3, float((times[:, 0] - came).mean() * 1e3))
