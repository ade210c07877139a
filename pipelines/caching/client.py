"""Reading of a split through the fetcher of this machine: the client's side of `fetcher.py`.

`read_ahead_in_order` has a split in a bucket, or a split with a limited `Cache`, read ahead in an order: by threads of
this process, or through the fetcher. The first process that needs the fetcher starts it, as a separate program, never
by a fork.
"""

import fcntl
import hashlib
import json
import math
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from shardfeed import errors
from shardfeed.budget import memory_free
from shardfeed.errors import StorageError
from shardfeed.free_space import room_in
from shardfeed.manifest import SplitOfManifest
from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder, IndexedOrder, Order, StoredOrder, StreamOrder
from shardfeed.pipelines.samples import Mixture, Samples
from shardfeed.readers.shards import Copy
from shardfeed.readers.split import Split
from shardfeed.storage import outage
from shardfeed.storage.local import open_own, storage_error
from shardfeed.storage.storage import LOCAL, LocalStorage, Storage
from shardfeed.user_warnings import warn_user

if TYPE_CHECKING:
    from shardfeed.pipelines.caching.own_reader import OwnReader

SOCKET, LOG = "fetcher.socket", "fetcher.log"
OUTAGE = "fetcher.outage"  # the warning of a bucket that does not answer, as long as it does not
_LOOK_SECONDS, _MOST_MESSAGE = 2, 10_000  # between looks for such a file, and characters of it
_claims: dict[str, socket.socket | None] = {}  # of the messages that this process has met: see `outage`
CLIENTS = "fetcher.clients"  # locked by each process that reads a temporary directory
_START_SECONDS = 60
_START_AGAIN_SECONDS = 5  # a fetcher that was just ending blocked the new one
_ANSWER_SECONDS = 600  # one window of a slow network; the fetcher's own requests end after 120 s
_RESTARTS = 5  # of a fetcher that dies during one request
_USD_PER_REQUEST = 0.4e-6  # GET, S3 Standard
_SHARED = "/dev/shm"
_WINDOWS = 4  # that must fit: see `fetcher.py`, plus one
_STREAM_BYTES = 256 << 20  # read at once by a stream: of 16 shards 8 MiB each, and the next
_started: list[subprocess.Popen[bytes]] = []
# Where a program reads, and as whom: the variables of its environment that decide this. A client sends them over the
# fetcher's socket, which only processes of its user can open. They are never stored.
_ACCESS = re.compile(
    r"(AWS|GOOGLE|AZURE|HF|IDENTITY|MSI)_\w+|SERVICE_ACCOUNT|HOME|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)"
    r"|(REQUESTS|CURL)_CA_BUNDLE",
    re.IGNORECASE,
)
# Servers, accounts, and files of credentials; no secret, and nothing that renewing credentials changes.
_LASTING = re.compile(
    r"\w+_(ENDPOINT\w*|BASE_URL|PROFILE|ROLE_ARN|(SERVICE_)?ACCOUNT|ACCOUNT_NAME|(CLIENT|TENANT)_ID|CREDENTIALS|HOME"
    r"|\w*(FILE|PATH)|SKIP_SIGNATURE)|SERVICE_ACCOUNT|HOME"
)
_SESSION = ("AWS_SESSION_TOKEN", "AWS_TOKEN")  # of temporary credentials, each of which has another access key ID


def access() -> dict[str, str]:
    """Return this process's variables; with secrets."""
    return {name: value for name, value in os.environ.items() if _ACCESS.fullmatch(name)}


def use(given: dict[str, str]) -> None:
    """Make the variables of another process this one's."""
    for name in access().keys() - given:
        del os.environ[name]
    os.environ.update(given.items() - access().items())  # only these: other threads may be reading the environment


def identity(given: dict[str, str]) -> str:
    """Return a hash of the place and the account, without secrets; the same once credentials are renewed."""
    lasting = {name: value for name, value in given.items() if value and _LASTING.fullmatch(name)}
    if not any(map(given.get, _SESSION)):
        lasting["AWS_ACCESS_KEY_ID"] = given.get("AWS_ACCESS_KEY_ID", "")
    return hashlib.blake2b(repr(sorted(lasting.items())).encode(), digest_size=8).hexdigest()


