"""The arithmetic of orders: permutations, uniform and the same for ever, and shares that are never off by one."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.arithmetic import MAX_SIZE, apportion, floor_sum, golden_stride, hashed, permuted


def test_every_size_to_2000_is_a_permutation() -> None:
    for size in range(1, 2001):
        found = permuted(np.arange(size), size, hashed(3, size))
        assert np.array_equal(np.sort(found), np.arange(size)), size


@pytest.mark.long
@pytest.mark.parametrize("size", [10**9, 10**10, 2**33 + 1, MAX_SIZE])
def test_large_permutations_are_one_to_one_at_sampled_positions(size: int) -> None:
    rng = np.random.default_rng(size)
    spots = [np.arange(50_000), np.arange(size - 50_000, size), rng.integers(50_000, size - 50_000, 100_000)]
    positions = np.unique(np.concatenate(spots))
    found = permuted(positions, size, hashed(1, size))
    assert found.min() >= 0
    assert found.max() < size
    assert len(np.unique(found)) == len(positions)


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(0, 2**64 - 1), st.integers(0, 10**6)), min_size=1, max_size=20
    )
)
def test_many_permutations_at_once_equal_each_alone(rows: list[tuple[int, int, int]]) -> None:
    sizes = np.array([size for size, _, _ in rows])
    keys = np.array([key for _, key, _ in rows], np.uint64)
    positions = np.array([position % size for size, _, position in rows])
    alone = [permuted(np.array([p]), int(n), int(k))[0] for p, n, k in zip(positions, sizes, keys, strict=True)]
    assert permuted(positions, sizes, keys).tolist() == alone


# Written by this module, once: a run that is resumed with a later release relies on them.
GOLDEN = {
    (10, 0): [8, 2, 4, 3, 7, 6, 5, 0, 9, 1],
    (10, 1): [8, 3, 1, 9, 2, 4, 6, 0, 5, 7],
    (7, 2**63): [3, 5, 1, 0, 6, 2, 4],
}
HASHES = [16598293368288006356, 3159525857721243268, 8541305937994468193, 16323176575368136589]


@pytest.mark.parametrize(("size", "key"), list(GOLDEN))
def test_golden(size: int, key: int) -> None:
    assert permuted(np.arange(size), size, key).tolist() == GOLDEN[size, key]


def test_golden_hashes_and_large_positions() -> None:
    assert [int(hashed(*words)) for words in ((0,), (1, 2), (2, 1), (-1,))] == HASHES
    assert int(hashed(-1)) == int(hashed(2**64 - 1)) == int(hashed(np.int64(-1)))
    found = permuted(np.array([0, 1, 2, 10**9 - 1]), 10**9, hashed(7, 0))
    assert found.tolist() == [844589406, 288899543, 783932993, 361148077]


def chi_square(counts: np.ndarray) -> float:
    """How far each row of counts is from equal ones, in about one standard deviation of the chi-square statistic."""
    expected = counts.sum(axis=-1, keepdims=True) / counts.shape[-1]
    freedom = counts.shape[0] * (counts.shape[1] - 1)
    # Columns of a square have given sums too, which leaves the mean as it is and spreads the statistic a little more.
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * counts.size))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 16, 25, 50, 100])
def test_positions_are_uniform_over_seeds(size: int) -> None:
    keys = hashed(11, np.arange(1000 if size > 10 else 20_000))  # 1,000 seeds; where that is cheap, a sharper look
    counts = np.zeros((size, size))
    for position in range(size):
        counts[position] = np.bincount(permuted(np.full(len(keys), position), size, keys), minlength=size)
    assert abs(chi_square(counts)) < 4


@pytest.mark.parametrize("size", [3, 5, 8, 10, 50, 1000, 10**9])
def test_neighbours_are_uniform_over_seeds(size: int) -> None:
    keys = hashed(12, np.arange(20_000))
    first, second = (permuted(np.full(len(keys), position), size, keys) for position in (0, 1))
    apart = (second - first) % size  # 1 .. size - 1, each as often
    bins = 20 if size > 1000 else size - 1
    counts = np.bincount((apart - 1) * bins // (size - 1), minlength=bins)
    assert abs(chi_square(counts[None, :])) < 4


def test_all_orders_of_four_occur_as_often() -> None:
    keys = hashed(13, np.arange(48_000))
    columns = np.stack([permuted(np.full(len(keys), position), 4, keys) for position in range(4)], axis=1)
    _, counts = np.unique(columns @ [64, 16, 4, 1], return_counts=True)
    assert len(counts) == 24
    assert abs(chi_square(counts[None, :])) < 4


def test_epochs_differ() -> None:
    found = {permuted(np.arange(20), 20, hashed(5, epoch)).tobytes() for epoch in range(500)}
    assert len(found) == 500


def test_memory_does_not_depend_on_the_size() -> None:
    peaks = []
    for size in (10**5, 10**9):
        permuted(np.arange(256), size, 1)
        tracemalloc.start()
        permuted(np.arange(256), size, 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 100_000
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("positions", "size"), [([0], 0), ([5], 5), ([-1], 5), ([0], MAX_SIZE + 1), ([0, 9], np.array([1, 9]))]
)
def test_positions_and_sizes_out_of_range_are_refused(positions: list[int], size: int) -> None:
    with pytest.raises(ValueError, match=r"position|sizes"):
        permuted(np.array(positions), size, 1)


def test_no_positions_give_no_positions() -> None:
    assert permuted(np.zeros(0, np.int64), 5, 1).shape == (0,)


@given(st.integers(0, 500), st.lists(st.floats(0, 100), min_size=1, max_size=20).filter(lambda w: sum(w) > 1e-6))
def test_apportion(total: int, weights: list[float]) -> None:
    found = apportion(total, weights)
    assert sum(found) == total
    for share, weight in zip(found, weights, strict=True):
        assert abs(share - total * weight / sum(weights)) < 1 + 1e-6
        assert weight or not share


def test_apportion_is_exact_where_it_can_be() -> None:
    assert apportion(9, [1, 1, 1]) == (3, 3, 3)
    assert apportion(10, [0.1] * 10) == (1,) * 10
    assert apportion(1000, [0.7, 0.2, 0.1]) == (700, 200, 100)
    assert apportion(4, [1, 1, 1]) == (2, 1, 1)
    for bad in ([], [0, 0], [-1, 2], [float("nan")], [float("inf"), 1]):
        with pytest.raises(UsageError, match="weights: got"):
            apportion(3, bad)


@given(st.data(), st.integers(1, 60))
def test_floor_sum(data: st.DataObject, modulus: int) -> None:
    factor = data.draw(st.integers(0, modulus - 1))
    rows = data.draw(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 2 * modulus)), min_size=1))
    counts, offsets = np.array(rows, np.int64).T
    expected = [sum((factor * i + offset) // modulus for i in range(count)) for count, offset in rows]
    assert floor_sum(counts, modulus, factor, offsets).tolist() == expected


def test_the_stride_reaches_every_step() -> None:
    for count in [*range(1, 300), 10**6, 4_999_999]:
        stride = golden_stride(count)
        assert math.gcd(stride, count) == 1
        assert abs(stride - 0.618034 * count) <= 4 or count < 8
