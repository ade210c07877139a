"""Shards written on the nodes of a Ray cluster, by the same workers as on one machine.

Each writer is an actor with its own worker process (`ray_writer`). If the actor or its node dies, the shard being
written is lost, and another writer makes it from the beginning.

A node considered lost may still be running, disconnected, and writing. So each try has its own directory, and this
process moves a shard into the dataset once its try is accepted. In a bucket, nodes create shards under their final
names (see on_node.py), and see no common directory.
"""

import os
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from shardfeed.converters.engines.engine import IMAGE_TIMEOUT, LOSSES, POLL, StartedBy
from shardfeed.converters.engines.node_probe import Node, Probe
from shardfeed.converters.engines.ray_writer import ShardWriter, Written
from shardfeed.converters.engines.worker import IMPORTABLE
from shardfeed.converters.shards.receipts import receipts_below
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.declared import Positive, checked
from shardfeed.errors import ShardfeedError, StorageError, UsageError, WorkerLostError, escape
from shardfeed.foreign import words
from shardfeed.ray_cluster import Cluster, check_address
from shardfeed.storage.local import make_directory, move_file, remove_tree
from shardfeed.storage.storage import is_address
from shardfeed.user_warnings import warn_user

_LOOK = 1.0  # seconds between looks at the cluster and at how far the writers are
_ROOM = 30.0  # seconds without any writer until the reason is printed
_DOOMED = 4  # actors in a row that were lost in one place before they could begin
_ACTOR = {"num_cpus": 1, "max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}


@dataclass
class _Writer:
    """An actor, its current request, and the shard that it writes."""

    actor: Any
    answer: Any = None  # to come: first its Node, then a Written for each shard
    node: str = ""  # its name, once it may write
    task: ShardTask | None = None  # as planned
    directory: str = ""  # of this try; "" for a bucket
    asked: Any = None  # to come: how far it is
    done: tuple[int, int] = (0, 0)  # images and their bytes
    doomed: int = 0  # actors lost here since one that could begin


class RayEngine:
    """Writes shards on the Ray cluster at `address` (as of Cluster), in `workers` actors of one CPU each.

    `tries`: a directory to create, on the file system of the shards. Every node must see both, and the images, under
    the same paths; each actor shows that it does before it gets a shard. Not used if the shards go to a bucket, which
    each actor shows that it can use. `workers`: None for as many as the cluster has
    CPUs. `start_method`, `image_timeout`: as of LocalEngine.
    """

    @checked
    def __init__(
        self,
        tries: str,
        address: str | None = None,
        workers: Positive | None = None,
        start_method: StartedBy = "spawn",
        image_timeout: float = IMAGE_TIMEOUT,
    ) -> None:
        check_address(address)
        self.warnings: list[str] = []
        self._tries, self._address, self._wanted = tries, address, workers
        self._made_tries = False
        self._arguments = (start_method, image_timeout)
        self._cluster: Cluster | None = None
        self._writers: list[_Writer] = []
        self._retired = [0, 0]  # images and bytes of actors that are gone
        self._losses: Counter[str] = Counter()  # of writers, by shard

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, tasks: int) -> None:
        """Join the cluster and have it start the actors that `tasks` tasks can keep busy. Raises as Cluster does."""
        if self._cluster is None:
            self._cluster = Cluster(self._address)
        wanted = min(self._wanted or self._cluster.cpus(), tasks)
        self._writers += [_Writer(self._actor()) for _ in range(wanted - len(self._writers))]

    def stop(self) -> None:
        """End every actor at once, whatever it is doing; leave the cluster if it was joined here."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.leave([writer.actor for writer in self._writers])
        for writer in self._writers:
            self._retire(writer)
        self._writers.clear()

    def done(self) -> tuple[int, int]:
        """Images read and their bytes so far, tries that were lost included; of shards in progress, as of late."""
        images, size = map(sum, zip(self._retired, *(writer.done for writer in self._writers), strict=True))
        return images, size

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        """Receipts as tasks are finished, in no particular order; `poll` is called a few times a second.

        Raises the worker's own error, StorageError if a node does not see the output or the images, UsageError if it
        has other versions, WorkerLostError if one shard lost too many writers, or the cluster is lost.
        """
        again: deque[ShardTask] = deque()
        waiting = next(tasks, None)  # made while the writers are busy: whoever is done gets it at once
        if waiting is None:
            return
        self._prepare(waiting)
        while True:
            while waiting is not None and (idle := self._idle()) is not None:
                self._give(idle, waiting)
                waiting = again.popleft() if again else next(tasks, None)
            if waiting is None and not any(writer.task for writer in self._writers):
                break
            for writer in self._answered(poll):
                if writer.task is None:
                    self._admit(writer)
                    continue
                task, directory = writer.task, writer.directory
                receipt = self._receive(writer)
                if receipt is None:
                    again.append(task)
                    continue
                if waiting is not None:  # first, as putting a shard in place takes the disk a while
                    self._give(writer, waiting)
                    waiting = None
                if directory:  # of this try: the shard goes to that of the dataset
                    for path, final in zip(replace(task, directory=directory).paths, task.paths, strict=True):
                        move_file(path, final)
                    with suppress(StorageError):  # a node considered lost may still have a file open there
                        remove_tree(directory)
                yield receipt  # before the next task is made, which may raise: finished work is kept
            if waiting is None:
                waiting = again.popleft() if again else next(tasks, None)
        if self._made_tries:
            with suppress(StorageError):  # likewise
                remove_tree(self._tries)

    def _prepare(self, first: ShardTask) -> None:
        """Write a probe that each actor must see before it gets a shard, and let all actors check it."""
        self._in_bucket = is_address(first.directory)
        if not self._in_bucket:
            self._made_tries = not os.path.lexists(self._tries)  # else it belongs to someone else, and is kept
            make_directory(self._tries)
        self._probe = Probe(receipts_below(first.directory) if self._in_bucket else self._tries, first)
        if not self._writers:
            self.start(sys.maxsize)
        for writer in self._writers:
            self._ask(writer)
        self._began, self._looked = time.monotonic(), 0.0

    def _actor(self) -> Any:
        return ray.remote(ShardWriter).options(**_ACTOR).remote(*self._arguments)

    def _ask(self, writer: _Writer) -> None:
        with _sending():
            writer.answer = writer.actor.look.remote(self._probe.question)

    def _idle(self) -> _Writer | None:
        return next((writer for writer in self._writers if writer.node and writer.task is None), None)

    def _give(self, writer: _Writer, task: ShardTask) -> None:
        writer.task, writer.directory = task, ""
        if not self._in_bucket:
            writer.directory = os.path.join(self._tries, f"{task.stem}-{secrets.token_hex(4)}")
            make_directory(writer.directory)
        with _sending():
            writer.answer = writer.actor.write.remote(replace(task, directory=writer.directory or task.directory))

    def _answered(self, poll: Callable[[], None]) -> list[_Writer]:
        """The writer that has an answer, or None after a timeout."""
        asked = {writer.answer: writer for writer in self._writers if writer.answer is not None}
        ready, _ = ray.wait(list(asked), timeout=POLL)
        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._looked = now
            self._look_around(now)
        poll()
        return [asked[answer] for answer in ready]

    def _look_around(self, now: float) -> None:
        """Whether the cluster is there, whether it has room for us, and how far the writers are."""
        assert self._cluster is not None
        self._cluster.check()
        if any(writer.node for writer in self._writers):
            self._began = now
        elif now - self._began > _ROOM:
            self._began = float("inf")  # once, until there is a writer
            warn_user("the Ray cluster has no free CPU for a worker yet; waiting", RuntimeWarning)
        for writer in self._writers:
            if writer.asked is not None and ray.wait([writer.asked], timeout=0)[0]:
                with suppress(RayError):  # its answer about the shard will report it
                    writer.done = max(writer.done, ray.get(writer.asked))
                writer.asked = None
            if writer.asked is None and writer.task is not None:
                writer.asked = writer.actor.done.remote()

    def _admit(self, writer: _Writer) -> None:
        """Check the node of a new actor; raises if it cannot write shards."""
        try:
            with _sending():
                node: Node = ray.get(writer.answer)
        except RayError as error:
            self._lost(writer, error)
            return
        self._probe.check(node)
        writer.node, writer.answer, writer.doomed = escape(node.name), None, 0

    def _receive(self, writer: _Writer) -> Receipt | None:
        """Receive a writer's receipt, or raise its error; None if the writer or its answer was lost on the way."""
        try:
            with _sending():
                written: Written = ray.get(writer.answer)
        except RayError as error:
            self._lost(writer, error)
            return None
        writer.task = writer.answer = None
        writer.done = written.done
        self.warnings += [f"on node {writer.node}, {warning}" for warning in written.warnings]
        if written.error is not None:
            written.error.add_note(f"on node {writer.node}:\n{written.trace}")
            raise written.error
        return written.receipt

    def _lost(self, writer: _Writer, error: RayError) -> None:
        """Replace an actor that is gone by another one."""
        why = f"{type(error).__name__}: {' '.join(escape(error).split())}"
        with suppress(RayError):
            ray.kill(writer.actor)
        self._retire(writer)
        if writer.task is None:
            writer.doomed += 1
            if writer.doomed >= _DOOMED:
                problem = f"{writer.doomed} in a row were lost before they started, the last by {why}"
                raise WorkerLostError("Ray workers", problem, "is shardfeed installed on every node?")
        else:
            stem = writer.task.stem
            self.warnings.append(f"a worker on node {writer.node} was lost at {stem} ({why}); the shard is tried again")
            if writer.directory:
                with suppress(StorageError):  # as in `run`
                    remove_tree(writer.directory)
            self._losses[stem] += 1
            if self._losses[stem] >= LOSSES:
                raise WorkerLostError(stem, f"lost {LOSSES} workers, the last by {why}", "run again to resume")
        writer.actor, writer.node, writer.task, writer.asked = self._actor(), "", None, None
        self._ask(writer)

    def _retire(self, writer: _Writer) -> None:
        self._retired[0] += writer.done[0]
        self._retired[1] += writer.done[1]
        writer.done = (0, 0)


@contextmanager
def _sending() -> Iterator[None]:
    """Turn Ray's errors about objects that cannot be pickled or unpickled into ours."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, ShardfeedError):
            raise error.cause from error
        raise _not_sent(error.cause) from error
    except RayError:
        raise
    except Exception as error:
        raise _not_sent(error) from error


def _not_sent(error: Exception) -> UsageError:
    return UsageError("source", f"its samples cannot be pickled for workers: {words(error)}", IMPORTABLE)