def send(connection: Connection, head: dict[str, Any], places: np.ndarray | None = None) -> None:
    """Send a message."""
    connection.send_bytes(json.dumps(head).encode() + b"\n" + (b"" if places is None else places.tobytes()))


def receive(connection: Connection) -> tuple[dict[str, Any], np.ndarray]:
    """Wait for a message: header, and places, int64 [k]. Raises EOFError, OSError if the other side is gone."""
    head, _, places = connection.recv_bytes().partition(b"\n")
    return json.loads(head), np.frombuffer(places, np.int64)


def _raise_error(head: dict[str, Any]) -> None:
    """Raise the error that an answer contains, if any."""
    if error := head.get("error"):
        kind = getattr(errors, error["kind"], StorageError)
        raise kind(error["place"], error["problem"], error["remedy"])


class _Connections:
    """Connections of this process, each for one thread at a time, and the chunks that are being read."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.name = uuid.uuid4().hex
        self.lock = threading.Lock()
        self.idle: list[Connection] = []
        self.closed = False
        self.alive: IO[bytes] | None = None  # CLIENTS
        self.access: dict[str, str] = {}  # as the fetcher knows it
        self.reading: list[int] = []
        self.of_thread = threading.local()


@dataclass(frozen=True)
class FetcherClient:
    """A `Filler` that uses the fetcher: the dataset, the location of its files, and the order that is followed, if any.

    `limit`: bytes; 0: the directory is temporary. `asked`: time of the request, s since
    this machine started, which all of its processes share: the latest one applies to all.
    `view`: place of the first sample, and the distance between samples. `held`: see `FollowedOrder`. `at_once`: bytes
    read together, in no order.
    """

    directory: str
    limit: int
    dataset: str
    split: str
    fingerprint: str
    order: IndexedOrder | None = None
    view: tuple[int, int] = (0, 1)
    share: tuple[int, int] = (0, 1)
    held: tuple[int, int] | None = None
    at_once: int = 0
    asked: float = field(default_factory=time.monotonic, compare=False)
    _held: list[_Connections] = field(default_factory=list, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": []}

    @contextmanager
    def fill(self, places: np.ndarray, *, again: bool = False) -> Iterator[None]:
        """See `Filler`. The fetcher keeps what a connection requested until it says that it was read."""
        chunk = getattr(self._of_this_process.of_thread, "chunk", None)
        with self._of_this_process.lock:
            oldest = min(self._of_this_process.reading, default=0)
        position = {} if chunk is None else {"chunk": chunk, "oldest": min(oldest, chunk)}
        connection = self._ask({**position, "again": again}, np.ascontiguousarray(places, np.int64))
        try:
            yield
        finally:
            with suppress(OSError):  # the fetcher was killed
                send(connection, {"read": True})
            self._put_back(connection)

    def fill_index(self, shard: int) -> None:
        """See `Filler`."""
        self._put_back(self._ask({"index": shard}))

    def begin(self, chunk: int) -> None:
        """Have a chunk of the order fetched that will soon be read."""
        self._put_back(self._ask({"begin": chunk}))

    @contextmanager
    def at(self, chunk: int) -> Iterator[None]:
        """A block in which a chunk of the order is read."""
        here = self._of_this_process
        with here.lock:
            here.reading.append(chunk)
        here.of_thread.chunk = chunk
        try:
            yield
        finally:
            here.of_thread.chunk = None
            with here.lock:
                here.reading.remove(chunk)

    def start(self) -> str:
        """Connect; return the directory of the split's files. Raises UsageError if the cache is too small."""
        connection, directory = self._connect()
        self._of_this_process.idle.append(connection)
        return directory

    def close(self) -> None:
        """Close the connections once they are idle. Takes no lock, because a garbage collector may call it."""
        self._of_this_process.closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._of_this_process.idle.pop().close()

    @property
    def _of_this_process(self) -> _Connections:
        """Return this process's connections: a forked process closes those that it inherited."""
        held = self._held
        if not held or held[0].process != os.getpid():
            held[:] = [_Connections()]
        return held[0]

    def _put_back(self, connection: Connection) -> None:
        here = self._of_this_process
        with here.lock:
            here.idle.append(connection)
        if here.closed:
            self.close()

    def _ask(self, head: dict[str, Any], places: np.ndarray | None = None) -> Connection:
        """Send a request, wait for the answer, and return the connection, which the caller puts back."""
        here = self._of_this_process
        for _ in range(_RESTARTS):
            with here.lock:
                connection = here.idle.pop() if here.idle else None
            if connection is None:
                connection, _directory = self._connect()
            with suppress(EOFError, ConnectionError):  # it was killed: the records that it had fetched remain
                send(connection, head, places)
                answer = self._answer(connection)
                if "error" in answer and here.access != access():  # perhaps these were renewed: connect with them
                    connection.close()
                    self._close_idle()
                    continue
                try:
                    _raise_error(answer)
                except Exception:
                    self._put_back(connection)
                    raise
                return connection
        raise self._failed(f"ended {_RESTARTS} times")

    def _answer(self, connection: Connection) -> dict[str, Any]:
        begun = time.monotonic()
        while not connection.poll(_LOOK_SECONDS):
            if time.monotonic() - begun > _ANSWER_SECONDS:
                raise self._failed(f"did not answer in {_ANSWER_SECONDS} s")
            self._pass_outage_on()
        return receive(connection)[0]

    def _pass_outage_on(self) -> None:
        """Warn, once, of a bucket that does not answer the fetcher: see `outage`."""
        with suppress(OSError):
            with open(os.path.join(self.directory, OUTAGE), encoding="utf-8", opener=open_own) as file:
                message = file.read(_MOST_MESSAGE)
            if message and message not in _claims:
                first, _claims[message] = outage.claim_to_say(message)
                if first:
                    outage.say(message)

    def _connect(self) -> tuple[Connection, str]:
        here, begun, started = self._of_this_process, time.monotonic(), -math.inf
        head: dict[str, Any] = {"dataset": self.dataset, "split": self.split, "fingerprint": self.fingerprint}
        head |= {"name": here.name, "limit": self.limit, "asked": self.asked, "at_once": self.at_once}
        head["access"] = here.access = access()
        if here.reading:
            head["chunk"] = min(here.reading)
        if self.order is not None:
            head |= {"order": self.order.to_json(), "view": self.view, "share": self.share, "held": self.held}
        while (now := time.monotonic()) < begun + _START_SECONDS:
            with suppress(EOFError, ConnectionError, FileNotFoundError):  # no fetcher is running, or it is just ending
                self._check_owner()
                connection = _connected(self.directory)
                send(connection, head)
                answer = self._answer(connection)
                _raise_error(answer)
                if not self.limit and here.alive is None:
                    here.alive = self._file(CLIENTS)  # until the end
                    fcntl.flock(here.alive, fcntl.LOCK_SH)
                return connection, answer["directory"]
            with suppress(FileNotFoundError):  # the last fetcher has just removed the directory
                if now - started > _START_AGAIN_SECONDS and self._start(anyhow=now - begun > _START_SECONDS / 2):
                    started = now
            time.sleep(0.02)
        raise self._failed(f"did not start in {_START_SECONDS} s")

    def _start(self, *, anyhow: bool) -> bool:
        """Start the fetcher, unless another process does and `anyhow` is not set; return whether it was started."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self._check_owner()
        with self._file(LOG) as log:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # open as long as the new process, which logs to it
            except BlockingIOError:
                if not anyhow:
                    return False
            # -P: without the modules of the working directory, whose names may be those of others.
            command = [sys.executable, "-P", "-m", "shardfeed.pipelines.caching.fetcher"]
            command += [self.directory, str(self.limit)]
            # NumPy's threads for linear algebra, which it does not use, would wait in a loop for a tenth of a second.
            environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        _started[:] = [other for other in _started if other.poll() is None]
        _started.append(process)
        return True

    def _file(self, name: str) -> IO[bytes]:
        path = os.path.join(self.directory, name)
        try:
            return open(path, "ab", opener=open_own)
        except FileNotFoundError:  # the directory was just removed
            raise
        except OSError as error:
            raise storage_error(path, "open", error) from error

    def _check_owner(self) -> None:
        """Raise StorageError if a temporary directory, whose name is predictable, does not belong to this user."""
        if not self.limit and os.lstat(self.directory).st_uid != os.getuid():
            raise _of_another_user(self.directory)

    def _failed(self, problem: str) -> StorageError:
        return StorageError(self.directory, f"the fetcher {problem}", f"see {LOG} there")


def _of_another_user(directory: str) -> StorageError:
    return StorageError(
        directory, "belongs to another user", "ask its owner to remove it, or use cached(...) with another directory"
    )


def _connected(directory: str) -> Connection:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    client = socket.socket(socket.AF_UNIX)
    try:
        with suppress(PermissionError):
            client.connect(f"/proc/self/fd/{folder}/{SOCKET}")  # short, however long the directory's name is
        _, user, _ = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.getuid():  # it would get this user's credentials
            raise _of_another_user(directory)
        return Connection(client.detach())
    finally:
        client.close()
        os.close(folder)


def read_ahead_in_order(
    samples: Samples, order: Order, *, part: int = 0, parts: int = 1, threads: bool = False
) -> Samples:
    """The samples, read through the fetcher in this order if they are in a bucket, or in a cache with a limit.

    `part` of `parts`: the share of each batch that this process reads. `threads`: only threads of this process read;
    then, if it is the only one and has the memory, it reads a bucket ahead itself, but for a stream.

    Raises UsageError if the cache is too small for the order, StorageError if there is no room.
    """
    if isinstance(samples, Mixture):
        held = pairwise(accumulate(map(len, samples.parts), initial=0))
        options: Any = {"alone": threads and parts == 1}
        read = [_read_split(*each, order, (part, parts), **options) for each in zip(samples.parts, held, strict=True)]
        return replace(samples, parts=tuple(read))
    if isinstance(samples, Split):
        return _read_split(samples, None, order, (part, parts), alone=threads and parts == 1)
    return samples


def _read_split(
    split: Split, held: tuple[int, int] | None, order: Order, share: tuple[int, int], *, alone: bool
) -> Split:
    shards, view = split.shards, (split.place(0), 1) if split.contiguous and len(split) else None
    window = _STREAM_BYTES // _WINDOWS
    if shards.copy is None and _of_a_url(shards.storage):
        if isinstance(order, IndexedOrder):
            window = order.chunk * split.record_bytes // max(1, len(split))
        if not isinstance(order, BlockOrder | StoredOrder | StreamOrder):
            _warn_of_requests(split, order)
        fingerprint = split.whole_split.fingerprint
        filler = FetcherClient(_temporary(split, window), 0, shards.directory, split.name, fingerprint)
    elif shards.copy is not None and isinstance(shards.copy.filler, FetcherClient):
        filler = replace(shards.copy.filler)  # with connections of its own
    else:
        return split
    if view is not None and isinstance(order, IndexedOrder):
        filler = replace(filler, order=order, view=view, share=share, held=held)
        if alone and not filler.limit and memory_free() >= _WINDOWS * window:
            from shardfeed.pipelines.caching import own_reader, sparse  # not above: a local dataset needs no client

            directory = sparse.copy_directory(filler.directory, split.whole_split)
            following = sparse.FollowedOrder(order, *view, *share, held=held)
            return split.reading(own_reader.OwnReader(shards, following, _copy(split, directory, filler), access))
    elif isinstance(order, StreamOrder):
        filler = replace(filler, at_once=min(_STREAM_BYTES, split.record_bytes))
    return attach(split, filler)


def _warn_of_requests(split: Split, order: Order) -> None:
    requests = min(order.epoch_samples, len(split))
    blocks = 'order="blocks", or ' if isinstance(order, GlobalOrder) else ""  # which a mixture or balance has not
    message = (
        f"split {split.name}: the {order.kind} order reads a bucket sample by sample, {requests:,} requests per epoch: "
        f"{requests * _USD_PER_REQUEST:.2f} USD at {1e6 * _USD_PER_REQUEST:.2f} USD per million, and S3 answers 5,500 "
        f"per second and prefix. Fewer: {blocks}cached(split, Cache(DIR, limit=...))"
    )
    warn_user(message, RuntimeWarning)


def _of_a_url(storage: Storage) -> bool:
    if isinstance(storage, LocalStorage):
        return False
    from shardfeed.storage.objects import ObjectStorage  # not above: a local dataset needs no client

    return isinstance(storage, ObjectStorage)


def attach(split: Split, filler: FetcherClient) -> Split:
    """The split, read through a filler."""
    info, directory = split.shards.info, filler.start()
    info.shards.found_in(SplitOfManifest(directory, info.name, LOCAL))  # workers read it here, not over the network
    return split.reading(_copy(split, directory, filler))


def _copy(split: Split, directory: str, filler: FetcherClient) -> Copy:
    return Copy(directory, split.shards.info, range(len(split.shards.info.shards)), decoded=False, filler=filler)


def close_clients(samples: Samples) -> None:
    """Stop keeping records for a loader that is gone."""
    for client in _clients(samples):
        client.close()


def _clients(samples: Samples) -> "list[FetcherClient | OwnReader]":
    """Return what reads each split ahead; no other has `limit`, `order`, `begin`, `at` and `close`."""
    parts = samples.parts if isinstance(samples, Mixture) else (samples,)
    shards = [part.shards.of_this_process for part in parts if isinstance(part, Split)]
    fillers: list[Any] = [each.ahead or (each.copy and each.copy.filler) for each in shards]
    return [filler for filler in fillers if filler is not None]


def reads_in_turn(samples: Samples, order: Order) -> bool:
    """Whether a process must read one batch after the other: where a limited cache follows windows of blocks.

    It may have removed what is read later than a batch of the next window, and would fetch it again.
    """
    return isinstance(order, BlockOrder) and any(client.limit for client in _clients(samples))


def chunk_of(order: IndexedOrder, step: int) -> int:
    """The chunk in which a step of the run begins; both are counted over all epochs."""
    epoch, number = divmod(step, order.steps_per_epoch)
    return epoch * order.chunks_per_epoch + number * order.batch_size // order.chunk


def begin_reading(samples: Samples, chunk: int) -> None:
    """Have the first chunk fetched, while the processes that will read it start."""
    for client in _clients(samples):
        if client.order is not None:
            client.begin(chunk)


@contextmanager
def reading(samples: Samples, chunk: int | None) -> Iterator[None]:
    """A block in which a chunk of the order, counted over all epochs, is read: the next chunks are fetched ahead."""
    with ExitStack() as stack:
        for client in _clients(samples):
            if client.order is not None and chunk is not None:
                stack.enter_context(client.at(chunk))
        yield


def temporary_prefix() -> str:
    """Return how the names of this user's temporary directories begin."""
    return f"shardfeed-{os.getuid()}-"


def _temporary(split: Split, window: int) -> str:
    """A directory in memory, or on the disk, for windows of this size. Raises StorageError if neither has room."""
    what = f"{split.shards.directory} {split.whole_split.fingerprint} {identity(access())}"
    name = f"{temporary_prefix()}{hashlib.blake2b(what.encode(), digest_size=8).hexdigest()}"
    in_memory = os.path.join(_SHARED, name)
    # An existing directory has its space: another rank must not use a different one and fetch everything again.
    if os.path.isdir(in_memory) or (os.path.isdir(_SHARED) and room_in(_SHARED).free >= _WINDOWS * window):
        return in_memory
    remedy = "Blocks(buffer=...) with a smaller buffer, cached(split, Cache(DIR, limit=...))"
    room_in(tempfile.gettempdir()).check(_WINDOWS * window, remedy)
    return os.path.join(tempfile.gettempdir(), name)
