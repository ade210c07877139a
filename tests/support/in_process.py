"""Conversions without worker processes: thousands of states in a minute, each operation in a known order."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shardfeed.converters import AnnotationOptions, ImageFolder, Source, convert, open_source
from shardfeed.converters.engines.local_engine import LocalEngine
from shardfeed.converters.engines.worker import IDLE, Board
from shardfeed.converters.report import Report
from shardfeed.converters.shards.task import Receipt, ShardTask
from shardfeed.converters.shards.write_shard import write_shard


class OwnEngine(LocalEngine):
    """Writes shards in this process. As with workers, a shard is written while the receipt of the one before waits."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._board = Board([*IDLE])

    def done(self) -> tuple[int, int]:
        return self._board.done

    def start(self, tasks: int) -> None:
        pass

    def run(self, tasks: Iterator[ShardTask], poll: Callable[[], None] = lambda: None) -> Iterator[Receipt]:
        late: list[Receipt] = []
        for task in tasks:
            poll()
            late.append(write_shard(task, self._board.start))
            self._board.idle()
            if len(late) == self._wanted:
                yield late.pop(0)
        yield from late


def source_of(root: Path) -> Source:
    """An image folder; or, where that is a file of COCO's, its boxes and masks, with the images beside its folder."""
    if root.is_dir():
        return ImageFolder(root)
    return open_source(root, options=AnnotationOptions(images=root.parent.parent / "images", tasks=["boxes", "masks"]))


def convert_here(root: Path, out: Path, *, workers: int = 1, **options: Any) -> Report:
    """`convert` in this process, to three shards; `workers` only says for how long a receipt waits."""
    return convert(source_of(root), out, workers=OwnEngine(workers), **{"shards": 3, **options})
