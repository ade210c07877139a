"""The process that fetches into a cache, and how much it has to fetch, for tests."""

import os
from pathlib import Path

import numpy as np

from shardfeed.pipelines.orders.order import BlockOrder
from shardfeed.readers import Split


def fetcher_of(directory: str) -> int:
    """The process that fetches into a cache's directory."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"shardfeed.pipelines.caching.fetcher" in command and os.fsencode(directory) in command:
                return int(process.name)
    raise AssertionError(f"nobody fetches into {directory}")


def fetches_by_arithmetic(split: Split, order: BlockOrder, limit: int, epochs: int, *, ranks: bool = False) -> int:
    """Bytes that a cache fetches which, when it is full, removes the records that are needed last.

    `ranks`: several are in step. The first that reads a window has the next one fetched, while the others still read
    the window before.
    """
    sizes = np.concatenate([split.shards.view(shard).sizes for shard in range(len(split.shards.info.shards))])
    chunks = [
        order.draw(epoch, np.arange(start, min(start + order.window, order.epoch_samples))).indices
        for epoch in range(epochs + 2)
        for start in range(0, order.epoch_samples, order.window)
    ]
    wanted = epochs * order.chunks_per_epoch
    held: set[int] = set()
    fetched = 0
    for number in range(wanted + 1):  # each is fetched while the one before it is read
        oldest = max(0, number - 1 - ranks)
        reading = {record for chunk in chunks[oldest : number + 1] for record in chunk.tolist()}
        new = sorted(set(chunks[number].tolist()) - held)
        excess = int(sizes[sorted(held)].sum() + sizes[new].sum()) - limit
        upcoming: dict[int, int] = {}
        for later in range(len(chunks) - 1, oldest, -1):
            upcoming |= dict.fromkeys(chunks[later].tolist(), later)
        for record in sorted(held - reading, key=lambda record: -upcoming.get(record, 1 << 30)):
            if excess <= 0:
                break
            held.remove(record)
            excess -= int(sizes[record])
        held |= set(new)
        fetched += int(sizes[new].sum())
    return fetched
