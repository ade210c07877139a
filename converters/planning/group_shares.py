"""Draw a split for each group of samples: shares as exact, in all and in each class, as groups allow.

By hash a group's own draw decides. Exact: groups of similar size and the same class are sorted by their draws and cut
at borders, as single samples are, from the largest size to the smallest; each size compensates for the errors of larger
ones. So adding files moves few groups. Finally, single groups move as long as that brings shares closer.

All sums are of integers: sums of floats differ in their last bit between processors.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from shardfeed.converters.planning.options import SplitBy
from shardfeed.converters.planning.split_shares import (
    exact_shares,
    largest_in_the_middle,
    largest_remainders,
    split_by_hash,
)
from shardfeed.text import in_usual_order

_WHOLE = 2**20  # the whole that shares are parts of
_FINE = 2**16  # of that: errors are counted in 16ths of a sample
_PARTS, _GOLDEN = 256, 159  # of a group; multiples of the second, near the golden ratio, lie far apart
_MOVABLE = 20_000  # groups, the smallest ones, that may be moved at the end
_MOVES = 2_000


def draw_group_splits(
    groups: np.ndarray,
    draws: np.ndarray,
    labels: np.ndarray,
    shares: Mapping[str, float],
    split_by: SplitBy,
    fixed: np.ndarray,
    splits: Sequence[str],
) -> dict[str, np.ndarray]:
    """The numbers of the samples of each split, int64 [of the split]: like `SplitDraw`, but by group.

    Args:
        groups: int64 [n], the group of each sample; n is not 0.
        draws: uint64 [groups], each group's draw.
        labels: int32 [n], the class of each sample.
        shares: the share of each split; their order does not matter.
        split_by: "exact", or "hash" for a group's draw alone to decide.
        fixed: int64 [groups], the index in `splits` of a group's existing split, or -1.
        splits: names of splits, perhaps without a share.
    """
    exact = exact_shares({name: shares[name] for name in in_usual_order(shares)})
    names = in_usual_order(shares) if split_by == "hash" else largest_in_the_middle(exact)
    every = [*names, *(name for name in splits if name not in names)]
    split_of = np.array([*map(every.index, splits), -1])[fixed]
    open_ = split_of < 0
    if split_by == "hash":
        split_of[open_] = split_by_hash(draws[open_], shares)
    else:
        parts = largest_remainders(_WHOLE, [exact[name] for name in names])
        order = np.argsort(draws, kind="stable")  # not as the source lists them
        drawn = _Draw(np.argsort(order)[groups], labels, np.array(parts), split_of[order])
        drawn.run()
        split_of[order] = drawn.split_of
    return {name: np.flatnonzero(split_of[groups] == number) for number, name in enumerate(every)}


class _Draw:
    """The exact draw, for groups in the order of their draws.

    `split_of` int64 [groups]: -1 if it must be drawn; splits without a share come last. `of`, `classes`, `counts` [m]:
    number of samples of each class in each group, sorted by group. `main`: the class that most samples of a group have.
    `parts`: the share of each split, of _WHOLE.
    """

    def __init__(self, groups: np.ndarray, labels: np.ndarray, parts: np.ndarray, split_of: np.ndarray) -> None:
        self.parts, self.split_of = parts, split_of
        numbers = np.unique(labels, return_inverse=True)[1]
        self.kinds = int(numbers.max()) + 1
        pairs, self.counts = np.unique(groups * self.kinds + numbers, return_counts=True)
        self.of, self.classes = np.divmod(pairs, self.kinds)
        self.sizes = np.bincount(groups, minlength=len(split_of))
        largest = np.lexsort((self.classes, -self.counts, self.of))[::-1]
        self.main = np.zeros(len(split_of), np.int64)
        self.main[self.of[largest]] = self.classes[largest]  # the last of one group counts: its largest

    def run(self) -> None:
        """Draw the splits."""
        open_, every = np.flatnonzero((self.split_of < 0) & (self.sizes > 0)), np.ones(len(self.sizes), bool)
        huge = open_[self.sizes[open_] * _WHOLE > int(self.sizes.sum()) * int(self.parts.min())]  # no split is smaller
        for group in huge[np.argsort(-self.sizes[huge], kind="stable")].tolist():
            self.split_of[group] = np.argmax(self._lacking(every).sum(axis=0))
        levels = np.frexp(self.sizes)[1]  # the sizes of groups of one level differ by less than 2
        for level in np.unique(levels[open_])[::-1]:
            self._cut(open_[(levels[open_] == level) & (self.split_of[open_] < 0)], int(level))
        if len(open_):
            self._mend(np.sort(open_[np.argsort(self.sizes[open_], kind="stable")][:_MOVABLE]))

    def _lacking(self, counted: np.ndarray) -> np.ndarray:
        """Samples of each class that each split lacks of its share of the groups `counted`, bool [groups].

        int64 [classes, splits], times _WHOLE.
        """
        found = np.zeros((self.kinds, max(len(self.parts), int(self.split_of.max()) + 1) + 1), np.int64)  # and for -1
        np.add.at(found, (self.classes, self.split_of[self.of]), self.counts)
        total, chosen = np.zeros(self.kinds, np.int64), counted[self.of]
        np.add.at(total, self.classes[chosen], self.counts[chosen])
        return total[:, None] * self.parts - found[:, : len(self.parts)] * _WHOLE

    def _cut(self, groups: np.ndarray, level: int) -> None:
        """Cut the groups of each class at borders that make up for what each split lacks so far."""
        groups = groups[np.argsort(self.main[groups], kind="stable")]
        main, sizes = self.main[groups], self.sizes[groups]
        now, so_far = np.zeros(self.kinds, np.int64), (self.split_of >= 0) & (self.split_of < len(self.parts))
        np.add.at(now, main, sizes)
        so_far[groups] = True
        # A split gets its share of what larger groups and these have: it is not filled with large groups alone.
        wanted = np.maximum(self._lacking(so_far), 0)
        wanted[~wanted.any(axis=1)] = self.parts
        borders = wanted.cumsum(axis=1)
        # The part of a group that must be past a border for it to move differs between classes: else the groups of all
        # classes with few groups would go to the largest split.
        part = (_PARTS // 2 + _GOLDEN * (main + level) * (self.kinds > 1)) % _PARTS
        ends = sizes.cumsum() - (now.cumsum() - now)[main]
        place = (ends * _PARTS - sizes * part) / (now[main] * _PARTS)
        self.split_of[groups] = (place[:, None] > (borders[:, :-1] / borders[:, -1:])[main]).sum(axis=1)

    def _mend(self, groups: np.ndarray) -> None:
        """Repeatedly move the group that brings shares closest to the requested ones.

        The loss is the sum of squared errors of each class in each split, and of each split with the weight of all
        classes together.
        """
        entries = np.flatnonzero(np.isin(self.of, groups))
        row = np.concatenate([np.searchsorted(groups, self.of[entries]), np.arange(len(groups))])
        order = np.argsort(row, kind="stable")
        classes = np.concatenate([self.classes[entries], np.full(len(groups), self.kinds)])[order]
        counts = np.concatenate([self.counts[entries], self.sizes[groups]])[order]
        weighed = np.where(classes == self.kinds, self.kinds, 1) * counts
        starts = np.searchsorted(row[order], np.arange(len(groups) + 1))
        squares = np.add.reduceat(weighed * counts, starts[:-1]) * (_WHOLE // _FINE)
        excess = -self._lacking(np.ones(len(self.sizes), bool))
        excess = np.concatenate([excess, excess.sum(axis=0, keepdims=True)]) // _FINE
        each, split_of = np.arange(len(groups)), self.split_of[groups]
        for _ in range(_MOVES):
            change = np.add.reduceat(weighed[:, None] * excess[classes], starts[:-1])
            change += squares[:, None] - change[each, split_of][:, None]
            change[each, split_of] = 0
            best, split = np.divmod(np.argmin(change), change.shape[1])
            if change[best, split] >= 0:
                break
            moved = slice(starts[best], starts[best + 1])
            counted = counts[moved] * (_WHOLE // _FINE)
            excess[classes[moved], split_of[best]] -= counted
            excess[classes[moved], split] += counted
            split_of[best] = split
        self.split_of[groups] = split_of


def join(root: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    """Merge the sets of each pair, int64 [k] each. `root`: the smallest member of each member's set, int64 [n]."""
    while len(apart := np.flatnonzero(root[one] != root[other])):
        one, other = one[apart], other[apart]
        least = np.minimum(root[one], root[other])
        np.minimum.at(root, root[one], least)
        np.minimum.at(root, root[other], least)
        while (root[root] != root).any():
            root[:] = root[root]
