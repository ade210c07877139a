"""`Edit.ERASE`: a rectangle gets one colour."""

import numpy as np


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image with the rectangle filled."""
    top, left, height, width = (int(number) for number in numbers[:4])
    made = image.copy()
    made[top : top + height, left : left + width] = numbers[4 : 4 + image.shape[2]] * (np.iinfo(image.dtype).max // 255)
    return made
