"""`Edit.ERASE`: a rectangle gets one colour."""

import numpy as np


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image with the rectangle filled."""
    made = image.copy()
    made[_rectangle(numbers)] = numbers[4 : 4 + image.shape[2]] * (np.iinfo(image.dtype).max // 255)
    return made


def moved(pixels: np.ndarray, numbers: np.ndarray, outside: int | None) -> np.ndarray:
    """A mask or raster, [height, width], with `outside` in the rectangle; None: unchanged."""
    if outside is None:
        return pixels
    made = pixels.copy()
    made[_rectangle(numbers)] = outside
    return made


def corners(numbers: np.ndarray) -> np.ndarray:
    """xmin, ymin, xmax, ymax of the rectangle in pixels, float64 [4]."""
    top, left, height, width = numbers[:4]
    return np.array([left, top, left + width, top + height])


def _rectangle(numbers: np.ndarray) -> tuple[slice, slice]:
    """Its rows and columns."""
    top, left, height, width = (int(number) for number in numbers[:4])
    return slice(top, top + height), slice(left, left + width)
