"""The order of samples in a training run, computed by arithmetic, without TensorFlow and without a table.

An order is a small frozen object, a function from (epoch, position) to a sample. Positions count the samples of an
epoch from 0; step s of an epoch is positions `s * batch_size` to `(s + 1) * batch_size - 1`, and each worker or replica
takes an equal, consecutive share of them. So the whole state of a run's input is one integer, the number of steps done,
and it means the same with another number of replicas.

An order has a readable repr, converts to JSON and back, and stores the fingerprint of the samples it was made for. It
gives the same samples on every machine and in every release.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from shardfeed.declared import Count, Range, Seed, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.arithmetic import MAX_SIZE, hashed, permuted

Fingerprint = str | Literal[""]  # "": of samples that have none
SampleCount = Annotated[int, Range(1, MAX_SIZE)]

# Purpose of a key: two uses of one seed must not draw the same numbers. `strata` has 6 to 9, `shapes` 10 to 12.
_EPOCH, _SAMPLE, _BLOCKS, _WINDOW, _ROTATION = range(1, 6)


class DrawnSamples(NamedTuple):
    """Samples at some positions, int64 [k].

    `indices`: of the samples, 0 to samples - 1. `passes`: number of completed passes over the sample's stratum (all
    samples, if there is one): the epoch, unless samples are drawn by quota. `shape`: (height, width) of the batch, if
    the order decides it.
    """

    indices: np.ndarray
    passes: np.ndarray
    shape: tuple[int, int] | None = None


@checked
@dataclass(frozen=True)
class Order:
    """Fields and methods common to all orders.

    `dataset`: fingerprint of the samples. `samples`: number of samples. `batch_size`: of all replicas together.
    `epoch_samples`: positions per epoch; if not a multiple of `batch_size`, the last batch is smaller.
    `seed`: 0 to 2^63 - 1; of the order and of the augmentation.

    Each order checks its fields when it is made, because it may come out of a file. Raises UsageError for a number
    that no order has.
    """

    kind: ClassVar[str]

    dataset: Fingerprint
    samples: SampleCount
    batch_size: Count
    epoch_samples: SampleCount
    seed: Seed

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch."""
        return -(-self.epoch_samples // self.batch_size)

    def until(self, step: int) -> list[tuple[int, "Order"]]:
        """All that decides the steps before `step`: the first step and the order of each phase that began by then."""
        del step
        return [(0, self)]

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `order_from_json` gives back."""
        return {"kind": self.kind, **asdict(self)}

    def __str__(self) -> str:
        return (
            f"{self.kind} order of {self.samples:,} samples, seed {self.seed}: "
            f"{self.steps_per_epoch:,} steps of {self.batch_size:,} per epoch (dataset {self.dataset[:8]})"
        )


@checked
@dataclass(frozen=True)
class StreamOrder(Order):
    """Shards shuffled, interleaved, through a buffer of `shuffle_buffer` records; read by `readers.tensorflow.stream`.

    `parts`: input pipelines (workers) that share the split; each streams its own part, so a different number of parts
    is a different order.
    """

    kind = "stream"

    shuffle_buffer: Count
    parts: Count = 1


@checked
@dataclass(frozen=True)
class IndexedOrder(Order):
    """An order with random access to its positions."""

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        """The samples at `positions` of an epoch, int64 [k], each within 0..epoch_samples - 1. `epoch` is 0 or more."""
        raise NotImplementedError

    @property
    def chunk(self) -> int:
        """Positions that are best drawn, and read, together."""
        return self.batch_size

    @property
    def chunks_per_epoch(self) -> int:
        """Chunks per epoch; the last one may be smaller."""
        return -(-self.epoch_samples // self.chunk)

    def shape(self, step: int) -> tuple[int, int] | None:
        """The (height, width) of the images of a step; None if the order does not decide it."""
        del step

    def drawn(self, step: int, part: int = 0, parts: int = 1) -> DrawnSamples:
        """Draw the samples of step `step` of the run; if `parts` share a batch, only share `part`."""
        epoch, number = divmod(step, self.steps_per_epoch)
        start = number * self.batch_size
        positions = np.arange(start, min(start + self.batch_size, self.epoch_samples))
        drawn = self.draw(epoch, positions[in_share(positions, self.batch_size, part, parts)])
        return drawn._replace(shape=self.shape(step))

    def batch(self, step: int, part: int = 0, parts: int = 1) -> np.ndarray:
        """Return the samples, int64 [k], for `drawn`."""
        return self.drawn(step, part, parts).indices

    def sample_seeds(self, passes: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The augmentation's seeds, int64 [k, 2]: a function of (seed, pass) and the sample's place."""
        return np.stack([hashed(self.seed, _SAMPLE, passes).astype(np.int64), places], axis=1)


@checked
@dataclass(frozen=True)
class StoredOrder(IndexedOrder):
    """Stored order, in each epoch. If an epoch has more positions than samples, they start again."""

    kind = "stored"

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        passes, indices = np.divmod(positions, self.samples)
        return DrawnSamples(indices, epoch * -(-self.epoch_samples // self.samples) + passes)


@checked
@dataclass(frozen=True)
class GlobalOrder(IndexedOrder):
    """A permutation of all samples, different in each epoch: any sample may come at any position.

    An epoch is the first `epoch_samples` of its permutation.
    """

    kind = "global"

    def __post_init__(self) -> None:
        _check_epoch(self)

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        indices = permuted(positions, self.samples, hashed(self.seed, _EPOCH, epoch))
        return DrawnSamples(indices, np.full_like(positions, epoch))


@checked
@dataclass(frozen=True)
class BlockOrder(IndexedOrder):
    """Blocks of adjacent samples in random order, shuffled within a window: for disks on which random reads are slow.

    In each epoch the samples are rotated by a random number of positions and cut into blocks of `block` samples; the
    blocks are permuted, and then the samples of each window of `window` samples (whole blocks). A window holds blocks
    from all over the split, and is read with one long read per block. Any sample may come at any position, but the
    samples of a block always stay within one window. Samples that do not fill a block come last.
    """

    kind = "blocks"

    block: Count
    window: Count

    def __post_init__(self) -> None:
        _check_epoch(self)
        if self.window % self.block:
            problem = f"got blocks of {self.block} in a window of {self.window}, expected a window of whole blocks"
            raise UsageError("window", problem)

    @property
    def chunk(self) -> int:
        return self.window

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        number = int(positions[0]) // self.window if len(positions) else 0
        if (positions // self.window == number).all():
            indices = _drawn_window(self, epoch, number)[positions - number * self.window]
        else:
            indices = self.indices(epoch, positions)
        return DrawnSamples(indices, np.full_like(positions, epoch))

    def indices(self, epoch: int, positions: np.ndarray) -> np.ndarray:
        """The samples at `positions`, computed for each."""
        windows = positions // self.window
        starts = windows * self.window
        sizes = np.minimum(self.window, self.samples - starts)
        turned = starts + permuted(positions - starts, sizes, hashed(self.seed, _WINDOW, epoch, windows))
        slots, rows = np.divmod(turned, self.block)
        if full := self.samples // self.block:
            blocks = permuted(np.minimum(slots, full - 1), full, hashed(self.seed, _BLOCKS, epoch))
            slots = np.where(slots < full, blocks, slots)
        turn = int(hashed(self.seed, _ROTATION, epoch) % np.uint64(self.samples))
        return (slots * self.block + rows + turn) % self.samples


@lru_cache(4)
def _drawn_window(order: BlockOrder, epoch: int, number: int) -> np.ndarray:
    """The samples of a window, for all its batches: computed for each batch, they take five times as long."""
    return order.indices(epoch, np.arange(number * order.window, min((number + 1) * order.window, order.samples)))


def _check_epoch(order: Order) -> None:
    """Raise UsageError for an epoch of more samples than there are: a permutation has no sample at its last places."""
    if order.epoch_samples > order.samples:
        raise UsageError("epoch_samples", f"got {order.epoch_samples}, expected at most {order.samples}, all samples")


def progress(order: Order, step: int, *, endless: bool) -> str:
    """An order and the number of steps done in it, for the repr of what counts them."""
    steps = f"{order.steps_per_epoch:,} steps per epoch{', endless' if endless else ''}, {step:,} done"
    return f"batch size {order.batch_size:,}, order {order.kind}, seed {order.seed}, {steps}"


def in_share(positions: np.ndarray, batch_size: int, part: int, parts: int) -> np.ndarray:
    """Select the positions of share `part` of their batch: bool [k]; each of `parts` has an equal, consecutive share.

    Raises UsageError unless the parts can share a batch evenly.
    """
    if batch_size % parts:
        raise UsageError("batch_size", f"got {batch_size}, expected a multiple of {parts}, which share each batch")
    return (positions % batch_size) // (batch_size // parts) == part
