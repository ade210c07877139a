"""The fetcher reads for all processes of a machine: `python -m shardfeed.pipelines.caching.fetcher DIR LIMIT`.

Only the fetcher uses the network. Trainers and their workers request records over a socket in DIR, and read the local
files that the fetcher fills: so they can fork safely, and nothing is fetched twice. It ends when nobody has been
connected for some seconds. A lock on DIR/fetcher.lock, released when it dies, prevents a second fetcher.

A message is a JSON object, followed by the places of records: see `client.py`.
"""

import fcntl
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError
from shardfeed.manifest import read_manifest
from shardfeed.naming import dataset_name
from shardfeed.pipelines.caching.client import (
    CLIENTS,
    LOG,
    OUTAGE,
    SOCKET,
    identity,
    receive,
    send,
    temporary_prefix,
    use,
)
from shardfeed.pipelines.caching.sparse import (
    CacheSpace,
    CopyReader,
    FollowedOrder,
    SparseCopy,
    free_range,
    leftovers_in,
)
from shardfeed.pipelines.orders.order import IndexedOrder
from shardfeed.pipelines.orders.position import order_from_json
from shardfeed.processes import keep_heap
from shardfeed.readers.dataset import Dataset
from shardfeed.storage import outage
from shardfeed.storage.address import located
from shardfeed.storage.local import open_own
from shardfeed.storage.own_files import remove_created
from shardfeed.storage.temporary import remove_abandoned
from shardfeed.text import size_text

LOCK = "fetcher.lock"
_IDLE_SECONDS = 10
_LEAST_BYTES = 256 << 20  # of a temporary directory, for reads without an order
_AT_ONCE = 3  # chunks that must fit: one being read, one fetched ahead, one still used by a slower reader


def _error(error: Exception) -> dict[str, Any]:
    if not isinstance(error, ShardfeedError):
        traceback.print_exception(error)
        error = StorageError(os.getcwd(), f"{type(error).__name__} in the fetcher", f"see {LOG} there")
    parts = {"place": error.place, "problem": error.problem, "remedy": error.remedy}
    return {"error": {"kind": type(error).__name__, **parts}}


