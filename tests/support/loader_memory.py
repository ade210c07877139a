"""Memory held by a process and the workers of its loader, in a module that a process of its own can import."""

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import shardfeed
from shardfeed.pipelines import Global
from shardfeed.pipelines.torch import torch_loader


def number(record: Mapping[str, Any], seed: int) -> int:
    return int(record["image/filename"][:8])


def held_bytes(pids: list[int]) -> int:
    """Physical memory of the processes together, a page that some share counted once."""
    texts = [Path("/proc", str(pid), "smaps_rollup").read_text() for pid in pids]
    return sum(int(line.split()[1]) << 10 for text in texts for line in text.splitlines() if line.startswith("Pss:"))


def children() -> list[int]:
    me = os.getpid()
    found = []
    for entry in os.listdir("/proc"):
        try:
            fields = Path("/proc", entry, "stat").read_text() if entry.isdecimal() else ""
        except OSError:  # it has ended
            continue
        if fields and int(fields.rpartition(")")[2].split()[1]) == me:
            found.append(int(entry))
    return found


def held_per_epoch(data: Path, epochs: int) -> list[int]:
    """Bytes that this process and four workers hold after each epoch of the records of `Tiny`."""
    train = shardfeed.open(data)["train"]
    before = set(children())
    loader = torch_loader(train, batch_size=500, transform=number, workers=4, order=Global(balance="class"))
    held = []
    for _ in range(epochs):
        seen = np.zeros(len(train), np.int64)
        for numbers in loader:
            seen[numbers.numpy()] += 1
        assert seen.sum() == len(train)
        workers = [pid for pid in children() if pid not in before]
        assert len(workers) >= 4
        del numbers
        gc.collect()
        held.append(held_bytes([os.getpid(), *workers]))
    return held
