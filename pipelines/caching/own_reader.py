"""Reading ahead within the trainer: where only its threads read a bucket, in an order, records need no shared memory.

A fetcher would write each record to /dev/shm, which takes longer than to receive it, and a process would have to start.
Processes that get such a split by a fork or a pickle read it through the fetcher: see `Shards.of_this_process`.
"""

import copy
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from shardfeed.errors import RecordError, StorageError
from shardfeed.pipelines.caching.sparse import AT_ONCE, FollowedOrder, requests
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.readers.shards import Copy, Shards

T = TypeVar("T")
_KEPT_BYTES = 256 << 20  # of records, in this process, that were read: those of a small split are not fetched again


@dataclass(eq=False)
class _Piece:
    """Adjacent records of a shard, from `place` on, of one request. `needed`: the last chunk that needs them."""

    place: int
    count: int
    size: int  # bytes
    needed: int
    payloads: Future[list[bytes]] = field(default_factory=Future)


class OwnReader:
    """Reads a split in an order for the threads of this process: see `ReadsAhead`. Thread-safe.

    `access` returns the variables of the environment that say where and as whom it reads; `client`, which has it,
    imports this module.
    """

    limit = 0  # bytes: no cache is filled

    def __init__(
        self, shards: Shards, following: FollowedOrder, elsewhere: Copy, access: Callable[[], dict[str, str]]
    ) -> None:
        self.process, self.elsewhere = os.getpid(), elsewhere
        self.order: IndexedOrder = following.order
        self._shards, self._following = shards, following
        self._access, self._given = access, access()
        self._lock, self._planning = threading.Lock(), threading.Lock()
        self._reading: list[int] = []
        self._of_thread = threading.local()
        self._pieces: dict[int, _Piece] = {}
        # Of the newest piece with each record; it may be gone.
        self._number = np.full(int(shards.firsts[-1]), -1, np.int32)
        self._made = self._held = 0  # pieces that there were; bytes of those that there are
        self._chunks: dict[int, Future[None]] = {}  # whether the requests of a chunk are made
        self._closed = False
        self._pool = _pool()
        _READERS[id(self)] = self
        self._with_access(lambda shards: shards.view(0))  # an error is raised here, not in a thread or in tf.data

    def payloads(self, places: np.ndarray) -> list[bytes]:
        """The records at `places`, int64 [k]: those fetched ahead, and others by requests of their own."""
        chunk: int | None = getattr(self._of_thread, "chunk", None)
        found, missing = [b""] * len(places), np.arange(len(places))
        for wanted in () if chunk is None else (chunk, chunk + 1):  # a batch may end in the next chunk
            if len(missing):
                self._begin(wanted).result()
                missing = self._take(places, missing, found)
        if len(missing):
            payloads = self._with_access(lambda shards: shards.payloads(places[missing]))
            for row, payload in zip(missing.tolist(), payloads, strict=True):
                found[row] = payload
        return found

    def _with_access(self, read: Callable[[Shards], T]) -> T:
        """Return what `read` returns; after an error once more, if this process's credentials were renewed."""
        shards = self._shards
        try:
            return read(shards)
        except StorageError:
            with self._lock:
                if shards is self._shards:
                    if self._given == (now := self._access()):
                        raise
                    self._shards = Shards(shards.directory, shards.info, storage=copy.copy(shards.storage))
                    self._given = now
            return read(self._shards)

    def _take(self, places: np.ndarray, rows: np.ndarray, found: list[bytes]) -> np.ndarray:
        """Find the records at some `rows` of `places` in the pieces; return the rows of those that are in none."""
        numbers, pieces = self._pieces_of(places[rows])
        missing = numbers < 0
        for number, piece in pieces.items():
            of_piece, earlier = numbers == number, piece.payloads.done()
            try:
                payloads = piece.payloads.result()
            except (RecordError, CancelledError):  # requests for each will show which of them are damaged
                missing |= of_piece
                continue
            except Exception:
                self._forget([number])
                if not earlier:
                    raise
                missing |= of_piece  # the error is of a fetch ahead, and may be over: it is asked for again
                continue
            for row in rows[of_piece].tolist():
                found[row] = payloads[int(places[row]) - piece.place]
        return rows[missing]

    def _pieces_of(self, places: np.ndarray) -> tuple[np.ndarray, dict[int, _Piece]]:
        """The number of the piece with each record, int64 [k], or -1; and these pieces."""
        with self._lock:
            numbers, held = self._number[places], self._pieces
            pieces = {number: held[number] for number in set(numbers.tolist()) if number in held}
        return np.where(np.isin(numbers, list(pieces)), numbers, -1), pieces

    def begin(self, chunk: int) -> None:
        """Have a chunk fetched that will soon be read."""
        self._begin(chunk)

    @contextmanager
    def at(self, chunk: int) -> Iterator[None]:
        """A block in which this thread reads a chunk of the order; the next ones are fetched meanwhile."""
        with self._lock:
            self._reading.append(chunk)
        self._of_thread.chunk = chunk
        first, follows = self._begin(chunk), chunk - 1 in self._chunks or not self._following.whole
        for later in range(chunk + 1, chunk + 1 + self._following.ahead):
            self._begin(later, None if follows else first)
        try:
            yield
        finally:
            self._of_thread.chunk = None
            with self._lock:
                self._reading.remove(chunk)
                oldest = min([*self._reading, chunk])
                self._chunks = {number: begun for number, begun in self._chunks.items() if number >= oldest}
            over = self._held if self._closed else sum(reader._held for reader in _readers()) - _KEPT_BYTES
            if over > 0:
                with self._lock:
                    used = [
                        (piece.needed, at, piece.size) for at, piece in self._pieces.items() if piece.needed < oldest
                    ]
                for _, number, size in sorted(used):
                    if over > 0:
                        over -= size
                        self._forget([number])

    def _begin(self, chunk: int, after: Future[None] | None = None) -> Future[None]:
        """Have a chunk requested, once the first one has arrived, if that is given: a reader waits for all of it."""
        with self._lock:
            begun = self._chunks.get(chunk)
            if begun is None or (begun.done() and begun.exception() is not None):
                begun = self._chunks[chunk] = Future()
                task = chunk, begun, after, chunk - 1 not in self._chunks
                try:
                    threading.Thread(target=self._request, args=task, name="shardfeed-ahead").start()
                except BaseException as error:  # there may be no more threads: others must not wait for this one
                    begun.set_exception(error)
                    raise
            return begun

    def _request(self, chunk: int, begun: Future[None], after: Future[None] | None, soon: bool) -> None:
        try:
            if after is not None:
                after.result()
                for piece in list(self._pieces.values()):
                    piece.payloads.exception()
            with self._planning:
                if after is None or self._chunks.get(chunk) is begun:  # else the loader has ended meanwhile
                    self._divide(self._following.places(chunk), chunk, soon=soon)
            begun.set_result(None)
        except BaseException as error:
            begun.set_exception(error)

    def _divide(self, places: np.ndarray, chunk: int, *, soon: bool) -> None:
        """Request records, in the order of their use, that are in no piece yet; see `requests`."""
        numbers, held = self._pieces_of(places)
        for piece in held.values():
            piece.needed = max(piece.needed, chunk)
        if not (numbers < 0).any():
            return
        failed: list[BaseException] = []
        places, shards = places[numbers < 0], self._shards
        touched = np.unique(np.searchsorted(shards.firsts, places, "right") - 1).tolist()
        self._with_access(lambda shards: shards.read_indexes(touched))
        shards = self._shards
        for shard, row, count, size in requests(shards, places, soon=soon):
            place = int(shards.firsts[shard]) + row
            piece = _Piece(place, count, size, chunk)
            with self._lock:
                number = self._made
                self._pieces[number], self._made, self._held = piece, number + 1, self._held + piece.size
                self._number[place : place + count] = number
            try:
                self._pool.submit(self._fetch, number, piece, failed)
            except BaseException as error:  # at the end of the program
                piece.payloads.set_exception(error)
                raise

    def _fetch(self, number: int, piece: _Piece, failed: list[BaseException]) -> None:
        """Fetch a piece, unless an earlier one of its chunk `failed`: without a network each would take as long."""
        if number not in self._pieces:  # the loader has ended, and others wait for these threads
            piece.payloads.cancel()
            return
        try:
            if failed:
                raise failed[0]
            if not threading.main_thread().is_alive():
                raise StorageError(self._shards.directory, "is not read, because the program ends")
            places = np.arange(piece.place, piece.place + piece.count)
            piece.payloads.set_result(self._with_access(lambda shards: shards.payloads(places)))
        except BaseException as error:
            if not isinstance(error, RecordError):
                failed.append(error)
            piece.payloads.set_exception(error)

    def _forget(self, numbers: list[int]) -> None:
        with self._lock:
            for number in numbers:
                if (piece := self._pieces.pop(number, None)) is not None:
                    self._held -= piece.size

    def close(self) -> None:
        """Keep nothing that is not being read. Takes no lock, because a garbage collector may call it."""
        self._closed, self._pieces, self._chunks, self._held = True, {}, {}, 0


_POOLS: weakref.WeakValueDictionary[str, ThreadPoolExecutor] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    """Return the threads of all readers of this process; one that was forked from it makes no reader.

    Only readers refer to them, so that they end with the last one.
    """
    with _LOCK:
        pool = _POOLS.get("shardfeed-fetch")
        if pool is None:
            pool = _POOLS["shardfeed-fetch"] = ThreadPoolExecutor(AT_ONCE, "shardfeed-fetch")
        return pool


_READERS: weakref.WeakValueDictionary[int, OwnReader] = weakref.WeakValueDictionary()  # of this process, by id


def _readers() -> list[OwnReader]:
    return [reader for each in _READERS.valuerefs() if (reader := each()) is not None]
