"""Readers of a sparse copy: the order that each follows, and when a record is needed next."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from shardfeed.pipelines.orders.order import BlockOrder, IndexedOrder, StoredOrder, in_share

_AHEAD_SAMPLES = 256  # fetched ahead of a reader at least: a chunk, or more
_DRAWN = 1 << 20  # positions that are drawn at once
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Following:
    """The order that a reader follows: the places of a chunk of it, numbered over all epochs.

    `start`, `step`: place of the view's first sample, and from each to the next. `part` of `parts`: the share of each
    batch that is read on this machine by this reader; blocks are fetched whole. `held`: for a part of a mixture,
    the numbers of its first sample in the mixture, and of the one after its last; None: the view is no such part.
    """

    order: IndexedOrder
    start: int
    step: int
    part: int = 0
    parts: int = 1
    held: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        """Whether chunks are fetched whole, whatever the share: their samples are neighbours."""
        return isinstance(self.order, BlockOrder | StoredOrder)

    @property
    def ahead(self) -> int:
        """Number of chunks that are fetched before they are requested."""
        return 1 if isinstance(self.order, BlockOrder) else -(-_AHEAD_SAMPLES * self.parts // self.order.chunk)

    def places(self, chunk: int) -> np.ndarray:
        """The places of a chunk, int64 [k]."""
        return _places(self, chunk)

    def drawn(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places at positions of an epoch, and these positions, both int64 [k], without samples of other parts."""
        indices = self.order.draw(epoch, positions).indices
        if self.held is not None:
            own = (indices >= self.held[0]) & (indices < self.held[1])
            indices, positions = indices[own] - self.held[0], positions[own]
        return self.start + self.step * indices, positions

    def uses(self, epoch: int, records: int) -> np.ndarray:
        """The chunk of the epoch that needs each place of the split, int32 [records]; -1 if none does."""
        return _uses(self, epoch, records)


@lru_cache(16)
def _places(following: Following, chunk: int) -> np.ndarray:
    order = following.order
    epoch, number = divmod(chunk, following.order.chunks_per_epoch)
    positions = np.arange(number * order.chunk, min((number + 1) * order.chunk, order.epoch_samples))
    if not following.whole:
        positions = positions[in_share(positions, order.batch_size, following.part, following.parts)]
    return following.drawn(epoch, positions)[0]


@lru_cache(4)
def _uses(following: Following, epoch: int, records: int) -> np.ndarray:
    order, found = following.order, np.full(records, -1, np.int32)
    for start in range(0, order.epoch_samples, _DRAWN):
        positions = np.arange(start, min(start + _DRAWN, order.epoch_samples))
        places, positions = following.drawn(epoch, positions)
        found[places] = positions // order.chunk
    return found


@dataclass
class Reader:
    """A process that reads, over some connections. `oldest`, `newest`: chunks of its order that it reads now.

    A process that reads nothing has neither: one that leaves reading to its workers must not hold the first chunks.
    """

    name: str
    following: Following | None
    oldest: int | None = None
    newest: int | None = None
    fetched: int = field(default=-1)  # the last chunk that was fetched ahead
    connections: int = 0
    at_once: int = 0  # bytes that it reads together, in no order that is known here

    def needed(self) -> Iterator[np.ndarray]:
        """Positions that must be kept: those of the chunks being read, and of the next ones."""
        if self.following is not None and self.oldest is not None and self.newest is not None:
            for chunk in range(self.oldest, self.newest + self.following.ahead + 1):
                yield self.following.places(chunk)


def next_uses(readers: Iterable[Reader], records: int) -> np.ndarray:
    """Number of samples until each record is next needed by any reader: int64 [records]."""
    soonest = np.full(records, _NEVER)
    slowest: dict[Following, int] = {}
    for reader in readers:
        if reader.following is not None and reader.oldest is not None:
            slowest[reader.following] = min(reader.oldest, slowest.get(reader.following, reader.oldest))
    for following, now in slowest.items():
        per_epoch = following.order.chunks_per_epoch
        for epoch in (now // per_epoch + 1, now // per_epoch):
            uses = following.uses(epoch, records).astype(np.int64)
            distance = (epoch * per_epoch + uses - now) * following.order.chunk
            soonest = np.where((uses >= 0) & (distance > 0), np.minimum(soonest, distance), soonest)
    return soonest
