"""Edits on the CPU: by the compiled module where it is built and knows them, else by NumPy."""

from collections.abc import Callable

import numpy as np

from shardfeed.pipelines.augment.edits import TABLES, Edit, Edits
from shardfeed.pipelines.augment.values import blur, erase, matrix, sharpness, tables, turn, warp

_VALUES: dict[Edit, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    Edit.MATRIX: matrix.edited,
    Edit.BLUR: blur.edited,
    Edit.SHARPNESS: sharpness.edited,
    Edit.WARP: warp.edited,
    Edit.TURN: turn.edited,
    Edit.ERASE: erase.edited,
}


def edit_image(image: np.ndarray, edits: Edits, row: int) -> None:
    """Carry out the edits of image `row` in place. `image`: uint8 or uint16 [height, width, 3 or 1]."""
    image[:] = edited(image, edits.kinds[row], edits.numbers[row])


def edited(image: np.ndarray, kinds: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image after its edits, by NumPy: the reference. `kinds`: int32 [n]; `numbers`: float64 [n, NUMBERS]."""
    for kind, values in zip(kinds.tolist(), numbers, strict=True):
        if kind in TABLES:
            image = tables.edited(image, Edit(kind), values)
        elif kind != Edit.NONE:
            image = _VALUES[Edit(kind)](image, values)
    return image
