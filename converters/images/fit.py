"""Arithmetic of resizing: the part of an image that is kept, its new size, and positions in it afterwards."""

from typing import NamedTuple

import numpy as np

from shardfeed.converters.images.options import Filter, ImageOptions
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.errors import argument

# By EXIF orientation the one that undoes it.
TURNED_BACK = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}


class Fit(NamedTuple):
    """`size`: (width, height) to make, pixels. `box`: (left, top, right, bottom) of the image that becomes it.

    `filter`: how pixels are mixed when it is shrunk.

    The box is in pixels of the image, as real numbers: a pixel is the square from its number to the next one, so half
    pixels can be meant. Only these values are rounded:
    - `resize_shorter` P: the box is the whole image, the longer side longer * P / shorter, rounded half up, at least 1.
    - `size` (H, W): the box is the largest rectangle of the ratio W / H in the middle of the image, its left and top
      (width - w) / 2 and (height - h) / 2. If it already has W x H pixels, so that nothing is scaled, left and top are
      rounded down: pixels are then copied, not mixed with their neighbors.
    """

    size: tuple[int, int]
    box: tuple[float, float, float, float]
    filter: Filter = "lanczos"

    @property
    def scale(self) -> float:
        """Pixels made for a pixel of the image, along a side: below 1 it is shrunk, above 1 enlarged."""
        left, top, right, bottom = self.box
        return max(self.size[0] / (right - left), self.size[1] / (bottom - top))


def fit_image(height: int, width: int, options: ImageOptions, *, sideways: bool = False) -> Fit | None:
    """Plan the resize and crop of an image of `height` x `width` pixels as stored; None if nothing is to be done.

    `sideways`: whether its EXIF orientation exchanges height and width; sizes are meant for the upright image.
    """
    if options.shape is not None:
        goal_height, goal_width = options.shape[::-1] if sideways else options.shape
        if (height, width) == (goal_height, goal_width):
            return None
        return _cover(height, width, goal_height, goal_width, options.resize_filter)
    shorter, goal = min(height, width), options.resize_shorter
    if goal is None or shorter <= goal:
        return None
    sides = max(1, (width * goal + shorter // 2) // shorter), max(1, (height * goal + shorter // 2) // shorter)
    return Fit(sides, (0, 0, width, height), options.resize_filter)


def _cover(height: int, width: int, goal_height: int, goal_width: int, how: Filter) -> Fit:
    # Integers decide which side is cropped, so that the uncropped side is exactly the image's.
    if width * goal_height >= height * goal_width:
        box_height, box_width = float(height), height * goal_width / goal_height
    else:
        box_height, box_width = width * goal_height / goal_width, float(width)
    left, top = (width - box_width) / 2, (height - box_height) / 2
    if (box_height, box_width) == (goal_height, goal_width):
        left, top = left // 1, top // 1
    return Fit((goal_width, goal_height), (left, top, left + box_width, top + box_height), how)


class Placement(NamedTuple):
    """Placement of the pixels of an image file in the stored image.

    `height`, `width`: of the file, pixels. `orientation`: EXIF's, 1 to 8, by which it was turned upright. `fit`: what
    was cut out of the file's pixels and scaled, before it was turned; None where all of it was kept.
    """

    height: int
    width: int
    orientation: int = 1
    fit: Fit | None = None

    @property
    def sideways(self) -> bool:
        """Whether height and width are exchanged."""
        return self.orientation >= 5

    def size(self, *, upright: bool) -> tuple[int, int]:
        """(width, height) of the whole image, as its file has it or turned upright."""
        return (self.height, self.width) if upright and self.sideways else (self.width, self.height)

    @property
    def scale(self) -> float:
        """Square pixels of the stored image for a square pixel of the file."""
        if self.fit is None:
            return 1.0
        left, top, right, bottom = self.fit.box
        return self.fit.size[0] * self.fit.size[1] / ((right - left) * (bottom - top))

    def moved(self, points: np.ndarray, *, upright: bool) -> np.ndarray:
        """Fractions of the stored image's sides, [..., 2] (x, y), from those of the whole one, upright or as its file.

        Nothing is clipped: what was cut off is below 0 or above 1.
        """
        cut = self.fit is not None and self.fit.box != (0, 0, self.width, self.height)
        if not cut and (upright or self.orientation == 1):
            return points
        if upright:
            points = _turned(points, TURNED_BACK[self.orientation])
        if cut and self.fit is not None:
            left, top, right, bottom = self.fit.box
            points = (points * (self.width, self.height) - (left, top)) / (right - left, bottom - top)
        return _turned(points, self.orientation)


def _turned(points: np.ndarray, orientation: int) -> np.ndarray:
    """Fractions [..., 2] (x, y) of the image that EXIF orientation `orientation` makes of another."""
    x, y = points[..., 0], points[..., 1]
    turns = {
        1: (x, y), 2: (1 - x, y), 3: (1 - x, 1 - y), 4: (x, 1 - y), 5: (y, x), 6: (1 - y, x), 7: (1 - y, 1 - x),
        8: (y, 1 - x),
    }  # fmt: skip
    return np.stack(turns[orientation], axis=-1)


def is_upright(placement: Placement, size: tuple[int, int] | None, stated: bool | None, unclear: str) -> bool:
    """Whether annotations refer to the upright image: by `stated`, or else by the annotated size, (width, height).

    Raises RejectedError, E_FRAME, if neither decides it: `unclear` begins the reason.
    """
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    if placement.orientation == 1:
        return True
    if stated is not None:  # some tools write the size of the stored image beside boxes on the upright one
        return stated
    if size is not None and stored != turned:
        return size == turned
    remedy = argument("boxes_on", python="boxes_on='upright' or 'stored'", typed="upright|stored")
    raise RejectedError(RejectCode.FRAME, f"{unclear}: give {remedy}")
