"""The worker's side of `process_workers`: it runs a producer, and handles the death of its consumer at any moment."""

import contextlib
import os
import signal
import threading
import time
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

from shardfeed.errors import UsageError
from shardfeed.pipelines.nests import take_apart
from shardfeed.pipelines.prefetch.producers import Batch, Failure, Item, Producer, Worker, items_of, portable
from shardfeed.pipelines.prefetch.slots import SlotWriter

GRACE = 1.0  # seconds for a producer's `finally` blocks once no more is needed
IMPORTABLE = (
    "define the class or function at the top of a module, and create locks, files and similar objects in the worker"
)


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
        if isinstance(item, Batch):
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
