"""Producers in processes of this machine, for computation in Python. Arrays come through `slots`, the rest by pickle.

The consumer has no thread of its own: it checks the connections when a batch is requested. Each worker watches a pipe
whose other end only the consumer holds, and exits when that end is closed, also if the consumer was killed.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from shardfeed.errors import StorageError, UsageError
from shardfeed.pipelines.nests import take_apart
from shardfeed.pipelines.prefetch.prefetcher import ProducerWorkers
from shardfeed.pipelines.prefetch.producers import Failure, Item, Producer, Worker, Yielded, items_of, portable
from shardfeed.pipelines.prefetch.slots import DroppedSlot, NewSlot, SlotBatch, SlotReader, SlotWriter
from shardfeed.processes import GUARD, hold_lifeline, loss, signals_later, without_main

_LOOK = 0.5  # seconds between checks whether a worker lives, in case its child process keeps the connection open
GRACE = 1.0  # seconds for a producer's `finally` blocks once no more is needed
IMPORTABLE = (
    "define the class or function at the top of a module, and create locks, files and similar objects in the worker"
)


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


class ProcessWorkers(ProducerWorkers):
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
            return Yielded(value)

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


class _ConsumerConnection:
    """The worker's side of the connection: sends batches, and receives messages of the consumer."""

    def __init__(self, connection: Connection, lifeline: Connection, buffer: int) -> None:
        self._connection = connection
        self._lifeline = lifeline
        self._buffer = buffer
        self._ahead = 0  # batches sent but not taken
        self._slots: SlotWriter | None = None

    def next_worker(self) -> Worker | None:
        """Wait for the next `Worker` to run; None when the consumer is gone."""
        while True:
            message = self._receive()
            if message is None or isinstance(message, Worker):
                return message

    def give(self, item: Item, workers: int) -> bool:
        """Send an item once there is room; return whether the consumer wants more."""
        while self._ahead >= self._buffer or self._connection.poll() or self._lifeline.poll():
            if self._receive() is None:
                return False
        message: Any = item
        if isinstance(item, Yielded):
            if self._slots is None:
                self._slots = SlotWriter(self._connection, self._buffer, workers)
            rest, arrays = take_apart(item.value)
            message = self._slots.write(rest, arrays)
            self._ahead += 1
        elif isinstance(item, Failure):
            message = portable(item)
        self._connection.send(message)
        return True

    def _receive(self) -> Any:
        """Wait for a message: None when the consumer is gone; released slots are taken back."""
        if self._lifeline in wait([self._connection, self._lifeline]):
            return None
        message = self._connection.recv()
        if isinstance(message, list):
            self._ahead -= 1
            for number in message:
                assert self._slots is not None
                self._slots.release(number)
        return message


def work(connection: Connection, lifeline: Connection, buffer: int) -> None:
    """A worker's life: pass after pass, until the consumer closes the lifeline or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the consumer decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def leave_with_consumer() -> None:
        wait([lifeline])
        time.sleep(GRACE)  # until then the main thread exits by itself, unless its current batch takes longer
        os._exit(1)

    threading.Thread(target=leave_with_consumer, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            producer: Producer = connection.recv()
        except EOFError:
            return
        except Exception as error:
            problem = f"a worker cannot read it: {type(error).__name__}: {error}"
            connection.send(Failure(UsageError("producers", problem, IMPORTABLE), traceback.format_exc()))
            return
        desk = _ConsumerConnection(connection, lifeline, buffer)
        while (worker := desk.next_worker()) is not None:
            if not _run(producer, worker, desk):
                return


def _run(producer: Producer, worker: Worker, desk: _ConsumerConnection) -> bool:
    """Run one pass; return whether the consumer is still there."""
    items = items_of(producer, worker)
    for item in items:
        try:
            going = desk.give(item, worker.count)
        except (BrokenPipeError, ConnectionResetError):
            going = False
        except Exception as error:  # no memory for it, or a part does not pickle
            items.close()
            return desk.give(Failure(error, traceback.format_exc()), worker.count)
        if not going:
            items.close()
            return False
        del item  # else it would be kept while the next is made
    return True
