"""Homographies: where the pixels of an image come from, as the numbers of `Edit.WARP`.

Each is float64 [k, 3, 3], from a place (column, row, 1) of the new image to one of the old; whole numbers are the
centres of pixels. Angles are in radians.
"""

import numpy as np

from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits
from shardfeed.pipelines.augment.ranges import Interpolation

_CORNER = (-0.5, -0.5)  # of the image, as a place


def centre(target: tuple[int, int]) -> tuple[float, float]:
    """The centre of an image, as (column, row). `target`: (height, width)."""
    return (target[1] - 1) / 2, (target[0] - 1) / 2


def warped(homographies: np.ndarray, interpolation: Interpolation, fill: tuple[int, int, int]) -> Edits:
    """The edits of k images by their homographies, float64 [k, 3, 3]."""
    numbers = np.zeros((len(homographies), NUMBERS))
    numbers[:, :9] = homographies.reshape(-1, 9)
    numbers[:, 9] = interpolation == "bilinear"
    numbers[:, 10:13] = fill
    return Edits.each(Edit.WARP, numbers)


def affine(
    count: int,
    around: tuple[float, float],
    *,
    angle: np.ndarray | float = 0.0,
    shift: tuple[np.ndarray | float, np.ndarray | float] = (0.0, 0.0),
    scale: np.ndarray | float = 1.0,
    shear: tuple[np.ndarray | float, np.ndarray | float] = (0.0, 0.0),
) -> np.ndarray:
    """Shear an image along x, then along y, scale and turn it clockwise around a place, and shift it.

    Each value is a number or float64 [count]. `around`, `shift`: (column, row) in pixels; `shear`: two angles.
    """
    cos, sin = np.cos(angle), np.sin(angle)
    tan_x, tan_y = np.tan(shear[0]), np.tan(shear[1])
    # Turned after sheared, [[a, b], [c, d]], whose determinant is 1; so its inverse is [[d, -b], [-c, a]].
    a, c = cos + sin * tan_y, sin - cos * tan_y
    b, d = -(a * tan_x + sin), cos - c * tan_x
    homographies = np.zeros((count, 3, 3))
    for row, (x, y) in enumerate(((d / scale, -b / scale), (-c / scale, a / scale))):
        homographies[:, row, 0], homographies[:, row, 1] = x, y
        homographies[:, row, 2] = around[row] - x * (around[0] + shift[0]) - y * (around[1] + shift[1])
    homographies[:, 2, 2] = 1
    return homographies


def sheared(count: int, x: np.ndarray | float, y: np.ndarray | float) -> np.ndarray:
    """Shear an image along x and y by slopes, its upper left corner held, as AutoAugment and its followers do."""
    return affine(count, _CORNER, shear=(np.arctan(x), np.arctan(y)))


def from_corners(corners: np.ndarray, target: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Move the corners of an image: homographies, and bool [k], whether there is one.

    `corners`: float64 [k, 4, 2], (column, row) of where the corners upper left, upper right, lower right and lower left
    are in the new image. There is none if three of them are in a line. Places here are as torchvision has them: the
    middle of the first pixel is 0.5, but the corner of the image is its pixel (0, 0).
    """
    height, width = target
    unit = _of_unit_square(corners)
    away = np.diag([max(1, width - 1), max(1, height - 1), 1.0])  # from the unit square to the old image
    homographies = away @ _adjugate(unit)
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    homographies = np.linalg.inv(half) @ homographies @ half
    scale = homographies[:, 2, 2]
    exists = (np.abs(np.linalg.det(unit)) > 1e-9) & (np.abs(scale) > 1e-9)
    return homographies / np.where(exists, scale, 1)[:, None, None], exists


def _of_unit_square(corners: np.ndarray) -> np.ndarray:
    """The homographies from the corners (0, 0), (1, 0), (1, 1), (0, 1) to four others.

    Source: Heckbert 1989, "Fundamentals of Texture Mapping and Image Warping", section 2.2.3.
    """
    first, second, third, fourth = corners.transpose(1, 0, 2)
    right, down, rest = second - third, fourth - third, first - second + third - fourth
    area = _cross(right, down)
    area = np.where(area == 0, 1e-12, area)
    g, h = _cross(rest, down) / area, _cross(right, rest) / area
    made = np.ones((len(corners), 3, 3))
    made[:, :2, 0] = second - first + g[:, None] * second
    made[:, :2, 1] = fourth - first + h[:, None] * fourth
    made[:, :2, 2] = first
    made[:, 2, 0], made[:, 2, 1] = g, h
    return made


def _cross(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The areas between vectors, float64 [k], from [k, 2] each."""
    return left[:, 0] * right[:, 1] - left[:, 1] * right[:, 0]


def _adjugate(matrices: np.ndarray) -> np.ndarray:
    """The inverses, but for a factor that a homography does not have: of singular matrices, too."""
    one, two, three = matrices.transpose(1, 0, 2)
    return np.stack([np.cross(two, three), np.cross(three, one), np.cross(one, two)], 2)
