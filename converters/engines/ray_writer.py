"""Actor of a Ray cluster that writes shards: a local engine of one worker, on any node.

The actor's own process decodes nothing. So an image that kills its worker, or never ends, costs a worker there
and is condemned there, exactly as without Ray.
"""

import traceback
from typing import NamedTuple

from shardfeed.converters.engines.engine import StartedBy
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.engines.node_probe import Node, Question, look
from shardfeed.converters.engines.on_node import write_in_place
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.storage.storage import is_address


class Written(NamedTuple):
    """Result of a shard: its receipt, or an error and its traceback; `warnings`: about workers lost while writing it.

    `done`: images read and their bytes, of all shards so far.
    """

    receipt: Receipt | None
    error: Exception | None
    trace: str
    warnings: list[str]
    done: tuple[int, int]


class ShardWriter:
    """Writes shards one after the other; another thread may call `done` meanwhile."""

    def __init__(self, start_method: StartedBy, image_timeout: float) -> None:
        self._engine = LocalEngine(1, start_method, image_timeout)

    def look(self, question: Question) -> Node:
        """Answer `question` as seen from this node."""
        return look(question)

    def write(self, task: ShardTask) -> Written:
        """Write one shard. After an error none is to follow."""
        before = len(self._engine.warnings)
        receipt, failure, trace = None, None, ""
        try:
            if is_address(task.directory):
                receipt = write_in_place(task, self._engine)
            else:
                (receipt,) = self._engine.run(iter([task]))
        except Exception as error:
            failure, trace = error, traceback.format_exc()
        return Written(receipt, failure, trace, self._engine.warnings[before:], self._engine.done())

    def done(self) -> tuple[int, int]:
        """Images read and their bytes so far."""
        return self._engine.done()
