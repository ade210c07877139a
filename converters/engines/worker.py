"""What a worker process does: shards in, receipts or errors out."""

import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from shardfeed.converters.engines.memory_limit import limit_memory
from shardfeed.converters.shards.task import ShardTask
from shardfeed.errors import UsageError
from shardfeed.machine.malloc import keep_heap

IDLE = (-1, 0, 0, 0)  # the words of a board at first
IMPORTABLE = "define the class or function in a module that workers can import, not in the script itself"


class Board:
    """What a worker writes for its parent to read, without locks: each field has one writer and is one word.

    `words`: an array of both processes, int64: place in the shard, its start in ns, images and their bytes so far.
    """

    def __init__(self, words: Any) -> None:
        self.words = words

    def start(self, place: int, size: int) -> None:
        if place > 0 and place == self.words[0] + 1:  # else it is the first, of a shard that was begun before
            self.words[2] += 1
            self.words[3] += size
        self.words[1] = time.monotonic_ns()
        self.words[0] = place

    def idle(self) -> None:
        self.words[0] = -1

    @property
    def place(self) -> int:
        return self.words[0]

    @property
    def seconds(self) -> float:
        return (time.monotonic_ns() - self.words[1]) / 1e9

    @property
    def done(self) -> tuple[int, int]:
        return self.words[2], self.words[3]


def work(tasks: Connection, words: Any) -> None:
    """Answer each ShardTask with (receipt, error, traceback) until the parent closes the pipe; `words` as of Board."""
    # Not above: whoever starts workers needs none of it.
    from shardfeed.converters.shards.write_shard import write_shard

    keep_heap()
    limit_memory()
    board = Board(words)
    while True:
        try:
            task: ShardTask = tasks.recv()
        except EOFError:
            return
        except Exception as error:  # the sample's own class cannot be imported here, say
            tasks.send(
                (None, UsageError("source", f"its samples cannot be sent to workers: {error!r}", IMPORTABLE), "")
            )
            continue
        try:
            receipt = write_shard(task, board.start)
        except Exception as error:
            board.idle()
            tasks.send((None, error, traceback.format_exc()))
        else:
            board.idle()
            tasks.send((receipt, None, ""))
