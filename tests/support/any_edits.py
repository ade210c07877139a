"""Edits of every kind with numbers that augmentations may draw."""

from dataclasses import dataclass

import numpy as np

from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits

SLOTS = 3


def any_numbers(kind: int, rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Numbers of an edit of this kind, for an image of this size: float64 [NUMBERS]."""
    made = np.zeros(NUMBERS)
    values = _values(kind, rng, height, width)
    made[: len(values)] = values
    return made


def any_image(rng: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """Noise of all values, of a few, or of one."""
    least, most = rng.choice([(0, 256), (60, 75), (9, 10)])
    return rng.integers(least, most, (height, width, channels)).astype(np.uint8)


@dataclass(frozen=True)
class AnyEdits(Augmentation):
    """Draws edits of every kind."""

    def edits(self, draws: Draws) -> Edits:
        kinds = np.zeros((len(draws), SLOTS), np.int32)
        numbers = np.zeros((len(draws), SLOTS, NUMBERS))
        for row, drawn in enumerate(draws.uniform(1)[:, 0].tolist()):
            rng = np.random.default_rng(int(drawn * 2**23))
            kinds[row] = rng.integers(0, len(Edit), SLOTS)
            numbers[row] = [any_numbers(kind, rng, *draws.target) for kind in kinds[row].tolist()]
        return Edits(kinds, numbers)


def _values(kind: int, rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    color = rng.integers(0, 256, 3)
    if kind == Edit.MATRIX:
        of_mean = rng.normal(0, 0.5, 9) * rng.integers(2)
        return np.concatenate([rng.normal(0, rng.choice([0.3, 1, 9]), 9), of_mean, rng.normal(0, 30, 3)])
    if kind == Edit.POSTERIZE:
        return rng.integers(0, 9, 1)
    if kind == Edit.SOLARIZE:
        return rng.uniform(0, 256, 1)
    if kind == Edit.BLUR:
        return np.array([rng.choice([0.01, 0.1, 0.3, 1, 2, 20, 100]), rng.integers(0, rng.choice([12, 301]))])
    if kind == Edit.SHARPNESS:
        return rng.uniform(*rng.choice([(0, 2), (0, 40)]), 1)
    if kind == Edit.WARP:
        places = np.eye(3) + rng.normal(0, 0.2, (3, 3)) * [[1, 1, 30], [1, 1, 30], [0.01, 0.01, 0]] * rng.integers(2)
        places[2] *= rng.integers(2), rng.integers(2), 1
        return np.concatenate([places.ravel(), [rng.integers(2)], color])
    if kind == Edit.TURN:
        return np.array([rng.integers(4) if height == width else 2 * rng.integers(2), rng.integers(2)])
    if kind == Edit.ERASE:
        place = rng.integers(0, height), rng.integers(0, width), rng.integers(0, height + 1), rng.integers(0, width + 1)
        return np.array([*place, *color])
    return np.zeros(0)
