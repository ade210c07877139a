"""`Edit.MATRIX`: a linear change of colours."""

import numpy as np

from shardfeed.pipelines.augment.colors import BRIGHTNESS
from shardfeed.pipelines.augment.edits import parts_of

_FINEST = 14  # bits of the fraction of a coefficient, at most
_MOST_OFFSET = 2.0**40  # far outside the pixels, whatever the shift


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image [height, width, 3 or 1] with other colours; of one channel the brightness of what colours would get.

    In whole numbers, as the compiled module computes it, of which images of 16 bits have more.
    """
    channels, white = image.shape[2], np.iinfo(image.dtype).max
    matrix, of_mean, added = _for_channels(numbers, channels)
    whole, shift = quantised(matrix)
    mean = image.reshape(-1, channels).sum(0, dtype=np.int64) / (image.shape[0] * image.shape[1])
    moved = added * (white // 255)
    for channel in range(channels):  # in this order, as C++ adds them
        moved = moved + of_mean[:, channel] * mean[channel]
    offset = np.rint(moved * 2.0**shift).clip(-_MOST_OFFSET, _MOST_OFFSET).astype(np.int64) + ((1 << shift) >> 1)
    made = (image.astype(np.int64) @ whole.T.astype(np.int64) + offset) >> shift
    return made.clip(0, white).astype(image.dtype)


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The matrix as int16 with as many bits of fraction as fit, and their number, 0 to 14."""
    _, exponent = np.frexp(np.abs(matrix).max())
    shift = int(np.clip(15 - exponent, 0, _FINEST))
    return np.rint(matrix * 2.0**shift).clip(-32_767, 32_767).astype(np.int16), shift


def _for_channels(numbers: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The parts for images of 3 channels, or of 1: what a gray colour becomes, as brightness."""
    matrix, of_mean, added = (part[0] for part in parts_of(numbers[None]))
    if channels == 3:
        return matrix, of_mean, added
    gray = np.array([[_of_gray(part.sum(1))] for part in (matrix, of_mean)])
    return gray[0, None], gray[1, None], np.array([_of_gray(added)])


def _of_gray(sums: np.ndarray) -> float:
    """The brightness of a colour, added up as C++ does."""
    red, green, blue = (BRIGHTNESS * sums).tolist()
    return red + green + blue
