"""`Edit.POSTERIZE`, `SOLARIZE`, `EQUALIZE` and `AUTOCONTRAST`: each value becomes another, by a table."""

import numpy as np

from shardfeed.pipelines.augment.edits import Edit

LEVELS = 256


def edited(image: np.ndarray, kind: Edit, numbers: np.ndarray) -> np.ndarray:
    """The uint8 image with the values of a table for each channel."""
    made = np.empty_like(image)
    for channel in range(image.shape[2]):
        values = image[..., channel]
        made[..., channel] = table(kind, numbers, np.bincount(values.ravel(), minlength=LEVELS))[values]
    return made


def table(kind: Edit, numbers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The new value of each of 0..255: uint8 [256]. `counts`: how often each is in a channel, int64 [256]."""
    values = np.arange(LEVELS)
    if kind == Edit.POSTERIZE:
        made = values & (0xFF << (8 - int(numbers[0])))
    elif kind == Edit.SOLARIZE:
        made = np.where(values >= numbers[0], 255 - values, values)
    elif kind == Edit.EQUALIZE:
        made = _equalized(counts)
    else:
        made = _stretched(counts)
    return made.clip(0, 255).astype(np.uint8)


def _equalized(counts: np.ndarray) -> np.ndarray:
    """The table by which all values become about equally frequent: Pillow's `equalize`."""
    used = np.flatnonzero(counts)
    step = (counts.sum() - counts[used[-1]]) // 255
    if not step:
        return np.arange(LEVELS)
    return (step // 2 + np.concatenate([[0], counts.cumsum()[:-1]])) // step


def _stretched(counts: np.ndarray) -> np.ndarray:
    """The table by which the darkest value becomes 0 and the brightest 255: Pillow's `autocontrast`, rounded."""
    used = np.flatnonzero(counts)
    low, high = int(used[0]), int(used[-1])
    if low == high:
        return np.arange(LEVELS)
    span = high - low
    return (2 * 255 * (np.arange(LEVELS) - low) + span) // (2 * span)
