"""Shares of splits are exact to the image, in all and in each class, and stay so when files are added."""

import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.converters.planning import split_shares
from shardfeed.converters.planning.options import SplitBy
from shardfeed.converters.planning.split_shares import SplitDraw, counts_by_class, exact_shares, largest_remainders

TENTHS = {"train": 0.8, "validation": 0.1, "test": 0.1}


def check_counts(sizes: list[int], shares: list[Fraction]) -> None:
    """Within one image of its share, each class in each split and each split of all; nothing lost."""
    counts = counts_by_class(sizes, shares)
    total = sum(sizes)
    assert counts.sum(axis=1).tolist() == sizes
    for number, share in enumerate(shares):
        assert abs(int(counts[:, number].sum()) - total * share) < 1
        assert all(
            abs(of_class - size * share) < 1 for of_class, size in zip(counts[:, number].tolist(), sizes, strict=True)
        )


def some_shares(draw: random.Random, splits: int) -> dict[str, float]:
    """Shares of `splits` splits with two to six decimal digits, adding up to 1."""
    units = 10 ** draw.randint(2, 6)
    cuts = sorted(draw.sample(range(1, units), splits - 1))
    return {f"s{i}": (b - a) / units for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, units], strict=True))}


def random_cases(number: int) -> None:
    draw = random.Random(14)
    for _ in range(number):
        sizes = [int(10 ** draw.uniform(0, 4)) for _ in range(draw.randint(1, 40))]
        check_counts(sizes, list(exact_shares(some_shares(draw, draw.randint(1, 6))).values()))


def test_random_class_sizes_and_shares() -> None:
    random_cases(500)


@pytest.mark.torture
def test_ten_thousand_random_class_sizes_and_shares() -> None:
    random_cases(10_000)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 10), min_size=1, max_size=12), st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_tiny_classes_and_simple_fractions(sizes: list[int], parts: list[int]) -> None:
    """Where shares of classes are often whole numbers, no other number will do."""
    check_counts(sizes, [Fraction(part, sum(parts)) for part in parts])


def test_classes_that_can_only_be_mended_through_a_third_split() -> None:
    """Found among random ones: no class rounds the too large split up and the too small one down."""
    swapped = 0
    draw = random.Random(3)
    for _ in range(300):
        shares = list(exact_shares(some_shares(draw, 4)).values())
        sizes = [draw.randint(1, 4) for _ in range(draw.randint(2, 4))]
        check_counts(sizes, shares)
        swapped += counts_by_class(sizes, shares).sum(axis=0).tolist() == largest_remainders(sum(sizes), shares)
    assert swapped > 250, "and nearly always the splits have their largest remainders"


