"""An engine of the user's own, or of an installed package: its methods are called here, and what they give is checked.

What it raises, or gives in place of receipts, ends the conversion in one line that names its class; shards that are
finished by then are kept.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

from shardfeed.converters.engines.engine import Engine
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.errors import ShardfeedError, UsageError, WorkerLostError, escape, printable
from shardfeed.foreign import is_stop, place, words
from shardfeed.text import number

_REMEDY = "correct the engine; the same call continues"


def guarded_engine(engine: Any, made_by: str = "") -> Engine:
    """Return an engine of ours itself, any other one behind a `ForeignEngine`; `made_by`: words for its maker.

    Raises UsageError if it is no engine.
    """
    if type(engine).__module__.startswith("shardfeed."):
        return engine
    if not isinstance(engine, Engine):
        problem = f"{made_by} returned {escape(type(engine).__name__)}, expected an Engine"
        raise UsageError("engine", problem, "see shardfeed.converters.Engine")
    return cast(Engine, ForeignEngine(engine))


class ForeignEngine:
    """An engine that is not ours, with the methods of `Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._name = escape(type(engine).__name__)

    @property
    def warnings(self) -> list[str]:
        """Its sentences, each on one printable line."""
        try:
            return [printable(str(sentence)) for sentence in self._engine.warnings]
        except BaseException as error:
            self._raise("warnings", error)

    def start(self, tasks: int) -> None:
        """Start it."""
        try:
            self._engine.start(tasks)
        except BaseException as error:
            self._raise("start", error)

    def stop(self) -> None:
        """Stop it."""
        try:
            self._engine.stop()
        except BaseException as error:
            self._raise("stop", error)

    def done(self) -> tuple[int, int]:
        """Return its number of images and their bytes; zeros in place of anything else."""
        try:
            images, size = self._engine.done()
        except (TypeError, ValueError):
            return 0, 0
        except BaseException as error:
            self._raise("done", error)
        return (images, size) if type(images) is int and type(size) is int else (0, 0)

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        """Yield its receipts. Raises WorkerLostError for what is none, and for a task without one."""
        missing: set[tuple[str, int]] = set()

        def noted() -> Iterator[ShardTask]:
            for task in tasks:
                missing.add((task.split, task.number))
                yield task

        given = noted()
        for receipt in self._receipts(given, poll):
            if not isinstance(receipt, Receipt):
                problem = f"{self._name}.run gave {escape(type(receipt).__name__)}, expected a Receipt"
                raise WorkerLostError("engine", problem, _REMEDY)
            if (receipt.split, receipt.number) not in missing:
                problem = f"{self._name}.run gave a receipt of {escape(receipt.split)} {receipt.number}"
                raise WorkerLostError("engine", f"{problem}, which is no task that is left", _REMEDY)
            missing.discard((receipt.split, receipt.number))
            yield receipt
        missing.update((task.split, task.number) for task in given)
        if missing:
            problem = f"{self._name}.run ended without the receipts of {number(len(missing), 'shard')}"
            raise WorkerLostError("engine", problem, _REMEDY)

    def _receipts(self, tasks: Iterator[ShardTask], poll: Callable[[], None]) -> Iterator[Any]:
        try:
            receipts = iter(self._engine.run(tasks, poll))
        except BaseException as error:
            self._raise("run", error)
        while True:
            try:
                receipt = next(receipts)
            except StopIteration:
                return
            except BaseException as error:
                self._raise("run", error)
            yield receipt

    def _raise(self, method: str, error: BaseException) -> NoReturn:
        """Raise WorkerLostError for what a method raised; signals and our own errors as they are."""
        if is_stop(error) or isinstance(error, ShardfeedError):
            raise error
        problem = f"{self._name}.{method} raised {words(error)} ({place(error)})"
        raise WorkerLostError("engine", problem, _REMEDY) from error
