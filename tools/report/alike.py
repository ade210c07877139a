"""Groups of duplicates, byte for byte, and of near-duplicates: re-encoded, resized, brightened, slightly cropped.

Near-duplicates agree in a 128-bit gradient hash: whether each of 8x8 pixels is brighter than its right and its lower
neighbour. Pairs are candidates if one of the hash's eight pieces of 16 bits is equal, which holds for all pairs that
differ in up to 7 bits and for most that differ in a few more; then their 9x9 pixels are compared.
"""

from collections.abc import Iterator

import numpy as np

from shardfeed.converters.planning.group_shares import join
from shardfeed.tools.report.image_numbers import TINY
from shardfeed.tools.report.measure import Measured

BLANK = 2.0  # spread of grey levels below which an image is blank, and similar to all blank ones
# Bits of 128 in which the hashes of near-duplicates may differ, and the least correlation of their pixels. Each level
# finds more than the one before. The last counts that puts no more than _LARGEST images, or their share, into one
# group: among icons, digits and frames of a video, different images look alike.
_LEVELS = ((4, 0.998), (12, 0.98), (26, 0.95))
_LARGEST, _LARGEST_SHARE = 20, 0.002
_COLOR, _COLOR_SHARE = 12, 0.25  # levels, and share of them, by which red or blue, less green, may differ
_STEP = 2  # grey levels: a smaller difference of neighbours is noise
_NEIGHBOURS = 64  # of an image, in the order of a piece and then the whole hash, that it is compared with
_PIECES = 8
_TOGETHER = 1 << 16  # images or pairs at once, for the memory
_ONES = np.array([bin(value).count("1") for value in range(1 << 16)], np.uint8)


def equal_groups(measured: Measured) -> np.ndarray:
    """int64 [n]: a group number for each image whose file is equal to another one, byte for byte; -1 for all others."""
    decoded = np.flatnonzero(measured.decoded)
    same = measured.images["same"][decoded]
    _, first, file, counts = np.unique(same, return_index=True, return_inverse=True, return_counts=True)
    group = np.full(len(measured.images), -1)
    group[decoded] = np.where(counts > 1, decoded[first], -1)[file]
    return group


def alike_groups(measured: Measured) -> np.ndarray:
    """int64 [n]: a group number for each image with duplicates or near-duplicates; -1 for all others.

    Images that are similar to the same third image are in one group. Blank images are in no group, unless they are
    equal.
    """
    images, equal = measured.images, equal_groups(measured)
    chosen = np.flatnonzero(measured.decoded & (images["spread"] >= BLANK))
    parts = np.array_split(chosen, len(chosen) // _TOGETHER + 1)
    hashes = np.concatenate([_hashes(images["tiny"][part]) for part in parts])
    root = np.where(equal >= 0, equal, np.arange(len(images)))
    most = max(_LARGEST, int(_LARGEST_SHARE * len(images)), 2 * int(np.bincount(root).max(initial=0)))
    roots = [root, *(root.copy() for _ in _LEVELS)]  # only the first of equal images, and one per level
    for piece in range(_PIECES):
        for left, right in _candidates(hashes, piece) if len(roots) > 1 else ():
            bits = _ONES[hashes[left] ^ hashes[right]].sum(1)
            left, right = chosen[left], chosen[right]
            near = (bits <= _LEVELS[len(roots) - 2][0]) & (roots[1][left] != roots[1][right])
            bits, left, right = bits[near], left[near], right[near]
            correlation = _correlation(images, left, right)
            for root, (most_bits, least) in zip(roots[1:], _LEVELS, strict=False):
                seen = (bits <= most_bits) & (correlation >= least)
                join(root, left[seen], right[seen])
        while len(roots) > 1 and np.bincount(roots[-1]).max(initial=0) > most:
            roots.pop()
    root = roots[-1]
    return np.where(np.bincount(root, minlength=len(root))[root] > 1, root, -1)


def _candidates(hashes: np.ndarray, piece: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of images, int64 [k] each, with an equal piece of their hashes, uint16 [n, 8]; some at once."""
    order = np.lexsort([hashes[:, (piece + i) % _PIECES] for i in range(_PIECES - 1, -1, -1)])
    value = hashes[order, piece]
    for step in range(1, min(_NEIGHBOURS + 1, len(order))):
        first = np.flatnonzero(value[:-step] == value[step:])
        if not len(first):
            return
        for part in np.array_split(first, len(first) // _TOGETHER + 1):
            yield order[part], order[part + step]


def _hashes(tiny: np.ndarray) -> np.ndarray:
    """uint16 [n, 8] of uint8 [n, 9, 9]."""
    tiny = tiny.astype(np.int16)
    across, down = tiny[:, :8, 1:] - tiny[:, :8, :-1], tiny[:, 1:, :8] - tiny[:, :-1, :8]
    bits = np.concatenate([(part > _STEP).reshape(-1, 64) for part in (across, down)], axis=1)
    return np.packbits(bits, axis=1).view(np.uint16)


def _correlation(images: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """float32 [k]: of the 9x9 grey pixels of each pair, int64 [k]; -1 where their colours differ."""
    both = [images["tiny"][at].reshape(len(at), TINY * TINY).astype(np.float32) for at in (left, right)]
    for pixels in both:
        pixels -= pixels.mean(1, keepdims=True)
        pixels /= np.maximum(np.sqrt((pixels**2).sum(1, keepdims=True)), 1e-6)
    tints = [images["color"][at].astype(np.float32) for at in (left, right)]
    tints = [tint[..., ::2] - tint[..., 1:2] for tint in tints]  # red and blue, less green
    allowed = _COLOR + _COLOR_SHARE * np.maximum(*map(np.abs, tints))
    tinted_alike = (np.abs(tints[0] - tints[1]) <= allowed).all((1, 2, 3))
    return np.where(tinted_alike, (both[0] * both[1]).sum(1), -1)