def test_shares_are_what_was_meant() -> None:
    thirds = exact_shares({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert set(thirds.values()) == {Fraction(1, 3)}
    assert exact_shares({"a": 0.3333333, "b": 0.3333333, "c": 0.3333333})["a"] == Fraction(1, 3)
    assert exact_shares({"a": 5 / 6, "b": 1 / 6}) == {"a": Fraction(5, 6), "b": Fraction(1, 6)}
    assert exact_shares({"a": 0.9, "b": 0.1})["b"] == Fraction(1, 10)
    assert exact_shares({"a": 1 - 1e-7, "b": 1e-7})["b"] == Fraction(1, 10**7)


def test_largest_remainders() -> None:
    assert largest_remainders(10, [Fraction(1, 3)] * 3) == [4, 3, 3]
    assert largest_remainders(5, [Fraction(9, 10), Fraction(1, 10)]) == [5, 0]
    assert largest_remainders(0, [Fraction(1)]) == [0]


def drawn(classes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draws and labels of so many samples of each class, one after the other."""
    labels = np.repeat(np.arange(len(classes), dtype=np.int32), classes)
    return np.random.default_rng(seed).integers(0, 2**64, len(labels), np.uint64), labels


def split_of(found: dict[str, np.ndarray], samples: int) -> list[str]:
    names = [""] * samples
    for name, members in found.items():
        for member in members.tolist():
            assert not names[member], "each sample has one split"
            names[member] = name
    return names


def draw_splits(
    draws: np.ndarray, labels: np.ndarray, shares: Mapping[str, float], by: SplitBy, size: int = 100
) -> dict[str, np.ndarray]:
    """The members of each split; samples come in blocks of `size`."""
    drawn = draws, labels, np.arange(len(draws))
    blocks = [tuple(column[i : i + size] for column in drawn) for i in range(0, len(draws), size)]
    draw = SplitDraw(lambda: iter(blocks), shares, by)  # type: ignore[arg-type]  # each has three
    return {name: np.flatnonzero(draw.places(drawn) == place) for place, name in enumerate(draw.names)}


@pytest.mark.parametrize("near", [1, 20, 1 << 16])
def test_borders_are_those_of_all_samples_sorted(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class has its first samples by draw in the first split, equal draws by number; for any number of bins."""
    monkeypatch.setattr(split_shares, "_NEAR", near)
    random = np.random.default_rng(3)
    labels = random.choice(np.array([-1, 5, 2**31 - 1], np.int32), 2000, p=[0.01, 0.29, 0.7])
    for draws in (
        random.integers(0, 2**64, 2000, np.uint64),
        random.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), 2000),
    ):
        found = draw_splits(draws, labels, TENTHS, "exact", 333)
        place = np.zeros(2000, np.int64)
        for number, members in enumerate(found.values()):
            place[members] = number
        for label in set(labels.tolist()):
            members = np.flatnonzero(labels == label)
            assert (np.diff(place[members[np.argsort(draws[members], kind="stable")]]) >= 0).all()
        assert [len(found[name]) for name in TENTHS] == [1600, 200, 200]


def test_six_hundred_images_of_23_classes() -> None:
    sizes = [26] * 20 + [27, 27, 26]
    draws, labels = drawn(sizes)
    found = draw_splits(draws, labels, {"train": 0.9, "validation": 0.1}, "exact")
    assert {name: len(members) for name, members in found.items()} == {"train": 540, "validation": 60}
    for members in found.values():
        assert len(set(labels[members].tolist())) == 23, "every class is in both"


def test_240_images_in_three_splits() -> None:
    draws, labels = drawn([80, 80, 80])
    found = draw_splits(draws, labels, TENTHS, "exact")
    assert {name: len(members) for name, members in found.items()} == {"train": 192, "validation": 24, "test": 24}
    assert {name: set(Counter(labels[members].tolist()).values()) for name, members in found.items()} == {
        "train": {64},
        "validation": {8},
        "test": {8},
    }


@pytest.mark.parametrize("split_by", ["exact", "hash"])
def test_the_order_in_which_shares_are_given_says_nothing(split_by: str) -> None:
    draws, labels = drawn([31, 8, 17])
    for shares in (TENTHS, {"train": 0.5, "validation": 0.5}, {"b": 0.25, "a": 0.25, "train": 0.25, "x": 0.25}):
        splits = {
            tuple(split_of(draw_splits(draws, labels, dict(order), split_by), 56))  # type: ignore[arg-type]
            for order in permutations(shares.items())
        }
        assert len(splits) == 1


def test_the_source_may_list_in_any_order() -> None:
    draws, labels = drawn([31, 8, 17])
    mixed = np.random.default_rng(1).permutation(56)
    before = split_of(draw_splits(draws, labels, TENTHS, "exact"), 56)
    after = split_of(draw_splits(draws[mixed], labels[mixed], TENTHS, "exact"), 56)
    assert [before[i] for i in mixed] == after


@pytest.mark.parametrize(
    ("shares", "sizes"),
    [
        ({"train": 0.9, "validation": 0.1}, [26] * 23),
        ({"train": 0.9, "validation": 0.1}, [1000] * 10),
        (TENTHS, [1000] * 10),
        (TENTHS, [100] * 100),
        (TENTHS, [50 + 20 * i for i in range(100)]),
        ({"train": 0.5, "validation": 0.5}, [500] * 40),
        (TENTHS, [20_000]),
    ],
)
def test_one_percent_more_files_move_few_others(shares: dict[str, float], sizes: list[int]) -> None:
    """Below 0.5 %, on average over additions: a rank is enough, no list of who was where is kept."""
    moved = []
    for seed in range(8):
        draws, labels = drawn(sizes, seed)
        more = np.random.default_rng(100 + seed)
        added = max(1, len(draws) // 100)
        all_draws = np.concatenate([draws, more.integers(0, 2**64, added, np.uint64)])
        all_labels = np.concatenate([labels, more.choice(labels, added)])
        before = split_of(draw_splits(draws, labels, shares, "exact"), len(draws))
        after = split_of(draw_splits(all_draws, all_labels, shares, "exact"), len(all_draws))
        moved.append(sum(a != b for a, b in zip(before, after, strict=False)) / len(draws))
    assert 0 < np.mean(moved) < 0.005


def test_by_hash_nothing_else_moves() -> None:
    draws, labels = drawn([500] * 4)
    before = split_of(draw_splits(draws[:1900], labels[:1900], TENTHS, "hash"), 1900)
    assert split_of(draw_splits(draws, labels, TENTHS, "hash"), 2000)[:1900] == before
