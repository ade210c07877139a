"""Statistics of a consumer's waits for batches and of the buffers, which show the bottleneck."""

import time
from collections import deque
from dataclasses import dataclass

import numpy as np

_KEPT = 10_000  # waits for the percentile: the last ones
_SHARE = 0.02  # of the time spent waiting, from which on producers are the bottleneck


@dataclass(frozen=True)
class Statistics:
    """Statistics of an epoch so far. The first batch, which also waits for the workers' start, is counted separately.

    Example:
        print(prefetcher.statistics)  # waits, and whether producers are the bottleneck
        if prefetcher.statistics.bottleneck == "producers":
            print("give more workers")
    """

    batches: int  # taken
    first_wait: float  # seconds until the first batch
    mean_wait: float  # seconds for each later one
    p99_wait: float  # seconds, of the last 10,000
    waited: float  # share of the consumer's time since the first batch, 0 to 1
    occupancy: float  # mean share of the buffer that was ready when a batch was requested, 0 to 1
    waited_for: tuple[float, ...]  # seconds by producer, the first batch left out

    @property
    def bottleneck(self) -> str:
        """The slower side.

        "producers" if the consumer waits more than 2 % of the time, otherwise "consumer", as it should be.
        """
        return "producers" if self.waited > _SHARE else "consumer"

    def __str__(self) -> str:
        return (
            f"{self.batches:,} batches, waits of {self.mean_wait * 1e3:.2f} ms (p99 {self.p99_wait * 1e3:.2f} ms), "
            f"{self.waited:.1%} of the time; buffers {self.occupancy:.0%} full; bottleneck: {self.bottleneck}"
        )


class Waits:
    """Counts the numbers of `Statistics`."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, lanes: int, buffer: int) -> None:
        self._buffer = buffer
        self._batches = 0
        self._first = 0.0
        self._began = self._last = 0.0  # when the first batch came, when the last
        self._total = 0.0
        self._occupied = 0.0
        self._recent: deque[float] = deque(maxlen=_KEPT)
        self._by_lane = [0.0] * lanes

    def took(self, lane: int, began: float, occupied: float) -> None:
        """Count a batch of `lane`, requested at `began`, when `occupied` batches per lane were ready."""
        now = self.clock()
        wait = now - began
        self._batches += 1
        self._last = now
        if self._batches == 1:
            self._first, self._began = wait, now
            return
        self._total += wait
        self._occupied += min(1.0, occupied / self._buffer)
        self._recent.append(wait)
        self._by_lane[lane] += wait

    def statistics(self) -> Statistics:
        """Statistics of the batches taken so far; zeros before the first."""
        later = max(1, self._batches - 1)
        time_since = self._last - self._began
        return Statistics(
            batches=self._batches,
            first_wait=self._first,
            mean_wait=self._total / later,
            p99_wait=float(np.percentile(self._recent, 99)) if self._recent else 0.0,
            waited=self._total / time_since if time_since else 0.0,
            occupancy=self._occupied / later,
            waited_for=tuple(self._by_lane),
        )
