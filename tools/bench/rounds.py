"""What a pipeline costs an image: alternating rounds, CPU time of the whole process, and what is only noise.

To start a pipeline takes a tenth of a second of CPU whatever its length, which would look like the cost of reading in
a short run. So each one is run over one batch too: an image costs the difference of both over the images between.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Of one image, of one run, in microseconds: CPU time, user and system, of all threads; and wall time."""

    cpu_us: float
    wall_us: float


@dataclass(frozen=True)
class Contender:
    """A pipeline to be measured.

    `whole`: makes it anew, so that each run is its first iteration, of the same samples cut in the same way.
    `first`: the same over `first_images` images only. `images`: of the whole.
    `consume`: goes through all batches and says how many they were.
    """

    whole: Callable[[], Any]
    images: int
    first: Any
    first_images: int
    consume: Callable[[Any], int]


def through(dataset: Any) -> int:
    """Go through a dataset inside TensorFlow, without handing anything to Python; its number of batches."""
    import numpy as np

    return int(dataset.reduce(np.int64(0), lambda count, *batch: count + 1).numpy())


def handed_over(dataset: Any) -> int:
    """Go through a dataset as a training loop in Python does, each batch a tensor; its number of batches."""
    return sum(1 for _ in dataset)


def measure_rounds(
    contenders: Mapping[str, Contender], rounds: int, progress: Callable[[], Any] = lambda: None
) -> dict[str, list[Cost]]:
    """The cost of each contender in each round: one after the other, not each in a row, because machines drift.

    `progress` is called after each run. Nothing is warmed up here.
    """
    found: dict[str, list[Cost]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            dataset = contender.whole()
            cpu, wall = _timed(contender.consume, dataset)
            images = contender.images
            if images > contender.first_images:
                first_cpu, first_wall = _timed(contender.consume, contender.first)
                # A run that noise made no longer than its first batch is taken whole.
                cpu = cpu - first_cpu if cpu > first_cpu else cpu
                wall = wall - first_wall if wall > first_wall else wall
                images -= contender.first_images
            found[name].append(Cost(cpu / images * 1e6, wall / images * 1e6))
            progress()
    return found


def _timed(consume: Callable[[Any], int], dataset: Any) -> tuple[float, float]:
    """CPU and wall seconds of going through `dataset`."""
    wall, cpu = time.perf_counter(), time.process_time()
    consume(dataset)
    return time.process_time() - cpu, time.perf_counter() - wall


@dataclass(frozen=True)
class StageCost:
    """CPU microseconds an image of one stage; `noise_us`: half of the spread of the rounds' differences."""

    cpu_us: float
    noise_us: float

    @property
    def below_noise(self) -> bool:
        """Whether the stage cannot be told from nothing."""
        return self.cpu_us <= self.noise_us


def stage_costs(prefixes: Sequence[Sequence[float]]) -> list[StageCost]:
    """What each prefix adds to the one before; `prefixes[k][round]` is in CPU microseconds an image.

    Stages add up to the median of the last prefix, and none is negative: a prefix that measured more than a longer one,
    which only noise can do, counts as much as the longer one.
    """
    levels = [statistics.median(costs) for costs in prefixes]
    for k in range(len(levels) - 2, -1, -1):
        levels[k] = min(levels[k], levels[k + 1])
    stages = []
    for k, level in enumerate(levels):
        before = [0.0] * len(prefixes[k]) if k == 0 else prefixes[k - 1]
        differences = [cost - base for cost, base in zip(prefixes[k], before, strict=True)]
        noise = (max(differences) - min(differences)) / 2
        stages.append(StageCost(level - (levels[k - 1] if k else 0.0), noise))
    return stages
