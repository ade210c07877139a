"""Copying of many files at once, by threads that help with a large file's parts when no other file is left."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
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
    """Call `copy` for each file, some at once, and `progress` with its size; return how many were copied."""
    copied = 0
    pool = ThreadPoolExecutor(AT_ONCE, "shardfeed-transfer")
    try:
        copying = {pool.submit(copy, *file, partial(_share, pool)): file[1] for file in files.items()}
        for done in as_completed(copying):
            copied += done.result()
            if progress is not None:
                progress(copying[done].size)
    finally:
        pool.shutdown(cancel_futures=True)
    return copied


def _share(pool: ThreadPoolExecutor, work: Callable[[int], object], numbers: Iterable[int]) -> None:
    """The `Share` of this thread and of those of the pool that have nothing else to do."""
    given = list(numbers)
    left = iter(given)  # of which all threads take

    def run() -> None:
        try:
            alone(work, left)
        finally:
            alone(int, left)  # after an error: the others end, too

    helpers = [pool.submit(run) for _ in given[1:AT_ONCE]]
    try:
        run()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
