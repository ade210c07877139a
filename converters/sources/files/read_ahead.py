"""Asking a slow disk about names before the walk needs them, so that it waits for many answers at the same time.

On a local disk, threads would only cost CPU time. So the walk asks for each name in its turn until the disk has proved
slow; its result is the same either way.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, islice
from time import perf_counter, thread_time
from typing import NamedTuple

from shardfeed.converters.sources.files.listing import is_hidden

_BATCH = 1024  # names after which the waiting is judged: after fewer, a pause of this process could look like the disk
_STEP = 64  # names of a folder after which they are counted towards the batch
_SLOW = 0.05  # seconds of waiting for a batch. A local disk takes about none, a network disk 0.2 to 1
_THREADS = 32
# At most _AHEAD * _CHUNK * _MOST answers of about 1 kB are kept for each folder on the way to the current one.
_AHEAD = 2 * _THREADS  # chunks of a folder asked for before their turn
_CHUNK = 8  # names that a thread asks for at a time
_MOST = 128  # names in a tree that a thread reads as a whole


class _Answers(NamedTuple):
    """`statuses` of files and folders, and `entries` of folders, by key; folders with "/"."""

    statuses: dict[bytes, os.stat_result]
    entries: dict[bytes, list[os.DirEntry[bytes]]]


class ReadAhead:
    """The disk's answers about the names below `base`. On a slow disk, threads ask ahead of the walk.

    `wants`: whether the walk will want the status of a key. Threads call it at the same time.
    """

    _slow = False  # whether the disk was, for any batch so far

    def __init__(self, base: bytes, wants: Callable[[bytes], bool]) -> None:
        self._base, self._wants = base, wants
        self._statuses, self._entries = _Answers({}, {})
        self._pool = ThreadPoolExecutor(_THREADS)  # starts no thread before its first task
        self._names, self._waited = 0, perf_counter() - thread_time()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)

    def stat(self, key: bytes) -> os.stat_result:
        """Return the status of a key, with links followed. Raises OSError."""
        known = self._statuses.get(key) if self._statuses else None
        return known or os.stat(self._base + key)

    def scandir(self, key: bytes) -> AbstractContextManager[Iterator[os.DirEntry[bytes]]]:
        """Return the entries of a folder, as `os.scandir` does. Raises OSError."""
        known = self._entries.get(key)
        return os.scandir(self._base + key) if known is None else nullcontext(iter(known))

    def in_turn(self, prefix: bytes, names: list[bytes]) -> Iterator[bytes]:
        """Yield the names in a folder. If the disk is slow, threads ask for the next ones meanwhile."""
        if not self._slow and len(names) <= _STEP:  # as in most folders: generators would cost some per cent
            self._judge(len(names))
            return iter(names)
        known = prefix in self._statuses  # and so is all that is in it
        return iter(names) if known else chain.from_iterable(self._chunks(prefix, names))

    def _chunks(self, prefix: bytes, names: list[bytes]) -> Iterator[list[bytes]]:
        left = iter(names)
        while not self._slow and (chunk := list(islice(left, _STEP))):
            yield chunk
            self._judge(len(chunk))
        size = min(_CHUNK, len(names) // _THREADS + 1)
        asked: deque[tuple[list[bytes], Future[_Answers]]] = deque()
        while True:
            while len(asked) < _AHEAD and (chunk := list(islice(left, size))):
                asked.append((chunk, self._pool.submit(self._ask, prefix, chunk)))
            if not asked:
                return
            chunk, future = asked.popleft()
            answers = future.result()
            self._statuses.update(answers.statuses)
            self._entries.update(answers.entries)
            yield chunk
            for key in answers.statuses:
                self._statuses.pop(key, None)  # if a folder changes meanwhile, a key may be asked for twice
            for key in answers.entries:
                self._entries.pop(key, None)

    def _judge(self, names: int) -> None:
        """Decide whether the disk is slow, once a batch is full with these `names`."""
        self._names += names
        if self._names >= _BATCH:
            waited = perf_counter() - thread_time()  # CPU time says nothing: patterns and links take it on every disk
            self._slow = self._slow or waited - self._waited > _SLOW
            self._names, self._waited = 0, waited

    def _ask(self, prefix: bytes, names: list[bytes]) -> _Answers:
        """Ask about names. Where there is an error, the walk asks again, and gets it in its turn."""
        answers = _Answers({}, {})
        for name in names:
            with suppress(OSError):
                self._ask_below(prefix + name, answers)
        return answers

    def _ask_below(self, top: bytes, answers: _Answers) -> None:
        """Ask about a name and, if it is a folder, all that is in it; about nothing if these are more than _MOST."""
        keys, entries = [top], {}
        for key in keys:  # which grow meanwhile
            if key.endswith(b"/"):
                room = _MOST - len(keys)
                with os.scandir(self._base + key) as inside:
                    entries[key] = list(islice(inside, room + 1))
                if len(entries[key]) > room:
                    return
                visible = (entry for entry in entries[key] if not is_hidden(entry.name))
                inner = (key + entry.name + b"/" * entry.is_dir(follow_symlinks=False) for entry in visible)
                keys += filter(self._wants, inner)
        answers.entries.update(entries)
        for key in keys:
            with suppress(OSError):
                answers.statuses[key] = os.stat(self._base + key)
