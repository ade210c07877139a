"""Groups are in one split each, shares are as exact as they allow, and few groups move when files are added."""

import random
from itertools import permutations

import numpy as np
import pytest

from shardfeed.converters.planning.group_shares import draw_group_splits

TENTHS = {"train": 0.8, "validation": 0.1, "test": 0.1}
SPLITS = ["train", "validation", "test", "official"]


def draws_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def drawn(
    groups: np.ndarray, labels: np.ndarray, draws: np.ndarray, shares: dict[str, float], by: str, fixed: np.ndarray
) -> np.ndarray:
    """The split of each group, as text, where every sample has one and those of a group have the same."""
    found = draw_group_splits(groups, draws, labels.astype(np.int32), shares, by, fixed, SPLITS)  # type: ignore[arg-type]
    members = np.concatenate([*found.values()])
    assert sorted(members.tolist()) == list(range(len(groups))), "each sample has one split"
    of_sample = np.repeat([*found], [*map(len, found.values())])[np.argsort(members)]
    of_group = np.full(len(draws), "no samples")
    of_group[groups] = of_sample
    assert (of_group[groups] == of_sample).all(), "a group is in two splits"
    there = fixed >= 0
    there[np.setdiff1d(np.arange(len(draws)), groups)] = False
    assert (of_group[there] == np.array(SPLITS)[fixed[there]]).all(), "a group left its split"
    return of_group


def random_structures(number: int) -> None:
    """Group sizes, classes, shares and groups with a split of their own, of all kinds."""
    choose = random.Random(25)
    for seed in range(number):
        some = np.random.default_rng(seed)
        count = choose.randint(1, 60)
        sizes = 1 + (some.pareto(choose.choice([0.8, 2, 9]), count) * choose.choice([0, 1, 5])).astype(np.int64)
        groups = some.permutation(np.repeat(np.arange(count), np.minimum(sizes, 300)))
        classes = choose.choice([1, 2, 10, 100])
        labels = np.where(some.random(len(groups)) < 0.5, groups, some.integers(0, 1000, len(groups))) % classes - 1
        cuts = sorted(choose.sample(range(1, 100), choose.randint(0, 2)))
        parts = [(b - a) / 100 for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
        shares = dict(zip(["train", "validation", "test"], parts, strict=False))
        fixed = np.where(some.random(count) < choose.choice([0, 0.2]), some.integers(0, 4, count), -1)
        by = choose.choice(["exact", "exact", "hash"])
        drawn(groups, labels, draws_of(count, seed), shares, by, fixed)


def test_no_group_is_in_two_splits() -> None:
    random_structures(100)


@pytest.mark.torture
def test_no_group_is_in_two_splits_in_ten_thousand_structures() -> None:
    random_structures(10_000)


def many(count: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of 1 to 7 samples, of one class each; and what they draw."""
    some = np.random.default_rng(seed)
    groups = np.repeat(np.arange(count), some.integers(1, 8, count))
    return groups, some.integers(0, classes, count)[groups], draws_of(count, seed)


def share_errors(groups: np.ndarray, labels: np.ndarray, of_group: np.ndarray) -> tuple[float, float]:
    """The largest error of a split, and of a split of a class, in samples."""
    of_sample = of_group[groups]
    worst = [
        max(abs(np.sum(of_sample[here] == name) - share * np.sum(here)) for name, share in TENTHS.items())
        for here in [labels >= 0, *(labels == one for one in np.unique(labels))]
    ]
    return worst[0], max(worst[1:])


@pytest.mark.parametrize(("count", "classes", "most"), [(3000, 10, 4), (3000, 100, 10), (400, 2, 4)])
def test_shares_are_within_a_sample_in_all_and_within_a_group_in_each_class(
    count: int, classes: int, most: float
) -> None:
    for seed in range(4):
        groups, labels, draws = many(count, classes, seed)
        found = share_errors(groups, labels, drawn(groups, labels, draws, TENTHS, "exact", np.full(count, -1)))
        assert found[0] < 1
        assert found[1] <= most


def test_a_group_larger_than_a_small_split_goes_to_the_large_one() -> None:
    groups = np.repeat(np.arange(41), [60, *[1] * 40])
    of_group = drawn(groups, np.zeros(100, int), draws_of(41), TENTHS, "exact", np.full(41, -1))
    assert of_group[0] == "train"
    assert {name: int((of_group[groups] == name).sum()) for name in TENTHS} == {
        "train": 80,
        "validation": 10,
        "test": 10,
    }


def test_classes_of_few_groups_are_not_all_in_the_largest_split() -> None:
    groups = np.repeat(np.arange(300), 8)
    labels = groups % 100
    of_group = drawn(groups, labels, draws_of(300), TENTHS, "exact", np.full(300, -1))
    assert share_errors(groups, labels, of_group)[0] == 0


@pytest.mark.parametrize(("count", "classes", "most"), [(1000, 1, 0.015), (3000, 10, 0.015), (10_000, 100, 0.015)])
def test_one_percent_more_groups_move_few_others(count: int, classes: int, most: float) -> None:
    moved = []
    for seed in range(6):
        groups, labels, draws = many(count, classes, seed)
        before = groups < count * 99 // 100
        old = count * 99 // 100
        one = drawn(groups[before], labels[before], draws[:old], TENTHS, "exact", np.full(old, -1))
        two = drawn(groups, labels, draws, TENTHS, "exact", np.full(count, -1))[:old]
        moved.append(np.mean(one[groups[before]] != two[groups[before]]))
    assert 0 < np.mean(moved) < most


def test_by_hash_no_other_group_moves() -> None:
    groups, labels, draws = many(1000, 5, 0)
    two = drawn(groups, labels, draws, TENTHS, "hash", np.full(1000, -1))
    before = groups < 900
    assert (drawn(groups[before], labels[before], draws[:900], TENTHS, "hash", np.full(900, -1)) == two[:900]).all()
    assert 0.7 < np.mean(two == "train") < 0.9


def test_neither_the_order_of_samples_nor_of_shares_says_anything() -> None:
    groups, labels, draws = many(200, 7, 3)
    fixed = np.full(200, -1)
    before = drawn(groups, labels, draws, TENTHS, "exact", fixed)
    mixed = np.random.default_rng(1).permutation(len(groups))
    for order in permutations(TENTHS.items()):
        assert (drawn(groups[mixed], labels[mixed], draws, dict(order), "exact", fixed) == before).all()
    numbers = np.random.default_rng(2).permutation(200)  # other numbers of groups, which drew the same
    others = np.empty(200, np.uint64)
    others[numbers] = draws
    assert (drawn(numbers[groups], labels, others, TENTHS, "exact", fixed)[numbers] == before).all()


def test_groups_with_a_split_count_towards_its_share() -> None:
    groups = np.arange(1000)
    fixed = np.where(groups < 60, 2, -1)
    of_group = drawn(groups, np.zeros(1000, int), draws_of(1000), TENTHS, "exact", fixed)
    assert [int((of_group == name).sum()) for name in TENTHS] == [800, 100, 100]
