"""Start of worker processes: without the caller's script, unaffected by Ctrl-C, ended with their parent."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Annotated, Any, Literal

from shardfeed.declared import Range
from shardfeed.errors import UsageError, WorkerLostError

# Not fork: it copies the locks of whatever threads the caller has running. See `single_threaded`.
StartMethod = Literal["spawn", "forkserver"]

MOST_WORKERS = 4096  # on one machine: none has more CPUs. A typing mistake would start processes until memory runs out.
WorkerCount = Annotated[int, Range(1, MOST_WORKERS)]

GUARD = 'put the code of the script under `if __name__ == "__main__":`'  # what workers import must not start others
_OUT_OF_MEMORY = {int(signal.SIGKILL): "memory", int(signal.SIGBUS): "shared memory (/dev/shm)"}

client_process: int | None = None  # which has used obstore, whose threads no fork copies


def forked_after_use() -> bool:
    """Whether this process was forked from one that had used obstore: then neither it nor a fork of it can."""
    return client_process not in (None, os.getpid())


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


def in_daemon() -> bool:
    """Whether this process is a daemon, as those of multiprocessing.Pool and the workers of a DataLoader are."""
    return bool(multiprocessing.current_process().daemon)


def check_may_start(argument: str, *, remedy: str = "") -> None:
    """Raise UsageError, which names `argument` and begins its advice with `remedy`, if no processes can be started."""
    if in_daemon():
        problem = "this process is a daemon, like those of multiprocessing.Pool, and cannot start processes"
        raise UsageError(argument, problem, f"{remedy}use concurrent.futures.ProcessPoolExecutor instead of a Pool")
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing itself looks
        sys.tracebacklimit = 0  # this process ends, and the one that waits for it shows a traceback
        raise UsageError(argument, "this process is a worker, which imports the script that has started it", GUARD)


def loss(place: object, code: int | None, guard: str = "") -> WorkerLostError:
    """The error for a worker whose process has ended with `code`, as `Process.exitcode`; None: not known.

    `guard`: the remedy if it has imported the caller's script, and may have ended there.
    """
    how, remedy = "" if code is None else f" with exit code {code}", "its stderr may say why"
    if code is not None and code < 0:
        how = f" by signal {signal.Signals(-code).name}"
        if short := _OUT_OF_MEMORY.get(-code):
            remedy = f"usually because {short} ran out: use fewer workers"
    elif code in (1, None) and guard:
        remedy = f"{guard}; if it is already, its stderr says why"
    return WorkerLostError(place, f"its process ended{how}", remedy)


def single_threaded() -> bool:
    """Whether this process has no other thread, of Python or of a library; False if unknown.

    Then no other thread holds a lock that would stay locked after a fork.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Start processes that do not import the caller's script again, for work that needs nothing of it.

    Both start methods run it a second time in each child: a one-off script without an `if __name__ == "__main__"` guard
    would start workers from its workers, and each would import TensorFlow because the script does.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        main.__file__ = None
        main.__spec__ = None
        yield
    finally:
        for name in ("__file__", "__spec__"):
            if name in hidden:
                setattr(main, name, hidden[name])
            else:
                delattr(main, name)


@contextlib.contextmanager
def signals_later(*, fork: bool = False) -> Iterator[None]:
    """Start a process undisturbed: Ctrl-C reaches the whole group, and either side would print a traceback.

    The child has SIGINT blocked from its first instruction until it ignores it. Here a signal waits for its handler: a
    mask is not enough, as another thread (numpy has some) takes the signal and Python still runs the handler here.
    """
    if not fork:  # which has no use for it
        resource_tracker.ensure_running()  # not below: it unblocks SIGINT
    waiting: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # handlers run there, and only it may set them
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda number, frame: waiting.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in waiting:
            signal.raise_signal(number)


_lifelines: weakref.WeakSet[Connection] = weakref.WeakSet()


def hold_lifeline(end: Connection) -> None:
    """Keep `end` out of forks of this process: a worker detects the end of this process by its closing."""
    _lifelines.add(end)


def _close_lifelines() -> None:
    for end in list(_lifelines):
        end.close()


os.register_at_fork(after_in_child=_close_lifelines)


_M_ARENA_MAX = -8  # malloc.h

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 << 20  # bytes, freed at the end of the heap, before any are given back; in a process of our own
_KEPT_BY_LOADERS = 64 << 20  # the same where batches are read: what glibc keeps once a program has freed 32 MB at once
_MAPPED = 32 << 20  # bytes: larger blocks are mapped on their own and given back at once; glibc's greatest value


def keep_heap(*, loader: bool = False) -> None:
    """Make malloc keep freed memory instead of returning it after each image and faulting it in again.

    That took a third of the system time of writing a shard, and two fifths of the CPU time of reading batches of 64
    records of 65 kB. A `loader`, whose process is the user's, keeps less. If the environment sets these thresholds
    (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, GLIBC_TUNABLES), or the C library is not glibc, nothing happens.
    """
    set_there = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys()
    if set_there or "_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BY_LOADERS if loader else _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED)


def limit_arenas(cpus: int) -> None:
    """Limit malloc to `cpus` arenas for all threads of this process from now on, at least 2, instead of 8 per core.

    Each iteration reads with new threads, and malloc gives each a new arena, which keeps the memory of all records ever
    read in it: a shuffle buffer of 260 MB took 2.6 GB after some epochs on 2 cores, and 0.7 with 2 arenas. If the
    environment sets their number (MALLOC_ARENA_MAX, GLIBC_TUNABLES), or the C library is not glibc, nothing happens.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, max(2, cpus))


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm with these options, on a terminal and in a notebook; elsewhere one that prints nothing."""
    from tqdm.auto import tqdm  # not above: most processes show no bar

    return tqdm(disable=False if in_notebook() else None, **options)
