"""The orders of samples that are drawn by quota: by class, or by part of a mixture."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from shardfeed.declared import Natural, Step, checked
from shardfeed.errors import UsageError, at_least
from shardfeed.pipelines.orders.arithmetic import floor_sum, golden_stride, hashed, permuted
from shardfeed.pipelines.orders.order import DrawnSamples, Fingerprint, IndexedOrder, Order

_TURN, _SLOTS, _STRATA, _PASS = range(6, 10)  # purposes of a key, as in `order`
MOST_DRAWN = 2**62  # samples of a run before its last phase: they are counted in 64 bits


@checked
@dataclass(frozen=True)
class StratifiedOrder(IndexedOrder):
    """A fixed number of samples of each stratum (a class, a part of a mixture) per epoch, evenly in each batch.

    `strata`: number of samples of each; they are numbered stratum by stratum. `quotas`: number of positions of an epoch
    for each; together `epoch_samples`, whole batches. From each stratum a batch gets the quota divided by the steps,
    rounded down or up; the batches with one more are spread evenly over the epoch. All samples of a stratum are used
    once, in random order and across epochs, before any repeats; then they are used in another order.

    The positions of an epoch are listed stratum by stratum and dealt to the batches in turn: with T steps, batch t gets
    positions t, t + T, t + 2T... Step s uses batch (stride * s + turn) mod T, with a stride near T over the golden
    ratio, so that batches with neighbouring t are far apart in time. In each epoch, the strata are listed again, and
    the positions within a batch permuted.
    """

    kind = "stratified"
    most_steps: ClassVar[int] = 2**31  # of an epoch: their square is counted in 64 bits

    strata: tuple[Natural, ...]
    quotas: tuple[Natural, ...]

    def __post_init__(self) -> None:
        if len(self.strata) != len(self.quotas) or sum(self.strata) != self.samples:
            raise UsageError("strata", "expected a quota for each stratum, and strata that hold all samples")
        if sum(self.quotas) != self.epoch_samples or self.epoch_samples % self.batch_size:
            raise UsageError("quotas", "expected quotas that add up to the whole batches of an epoch")
        if any(quota and not size for size, quota in zip(self.strata, self.quotas, strict=True)):
            raise UsageError("quotas", "a stratum without samples has a quota")
        if self.steps_per_epoch > self.most_steps:
            raise UsageError("epoch_samples", f"expected at most 2^31 steps per epoch, got {self.steps_per_epoch}")

    @property
    def shares(self) -> str:
        shares = ", ".join(f"{quota / self.epoch_samples:.3g}" for quota in self.quotas[:8])
        return f"shares {shares}{', ...' if len(self.quotas) > 8 else ''}"

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.shares}"

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        return self.after(epoch, positions, np.zeros(len(self.strata), np.int64))

    def after(self, epoch: int, positions: np.ndarray, others: np.ndarray) -> DrawnSamples:
        """Draw as if from each stratum `others` samples more had been drawn before: int64 [strata]."""
        count = self.steps_per_epoch
        steps, slots = np.divmod(positions, self.batch_size)
        stride, turn = golden_stride(count), self._turn(epoch)
        batches = (stride * steps + turn) % count
        cards = batches + count * permuted(slots, self.batch_size, hashed(self.seed, _SLOTS, epoch, steps))
        laid_out, ends = self._laid_out(epoch)
        found = np.searchsorted(ends, cards, "right")
        strata = laid_out[found]
        sizes, quota = np.array(self.strata, np.int64), np.array(self.quotas, np.int64)[strata]
        first = ends[found] - quota
        # Positions that its stratum had before: in earlier epochs, in earlier steps, in this batch.
        before = epoch * quota + self._before(epoch, steps, quota, first) + others[strata]
        within = (cards - first - (batches - first) % count) // count
        passes, places = np.divmod(before + within, sizes[strata])
        starts = np.cumsum(sizes) - sizes
        indices = starts[strata] + permuted(places, sizes[strata], hashed(self.seed, _PASS, strata, passes))
        return DrawnSamples(indices, passes)

    def counts(self, step: int) -> np.ndarray:
        """How many samples of each stratum the steps before `step` draw: int64 [strata]."""
        epoch, number = divmod(step, self.steps_per_epoch)
        laid_out, ends = self._laid_out(epoch)
        quotas = np.array(self.quotas, np.int64)
        firsts = ends[np.argsort(laid_out)] - quotas
        return epoch * quotas + self._before(epoch, np.full_like(quotas, number), quotas, firsts)

    def _turn(self, epoch: int) -> int:
        return int(hashed(self.seed, _TURN, epoch) % np.uint64(self.steps_per_epoch))

    def _laid_out(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The strata as an epoch's positions are listed by them, and the end of each in this list."""
        laid_out = permuted(np.arange(len(self.quotas)), len(self.quotas), hashed(self.seed, _STRATA, epoch))
        return laid_out, np.cumsum(np.array(self.quotas, np.int64)[laid_out])

    def _before(self, epoch: int, steps: np.ndarray, quota: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Positions before a step of an epoch that strata with these quotas, listed from `first` on, get, int64 [k]."""
        # Each batch gets quota // count positions, and batches less than quota % count after the first get one more.
        count, stride = self.steps_per_epoch, golden_stride(self.steps_per_epoch)
        offset, more = (self._turn(epoch) - first) % count, quota % count
        before = steps * (quota // count) + floor_sum(steps, count, stride, offset)
        return before + steps - floor_sum(steps, count, stride, offset - more + count)


@checked
@dataclass(frozen=True)
class PhasedOrder(IndexedOrder):
    """A `StratifiedOrder` whose quotas change at steps of the run: a mixture with weights by step.

    `starts`: the first step of each phase, ascending from 0. `datasets`: the fingerprint of each phase alone. `strata`:
    number of samples of each, of all phases. `quotas`: of each phase, of the first strata; the others join later.

    A step is drawn as by its phase alone, but after as many samples of each stratum as all phases drew before: for each
    of them a difference of two functions of a step. So the samples of a stratum stay in one line.
    """

    kind = "phased"

    starts: tuple[Step, ...]
    datasets: tuple[Fingerprint, ...]
    strata: tuple[Natural, ...]
    quotas: tuple[tuple[Natural, ...], ...]

    def __post_init__(self) -> None:
        ascend = self.starts[:1] == (0,) and all(first < second for first, second in pairwise(self.starts))
        if not ascend or sum(self.strata) != self.samples:
            problem = "expected steps that begin at 0 and ascend, and strata that hold all samples"
            raise UsageError("starts", problem)
        if not len(self.starts) == len(self.datasets) == len(self.quotas):
            raise UsageError("starts", "expected a dataset and quotas for the phase that begins at each step")
        at_least("starts", self.starts[-1], 0, MOST_DRAWN // self.batch_size)
        _ = self._phases  # their own numbers are checked, and that there are as many of all

    def __str__(self) -> str:
        phases = [f"from step {start:,} on {phase.shares}" for start, phase in self._phases]
        return "; ".join((super().__str__(), *phases))

    def until(self, step: int) -> list[tuple[int, Order]]:
        return [(start, phase) for start, phase in self._phases if start < max(step, 1)]

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        steps = epoch * self.steps_per_epoch + positions // self.batch_size
        numbers = np.searchsorted(self.starts, steps, "right") - 1
        drawn = DrawnSamples(np.empty_like(positions), np.empty_like(positions))
        for number in np.unique(numbers):
            of_phase = numbers == number
            found = self._phases[number][1].after(epoch, positions[of_phase], self._others[number])
            drawn.indices[of_phase], drawn.passes[of_phase] = found.indices, found.passes
        return drawn

    @cached_property
    def _phases(self) -> list[tuple[int, StratifiedOrder]]:
        """The first step and the order of each phase."""
        common = (self.batch_size, self.epoch_samples, self.seed)
        phases = []
        for start, dataset, quotas in zip(self.starts, self.datasets, self.quotas, strict=True):
            strata = self.strata[: len(quotas)]
            phases.append((start, StratifiedOrder(dataset, sum(strata), *common, strata, quotas)))
        return phases

    @cached_property
    def _others(self) -> list[np.ndarray]:
        """For each phase: samples of each stratum drawn before it, less those that it alone would have drawn."""
        others, drawn = [], np.zeros(len(self.strata), np.int64)
        for (start, phase), end in zip(self._phases, [*self.starts[1:], 0], strict=True):
            known = len(phase.strata)
            others.append(drawn[:known] - phase.counts(start))
            drawn[:known] = others[-1] + phase.counts(end)
        return others
