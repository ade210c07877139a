"""The arithmetic of orders, without a table: pseudorandom permutations of [0, n), and shares in whole numbers.

Any position of a permutation is computed by itself, for n up to 2^40, by a generalised Feistel network: a number is
written as (left, right) with left < a, right < b and a * b just above n; each round adds to one half, modulo its size,
a keyed hash of the other, which can be undone and so is a permutation of [0, a * b). Results outside [0, n) are
permuted again until they fall inside ("cycle walking"), which is rare, because a * b - n < a. Source: Black and Rogaway
2002, "Ciphers with Arbitrary Finite Domains", section 5.

The numbers are part of what a resumed run relies on: they are the same on every machine and in every release, and a
test holds golden values.
"""

import math
from collections.abc import Sequence

import numpy as np

from shardfeed.errors import UsageError

MAX_SIZE = 2**40

_ROUNDS = 16  # with 8, which is enough for large n, positions in a permutation of 5 differ by 3 % from uniform
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd
_MASK = 2**64 - 1


def hashed(*words: int | np.ndarray) -> np.ndarray:
    """A 64-bit hash of integers or arrays of them (broadcast): uint64. Negative ones count modulo 2^64.

    The finaliser is SplitMix64's (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators"),
    applied to each word and to what came before.
    """
    state = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for word in words:
            state = _mixed(state ^ _mixed(_unsigned(word) + _GOLDEN)) + _GOLDEN
    return state


def permuted(positions: np.ndarray, sizes: int | np.ndarray, keys: int | np.ndarray) -> np.ndarray:
    """Map each position by the permutation of [0, size) that belongs to `key`.

    positions: int64 [k], each within 0..size - 1. sizes: the n of each, int64 [k], or one for all; 1 to 2^40. keys:
    uint64 [k], or one for all. Returns int64 [k].
    """
    positions = np.asarray(positions, np.int64)
    sizes = np.broadcast_to(np.asarray(sizes, np.int64), positions.shape)
    keys = np.broadcast_to(_unsigned(keys), positions.shape)
    if positions.size and not (sizes.min() >= 1 and sizes.max() <= MAX_SIZE and positions.min() >= 0):
        raise ValueError(f"expected sizes within 1..2^40 and positions of at least 0, got sizes up to {sizes.max()}")
    if (positions >= sizes).any():
        raise ValueError("a position is not below its size")
    values = _round_trip(positions, sizes, keys)
    outside = np.flatnonzero(values >= sizes)
    while outside.size:
        values[outside] = _round_trip(values[outside], sizes[outside], keys[outside])
        outside = outside[values[outside] >= sizes[outside]]
    return values


def _round_trip(values: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The network once: a permutation of [0, a * b) for each size; a * b is at least the size."""
    a = np.ceil(np.sqrt(sizes)).astype(np.uint64)  # exact enough: only a * b >= n matters, and b compensates
    b = (sizes.astype(np.uint64) + a - np.uint64(1)) // a
    left, right = np.divmod(values.astype(np.uint64), b)
    with np.errstate(over="ignore"):
        for number in range(_ROUNDS):
            key = keys + _GOLDEN * np.uint64(number + 1)
            if number % 2 == 0:
                left = (left + _mixed(right ^ key) % a) % a
            else:
                right = (right + _mixed(left ^ key) % b) % b
    return (left * b + right).astype(np.int64)


def _mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: a bijection of uint64 in which every bit depends on every bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _unsigned(words: int | np.ndarray) -> np.ndarray:
    if isinstance(words, int):
        return np.array(words & _MASK, np.uint64)
    return np.asarray(words).astype(np.uint64)


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
