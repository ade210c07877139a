"""Measure a running pipeline: images, wall time and CPU time between two of its batches.

A pipeline is started once and never ends. Figures exclude its start, and batches prefetched while none were taken. CPU
time is user and system time of all threads of the process. So while one pipeline is measured, all others are stopped,
with full buffers.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from shardfeed.tools.bench.stages import Workload

_FEWEST_BATCHES = 4  # in a slice
_STILL = 0.05, 0.2  # seconds, and the share of one core below which nothing is being prefetched
_MOST_WAITING = 3.0  # seconds for the buffers to fill


class OutOfTimeError(Exception):
    """The time for measuring is over in the middle of a slice."""


@dataclass(frozen=True)
class Slice:
    """Images taken without a break, with wall and CPU seconds, and the wait for each batch."""

    images: int
    wall_s: float
    cpu_s: float
    waits_ms: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Images per second."""
        return self.images / self.wall_s

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per image."""
        return self.cpu_s / self.images * 1e6


def together(slices: Iterable[Slice]) -> Slice:
    """The slices joined, as if they followed each other directly."""
    found = list(slices)
    return Slice(
        sum(each.images for each in found),
        sum(each.wall_s for each in found),
        sum(each.cpu_s for each in found),
        tuple(wait for each in found for wait in each.waits_ms),
    )


class Running:
    """A started pipeline. `ahead`: maximum number of batches that it prefetches.

    `first_s`: seconds from the start of the iteration to the first batch.
    """

    def __init__(self, batches: Iterable[object], batch_size: int, ahead: int, deadline: float) -> None:
        started = time.perf_counter()
        self._next: Callable[[], object] = partial(next, iter(batches))
        self._next()
        self.first_s = time.perf_counter() - started
        self._batch_size, self._ahead, self._deadline = batch_size, ahead, deadline

    def slice(self, seconds: float, *, settle: bool = True, pause_s: float = 0.0) -> Slice:
        """Take batches for about `seconds`, four at least, with a pause of `pause_s` after each.

        `settle`: first wait until all pipelines are idle, and empty the buffers. Otherwise the slice begins at the end
        of this pipeline's last slice.

        Raises OutOfTimeError when the deadline passes.
        """
        if settle:
            _wait_until_still()
            for _ in range(self._ahead + 1):
                self._take()
        waits = []
        wall, cpu = time.perf_counter(), time.process_time()
        while len(waits) < _FEWEST_BATCHES or time.perf_counter() - wall < seconds:
            time.sleep(pause_s)
            asked = time.perf_counter()
            self._take()
            waits.append((time.perf_counter() - asked) * 1e3)
        cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
        return Slice(len(waits) * self._batch_size, wall_s, cpu_s, tuple(waits))

    def _take(self) -> None:
        if time.perf_counter() > self._deadline:
            raise OutOfTimeError
        self._next()


def start(work: Workload, deadline: float, stage: str = "whole") -> Running:
    """Start the pipeline up to a stage, or the whole one."""
    return Running(work.batches(stage, endless=True), work.batch_size, work.ahead, deadline)


def _wait_until_still() -> None:
    """Wait until no thread of this process makes batches ahead."""
    seconds, share = _STILL
    for _ in range(round(_MOST_WAITING / seconds)):
        before = time.process_time()
        time.sleep(seconds)
        if time.process_time() - before < seconds * share:
            return
