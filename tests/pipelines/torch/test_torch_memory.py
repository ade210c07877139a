"""Four workers over a large split: what they and their parent hold does not grow from epoch to epoch."""

import gc
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.sources.source import Sample
from shardfeed.pipelines import Global
from shardfeed.pipelines.torch import torch_loader
from shardfeed.schema import LABEL, Feature, Schema


class Tiny:
    """`count` samples that share sixteen images of 4 x 4 pixels, and differ in their names and labels."""

    schema = Schema({LABEL: Feature("int64")}, {LABEL: tuple(map(str, range(10)))})

    def __init__(self, count: int) -> None:
        self.count = count
        self.images = []
        for number in range(16):
            out = io.BytesIO()
            Image.fromarray(np.full((4, 4, 3), number * 16, np.uint8)).save(out, "PNG")
            self.images.append(out.getvalue())

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        return Sample(b"%08d.png" % index, self.images[index % 16], {LABEL: index % 10})


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


@pytest.mark.parametrize(
    "count", [20_000, pytest.param(1_000_000, marks=[pytest.mark.torture, pytest.mark.timeout(3000)])]
)
@pytest.mark.long
def test_workers_do_not_grow(tmp_path: Path, count: int, torture_result: Callable[..., None]) -> None:
    convert(Tiny(count), tmp_path / "out", split={"train": 1.0}, workers=2)
    train = shardfeed.open(tmp_path / "out")["train"]
    assert len(train) == count
    before = set(children())
    gc.collect()  # what tests before left: memory that is used again after the fork is no longer the workers', too
    loader = torch_loader(train, batch_size=500, transform=number, workers=4, order=Global(balance="class"))
    held = []
    for _ in range(4):
        seen = np.zeros(count, np.int64)
        for numbers in loader:
            seen[numbers.numpy()] += 1
        assert seen.sum() == count
        workers = [pid for pid in children() if pid not in before]
        assert len(workers) >= 4
        del numbers
        gc.collect()
        held.append(held_bytes([os.getpid(), *workers]))
    torture_result(
        "memory of a process and 4 torch workers", records=count, megabytes=[round(size / 1e6, 1) for size in held]
    )
    print(held)
    assert max(held[1:]) < held[0] * 1.05, held
