"""Judge the measured rounds: the figures that they agree on, or the reason why there are none."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.tools.bench.running import Slice, together

ROUNDS = 5  # fewer give no headline
LEAST_GAIN = 1.1  # times as fast; smaller gains are not worth a change
REPEATS = 3  # of each pair of slices in a round
AGREE = 0.15  # by which a round may differ from all rounds together


@dataclass(frozen=True)
class Refusal:
    """The reason why there is no headline, and the remedy."""

    problem: str
    remedy: str


def judge(
    rounds: Sequence[Slice],
    waiting: Slice | None,
    *,
    batch_size: int,
    model_ms: float | None,
    seconds: float,
    done: float = 1.0,
) -> Refusal | None:
    """Return None if the rounds are reliable: there are enough, they agree, and the measured waits agree with them.

    `waiting`: the slices with a pause of `model_ms` after each batch. `seconds`: the time allowed; `done`: the share
    of the rounds that was measured in it.
    """
    if len(rounds) < ROUNDS:
        enough = math.ceil(1.5 * seconds / max(done, 0.02) / 10) * 10
        problem = f"{seconds:g} seconds were enough for {len(rounds)} of {ROUNDS} rounds"
        return Refusal(problem, f"give --seconds {enough}")
    longer = f"when nothing else runs here, or with --seconds {max(60, round(seconds * 2))}"
    whole = together(rounds).rate
    rates = [each.rate for each in rounds]
    if max(abs(rate / whole - 1) for rate in rates) > AGREE:
        problem = f"the rounds do not agree: they gave {min(rates):,.0f} to {max(rates):,.0f} images/s"
        return Refusal(problem, f"measure again {longer}")
    if waiting and model_ms is not None:
        expected = min(whole, batch_size / step_ms(waiting) * 1e3)
        if abs(waiting.rate / expected - 1) > AGREE:
            problem = (
                f"the figures do not agree: {waiting.rate:,.0f} images/s with pauses of {model_ms:g} ms, "
                f"but {expected:,.0f} follow from {whole:,.0f} without pauses"
            )
            return Refusal(problem, f"measure again {longer}")
    return None


def step_ms(waiting: Slice) -> float:
    """Mean milliseconds of a step without its wait: a pause is never shorter than requested."""
    return waiting.wall_s * 1e3 / len(waiting.waits_ms) - statistics.mean(waiting.waits_ms)


def summary(waiting: Slice) -> dict[str, float]:
    """Statistics of the waits."""
    waits = np.array(waiting.waits_ms)
    mean = float(waits.mean())
    return {
        "steps": len(waits),
        "mean_wait_ms": mean,
        "p50_wait_ms": float(np.percentile(waits, 50)),
        "p99_wait_ms": float(np.percentile(waits, 99)),
        "max_wait_ms": float(waits.max()),
        "lost_share": mean / (mean + step_ms(waiting)),
    }


@dataclass(frozen=True)
class StageCost:
    """The share of the whole pipeline's CPU time of one stage; `noise`: half the spread of the rounds' differences."""

    share: float
    noise: float

    @property
    def below_noise(self) -> bool:
        """Whether the cost of a stage is below its noise."""
        return self.share <= self.noise


def stage_costs(prefixes: Sequence[Sequence[float]]) -> list[StageCost]:
    """The share that each prefix adds to the one before; `prefixes[k][repeat]`: CPU time by that of the whole.

    The whole is the last prefix, so shares add up to 1, and none is negative: a prefix that took longer than a longer
    prefix, which can only be noise, counts as much as that.
    """
    levels = [statistics.median(shares) for shares in prefixes] + [1.0]
    for k in range(len(levels) - 2, -1, -1):
        levels[k] = min(levels[k], levels[k + 1])
    spreads = [0.0, *((max(shares) - min(shares)) / 2 for shares in prefixes), 0.0]
    return [
        StageCost(level - before, spreads[k] + spreads[k + 1])
        for k, (before, level) in enumerate(zip([0.0, *levels], levels, strict=False))
    ]


def disk_rate(images: int, seconds: float, first_images: int, first_s: float) -> float:
    """Images per second, without the `first_images`, which mostly take start-up time, if that is not noise."""
    if images > first_images and first_s < seconds / 2:
        images, seconds = images - first_images, seconds - first_s
    return images / seconds


def factor(pairs: Sequence[tuple[Slice, Slice]]) -> float | None:
    """Ratio of images per second, second to first of each pair; None if the pairs disagree."""
    whole = together(other for _, other in pairs).rate / together(base for base, _ in pairs).rate
    each = [other.rate / base.rate for base, other in pairs]
    return whole if max(abs(ratio / whole - 1) for ratio in each) <= AGREE else None
