"""Ranks of a training that share a cache, each in a process of its own, which a test asks for batches and kills."""

import multiprocessing
import os
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from shardfeed.pipelines import Blocks, Cache, cached
from shardfeed.pipelines.torch import Ranks, torch_loader
from shardfeed.readers import Split

RANKS, BATCH = 8, 24
ORDER = Blocks(buffer=60, block_bytes=480_000)  # windows of five blocks


def image_and_note(record: Any, seed: int) -> Any:
    return record["image/encoded"], record["image/note"]


def loader_of(split: Split, ranks: Ranks) -> Any:
    """Batches without an end, as lists of samples."""
    options: dict[str, Any] = {"transform": image_and_note, "collate_fn": list, "order": ORDER, "seed": 5}
    return torch_loader(split, batch_size=BATCH, workers=0, ranks=ranks, start_step=0, **options)


def train(environment: dict[str, str], split: Split, cache: Cache, rank: int, state: Any, pipe: Connection) -> None:
    """Answer each message with the next batch and the state after it: a rank's process."""
    os.environ.update(environment)  # that of the server which forked it may be older
    loader = loader_of(cached(split, cache), Ranks(rank, RANKS))
    if state is not None:
        loader.load_state_dict(state)
    batches = iter(loader)
    while pipe.recv():
        pipe.send((next(batches), loader.state_dict()))


@dataclass
class Rank:
    """A process, and the state after its last batch."""

    split: Split
    cache: Cache
    number: int
    state: dict[str, str] | None = None
    process: BaseProcess = field(init=False)
    pipe: Connection = field(init=False)

    def start(self) -> None:
        """Start it, or start it again where it was."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["shardfeed.pipelines.torch.loaders"])  # eight ranks import PyTorch once
        self.pipe, theirs = context.Pipe()
        options = dict(os.environ), self.split, self.cache, self.number, self.state, theirs
        self.process = context.Process(target=train, args=options, daemon=True)
        self.process.start()
        theirs.close()

    def batch(self) -> list[Any]:
        """The batch that it was asked for."""
        samples, self.state = self.pipe.recv()
        return samples
