"""Readers of a sparse copy: the order that each follows, and when a record is needed next."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from shardfeed.pipelines.orders.order import BlockOrder, IndexedOrder, StoredOrder, in_share

_AHEAD_SAMPLES = 256  # minimum fetched ahead of a reader: one chunk or more
_DRAWN = 1 << 20  # positions drawn at once
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class FollowedOrder:
    """The order that a reader follows: the places of each chunk, numbered over all epochs.

    `start`, `step`: place of the view's first sample, and the distance between samples. `part` of `parts`: the share
    of each batch that this reader reads on this machine; blocks are fetched whole. `held`: for a part of a mixture, the
    number of its first sample in the mixture, and of the one after its last; None: the view is not part of a mixture.
    """

    order: IndexedOrder
    start: int
    step: int
    part: int = 0
    parts: int = 1
    held: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        """Whether chunks are fetched whole, regardless of the share: their samples are neighbours."""
        return isinstance(self.order, BlockOrder | StoredOrder)

    @property
    def ahead(self) -> int:
        """Number of chunks that are fetched before they are requested."""
        return 1 if isinstance(self.order, BlockOrder) else -(-_AHEAD_SAMPLES * self.parts // self.order.chunk)

    @lru_cache(16)  # noqa: B019 (a fetcher has few orders, and they are small)
    def places(self, chunk: int) -> np.ndarray:
        """The places of a chunk in the split, int64 [k]."""
        epoch, number = divmod(chunk, self.order.chunks_per_epoch)
        end = min((number + 1) * self.order.chunk, self.order.epoch_samples)
        positions = np.arange(number * self.order.chunk, end)
        if not self.whole:
            positions = positions[in_share(positions, self.order.batch_size, self.part, self.parts)]
        return self.drawn(epoch, positions)[0]

    def drawn(self, epoch: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the split, and positions in the epoch, both int64 [k], without other parts' samples."""
        indices = self.order.draw(epoch, positions).indices
        if self.held is not None:
            own = (indices >= self.held[0]) & (indices < self.held[1])
            indices, positions = indices[own] - self.held[0], positions[own]
        return self.start + self.step * indices, positions

    @lru_cache(4)  # noqa: B019
    def uses(self, epoch: int, records: int) -> np.ndarray:
        """The chunk of the epoch that needs each record of the split, int32 [records]; -1 if none does."""
        found = np.full(records, -1, np.int32)
        for start in range(0, self.order.epoch_samples, _DRAWN):
            positions = np.arange(start, min(start + _DRAWN, self.order.epoch_samples))
            places, positions = self.drawn(epoch, positions)
            found[places] = positions // self.order.chunk
        return found


@dataclass
class CopyReader:
    """A process that reads over some connections. `oldest`, `newest`: chunks of its order that it is reading now.

    Both are None while it reads nothing: a process whose workers read must not hold the first chunks.
    """

    name: str
    following: FollowedOrder | None
    oldest: int | None = None
    newest: int | None = None
    fetched: int = field(default=-1)  # the last chunk that was fetched ahead
    connections: int = 0
    at_once: int = 0  # bytes that it reads together, without a known order
    source: Hashable = None  # see `SparseCopy.sources`

    def needed(self) -> Iterator[np.ndarray]:
        """Places that must be kept: those of the chunks being read, and of the next ones."""
        if self.following is not None and self.oldest is not None and self.newest is not None:
            for chunk in range(self.oldest, self.newest + self.following.ahead + 1):
                yield self.following.places(chunk)


def next_uses(readers: Iterable[CopyReader], records: int) -> np.ndarray:
    """Number of samples until each record is next needed by any reader: int64 [records]."""
    soonest = np.full(records, _NEVER)
    slowest: dict[FollowedOrder, int] = {}
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
