"""Local worker processes that write whole shards, and the loop that watches over them.

Why not a pool of the standard library: `multiprocessing.Pool` waits forever for a killed worker, `ProcessPoolExecutor`
then fails every shard in progress, and both leave workers running when their parent is killed. Here a lost worker costs
the shard it was writing, which is tried again; an image that crashes or blocks its worker twice is rejected; and every
worker holds a pipe that closes when its parent dies.
"""

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from shardfeed.converters.engines.engine import AUTO, IMAGE_TIMEOUT, LOSSES, POLL, StartedBy
from shardfeed.converters.engines.worker import IDLE, IMPORTABLE, Board, work_with_parent
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.sources.reading import first_at_urls
from shardfeed.declared import checked
from shardfeed.errors import UsageError, WorkerLostError
from shardfeed.foreign import is_stop, words
from shardfeed.processes import (
    WorkerCount,
    check_may_start,
    forked_after_use,
    hold_lifeline,
    signals_later,
    single_threaded,
    without_main,
)

_LIKELY = 512  # images that probably form one task, if only their number is known
_STRIKES = 2  # deaths at one image before it is condemned


@dataclass
class _Worker:
    process: Any
    tasks: Connection
    lifeline: Connection
    board: Board
    task: ShardTask | None = None
    next: ShardTask | None = None  # of which it fetches the first images from URLs at the end of `task`

    def decoding(self) -> bool:
        """Whether it is at an image; else it starts, waits, or makes a finished shard durable."""
        return self.task is not None and 0 <= self.board.place < len(self.task.samples)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.tasks.close()
        self.lifeline.close()


