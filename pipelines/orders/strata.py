"""The order of samples that are drawn by quota: by class, or by part of a mixture."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shardfeed.pipelines.orders.arithmetic import floor_sum, golden_stride, hashed, permuted
from shardfeed.pipelines.orders.order import DrawnSamples, IndexedOrder

_TURN, _SLOTS, _STRATA, _PASS = range(6, 10)  # purposes of a key, as in `order`


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

    strata: tuple[int, ...]
    quotas: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.strata) != len(self.quotas) or sum(self.strata) != self.samples:
            raise ValueError("expected a quota for each stratum, and strata that hold all samples")
        if sum(self.quotas) != self.epoch_samples or self.epoch_samples % self.batch_size:
            raise ValueError("expected quotas that add up to the whole batches of an epoch")
        if any(quota and not size for size, quota in zip(self.strata, self.quotas, strict=True)):
            raise ValueError("a stratum without samples has a quota")
        if self.steps_per_epoch > self.most_steps:
            raise ValueError(f"expected at most 2^31 steps per epoch, got {self.steps_per_epoch}")

    def __str__(self) -> str:
        shares = ", ".join(f"{quota / self.epoch_samples:.3g}" for quota in self.quotas[:8])
        return f"{super().__str__()}; shares {shares}{', ...' if len(self.quotas) > 8 else ''}"

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        count = self.steps_per_epoch
        steps, slots = np.divmod(positions, self.batch_size)
        stride = golden_stride(count)
        turn = int(hashed(self.seed, _TURN, epoch) % np.uint64(count))
        batches = (stride * steps + turn) % count
        cards = batches + count * permuted(slots, self.batch_size, hashed(self.seed, _SLOTS, epoch, steps))
        quotas, sizes = np.array(self.quotas, np.int64), np.array(self.strata, np.int64)
        laid_out = permuted(np.arange(len(quotas)), len(quotas), hashed(self.seed, _STRATA, epoch))
        ends = np.cumsum(quotas[laid_out])
        found = np.searchsorted(ends, cards, "right")
        strata = laid_out[found]
        quota, first = quotas[strata], ends[found] - quotas[strata]
        # Positions that its stratum had before: in earlier epochs, in earlier steps, in this batch. Each batch gets
        # quota // count positions, and batches less than quota % count after the first get one more.
        offset, more = (turn - first) % count, quota % count
        before = steps * (quota // count) + floor_sum(steps, count, stride, offset)
        before += steps - floor_sum(steps, count, stride, offset - more + count)
        within = (cards - first - (batches - first) % count) // count
        passes, places = np.divmod(epoch * quota + before + within, sizes[strata])
        starts = np.cumsum(sizes) - sizes
        indices = starts[strata] + permuted(places, sizes[strata], hashed(self.seed, _PASS, strata, passes))
        return DrawnSamples(indices, passes)
