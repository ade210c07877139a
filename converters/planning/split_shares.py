"""Assign each sample to a split: by shares that are exact to the image, or by its key alone.

Exact: `counts_by_class` computes how many images of each class go to each split; images with the smallest draws go to
the first split, and so on. If files are added, every draw stays, and only images near such a border move.
"""

import hashlib
import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, lcm

import numpy as np

from shardfeed.converters.planning.options import SplitBy
from shardfeed.converters.sources.source import Sample
from shardfeed.schema import LABEL, Schema
from shardfeed.text import in_usual_order

_DENOMINATOR = 10**9  # of a share: 0.1 is then a tenth, and 1 / 3 a third, whatever a float makes of them
_OFFSETS = 2**32  # what an offset is a part of
_GOLDEN = 2654435769  # of it, by the golden ratio: multiples of this lie as far apart as they can


def draw(key: bytes, seed: int) -> bytes:
    """Draw 16 bytes for a sample from its key and the seed: 8 decide its split, 8 its place in it."""
    return hashlib.blake2b(key, digest_size=16, key=str(seed).encode()).digest()


# The draws uint64 [n], classes int32 [n] and numbers int64 [n] of samples.
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]


class SplitDraw:
    """The split of each sample for which the source names none: `names`, and an index into them for each sample.

    Args:
        blocks: iterate over these samples, in any order; called several times.
        shares: the share of each split; their order does not matter.
        split_by: "exact", or "hash" for a draw alone to decide: as a fraction of 2^64 it lies in the share of a split.
    """

    def __init__(self, blocks: Callable[[], Iterable[Drawn]], shares: Mapping[str, float], split_by: SplitBy) -> None:
        exact = exact_shares({name: shares[name] for name in in_usual_order(shares)})
        self._shares, self._by_hash = shares, split_by == "hash"
        self.names = in_usual_order(shares) if self._by_hash else largest_in_the_middle(exact)
        if len(self.names) > 1 and not self._by_hash:
            sizes = Counter[int]()
            for _, labels, _ in blocks():
                values, counts = np.unique(labels, return_counts=True)
                sizes.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            self._classes = np.array(sorted(sizes))
            counts = counts_by_class([sizes[i] for i in sorted(sizes)], [exact[name] for name in self.names])
            self._borders = _borders(blocks, self._classes, counts)

    def places(self, drawn: Drawn) -> np.ndarray:
        """The places in `names` of the splits of samples, int64 [n]."""
        draws, labels, numbers = drawn
        if self._by_hash:
            return split_by_hash(draws, self._shares)
        places = np.zeros(len(draws), np.int64)
        if len(self.names) > 1:
            classes = np.searchsorted(self._classes, labels)
            for border in self._borders.T:
                of_class = border[classes]
                first, tie = of_class["draw"], of_class["number"]
                places += (draws > first) | ((draws == first) & (numbers >= tie))
        return places


_MOST_BINS = 1 << 20
_NEAR = 1 << 16  # samples that are sorted, about: all, where there are not more
_BORDER = np.dtype([("draw", "<u8"), ("number", "<i8")])


