"""Edits on the CPU: by the compiled module where it is built and knows them, else by NumPy."""

import ctypes
from collections.abc import Callable

import numpy as np

from shardfeed.native import library
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
    kinds, numbers = edits.kinds[row], edits.numbers[row]
    loaded = library() if image.dtype == np.uint8 and image.flags.c_contiguous else None
    if loaded is None:
        image[:] = edited(image, kinds, numbers)
    else:
        edit_compiled(loaded, image, kinds, numbers)


def edit_compiled(
    loaded: ctypes.CDLL, image: np.ndarray, kinds: np.ndarray, numbers: np.ndarray, *, plain: bool = False
) -> None:
    """Carry out the edits of an image in place, in C++, without the interpreter's lock.

    `image`: uint8, C-contiguous. `plain`: by loops without AVX2, which make the same pixels.
    """
    kinds, numbers = np.ascontiguousarray(kinds, np.int32), np.ascontiguousarray(numbers, np.float64)
    pixels, *values = (ctypes.c_void_p(array.ctypes.data) for array in (image, kinds, numbers))
    if not loaded.shardfeed_edit(pixels, *image.shape, *values, len(kinds), plain):
        raise MemoryError(f"an image of {image.shape} to edit")


def edited(image: np.ndarray, kinds: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image after its edits, by NumPy: the reference. `kinds`: int32 [n]; `numbers`: float64 [n, NUMBERS]."""
    for kind, values in zip(kinds.tolist(), numbers, strict=True):
        if kind in TABLES:
            image = tables.edited(image, Edit(kind), values)
        elif kind != Edit.NONE:
            image = _VALUES[Edit(kind)](image, values)
    return image
