"""Images whose left and right are swapped: the flip of a random crop.

It is no edit: it is `View.mirrored`, known before the image is decoded, so that the compiled resize writes each row
backwards and moves no pixel twice. Pixels: `decoding/pixels.py` and shardfeed/native on the host, `torch/encoded.py`
on a device. Boxes, key points and masks: the functions below, of which `tensorflow/views.py` has the same.
"""

import numpy as np

from shardfeed.pipelines.windows import Window

_COIN = 22  # the number that draws it, after those of the window; the next one is `windows.SPARE`


def drawn(numbers: np.ndarray) -> np.ndarray:
    """Whether images are flipped, bool [...]. `numbers`: float32 [..., 24], rows of `windows.uniform_numbers`."""
    return numbers[..., _COIN] < 0.5


def flipped_points(x: np.ndarray) -> np.ndarray:
    """Places across, as fractions of the window, in the flipped one: float32, of the same shape."""
    return np.float32(1) - x


def flipped_sides(xs: np.ndarray) -> np.ndarray:
    """Left and right sides of boxes, float32 [n, 2], fractions of the window, in the flipped one."""
    return np.float32(1) - xs[:, ::-1]


def flipped_columns(columns: np.ndarray, content: Window) -> np.ndarray:
    """The image's column for each one of a raster, int64 [width], with those of the content in reverse."""
    flipped = columns.copy()
    part = slice(content.left, content.left + content.width)
    flipped[part] = columns[part][::-1]
    return flipped
