"""Copying of many files at once, by threads that help with a large file's parts when no other file is left."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from functools import partial

from shardfeed.storage.storage import FileInfo

AT_ONCE = 16  # requests, each with at most a part of 16 MiB in memory

# Calls a function for each number, in any order. Raises its first error, once no call is under way.
Share = Callable[[Callable[[int], object], Iterable[int]], None]


def alone(work: Callable[[int], object], numbers: Iterable[int]) -> None:
    """The `Share` without other threads."""
    for number in numbers:
        work(number)


def transfer(
    copy: Callable[[str, FileInfo, Share], bool],
    files: Mapping[str, FileInfo],
    progress: Callable[[int], object] | None,
) -> int:
    """Call `copy` for each file, some at once, and `progress` with its size; return how many were copied.

    After an error of a file, those under way are still completed; a signal is raised once no part is under way.
    """
    copied, stopped = 0, threading.Event()
    pool = ThreadPoolExecutor(AT_ONCE, "shardfeed-transfer")
    try:
        copying = {pool.submit(copy, *file, partial(_share, pool, stopped)): file[1] for file in files.items()}
        for done in as_completed(copying):
            copied += done.result()
            if progress is not None:
                progress(copying[done].size)
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C: many large files would take a slow link minutes
            stopped.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return copied


def _share(
    pool: ThreadPoolExecutor, stopped: threading.Event, work: Callable[[int], object], numbers: Iterable[int]
) -> None:
    """The `Share` of this thread and of those of the pool that have nothing else to do, until it is `stopped`."""
    given = list(numbers)
    left = iter(given)  # of which all threads take

    def unless_stopped(number: int) -> None:
        if stopped.is_set():
            raise CancelledError
        work(number)

    def run() -> None:
        try:
            alone(unless_stopped, left)
        finally:
            alone(int, left)  # after an error: the others end, too

    helpers: list[Future[None]] = []
    with suppress(RuntimeError):  # after an error of another file the pool takes no more: this thread does it alone
        helpers.extend(pool.submit(run) for _ in given[1:AT_ONCE])
    try:
        run()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
