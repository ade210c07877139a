"""`Edit.BLUR`: a Gaussian blur."""

import math

import numpy as np

BITS = 14  # of the fraction of a weight
KEPT = 6  # of the fraction of what the first direction gives


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image blurred by `sigma` pixels, mirrored at its border without the border pixel twice, as by torchvision.

    Weights beyond three sigma, 0.3 % of all, count for nothing. In whole numbers, first across and then down.
    """
    weights = kernel(numbers[0], int(numbers[1])).astype(np.int64)
    radius = len(weights) // 2
    across = _mirrored(image, radius, 1).astype(np.int64)
    width = image.shape[1]
    sums = np.full(image.shape, 1 << (BITS - KEPT - 1), np.int64)
    for at, weight in enumerate(weights):
        sums += weight * across[:, at : at + width]
    down = _mirrored(sums >> (BITS - KEPT), radius, 0)
    height = image.shape[0]
    sums = np.full(image.shape, 1 << (BITS + KEPT - 1), np.int64)
    for at, weight in enumerate(weights):
        sums += weight * down[at : at + height]
    return (sums >> (BITS + KEPT)).astype(image.dtype)


def kernel(sigma: float, most: int) -> np.ndarray:
    """The weights of the pixels up to `most` away, times 2^14: int16 [2 * radius + 1], whose sum is 2^14.

    None is negative: each is the difference of two rounded sums, from the farthest inwards. By `math.exp`, which C++
    has, too.
    """
    radius = min(most, math.ceil(3 * sigma))
    away = (np.arange(1, radius + 1) / sigma).tolist()
    shares = np.array([math.exp(-0.5 * (each * each)) for each in away])
    total = np.cumsum([1.0, *(2 * shares)])[-1]
    beyond = np.cumsum(shares[::-1])
    sums = np.rint(beyond / total * (1 << BITS)).astype(np.int64)
    side = np.diff(sums, prepend=0)
    middle = (1 << BITS) - 2 * side.sum()
    return np.concatenate([side, [middle], side[::-1]]).astype(np.int16)


def _mirrored(image: np.ndarray, radius: int, axis: int) -> np.ndarray:
    """The image with `radius` pixels more on both sides of an axis, mirrored as often as that takes."""
    return image.take(mirrored_places(image.shape[axis], radius), axis)


def mirrored_places(size: int, radius: int) -> np.ndarray:
    """Where the pixels -radius to size + radius - 1 of a row of `size` come from: int64 [size + 2 * radius]."""
    places = np.arange(-radius, size + radius)
    if size == 1:
        return np.zeros_like(places)
    return np.abs((places + size - 1) % (2 * (size - 1)) - (size - 1))
