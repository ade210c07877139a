"""The three crops as arithmetic: from a sample's random numbers and its image's size to the view that it has."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from shardfeed.pipelines.geometry import ChooseView, View, cropped, letterboxed
from shardfeed.pipelines.windows import RandomWindow, center_window, uniform_numbers


class Crop(ABC):
    """What is taken of an image, and put into `target`, (height, width) in pixels. It pickles.

    `draws`: whether views are drawn at random. `mirrors`, `letterboxes`: whether a view may be mirrored, or have ground
    around it, of the value `fill`.
    """

    target: tuple[int, int]
    draws: bool = False
    mirrors: bool = False
    letterboxes: bool = False
    fill: int = 0

    @abstractmethod
    def choice(self, numbers: np.ndarray) -> ChooseView:
        """The view by a sample's numbers, a row of `windows.uniform_numbers`; what does not draw looks at none."""

    def choices(self, seeds: np.ndarray) -> Sequence[ChooseView]:
        """For each of the seeds, int64 [k, 2] as an order has them. Together, because that is faster."""
        numbers = uniform_numbers(seeds) if self.draws else np.zeros((len(seeds), 0), np.float32)
        return [self.choice(row) for row in numbers]


@dataclass(frozen=True)
class RandomCrop(Crop):
    """A random window, mirrored half of the time where `flip` is set."""

    target: tuple[int, int]
    window: RandomWindow
    flip: bool
    draws = True

    @property
    def mirrors(self) -> bool:  # type: ignore[override]  # it is never set
        return self.flip

    def choice(self, numbers: np.ndarray) -> ChooseView:
        return partial(self._view, numbers)

    def _view(self, numbers: np.ndarray, height: int, width: int) -> View:
        window = self.window.draw(numbers, height, width)
        return cropped((height, width), window, self.target, self.flip and self.window.flipped(numbers))


@dataclass(frozen=True)
class CenterCrop(Crop):
    """The middle, the largest window of the target's shape, times `crop_fraction`."""

    target: tuple[int, int]
    crop_fraction: float

    def choice(self, numbers: np.ndarray) -> ChooseView:
        del numbers
        return self._view

    def _view(self, height: int, width: int) -> View:
        return cropped((height, width), center_window(height, width, self.target, self.crop_fraction), self.target)


@dataclass(frozen=True)
class Letterbox(Crop):
    """The whole image, with ground of the value `fill` where it leaves room."""

    target: tuple[int, int]
    fill: int
    letterboxes = True

    def choice(self, numbers: np.ndarray) -> ChooseView:
        del numbers
        return self._view

    def _view(self, height: int, width: int) -> View:
        return letterboxed((height, width), self.target)
