"""The part of an image that a crop chooses, with what augmentations then do to places in it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from shardfeed.pipelines.augment.edits import Edit
from shardfeed.pipelines.windows import Window


class View(NamedTuple):
    """The part of an image that a sample shows: `window` of an image of `size`, resized to `content`.

    `target`: size of the output image. `content`: its part that is not padding, or all of it. All are in pixels; `size`
    and `target` are (height, width). `mirrored`: whether left and right are swapped within the content. `moves`: what
    augmentations then do to places in the target, in turn, with the numbers of `Edit`.
    """

    size: tuple[int, int]
    window: Window
    target: tuple[int, int]
    content: Window
    mirrored: bool = False
    moves: tuple[tuple[Edit, np.ndarray], ...] = ()


ChooseView = Callable[[int, int], View]  # from an image's height and width


def cropped(size: tuple[int, int], window: Window, target: tuple[int, int], mirrored: bool = False) -> View:
    """Return the view of a window that fills the target."""
    return View(size, window, target, Window(0, 0, *target), mirrored)
