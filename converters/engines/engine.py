"""Interface of an engine, which decides where shards are written."""

from collections.abc import Callable, Iterator
from typing import Literal, Protocol, runtime_checkable

from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.foreign import KnownByNames
from shardfeed.processes import StartMethod

IMAGE_TIMEOUT = 120.0  # seconds for one image; a 100-megapixel photo takes 2
LOSSES = 8  # workers one shard may lose before the run gives up
StartedBy = Literal["auto", StartMethod]
AUTO = "auto"  # how workers are started: by fork where they have little to do and that is safe, else by spawn
POLL = 0.2  # seconds between looks at the clock


@runtime_checkable
class Engine(Protocol, metaclass=KnownByNames):
    """A set of workers that writes shards and recovers when workers are lost.

    Every engine writes shards with `shardfeed.converters.shards.write_shard.write_shard`. `warnings`: sentences about
    lost workers, for the report. The methods are called from one thread, for one conversion: `start` only if there are
    shards to write, `stop` always, even after an error, and possibly more than once.

    Example:
        report = convert("photos", "out", workers=engine)  # `engine`: an object with these methods
    """

    warnings: list[str]

    def start(self, tasks: int) -> None:
        """Start workers early, at most one per task; `run` starts any missing workers."""
        ...

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = ...) -> Iterator[Receipt]:
        """Yield the receipt of each task, in no particular order, once the shard is durable and has its final name."""
        ...

    def done(self) -> tuple[int, int]:
        """Number of images read so far, and their bytes; images read again after the loss of a worker count twice."""
        ...

    def stop(self) -> None:
        """Stop all work immediately."""
        ...
