"""Four workers over a large split: what they and their parent hold does not grow from epoch to epoch."""

import io
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from loader_memory import held_per_epoch
from PIL import Image

import shardfeed
from shardfeed.converters import convert
from shardfeed.converters.sources.source import Sample
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


@pytest.mark.parametrize(
    "count", [20_000, pytest.param(1_000_000, marks=[pytest.mark.torture, pytest.mark.timeout(3000)])]
)
@pytest.mark.long
def test_workers_do_not_grow(tmp_path: Path, count: int, torture_result: Callable[..., None]) -> None:
    convert(Tiny(count), tmp_path / "out", split={"train": 1.0}, workers=2)
    assert len(shardfeed.open(tmp_path / "out")["train"]) == count
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # tests before would blur it
        held = pool.submit(held_per_epoch, tmp_path / "out", 4).result()
    torture_result(
        "memory of a process and 4 torch workers", records=count, megabytes=[round(size / 1e6, 1) for size in held]
    )
    print(held)
    assert max(held[1:]) < held[0] * 1.05, held
