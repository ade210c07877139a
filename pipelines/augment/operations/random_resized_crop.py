"""A random window of an image, resized, and flipped half of the time: torchvision's RandomResizedCrop.

`RandomWindow` is the draw, `RandomCrop` the crop. The pixels are those of the resize: `decoding/pixels.py`,
shardfeed/native and `torch/encoded.py`; in a TensorFlow graph `tensorflow/augment.py` draws the same.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations import horizontal_flip
from shardfeed.pipelines.augment.view import ChooseView, View, cropped
from shardfeed.pipelines.windows import Window, uniform_numbers

AREA = (0.08, 1.0)  # of a window by default: its share of the image, least and most
ASPECT_RATIO = (3 / 4, 4 / 3)  # by default: its width over its height
ATTEMPTS = 10  # to draw a window that fits into the image
_PLACE = 2 * ATTEMPTS  # index of the numbers for the window's position, followed by the coin of the flip


class RandomWindow:
    """Windows with a share of the image within `area`, drawn uniformly, and an aspect ratio within `aspect_ratio`.

    Raises UsageError for a range that is empty or out of bounds.
    """

    def __init__(self, area: tuple[float, float], aspect_ratio: tuple[float, float]) -> None:
        self._given = area, aspect_ratio
        for place, span, most in (("area", area, 1.0), ("aspect_ratio", aspect_ratio, math.inf)):
            least, greatest = span
            if not 0 < least <= greatest <= most:
                raise UsageError(place, f"got {span!r}, expected (least, most) with 0 < least <= most <= {most:g}")
        self._area = np.float32(area[0]), np.float32(area[1] - area[0])
        low, high = math.log(aspect_ratio[0]) / 2, math.log(aspect_ratio[1]) / 2
        self._half_ratio = np.float32(low), np.float32(high - low)
        self._farthest = np.float32(1 / aspect_ratio[0]), np.float32(aspect_ratio[1])

    def __repr__(self) -> str:
        area, aspect_ratio = self._given
        return f"RandomWindow(area={area}, aspect_ratio={aspect_ratio})"

    def times(self, ratio: float) -> "RandomWindow":
        """The same with aspect ratios times `ratio`."""
        area, (least, most) = self._given
        return RandomWindow(area, (least * ratio, most * ratio))

    def draw(self, numbers: np.ndarray, height: int, width: int) -> Window:
        """The window of an image of this size. `numbers`: a row of `uniform_numbers`."""
        rows, columns = np.float32(height), np.float32(width)
        for attempt in range(ATTEMPTS):
            share = self._area[0] + self._area[1] * numbers[attempt]
            stretch = self._half_ratio[0] + self._half_ratio[1] * numbers[ATTEMPTS + attempt]
            side = np.sqrt(share * (rows * columns))
            tall, wide = np.rint(side * np.exp(-stretch)), np.rint(side * np.exp(stretch))
            if 1 <= tall <= rows and 1 <= wide <= columns:
                place = numbers[_PLACE], numbers[_PLACE + 1]
                break
        else:  # the largest one, centred
            tall = max(1, np.rint(min(rows, columns * self._farthest[0])))
            wide = max(1, np.rint(min(columns, rows * self._farthest[1])))
            place = np.float32(0.5), np.float32(0.5)
        top, left = math.floor((rows - tall + 1) * place[0]), math.floor((columns - wide + 1) * place[1])
        return Window(top, left, int(tall), int(wide))

    def draw_all(self, numbers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """`draw` for many images at once: int64 [k, 4]. `numbers`: float32 [k, 24]; `sizes`: int64 [k, 2]."""
        size = sizes.astype(np.float32)
        shares = self._area[0] + self._area[1] * numbers[:, :ATTEMPTS]
        stretches = self._half_ratio[0] + self._half_ratio[1] * numbers[:, ATTEMPTS : 2 * ATTEMPTS]
        sides = np.sqrt(shares * (size[:, :1] * size[:, 1:]))
        talls, wides = np.rint(sides * np.exp(-stretches)), np.rint(sides * np.exp(stretches))
        fits = (talls >= 1) & (talls <= size[:, :1]) & (wides >= 1) & (wides <= size[:, 1:])
        first, rows = fits.argmax(1), np.arange(len(sizes))
        extents = np.stack([talls[rows, first], wides[rows, first]], 1)
        places = numbers[:, _PLACE : _PLACE + 2].copy()
        none = ~fits[rows, first]
        if none.any():
            farthest = np.array(self._farthest, np.float32)
            largest = np.rint(np.minimum(size[none], size[none, ::-1] * farthest))
            extents[none], places[none] = np.maximum(1, largest), np.float32(0.5)
        begins = np.floor((size - extents + 1) * places)
        return np.concatenate([begins, extents], 1).astype(np.int64)


@dataclass(frozen=True)
class RandomCrop(Crop):
    """A random window, mirrored half of the time if `flip` is set.

    Without a size, its aspect ratio is a factor of the shape's.
    """

    target: tuple[int, int]
    window: RandomWindow
    flip: bool
    channels: int = 3
    augment: tuple[Augmentation, ...] = ()
    draws = True

    @property
    def mirrors(self) -> bool:  # type: ignore[override]  # it is never set
        return self.flip

    def _to(self, shape: tuple[int, int]) -> Crop:
        return replace(self, target=shape, window=self.window.times(shape[1] / shape[0]))

    def choice(self, numbers: np.ndarray) -> ChooseView:
        return partial(self._view, numbers)

    def _view(self, numbers: np.ndarray, height: int, width: int) -> View:
        window = self.window.draw(numbers, height, width)
        return cropped((height, width), window, self.target, self.flip and bool(horizontal_flip.drawn(numbers)))

    def windows(self, seeds: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `Crop.windows`, for all images in one go."""
        numbers = uniform_numbers(seeds)
        return self.window.draw_all(numbers, sizes), horizontal_flip.drawn(numbers) & self.flip
