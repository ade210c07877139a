"""The role of a crop: the first operation of every list, which chooses the part of an image that is decoded.

It is no `Augmentation`, as its window is known before there are pixels: a decoder leaves out what is not in it, and
resizes the rest into the batch. What it chooses is a `view.View`, which boxes, masks and key points follow. The
crops are `operations/random_resized_crop.py`, `center_crop.py` and `letterbox.py`; the flip is `horizontal_flip.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation, Effect, drawn_edits, joined_effect
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.view import ChooseView, View
from shardfeed.pipelines.windows import uniform_numbers

BY_ORDER = (0, 0)  # the target of a crop whose size is the shape that an order gives each batch


class Crop:
    """A rule that chooses the window of an image to resize to `target`, (height, width) in pixels. Pickles.

    A target `BY_ORDER` becomes one by `at`. `channels`: of the result, 3, or 1 for brightness alone. `draws`: whether
    views are drawn at random. `mirrors`, `letterboxes`: whether a view may be mirrored, or padded with the value
    `fill`. `several`: whether a batch has a list of images, one for each of the `parts`. `augment`: what is done to the
    images after that.
    """

    target: tuple[int, int]
    channels: int = 3
    draws: bool = False
    mirrors: bool = False
    letterboxes: bool = False
    fill: int = 0
    several: bool = False
    augment: tuple[Augmentation, ...] = ()

    def at(self, shape: tuple[int, int] | None) -> "Crop":
        """Return the crop to the shape of a batch; itself if it has a size. Raises UsageError if there is neither."""
        if self.target != BY_ORDER:
            return self
        if shape is None:
            remedy = "give it one; or order=Global(shapes=...) to a loader, and iterate over that loader itself"
            raise UsageError("size", "the crop has no size, and this batch has no shape", remedy)
        return self._to(shape)

    @property
    def parts(self) -> "Sequence[Crop]":
        """The crops of several views; else itself."""
        return (self,)

    def _to(self, shape: tuple[int, int]) -> "Crop":
        made: Any = self
        return replace(made, target=shape)

    @property
    def effect(self) -> Effect:
        """Possible effects of the augmentations on places."""
        return joined_effect(self.augment)

    @property
    def swaps_sides(self) -> bool:
        """Whether left and right may be swapped, by the crop or by an augmentation."""
        return self.mirrors or Effect.MIRRORS in self.effect

    @property
    def goes_back(self) -> bool:
        """Whether `to_source` has a way back to the image, for every view."""
        return not self.mirrors and Effect.MOVES not in self.effect

    def edits(self, seeds: np.ndarray) -> Edits | None:
        """The edits of the images with these seeds, int64 [k, 2]; None: there are none."""
        return drawn_edits(self.augment, seeds, self.target) if self.augment else None

    def augmented(self, augment: Sequence[Augmentation]) -> "Crop":
        """The same with other augmentations."""
        made: Any = self
        return replace(made, augment=tuple(augment))

    @property
    def augments(self) -> bool:
        """Whether there are augmentations, of any part."""
        return any(part.augment for part in self.parts)

    def check_pixels(self, dtype: np.dtype) -> None:
        """Raise UsageError unless the augmentations of all parts are defined for pixels of this dtype."""
        for part in self.parts:
            for each in part.augment:
                each.check(part.channels, dtype, part.target)

    def view(self, height: int, width: int) -> View:
        """Return the view of an image of this size, unless views are drawn."""
        raise NotImplementedError

    def choice(self, numbers: np.ndarray) -> ChooseView:
        """Return the function that gives a view. `numbers`: a sample's row of `uniform_numbers`, if drawn."""
        del numbers
        return self.view

    def choices(self, seeds: np.ndarray) -> Sequence[ChooseView]:
        """Return `choice` for each seed, int64 [k, 2] as an order gives them; faster than one at a time."""
        numbers = uniform_numbers(seeds) if self.draws else np.zeros((len(seeds), 0), np.float32)
        return [self.choice(row) for row in numbers]

    def windows(self, seeds: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The windows of images of `sizes`, int64 [k, 2], as int64 [k, 4], and whether each is mirrored, bool [k]."""
        views = [choose(*size) for choose, size in zip(self.choices(seeds), sizes.tolist(), strict=True)]
        windows = np.array([view.window for view in views], np.int64).reshape(-1, 4)
        return windows, np.array([view.mirrored for view in views], bool)


@dataclass(frozen=True)
class Crops(Crop):
    """Several views of each image, `parts[n]` by the seeds that `windows.view_seeds` gives view n. Each has a size."""

    views: Sequence[Crop]
    several = True

    @property
    def parts(self) -> Sequence[Crop]:
        return self.views

    # None of these is ever set.

    @property
    def target(self) -> tuple[int, int]:  # type: ignore[override]
        return self.views[0].target

    @property
    def channels(self) -> int:  # type: ignore[override]
        return self.views[0].channels

    @property
    def draws(self) -> bool:  # type: ignore[override]
        return any(view.draws for view in self.views)

    @property
    def mirrors(self) -> bool:  # type: ignore[override]
        return any(view.mirrors for view in self.views)
