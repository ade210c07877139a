"""Shares in whole numbers, and the arithmetic to distribute them, without a table."""

import math
from collections.abc import Sequence

import numpy as np

from shardfeed.errors import UsageError


def apportion(total: int, weights: Sequence[float]) -> tuple[int, ...]:
    """`total` in whole numbers in proportion to `weights`: each share rounded down or up, together `total`.

    The largest remainders are rounded up (Hamilton's method), and the first ones if they are equal. Raises UsageError
    for weights that are negative or not finite, or all zero.
    """
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not sum(weights):
        raise UsageError("weights", f"got {list(weights)[:8]}, expected numbers of at least 0, and one above 0")
    whole = math.fsum(weights)
    exact = [total * weight / whole for weight in weights]
    # 3 times a third is not always 1 in floating point: values within a billionth of a whole number are rounded to it.
    floors = [
        round(share) if abs(share - round(share)) < 1e-9 * max(1.0, share) else math.floor(share) for share in exact
    ]
    by_remainder = sorted(range(len(exact)), key=lambda i: (floors[i] - exact[i], i))
    for i in by_remainder[: total - sum(floors)]:
        floors[i] += 1
    return tuple(floors)


def golden_stride(count: int) -> int:
    """The number nearest to `count` over the golden ratio that has no factor in common with it."""
    wanted = round(count * (math.sqrt(5) - 1) / 2)
    return next(n for step in range(count + 1) for n in (wanted - step, wanted + step) if math.gcd(n, count) == 1)


def floor_sum(counts: np.ndarray, modulus: int, factor: int, offsets: np.ndarray) -> np.ndarray:
    """The sum of (factor * i + offset) // modulus over i from 0 to count - 1, for each count and offset, int64 [k].

    By Euclid's algorithm on factor and modulus, as in Graham, Knuth and Patashnik, "Concrete Mathematics", section 3.5.
    """
    totals = np.zeros_like(counts)
    while True:
        totals += counts * (counts - 1) // 2 * (factor // modulus) + counts * (offsets // modulus)
        factor, offsets = factor % modulus, offsets % modulus
        reached = factor * counts + offsets
        counts = reached // modulus
        if not counts.any():
            return totals
        # Count the lattice points below the line from the other side.
        offsets = reached % modulus
        modulus, factor = factor, modulus
