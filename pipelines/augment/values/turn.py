"""`Edit.TURN`: quarter turns and mirror images, in which no pixel changes."""

import numpy as np


def edited(image: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The image turned to the left, a copy; then upside down if asked."""
    turned = np.rot90(image, int(numbers[0]))
    return (turned[::-1] if numbers[1] else turned).copy()


def moved(pixels: np.ndarray, numbers: np.ndarray, outside: int | None) -> np.ndarray:
    """A mask or raster, [height, width], as `edited` turns the image. Nothing comes from outside."""
    del outside
    return edited(pixels, numbers)


def forward(numbers: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """As `warp.forward`, for an image of `target`, (height, width): a square for an odd number of quarter turns."""
    height, width = target
    quarter = np.array([[0, 1, 0], [-1, 0, width], [0, 0, 1]], np.float64)
    upside_down = np.array([[1, 0, 0], [0, -1, height], [0, 0, 1]], np.float64)
    half = np.array([[-1, 0, width], [0, -1, height], [0, 0, 1]], np.float64)
    turned = (np.eye(3), quarter, half, half @ quarter)[int(numbers[0])]
    return upside_down @ turned if numbers[1] else turned
