"""Producers in processes of this machine, for computation in Python. Arrays come through `slots`, the rest by pickle.

The consumer has no thread of its own: it checks the connections when a batch is requested. Each worker watches a pipe
whose other end only the consumer holds, and exits when that end is closed, also if the consumer was killed.
"""

import contextlib
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from shardfeed.errors import StorageError
from shardfeed.machine.processes import GUARD, hold_lifeline, loss, signals_later, without_main
from shardfeed.pipelines.prefetch.prefetcher import Workers
from shardfeed.pipelines.prefetch.process_worker import GRACE, work
from shardfeed.pipelines.prefetch.producers import Batch, Failure, Item, Worker
from shardfeed.pipelines.prefetch.slots import DroppedSlot, NewSlot, SlotBatch, SlotReader

_LOOK = 0.5  # seconds between checks whether a worker lives, in case its child process keeps the connection open


class _WorkerConnection:
    """The consumer's side of one worker."""

    def __init__(
        self, number: int, of_script: bool, process: Any, connection: Connection, lifeline: Connection
    ) -> None:
        self.number = number
        self._of_script = of_script
        self.process = process
        self.connection = connection
        self.lifeline = lifeline
        self.slots = SlotReader()
        self.inbox: deque[SlotBatch | Item] = deque()
        self.lost = False

    def send(self, message: object) -> None:
        """Send a message; does nothing if the worker is gone, which is detected when reading."""
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def receive(self) -> None:
        """Read the worker's messages, without waiting."""
        while not self.lost:
            try:
                if not self.connection.poll():
                    return
                message = self.connection.recv()
                if isinstance(message, NewSlot):
                    self.slots.add(message, self.connection)
                elif isinstance(message, DroppedSlot):
                    self.slots.drop(message)
                else:
                    self.inbox.append(message)
            except StorageError as error:
                self._fail(error)
            except (EOFError, OSError):
                self.lose()
            except Exception as error:  # a part of a batch that is not an array cannot be unpickled here
                self._fail(error)

    def lose(self) -> None:
        """Handle the loss of the worker. Items received before remain."""
        self.process.join(GRACE)
        guard = f"{GUARD}, or the producer into a module" if self._of_script else ""
        self._fail(loss(f"producers[{self.number}]", self.process.exitcode, guard))

    def _fail(self, error: Exception) -> None:
        self.inbox.append(Failure(error))
        self.lost = True


class ProcessWorkers(Workers):
    """A process for each producer."""

    def __init__(self, producers: Sequence[bytes], buffer: int, start_method: str) -> None:
        self._producers = producers
        self._buffer = buffer
        self._context: Any = multiprocessing.get_context(start_method)
        self._lanes: list[_WorkerConnection] = []
        self._lock = threading.RLock()  # another thread than the stopping one may still be reading

    def start(self, workers: Sequence[Worker]) -> None:
        if not self._lanes:
            for number, producer in enumerate(self._producers):
                self._start(number, producer)
        for lane, worker in zip(self._lanes, workers, strict=True):
            lane.send(worker)

    def ready(self) -> Sequence[int]:
        with self._lock:
            heard = wait([lane.connection for lane in self._lanes if not lane.lost], timeout=0)
            for lane in self._lanes:
                if lane.connection in heard:
                    lane.receive()
            return [len(lane.inbox) for lane in self._lanes]

    def wait(self, lanes: Collection[int]) -> None:
        wanted = [self._lanes[number] for number in lanes]
        while not (self.stopped or any(lane.inbox for lane in wanted)):
            if wait([lane.connection for lane in wanted], timeout=_LOOK):
                return
            with self._lock:
                for lane in wanted:
                    if not lane.lost and not lane.process.is_alive():
                        lane.receive()  # the last it sent
                        if not lane.lost:
                            lane.lose()

    def take(self, lane: int) -> Item | None:
        with self._lock:
            ours = self._lanes[lane]
            if self.stopped:
                return None
            item = ours.inbox.popleft()
            if not isinstance(item, SlotBatch):
                return item
            value = ours.slots.read(item)
            ours.send(ours.slots.released())  # each such message makes space for one more
            return Batch(value)

    def stop(self) -> None:
        self.stopped = True
        for lane in self._lanes:
            lane.lifeline.close()
        deadline = time.monotonic() + GRACE
        for lane in self._lanes:
            lane.process.join(max(0.0, deadline - time.monotonic()))
        for lane in self._lanes:
            if lane.process.is_alive():
                lane.process.kill()
                lane.process.join()
        with self._lock:  # connections close when their last reader is gone
            for lane in self._lanes:
                lane.inbox.clear()
                lane.slots.clear()

    def _start(self, number: int, producer: bytes) -> None:
        ours, theirs = self._context.Pipe()
        end, lifeline = self._context.Pipe(duplex=False)
        hold_lifeline(lifeline)
        process = self._context.Process(
            target=work, args=(theirs, end, self._buffer), name=f"prefetch {number}", daemon=True
        )
        of_script = b"__main__" in producer
        with signals_later(), contextlib.nullcontext() if of_script else without_main():
            process.start()
            self._lanes.append(_WorkerConnection(number, of_script, process, ours, lifeline))
        theirs.close()
        end.close()
        with contextlib.suppress(OSError):
            ours.send_bytes(producer)