class LocalEngine:
    """Writes shards in `workers` processes of this machine; use it as a context manager.

    `start_method`: "spawn" or "forkserver", or "auto": fork, which saves a worker all imports, if `start` gets few
    tasks, and this process has no other thread and was not forked from one that had read a bucket; else spawn.
    `image_timeout`: seconds for one image.
    """

    @checked
    def __init__(
        self, workers: WorkerCount, start_method: StartedBy = "spawn", image_timeout: float = IMAGE_TIMEOUT
    ) -> None:
        check_may_start("workers")
        self._context: Any = multiprocessing.get_context("spawn" if start_method == AUTO else start_method)
        self._auto, self._few = start_method == AUTO, False
        self._wanted = workers
        self._image_timeout = image_timeout
        self._workers: list[_Worker] = []
        self._retired = [0, 0]  # images and bytes of workers that are gone
        self.warnings: list[str] = []

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every worker at once, whatever it is doing."""
        for worker in self._workers:
            worker.process.kill()
        while self._workers:
            self._remove_worker(self._workers[-1])

    def done(self) -> tuple[int, int]:
        """Images read and their bytes so far, tries that were lost included."""
        images, size = map(sum, zip(self._retired, *(worker.board.done for worker in self._workers), strict=True))
        return images, size

    def start(self, tasks: int) -> None:
        """Start the workers that at most `tasks` tasks are likely to keep busy; `run` starts any others.

        A worker that has nothing to do costs as much as one that converts some hundred images.
        """
        self._few = tasks < _LIKELY
        for _ in range(min(self._wanted, 1 + tasks // _LIKELY) - len(self._workers)):
            self._start()

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        """Receipts as tasks are finished, in no particular order; `poll` is called a few times a second.

        Raises the worker's own error (StorageError and the like), or WorkerLostError when one shard lost too many.
        """
        again: deque[ShardTask] = deque()
        deaths: dict[str, list[int]] = {}
        waiting: deque[ShardTask] = deque()  # made while the workers are busy: whoever is done gets it at once

        def some_wait() -> bool:
            while len(waiting) < (2 if waiting and first_at_urls(waiting[0].samples, ()) else 1):
                if (task := again.popleft() if again else next(tasks, None)) is None:
                    break
                waiting.append(task)
            return bool(waiting)

        while True:
            while some_wait() and self._has_room():
                free = (worker for worker in self._workers if worker.task is None)
                self._give(next(free, None) or self._start(), waiting)
            busy = [worker for worker in self._workers if worker.task is not None]
            if not busy:
                return
            ready = wait([end for worker in busy for end in (worker.tasks, worker.process.sentinel)], timeout=POLL)
            poll()
            for worker in busy:
                if worker.tasks in ready or worker.process.sentinel in ready:
                    receipt = self._receive(worker)
                    if receipt is not None:
                        worker.task = None
                        if worker.next or waiting:  # first, as keeping the receipt takes the disk a while
                            self._give(worker, waiting)
                        yield receipt  # before the next task is made, which may raise: finished work is kept
                    else:
                        again += self._lost(worker, RejectCode.DECODER_CRASH, deaths)
                elif worker.decoding() and worker.board.seconds > self._image_timeout:
                    again += self._lost(worker, RejectCode.DECODE_TIMEOUT, deaths)

    def _has_room(self) -> bool:
        return len(self._workers) < self._wanted or any(worker.task is None for worker in self._workers)

    def _give(self, worker: _Worker, waiting: deque[ShardTask]) -> None:
        """Give a worker its next task; while enough are left for all, it keeps the one after that for itself, too."""
        worker.task, worker.next, ahead = worker.next or waiting.popleft(), None, ()
        if waiting and waiting[0].left >= self._wanted:
            ahead = first_at_urls(waiting[0].samples, waiting[0].kept)
            worker.next = waiting.popleft() if ahead else None
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it died, according to its sentinel
                worker.tasks.send(replace(worker.task, ahead=ahead))
        except OSError:
            raise
        except BaseException as error:  # it does not pickle; what that raises is the business of whoever wrote it
            if is_stop(error):
                raise
            problem = f"its samples cannot be pickled for workers: {words(error)}"
            raise UsageError("source", problem, IMPORTABLE) from error

    def _start(self) -> _Worker:
        fork = self._auto and self._few and single_threaded() and not forked_after_use()
        context = multiprocessing.get_context("fork") if fork else self._context
        ours, theirs = context.Pipe()
        lifeline, end = context.Pipe(duplex=False)
        hold_lifeline(end)
        board = Board(context.RawArray("q", IDLE))
        process = context.Process(target=work_with_parent, args=(lifeline, theirs, board.words), daemon=True)
        with signals_later(fork=fork), without_main():
            process.start()
            self._workers.append(_Worker(process, ours, end, board))
        theirs.close()
        lifeline.close()
        return self._workers[-1]

    def _receive(self, worker: _Worker) -> Receipt | None:
        """Receive a worker's receipt, or raise its error; None if the worker died before it could answer."""
        try:
            receipt, error, trace = worker.tasks.recv()
        except (EOFError, OSError):
            return None
        if error is not None:
            error.add_note(f"in a worker:\n{trace}")
            raise error
        return receipt

    def _remove_worker(self, worker: _Worker) -> None:
        worker.stop()
        self._workers.remove(worker)
        images, size = worker.board.done
        self._retired[0] += images
        self._retired[1] += size

    def _lost(self, worker: _Worker, code: RejectCode, deaths: dict[str, list[int]]) -> list[ShardTask]:
        """Bury a worker; its shards, of which one is tried again, without the image that killed it time after time."""
        task, place, others = worker.task, worker.board.place, [worker.next] if worker.next else []
        assert task is not None
        self._remove_worker(worker)
        how = "took too long over" if code is RejectCode.DECODE_TIMEOUT else "was lost at"
        at_image = worker.decoding()
        what = f"image {place} of {task.stem}" if at_image else task.stem
        self.warnings.append(f"a worker {how} {what} (exit code {worker.process.exitcode}); the shard is tried again")
        places = deaths.setdefault(task.stem, [])
        places.append(place)
        if at_image and places.count(place) >= _STRIKES:
            places.clear()
            return [replace(task, condemned={**task.condemned, place: code}), *others]
        if len(places) >= LOSSES:
            problem = f"lost {len(places)} workers"
            raise WorkerLostError(task.stem, problem, "free some memory, then run again to resume")
        return [task, *others]
