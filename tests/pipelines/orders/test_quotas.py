"""Shares in whole numbers: exact where they can be, never off by one; counting against counting by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.arithmetic import apportion, floor_sum, golden_stride


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