def _borders(blocks: Callable[[], Iterable[Drawn]], classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The first sample after each border between splits: _BORDER [classes, splits - 1].

    Each class is cut into `counts`, int64 [classes, splits], by draw, equal draws by number. The draws of each class
    are counted in bins of equal width; only the samples in the bin of a border are kept and sorted.
    """
    ranks = counts.cumsum(axis=1)[:, :-1]
    bins = max(1, min(_MOST_BINS // len(classes), int(counts.sum()) * ranks.shape[1] // _NEAR))

    def cells(draws: np.ndarray, labels: np.ndarray) -> np.ndarray:
        bin_of = (draws >> np.uint64(32)) * np.uint64(bins) >> np.uint64(32)
        return np.searchsorted(classes, labels) * bins + bin_of.astype(np.int64)

    within = np.zeros(len(classes) * bins, np.int64)
    for draws, labels, _ in blocks():
        within += np.bincount(cells(draws, labels), minlength=len(within))
    until = within.reshape(len(classes), bins).cumsum(axis=1)
    found = np.full(ranks.shape, np.array((2**64 - 1, 2**63 - 1), _BORDER))  # after all samples
    of_class, split = np.nonzero(ranks < until[:, -1:])
    rank = ranks[of_class, split]
    cell = of_class * bins + (until[of_class] <= rank[:, None]).sum(axis=1)
    wanted = np.zeros(len(within), bool)
    wanted[cell] = True
    kept = []
    for draws, labels, numbers in blocks():
        of_sample = cells(draws, labels)
        near = wanted[of_sample]
        kept.append((numbers[near], draws[near], of_sample[near]))
    numbers, draws, of_sample = map(np.concatenate, zip(*kept, strict=True))
    order = np.lexsort((numbers, draws, of_sample))
    before = (until.ravel() - within)[cell]
    first = order[np.searchsorted(of_sample[order], cell) + rank - before]
    found["draw"][of_class, split], found["number"][of_class, split] = draws[first], numbers[first]
    return found


def split_by_hash(draws: np.ndarray, shares: Mapping[str, float]) -> np.ndarray:
    """The split that each of `draws`, uint64 [n], falls into: int64 [n], places in the usual order of `shares`."""
    bounds = np.cumsum([shares[name] for name in in_usual_order(shares)])[:-1]
    return np.searchsorted(bounds, draws / 2.0**64, side="right")


def largest_in_the_middle(shares: Mapping[str, Fraction]) -> list[str]:
    """Names of splits: the smaller, the further from the middle. Images rarely cross a border near an end."""
    falling = sorted(shares, key=lambda name: -shares[name])
    return [*reversed(falling[2::2]), falling[0], *falling[1::2]]


def exact_shares(shares: Mapping[str, float]) -> dict[str, Fraction]:
    """The shares as they were meant, with a sum of exactly 1."""
    meant = {name: Fraction(str(float(share))).limit_denominator(_DENOMINATOR) for name, share in shares.items()}
    total = sum(meant.values())
    return {name: share / total for name, share in meant.items()}


def largest_remainders(total: int, shares: Sequence[Fraction]) -> list[int]:
    """Share out `total`: round each part down, then add one to the parts that lost most, the first of equal ones.

    `shares` add up to 1; so do the parts to `total`, and each is less than one off.
    """
    parts = [total * share for share in shares]
    whole = [int(part) for part in parts]
    lost = sorted(range(len(parts)), key=lambda i: whole[i] - parts[i])
    for i in lost[: total - sum(whole)]:
        whole[i] += 1
    return whole


def counts_by_class(sizes: Sequence[int] | np.ndarray, shares: Sequence[Fraction]) -> np.ndarray:
    """int64 [classes, splits]: how many images of each class go to each split.

    Each number is `sizes[class] * shares[split]`, rounded down or up. A row adds up to `sizes[class]`, a column to its
    split's share of all images, rounded down or up. `shares` add up to 1.

    In each class, the border after a split is the share of this and all earlier splits, plus an offset of the class,
    rounded down. Then, as long as one split has too many images and another too few, classes that rounded the first up
    and the second down swap the two; through a third split if no class has both. Design note 002 explains why that ends
    within one image of each share.
    """
    rounding = _Rounding(sizes, shares)
    total = int(np.sum(sizes))
    exact = [total * share for share in shares]
    # At most one image too many anywhere, then at most one too few; the largest remainders, as far as classes allow.
    for target in ([ceil(part) for part in exact], [floor(part) for part in exact], largest_remainders(total, shares)):
        rounding.level(np.array(target))
    return rounding.counts


class _Rounding:
    """Each class's number in each split, rounded down, and whether up instead; arrays are [classes, splits]."""

    def __init__(self, sizes: Sequence[int] | np.ndarray, shares: Sequence[Fraction]) -> None:
        whole = lcm(*(share.denominator for share in shares))
        parts = np.array([int(share * whole) for share in shares], object)  # Python's numbers: these do not overflow
        products = np.array([int(size) for size in sizes], object)[:, None] * parts
        self._down = (products // whole).astype(np.int64)
        self._lost = (products % whole / whole).astype(np.float64)  # by rounding down; 0 if nothing is rounded
        # A different offset per class: otherwise all classes of one size would round the same split down.
        offsets = np.array([number * _GOLDEN % _OFFSETS for number in range(1, len(sizes) + 1)], object)
        borders = (products.cumsum(axis=1) * _OFFSETS + offsets[:, None] * whole) // (whole * _OFFSETS)
        self._up = np.diff(borders.astype(np.int64), axis=1, prepend=0) > self._down

    @property
    def counts(self) -> np.ndarray:
        return self._down + self._up

    def level(self, target: np.ndarray) -> None:
        """Move images from splits above `target`, int64 [splits], to those below, as long as classes allow it."""
        while path := self._path(excess := self.counts.sum(axis=0) - target):
            steps = list(pairwise(path))
            number = min(excess[path[0]], -excess[path[-1]], *(len(self._swaps(*step)) for step in steps))
            for over, under in steps:
                classes = self._swaps(over, under)
                loss = self._lost[classes, over] - self._lost[classes, under]
                cheapest = classes[np.argsort(loss, kind="stable")[:number]]
                self._up[cheapest, over] = False
                self._up[cheapest, under] = True

    def _swaps(self, over: int, under: int) -> np.ndarray:
        """The classes that round split `over` up and may round `under` up instead."""
        return np.flatnonzero(self._up[:, over] & ~self._up[:, under] & (self._lost[:, under] > 0))

    def _path(self, excess: np.ndarray) -> list[int]:
        """The shortest path of swaps from a split with too many images to one with too few; [] if there is none."""
        paths = deque([int(split)] for split in np.flatnonzero(excess > 0))
        reached = {path[0] for path in paths}
        while paths:
            path = paths.popleft()
            for split in range(len(excess)):
                if split not in reached and len(self._swaps(path[-1], split)):
                    if excess[split] < 0:
                        return [*path, split]
                    reached.add(split)
                    paths.append([*path, split])
        return []


def has_label(schema: Schema) -> bool:
    """Whether every sample has one label by which its split can be drawn."""
    feature = schema.features.get(LABEL)
    return feature is not None and feature.scalar and schema.kind(LABEL) == "label"


def label_of(sample: Sample) -> int:
    """First label of a sample; -1 for an invalid one, which is refused when it is encoded."""
    try:
        label = operator.index(sample.features[LABEL])  # type: ignore[arg-type]  # NumPy's integers are labels too
    except (KeyError, TypeError):
        return -1
    return label if 0 <= label < 2**31 else -1
