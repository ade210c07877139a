"""A worker process: it watches for its parent's end, takes shards, answers with receipts or errors.

It watches before its other imports, which take a second, more on a busy machine: this module needs none of them.
"""

import os
import resource
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from shardfeed import foreign
from shardfeed.budget import no_numpy_threads
from shardfeed.errors import UsageError
from shardfeed.processes import keep_heap

if TYPE_CHECKING:
    from shardfeed.converters.shards.task import ShardTask

# The same on every machine, as it decides what is rejected. A legitimate image of MAX_PIXELS with alpha, the most
# expensive kind, takes less than half of it: docs/design/006-conversion.md has the figures.
ALLOWANCE = 6 << 30  # bytes, above the worker's memory at its start


def limit_memory(allowance: int = ALLOWANCE) -> None:
    """Let this process take `allowance` bytes more than it has; beyond that allocations fail (MemoryError).

    Counted is private memory that can be written, not files that are mapped, not address space that is only reserved.
    A lower limit of the system's stays. For processes of our own; where the system is not Linux, nothing happens.
    """
    # Where the limit cannot be set a worker works without it, as it did before there was one.
    with suppress(OSError, ValueError):
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[5])  # data and stack, which count against RLIMIT_DATA
        limit = pages * os.sysconf("SC_PAGE_SIZE") + allowance
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = min([limit, *(given for given in (soft, hard) if given != resource.RLIM_INFINITY)])
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@contextmanager
def limited_memory(allowance: int) -> Iterator[None]:
    """A block in which this process may take `allowance` bytes more than it has; see `limit_memory`."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_memory(allowance)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


IDLE = (-1, 0, 0, 0)  # the words of a board at first
IMPORTABLE = "define the class or function in a module that workers can import, not in the script itself"


class Board:
    """Progress that a worker shares with its parent, without locks: each field has one writer and is one word.

    `words`: int64 array in shared memory: place in the shard, its start in ns, images and their bytes so far.
    """

    def __init__(self, words: Any) -> None:
        self.words = words

    def start(self, place: int, size: int) -> None:
        if place > 0 and place == self.words[0] + 1:  # else it is the first, of a shard that was begun before
            self.words[2] += 1
            self.words[3] += size
        self.words[1] = time.monotonic_ns()
        self.words[0] = place

    def idle(self) -> None:
        self.words[0] = -1

    @property
    def place(self) -> int:
        return self.words[0]

    @property
    def seconds(self) -> float:
        return (time.monotonic_ns() - self.words[1]) / 1e9

    @property
    def done(self) -> tuple[int, int]:
        return self.words[2], self.words[3]


def work(tasks: Connection, words: Any) -> None:
    """Answer each ShardTask with (receipt, error, traceback) until the parent closes the pipe; `words` as of Board."""
    # Not at the top: the process that starts workers does not need these.
    from shardfeed.converters.shards.write_shard import write_shard

    keep_heap()
    limit_memory()
    board = Board(words)
    while True:
        try:
            task: ShardTask = tasks.recv()
        except EOFError:
            return
        except (Exception, SystemExit) as error:  # for example, the sample's own class cannot be imported here
            problem = f"its samples cannot be pickled for workers: {foreign.words(error)}"
            tasks.send((None, UsageError("source", problem, IMPORTABLE), ""))
            continue
        try:
            receipt = write_shard(task, board.start)
        except Exception as error:
            board.idle()
            tasks.send((None, error, traceback.format_exc()))
        else:
            board.idle()
            tasks.send((receipt, None, ""))


def work_with_parent(lifeline: Connection, tasks: Connection, words: Any) -> None:
    """Run a worker (see `work` for the arguments) that ends as soon as the other end of `lifeline` closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    no_numpy_threads()

    work(tasks, words)


def _leave_with_parent(lifeline: Connection) -> None:
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(0)
