"""Memory shared by a worker and its consumer: arrays are copied into it once, and used in place.

A slot holds the arrays of one batch. It is a file in memory without a name (memfd_create), passed as a file descriptor
through the connection: nothing appears in /dev/shm, the size of /dev/shm does not matter, and the kernel frees a slot
when the last process that maps it has ended, however it ended. Slots are reused, because the first touch of new memory
costs more than the copy: the kernel clears each page.

The consumer's arrays keep their slot: it is returned when the last of them, and of all views of them, is
garbage-collected. If a consumer keeps batches, the worker takes more slots; no batch in use is ever overwritten.
"""

import errno
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np

from shardfeed.budget import memory_free
from shardfeed.errors import StorageError
from shardfeed.pipelines.nests import put_together
from shardfeed.released import Released
from shardfeed.text import size_text

ALIGNMENT = 64  # of each array, in bytes: as TensorFlow and SIMD code need it
_BEYOND_AHEAD = 2  # slots in addition to ready ones: one used by the consumer, one on its way back
_REMEDY = "a smaller buffer=, fewer producers or smaller batches, and releasing used batches"


@dataclass(frozen=True)
class NewSlot:
    """Announces the file descriptor of slot `number`. Sizes are in bytes."""

    number: int
    size: int


@dataclass(frozen=True)
class DroppedSlot:
    """Announces that the slot is not used again."""

    number: int


@dataclass(frozen=True)
class SlotArray:
    """Location of an array in its slot."""

    offset: int  # bytes
    shape: tuple[int, ...]
    dtype: np.dtype
    order: Any  # "C" or "F"

    def view(self, memory: Any) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, memory, self.offset, order=self.order)


@dataclass(frozen=True)
class SlotBatch:
    """A batch: `rest` as `take_apart` gives it, the arrays in slot `number` (None when there are none)."""

    number: int | None
    placed: list[SlotArray]
    rest: Any


def plan(arrays: Sequence[np.ndarray]) -> tuple[list[SlotArray], int]:
    """Return the position of each array in a slot, and the slot's size in bytes."""
    placed, end = [], 0
    for array in arrays:
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        placed.append(SlotArray(end, array.shape, array.dtype, order))
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return placed, end


class SlotWriter:
    """The worker's side. `buffer`: how many batches may be ready; `workers`: how many write as this one does."""

    def __init__(self, connection: Connection, buffer: int, workers: int) -> None:
        self._connection = connection
        self._kept = buffer + _BEYOND_AHEAD
        self._workers = workers
        self._maps: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._made = 0
        self._size = 0  # of new slots: the largest so far, so that batches of various sizes soon fit into any

    def write(self, rest: Any, arrays: Sequence[np.ndarray]) -> SlotBatch:
        """Copy arrays into a slot. Raises StorageError (ENOMEM) when there is no memory for another."""
        if not arrays:
            return SlotBatch(None, [], rest)
        placed, size = plan(arrays)
        number = self._take(size)
        for place, array in zip(placed, arrays, strict=True):
            np.copyto(place.view(self._maps[number]), array)
        return SlotBatch(number, placed, rest)

    def release(self, number: int) -> None:
        """The consumer has released a slot. Slots beyond the usual number are discarded."""
        if len(self._maps) > self._kept or len(self._maps[number]) < self._size:
            self._drop(number)
        else:
            self._free.append(number)

    def _take(self, size: int) -> int:
        if size > self._size or not self._size:  # none yet, and only empty arrays
            self._size = max(1, -(-size // mmap.PAGESIZE)) * mmap.PAGESIZE
            while self._free:
                self._drop(self._free.pop())
        if not self._free:
            # All at once at first: the memory is known to suffice, and the consumer maps them while it waits anyway.
            wanted = 1 if self._made else self._kept
            needed, free = self._size * wanted * (1 if self._made else self._workers), memory_free()
            if needed > free:
                problem = f"{size_text(needed)} are needed, {size_text(free)} of the available memory are free"
                raise _storage_error(errno.ENOMEM, problem)
            for _ in range(wanted):
                self._free.append(self._make())
        return self._free.pop()

    def _make(self) -> int:
        number, self._made = self._made, self._made + 1
        try:
            file = os.memfd_create("shardfeed-batch", os.MFD_CLOEXEC)
            try:
                os.posix_fallocate(file, 0, self._size)  # allocate now: a page that is missing later raises SIGBUS
                self._maps[number] = mmap.mmap(file, self._size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
                self._connection.send(NewSlot(number, self._size))
                send_handle(self._connection, file, 0)  # the process id matters on Windows alone
            finally:
                os.close(file)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError as error:
            raise _storage_error(error.errno, error.strerror or str(error)) from error
        return number

    def _drop(self, number: int) -> None:
        del self._maps[number]
        self._connection.send(DroppedSlot(number))


def _storage_error(number: int | None, problem: str) -> StorageError:
    return StorageError("shared memory of batches", problem, f"to fix this: {_REMEDY}", number)


class SlotReader:
    """The consumer's side of one worker's slots."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._lent: Released[int] = Released()

    def add(self, slot: NewSlot, connection: Connection) -> None:
        """Map a slot whose descriptor comes next. Raises StorageError, for example without free descriptors."""
        try:
            file = recv_handle(connection)
            try:
                flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
                self._maps[slot.number] = mmap.mmap(file, slot.size, flags=flags)
            finally:
                os.close(file)
        except EOFError:
            raise
        except (OSError, RuntimeError) as error:
            # RuntimeError: a descriptor was sent, but this process had none left to receive it.
            number = error.errno if isinstance(error, OSError) else errno.EMFILE
            few = "Too many open files: each batch that you keep uses an open file (`ulimit -n`)"
            raise _storage_error(number, few if number == errno.EMFILE else str(error)) from error

    def drop(self, slot: DroppedSlot) -> None:
        """Forget a slot: its memory is freed with the last array in it."""
        self._maps.pop(slot.number, None)

    def read(self, batch: SlotBatch) -> Any:
        """Return the batch with its arrays in place; writable, and valid until they are garbage-collected."""
        if batch.number is None:
            return batch.rest
        # The base of all arrays and views, which holds the memory: it is freed when the last of them is.
        root = np.frombuffer(self._maps[batch.number], np.uint8)
        self._lent.hold(root, batch.number)
        return put_together(batch.rest, [place.view(root) for place in batch.placed])

    def clear(self) -> None:
        """Forget all slots."""
        self._maps.clear()

    def released(self) -> list[int]:
        """The slots that were returned since the last call."""
        return self._lent.take()
