"""`Edit.TURN`: quarter turns and mirror images, in which no pixel changes."""

import numpy as np


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image turned to the left, a copy; then upside down if asked."""
    turned = np.rot90(image, int(numbers[0]))
    return (turned[::-1] if numbers[1] else turned).copy()
