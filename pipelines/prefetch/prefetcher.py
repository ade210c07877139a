"""Base of all prefetchers: the order of batches, successive passes, errors, the end, statistics.

Prefetchers differ in where producers run: `ProducerWorkers` is the only extension point, `ThreadWorkers` the simplest.
"""

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.prefetch.producers import (
    Failure,
    Item,
    Producer,
    Worker,
    Yielded,
    check_epoch,
    items_of,
    make_workers,
)

_KEPT = 10_000  # waits for the percentile: the last ones
_SHARE = 0.02  # of the time spent waiting, from which on producers are the bottleneck
_GRACE = 1.0  # seconds for producers to notice that no more is needed; a thread cannot be ended from outside


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


class WaitTimes:
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


class ProducerWorkers(ABC):
    """Running producers, one lane each: a lane has its producer's items in order, with at most `buffer` batches ready.

    Used by one thread at a time, except `stop`, which may be called from anywhere, even from a finalizer.
    """

    stopped = False

    @abstractmethod
    def start(self, workers: Sequence[Worker]) -> None:
        """Begin a pass: producer i runs with `workers[i]`. The previous pass has ended."""

    @abstractmethod
    def ready(self) -> Sequence[int]:
        """Number of items of each lane that can be taken without waiting."""

    @abstractmethod
    def wait(self, lanes: Collection[int]) -> None:
        """Wait for an item of one of `lanes`; a lost worker gives a `Failure` with WorkerLostError."""

    @abstractmethod
    def take(self, lane: int) -> Item | None:
        """Return the lane's next, ready item; None to check again, after a stop or a restart of the worker."""

    @abstractmethod
    def stop(self) -> None:
        """End all workers and free their resources, within a second or two; a second call does nothing."""


