"""Linear changes of colours, as the numbers of `Edit.MATRIX`.

Weights of brightness are those of ITU-R BT.601, as in torchvision and Pillow. Each function takes factors, float64 [k],
and returns float64 [k, NUMBERS].
"""

import numpy as np

from shardfeed.pipelines.augment.edits import linear

BRIGHTNESS = np.array([0.299, 0.587, 0.114])  # of red, green and blue: how bright each looks
_SAME = np.eye(3)
_GRAY = np.tile(BRIGHTNESS, (3, 1))
# From RGB to YIQ: brightness, and two axes of colour around which hue is an angle (NTSC, 1953; matrix of FCC 73.682).
_YIQ = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])


def brightness(factors: np.ndarray) -> np.ndarray:
    """Multiply by a factor: 0 is black, 1 the image."""
    return linear(factors[:, None, None] * _SAME)


def contrast(factors: np.ndarray) -> np.ndarray:
    """Blend with the image's mean brightness: 0 is that gray, 1 the image."""
    rest = 1 - factors
    return linear(factors[:, None, None] * _SAME, rest[:, None, None] * _GRAY)


def saturation(factors: np.ndarray) -> np.ndarray:
    """Blend with the gray image: 0 is gray, 1 the image."""
    rest = 1 - factors
    return linear(factors[:, None, None] * _SAME + rest[:, None, None] * _GRAY)


def inverted(factors: np.ndarray) -> np.ndarray:
    """Blend with the negative: 0 is the image, 1 its negative."""
    matrices = (1 - 2 * factors)[:, None, None] * _SAME
    return linear(matrices, added=np.repeat(255.0 * factors[:, None], 3, 1))


def hue(turns: np.ndarray) -> np.ndarray:
    """Turn the hue by a share of the circle, -0.5..0.5, at the same brightness."""
    angles = 2 * np.pi * turns
    turned = np.zeros((len(turns), 3, 3))
    turned[:, 0, 0] = 1
    turned[:, 1, 1] = turned[:, 2, 2] = np.cos(angles)
    turned[:, 1, 2], turned[:, 2, 1] = np.sin(angles), -np.sin(angles)
    return linear(np.linalg.inv(_YIQ) @ turned @ _YIQ)
