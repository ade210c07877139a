"""Producers in actors of a Ray cluster: batches come through its object store, and lost actors are restarted.

The consumer requests batch number k of an epoch from an actor, up to `buffer` batches ahead. An actor that is not at k,
because it was just started, runs its producer from the beginning and drops the batches before k. So only the consumer
tracks which batches it got, and it does not matter what was lost: an actor, its node, or a batch stored there.

In the consumer's process, one thread per actor fetches finished batches, so that the consumer does not wait for calls
to Ray, which take a millisecond or two per batch.
"""

import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.pipelines.prefetch.prefetcher import ThreadWorkers
from shardfeed.pipelines.prefetch.producers import Ended, Failure, Item, Worker, Yielded, items_of, portable
from shardfeed.ray_cluster import Cluster
from shardfeed.user_warnings import warn_user

_TRIES = 3  # consecutive losses, without a batch in between, before giving up
_LOOK = 0.1  # seconds between checks whether all was stopped
_CHECK = 1.0  # seconds between checks of the cluster's head


class Runner:
    """A producer in its actor."""

    def __init__(self, producer: bytes) -> None:
        self._pickled = producer
        self._items: Iterator[Item] = iter(())
        self._at: tuple[int, int] | None = None  # epoch, number of the next batch

    def item(self, worker: Worker, number: int) -> Item:
        """Make item `number` of an epoch: the next one, or after a restart all from the beginning."""
        if self._at != (worker.epoch, number):
            try:
                self._items = items_of(cloudpickle.loads(self._pickled), worker)
            except Exception as error:
                problem = f"an actor cannot read it: {type(error).__name__}: {error}"
                return Failure(UsageError("producers", problem, "install its modules on every node"))
            for _ in range(number):
                item = next(self._items)
                if not isinstance(item, Yielded):  # it does not produce the same batches again
                    return portable(item) if isinstance(item, Failure) else item
        self._at = (worker.epoch, number + 1)
        item = next(self._items, Ended())
        return portable(item) if isinstance(item, Failure) else item


class ActorWorkers(ThreadWorkers):
    """An actor for each producer, on the cluster at `address`; its items are fetched by a thread of this process."""

    def __init__(self, producers: Sequence[bytes], buffer: int, address: str | None) -> None:
        super().__init__((), buffer)
        self._pickled = producers
        self._lanes = [deque() for _ in producers]
        self._actors: dict[int, Any] = {}
        self._cluster = Cluster(address, prints=True)
        self._next_check = 0.0

    def start(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            if worker.number not in self._actors:
                self._start_actor(worker.number)
        super().start(workers)

    def stop(self) -> None:
        if self.stopped:
            return
        super().stop()
        self._cluster.leave(list(self._actors.values()))

    def _work(self, worker: Worker) -> None:
        try:
            self._fetch(worker)
        except Exception as error:
            self._give(self._lanes[worker.number], Failure(error, traceback.format_exc()))

    def _fetch(self, worker: Worker) -> None:
        """Request items, fetch them and pass them on, until there are no more or the consumer stops."""
        lane = self._lanes[worker.number]
        asked: deque[Any] = deque()  # for items not fetched yet, the next one first
        got = losses = 0
        while True:
            with self._changed:
                # As for other workers: `buffer` ready items, and one more being made or waiting for space.
                self._changed.wait_for(lambda: self.stopped or len(lane) <= self._buffer)
                room = self._buffer + 1 - len(lane)
            while self._connected() and len(asked) < room:
                asked.append(self._actors[worker.number].item.remote(worker, got + len(asked)))
            if not self._arrived(asked):
                return
            try:
                item: Item = ray.get(asked[0])
            except RayTaskError as error:  # it ran, but for example its result does not pickle
                item = Failure(error.as_instanceof_cause())
            except RayError as error:
                if self.stopped:
                    return
                losses += 1
                self._begin_again(worker.number, got, losses, error)
                asked.clear()
                continue
            del asked[0]
            if not self._give(lane, item) or not isinstance(item, Yielded):
                return
            got, losses = got + 1, 0
            del item  # else it would be kept while the next is made

    def _arrived(self, asked: Sequence[Any]) -> bool:
        """Wait for the first item; False if stopped. Raises WorkerLostError if the head does not answer."""
        while self._connected():
            # Even while batches arrive, for which actors do not need the head: after a minute Ray would end this
            # process.
            if time.monotonic() > self._next_check:
                self._next_check = time.monotonic() + _CHECK
                self._cluster.check()
            if ray.wait([asked[0]], timeout=_LOOK)[0]:
                return True
        return False

    def _connected(self) -> bool:
        """Return False if stopped. Raises WorkerLostError if other code has disconnected this process."""
        if not self.stopped and not self._cluster.connected():
            problem = "this process was disconnected from it"
            raise WorkerLostError("Ray cluster", problem, "call ray.shutdown() when the batches are used up")
        return not self.stopped

    def _begin_again(self, number: int, got: int, losses: int, error: RayError) -> None:
        """Replace an actor that is lost, or one of its results."""
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        place = f"producers[{number}]"
        if losses > _TRIES:
            raise WorkerLostError(place, f"its actor was lost {losses} times in a row, last by {why}")
        message = f"{place}: its actor was lost after {got} batches, another actor repeats them ({why})"
        warn_user(message, RuntimeWarning)
        ray.kill(self._actors[number])
        self._start_actor(number)

    def _start_actor(self, number: int) -> None:
        # Spread over nodes. No CPUs are reserved: a cluster with fewer CPUs than producers must not wait forever.
        options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self._actors[number] = ray.remote(Runner).options(**options).remote(self._pickled[number])