class Prefetcher(OneWay):
    """Batches of producers that run ahead of their consumer.

    Created by `prefetch_threads`, `prefetch_processes` or `prefetch_ray`. It can be iterated repeatedly, one iteration
    at a time: each iteration is an epoch with new seeds. Workers start with the first iteration and are kept for the
    next ones. They end at the end of `with`, with `close`, when the prefetcher is garbage-collected, when an iteration
    is left early, and after an error.

    Example:
        with prefetch_threads([producer] * 4) as prefetcher:
            for epoch in range(3):
                for batch in prefetcher:
                    model.train_on_batch(*batch)
    """

    def __init__(
        self,
        producers: Sequence[Producer],
        make: Callable[[], ProducerWorkers],
        *,
        buffer: int,
        ordered: bool,
        seed: int,
    ) -> None:
        self._producers = producers
        self._make = make
        self._buffer = buffer
        self._ordered = ordered
        self._seed = seed
        self._epoch = 0
        self._closed = False
        self._workers: ProducerWorkers | None = None
        self._stop: weakref.finalize[..., Prefetcher] | None = None
        self._pass: weakref.ref[Batches] | None = None
        self._waits = WaitTimes(len(self._producers), buffer)

    def __iter__(self) -> "Batches":
        """Start the next epoch. An epoch that has not ended is stopped, and its iterator raises UsageError.

        Raises UsageError if the prefetcher is closed, or if a producer cannot be run again.
        """
        if self._closed:
            raise UsageError("prefetch", "is closed", "iterate inside the `with` block")
        check_epoch(self._producers, self._epoch)
        running = self._pass() if self._pass else None
        if running is not None:
            running.close()
        if self._workers is None or self._workers.stopped:
            self._end_workers()
            self._workers = self._make()
            self._stop = weakref.finalize(self, self._workers.stop)
        self._waits = WaitTimes(len(self._producers), self._buffer)
        epoch, self._epoch = self._epoch, self._epoch + 1
        try:
            self._workers.start(make_workers(len(self._producers), epoch, self._seed))
        except BaseException:
            self._end_workers()
            raise
        batches = Batches(self, self._workers, self._waits, len(self._producers), self._ordered)
        self._pass = weakref.ref(batches)
        return batches

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers. Batches already returned stay valid; an unfinished iterator raises an error."""
        self._closed = True
        self._end_workers()

    def _end_workers(self) -> None:
        if self._stop is not None:
            self._stop()
        self._stop = self._workers = None

    def statistics(self) -> Statistics:
        """Return statistics of the current epoch, or of the last epoch if none is running."""
        return self._waits.statistics()


class Batches(OneWay, Iterator[Any]):
    """One epoch of a prefetcher's batches.

    Example:
        with prefetch_threads([producer] * 4) as prefetcher:
            batches = iter(prefetcher)
            first = next(batches)
            print(batches.statistics)
    """

    def __init__(
        self, owner: Prefetcher, workers: ProducerWorkers, waits: WaitTimes, lanes: int, ordered: bool
    ) -> None:
        self._owner = owner  # stays as long as it is iterated
        self._workers = workers
        self._waits = waits
        self._alive = list(range(lanes))
        self._turn = 0  # index into `_alive`
        self._ordered = ordered
        self._one = threading.Lock()  # several threads may share the batches
        self._stop = weakref.finalize(self, workers.stop)

    def __next__(self) -> Any:
        with self._one:
            return self._next()

    def _next(self) -> Any:
        began = self._waits.clock()
        occupied: float | None = None
        while self._alive:
            if self._workers.stopped:
                if threading.current_thread().daemon and not threading.main_thread().is_alive():
                    raise SystemExit  # the interpreter is about to end, and would show any other error of this thread
                raise UsageError("prefetch", "was closed or iterated again before its batches ended")
            ready = self._workers.ready()
            if occupied is None:
                occupied = sum(ready[lane] for lane in self._alive) / len(self._alive)
            lane = self._choose(ready)
            if lane is None:
                self._workers.wait(self._alive if not self._ordered else [self._alive[self._turn]])
                continue
            item = self._workers.take(lane)
            if isinstance(item, Yielded):
                self._turn = (self._alive.index(lane) + 1) % len(self._alive)
                self._waits.took(lane, began, occupied)
                return item.value
            if item is None or self._workers.stopped:
                continue
            if isinstance(item, Failure):
                self._fail(lane, item)
            self._turn = self._alive.index(lane)
            self._alive.remove(lane)
            self._turn %= len(self._alive) or 1
        self._stop.detach()  # the workers stay for the next epoch
        raise StopIteration

    def close(self) -> None:
        """End this epoch early and stop its workers."""
        self._stop()

    def _choose(self, ready: Sequence[int]) -> int | None:
        """Choose the lane to take from: the next in turn, or, if not ordered, the next that is ready."""
        turns = 1 if self._ordered else len(self._alive)
        for ahead in range(turns):
            lane = self._alive[(self._turn + ahead) % len(self._alive)]
            if ready[lane]:
                return lane
        return None

    def _fail(self, lane: int, failure: Failure) -> None:
        lanes = len(self._workers.ready())
        self._alive.clear()
        self._stop()
        where = f"in producer {lane} of {lanes}"
        failure.error.add_note(f"{where}:\n{failure.trace}" if failure.trace else where)
        raise failure.error


class ThreadWorkers(ProducerWorkers):
    """A thread for each producer. Batches are passed on as they are, without a copy."""

    def __init__(self, producers: Sequence[Producer], buffer: int) -> None:
        self._producers = producers
        self._buffer = buffer
        self._changed = threading.Condition()  # its lock is reentrant: a finalizer may call `stop` anywhere
        self._lanes: list[deque[Item]] = [deque() for _ in producers]
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()  # a fork has no threads, and perhaps the lock of one that held it

    def start(self, workers: Sequence[Worker]) -> None:
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name=f"prefetch {worker.number}", daemon=True)
            for worker in workers
        ]
        for thread in self._threads:
            thread.start()

    def ready(self) -> Sequence[int]:
        if os.getpid() != self._process:
            problem = "its threads are in the process from which this one was forked"
            raise UsageError("prefetch", problem, "start an iteration in the process that uses its batches")
        return [len(lane) for lane in self._lanes]

    def wait(self, lanes: Collection[int]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or any(self._lanes[lane] for lane in lanes))

    def take(self, lane: int) -> Item | None:
        with self._changed:
            item = self._lanes[lane].popleft() if self._lanes[lane] else None  # none: stopped meanwhile
            self._changed.notify_all()
        return item

    def stop(self) -> None:
        self.stopped = True
        if os.getpid() != self._process:
            return
        with self._changed:
            for lane in self._lanes:
                lane.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            if thread.ident not in (None, threading.get_ident()):
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self, worker: Worker) -> None:
        items = items_of(self._producers[worker.number], worker)
        for item in items:
            if not self._give(self._lanes[worker.number], item):
                items.close()
                return
            del item  # else it would be kept while the next is made

    def _give(self, lane: deque[Item], item: Item) -> bool:
        """Wait until there is room; return whether more is wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or len(lane) < self._buffer)
            if not self.stopped:
                lane.append(item)
                self._changed.notify_all()
            return not self.stopped
