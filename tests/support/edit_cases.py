"""Random edits of each kind, for whatever carries them out."""

from typing import Any

import numpy as np

from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits
from shardfeed.pipelines.augment.host import edited

KINDS = [kind for kind in Edit if kind != Edit.NONE]


def numbers_of(kind: Edit, rng: Any, height: int, width: int) -> np.ndarray:
    """Numbers that an augmentation might draw."""
    made = np.zeros(NUMBERS)
    if kind == Edit.MATRIX:
        made[:18], made[18:21] = rng.normal(0, 0.7, 18), rng.normal(0, 40, 3)
    elif kind == Edit.POSTERIZE:
        made[0] = rng.integers(0, 9)
    elif kind == Edit.SOLARIZE:
        made[0] = rng.uniform(0, 256)
    elif kind == Edit.BLUR:
        made[:2] = rng.uniform(0.05, 3), rng.integers(0, 12)
    elif kind == Edit.SHARPNESS:
        made[0] = rng.uniform(0, 3)
    elif kind == Edit.WARP:
        made[:9] = (np.eye(3) + rng.normal(0, [[0.3, 0.3, 5], [0.3, 0.3, 5], [0.003, 0.003, 0.1]])).ravel()
        made[9], made[10:13] = rng.integers(0, 2), rng.integers(0, 256, 3)
    elif kind == Edit.TURN:
        made[:2] = (rng.integers(0, 4) if height == width else 2 * rng.integers(0, 2)), rng.integers(0, 2)
    elif kind == Edit.ERASE:
        top, left = rng.integers(0, height), rng.integers(0, width)
        made[:4] = top, left, rng.integers(0, height - top + 1), rng.integers(0, width - left + 1)
        made[4:7] = rng.integers(0, 256, 3)
    return made


def some_edits(kinds: np.ndarray, rng: Any, height: int, width: int) -> Edits:
    """Edits of these kinds, int [k, n], of images of this size."""
    numbers = [[numbers_of(Edit(kind), rng, height, width) for kind in row] for row in kinds.tolist()]
    return Edits(kinds.astype(np.int32), np.array(numbers).reshape(*kinds.shape, NUMBERS))


def by_numpy(images: np.ndarray, edits: Edits) -> np.ndarray:
    """Images [k, height, width, channels] after their edits, by the reference."""
    rows = zip(images, edits.kinds, edits.numbers, strict=True)
    return np.stack([edited(image, kinds, numbers) for image, kinds, numbers in rows])
