"""What an engine is: it decides where shards are written."""

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.errors import UsageError
from shardfeed.machine.processes import START_METHODS

IMAGE_TIMEOUT = 120.0  # seconds for one image; a 100-megapixel photo takes 2


LOSSES = 8  # workers one shard may lose before the run gives up


AUTO = "auto"  # how workers are started: by fork where they have little to do and that is safe, else by spawn


POLL = 0.2  # seconds between looks at the clock


@runtime_checkable
class Engine(Protocol):
    """What decides where shards are written, and what becomes of them when that place is lost.

    Every engine has shards written by `shardfeed.converters.shards.write_shard.write_shard`, wherever that runs.
    `warnings`: sentences about what was lost, for the report. The methods are called from one thread, for one
    conversion; `start` where there is something to do, `stop` always, also after an error, and more than once.
    """

    warnings: list[str]

    def start(self, tasks: int) -> None:
        """Begin what takes a while, for `tasks` tasks at most; `run` does what is left of it."""
        ...

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = ...) -> Iterator[Receipt]:
        """The receipt of each task, in no particular order; then its shard is durable, and at its place."""
        ...

    def done(self) -> tuple[int, int]:
        """Images read and their bytes so far, tries that were lost included."""
        ...

    def stop(self) -> None:
        """End everything at once."""
        ...


def check_workers(workers: int, start_method: str) -> None:
    """Raises UsageError for a number of workers, or a way to start them, that there is not."""
    if workers < 1:
        raise UsageError("workers", f"got {workers}, expected at least 1")
    if start_method not in (AUTO, *START_METHODS):
        raise UsageError("start_method", f"got {start_method!r}, expected one of {', '.join((AUTO, *START_METHODS))}")
