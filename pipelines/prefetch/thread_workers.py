"""Producers in threads of this process: for producers that wait, or that release the interpreter's lock."""

import os
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence

from shardfeed.errors import UsageError
from shardfeed.pipelines.prefetch.prefetcher import Workers
from shardfeed.pipelines.prefetch.producers import Item, Producer, Worker, items_of

_GRACE = 1.0  # seconds for producers to notice that no more is needed; a thread cannot be ended from outside


class ThreadWorkers(Workers):
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