class _Fetcher:
    """Datasets, and the sparse copies of their splits, in one directory."""

    def __init__(self, directory: str, limit: int) -> None:
        self.directory, self.temporary = directory, limit == 0
        self.room = CacheSpace(limit, leftovers_in(directory), hard=not self.temporary)
        self.connected = 0
        self._asked = 0.0  # when the current limit was requested
        self._lock = threading.Lock()
        self._copies: dict[tuple[str, str, str], SparseCopy] = {}
        # Environments of clients, by dataset, place and account: one that is not there yet has newer credentials.
        self._seen: dict[Hashable, list[dict[str, str]]] = {}

    def serve(self, connection: Connection) -> None:
        """Serve a connection, in a thread of its own, until it is closed."""
        with self._lock:
            self.connected += 1
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        reader: CopyReader | None = None
        copy: SparseCopy | None = None
        try:
            while True:
                head, places = receive(connection)
                if "read" in head and copy is not None:
                    copy.leave()
                    continue
                answer: dict[str, Any] = {}
                try:
                    if copy is None:
                        copy = self._copy(head)
                        reader = self._reader(copy, head)
                        answer = {"directory": copy.directory}
                    else:
                        assert reader is not None
                        if "chunk" in head:
                            reader.oldest, reader.newest = head["oldest"], head["chunk"]
                        self._answer(copy, reader, head, places)
                except Exception as error:
                    answer = _error(error)
                send(connection, answer)
        except (EOFError, OSError):
            pass
        finally:
            if copy is not None:
                copy.leave()
            with self._lock:
                self.connected -= 1
                if copy is not None and reader is not None:
                    reader.connections -= 1
                    if not reader.connections:
                        copy.readers.pop(reader.name, None)
                        self._size()
            connection.close()

    def _answer(self, copy: SparseCopy, reader: CopyReader, head: dict[str, Any], places: np.ndarray) -> None:
        if "index" in head:
            copy.read_indexes({head["index"]}, reader)
        elif "begin" in head:
            copy.begin(reader, head["begin"])
        elif head.get("again"):
            copy.again(places, reader)
        else:
            copy.fill(places, reader, ahead="chunk" in head)

    def _copy(self, head: dict[str, Any]) -> SparseCopy:
        """The copy of the split that a reader names, opened when it is first named, and with each new credentials."""
        address, split, fingerprint, given = head["dataset"], head["split"], head["fingerprint"], head["access"]
        key, source = (dataset_name(address), split, fingerprint), (address, identity(given))
        with self._lock:
            seen = self._seen.setdefault((key, source), [])
            if given in seen:
                self._copies[key].renew(source)
                return self._copies[key]
            use(given)
            storage, directory = located(address)
            dataset = Dataset(directory, read_manifest(directory, storage), storage)  # `open` compared its files
            if split not in dataset or dataset[split].whole_split.fingerprint != fingerprint:
                problem = "replaced by another dataset since it was opened"
                raise IntegrityError(address, problem, "open it again")
            if key not in self._copies:
                self._copies[key] = SparseCopy(self.directory, dataset, split, self.room)
            self._copies[key].sources[source] = dataset[split].whole_split.shards
            seen.append(given)
            return self._copies[key]

    def _reader(self, copy: SparseCopy, head: dict[str, Any]) -> CopyReader:
        """The process that a connection belongs to. The limit that was requested last applies from now on.

        Raises UsageError if the cache is too small for all readers.
        """
        following = None
        if "order" in head:
            order = order_from_json(head["order"])
            assert isinstance(order, IndexedOrder)
            held = head["held"] and tuple(head["held"])
            following = FollowedOrder(order, *head["view"], *head["share"], held=held)
            if following.whole:  # by all ranks: its chunks need space only once
                following = replace(following, part=0)
        with self._lock:
            before = self.room.limit, self._asked
            if not self.temporary and head["asked"] > self._asked:
                self.room.limit, self._asked = head["limit"], head["asked"]
            reader = copy.readers.setdefault(
                head["name"], CopyReader(head["name"], following, head.get("chunk"), head.get("chunk"))
            )
            reader.at_once, reader.source = head["at_once"], (head["dataset"], identity(head["access"]))
            reader.connections += 1
            try:
                self._size()
            except UsageError:
                self.room.limit, self._asked = before
                reader.connections -= 1
                if not reader.connections:
                    del copy.readers[reader.name]
                raise
        if not self.temporary:
            self.room.shrink()
        return reader

    def _size(self) -> None:
        """Set the size of a temporary directory by its readers' needs, or compare these with the limit."""
        needed = 0
        for copy in self._copies.values():
            size = copy.split.record_bytes
            needed += sum(reader.at_once for reader in copy.readers.values())
            for following in {reader.following for reader in copy.readers.values()}:
                if following is None:
                    continue
                if not following.whole and following.held is None and not self.temporary:
                    needed += size  # any sample may come next
                else:
                    samples = (_AT_ONCE - 1 + following.ahead) * following.order.chunk
                    needed += min(size, size * samples // max(1, len(copy.split)))
        if self.temporary:
            self.room.limit = max(needed, _LEAST_BYTES)
        elif needed > self.room.limit:
            problem = f"got limit={size_text(self.room.limit)!r}, expected at least {size_text(needed)} for all readers"
            raise UsageError("cache", problem, "give a larger limit, or order=Blocks(buffer=...) with a smaller buffer")


def _check_holes(directory: str) -> None:
    """Raise StorageError if parts of files cannot be removed."""
    path = os.path.join(directory, f"hole-{os.getpid()}")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.pwrite(fd, b"1" * (1 << 16), 0)
            free_range(fd, 0, 1 << 16)
        finally:
            os.close(fd)
            os.unlink(path)
    except OSError as error:
        problem = f"its file system cannot free parts of files: {error.strerror}"
        raise StorageError(directory, problem, "use a directory on ext4, XFS, Btrfs or in /dev/shm") from error


def _remove(directory: str) -> None:
    """Remove what fetchers have created in an unused directory, whose lock is held, and then itself if it is empty."""
    with suppress(OSError):
        for copy in leftovers_in(directory):
            remove_created(copy)
        for name in (SOCKET, CLIENTS, LOG, OUTAGE, LOCK):  # the lock last: then the next fetcher can start
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _keep_message(message: str) -> None:
    """Keep a warning in a file, for the readers that wait; with the working directory as in `main`."""
    new = f"{OUTAGE}.new"
    with suppress(OSError):
        with suppress(FileNotFoundError):
            os.unlink(new)
        file = open_own(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(file, message.encode("utf-8", "replace"))
        os.close(file)
        os.replace(new, OUTAGE)


def _remove_message() -> None:
    with suppress(OSError):
        os.unlink(OUTAGE)


def main(directory: str, limit: int) -> int:
    """Serve until nobody has been connected for some seconds. `limit`: 0 for a directory that is removed afterwards."""
    try:
        os.chdir(directory)  # the name of a socket must be short
        lock = open_own(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(os.path.join(directory, LOCK)).st_ino != os.fstat(lock).st_ino:
            return 0
    except (BlockingIOError, FileNotFoundError):
        return 0  # another fetcher was faster, or has just removed the directory
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the readers
    keep_heap()  # each response has some 8 MB: returned pages would have to be cleared again
    _check_holes(directory)
    outage.say, outage.over = _keep_message, _remove_message
    _remove_message()  # of a fetcher that was killed
    fetcher = _Fetcher(directory, limit)
    if fetcher.temporary:
        # Those whose fetcher was killed together with all its readers.
        remove_abandoned(os.path.dirname(directory), temporary_prefix(), [LOCK, CLIENTS], _remove, spare=directory)
    server = socket.socket(socket.AF_UNIX)
    with suppress(FileNotFoundError):
        os.unlink(SOCKET)  # of a fetcher that was killed
    os.umask(0o077)
    server.bind(SOCKET)
    server.listen(128)
    server.settimeout(1)
    idle = time.monotonic()
    while time.monotonic() - idle < _IDLE_SECONDS:
        with suppress(TimeoutError):
            client, _ = server.accept()
            client.setblocking(True)
            fetcher.serve(Connection(client.detach()))
        if fetcher.connected:
            idle = time.monotonic()
    os.unlink(SOCKET)
    if fetcher.temporary:
        _remove(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
