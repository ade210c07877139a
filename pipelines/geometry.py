"""Arithmetic of boxes, key points and rasters when a window of their image is cut, mirrored and resized.

This is the reference, in NumPy: TensorFlow and PyTorch compute the same, in float32 and in the same order of
operations, so that their results are equal to the last bit; pixels of rasters and masks are picked by integers alone.
Tests check it.

All parts of a sample follow one `View`, drawn by the transform of its image.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from shardfeed.errors import UsageError
from shardfeed.pipelines.windows import RandomWindow, Window, center_window, uniform_numbers

MIN_VISIBLE = 0.1  # of an object's box, by default: less, and the object is dropped
# Of the target's side: a box that is narrower has no area. So minimum and maximum differ in float32, in pixels and as
# fractions, and no model meets a box without area.
LEAST_SIDE = 2.0**-20


class View(NamedTuple):
    """Which part of an image a sample shows, and where: `window` of an image of `size`, resized to `content`.

    `target` is the size of the sample's image; `content` is all of it, or for a letterbox the part that is not padding.
    All are in pixels; `size` and `target` are (height, width). `mirrored`: left and right, within the content.
    """

    size: tuple[int, int]
    window: Window
    target: tuple[int, int]
    content: Window
    mirrored: bool = False


ChooseView = Callable[[int, int], View]  # from an image's height and width


class SeenBoxes(NamedTuple):
    """The boxes that are left: k of n.

    `boxes`: float32 [k, 4], xmin, ymin, xmax, ymax in pixels of the target, clipped to what is seen, min < max.
    `kept`: int64 [k], which of the n they are, ascending: all other columns follow it. `visible`: float32 [k], the
    share of its box that is seen, 0..1.
    """

    boxes: np.ndarray
    kept: np.ndarray
    visible: np.ndarray


def cropped(size: tuple[int, int], window: Window, target: tuple[int, int], mirrored: bool = False) -> View:
    """The view of a window that fills the target."""
    return View(size, window, target, Window(0, 0, *target), mirrored)


def letterboxed(size: tuple[int, int], target: tuple[int, int]) -> View:
    """The view of a whole image that fits into the target with its own aspect ratio, in the middle."""
    scale = min(target[0] / size[0], target[1] / size[1])
    height, width = (max(1, round(side * scale)) for side in size)
    content = Window((target[0] - height) // 2, (target[1] - width) // 2, height, width)
    return View(size, Window(0, 0, *size), target, content)


def reduction(size: tuple[int, int], target: tuple[int, int]) -> int:
    """By how much a decoder may make `size` smaller so that it still covers `target`, (height, width): 1, 2, 4 or 8."""
    fits = min(size[0] // target[0], size[1] // target[1])
    return next((ratio for ratio in (8, 4, 2) if fits >= ratio), 1)


def see_boxes(boxes: np.ndarray, view: View, min_visible: float = MIN_VISIBLE) -> SeenBoxes:
    """The boxes with at least the share `min_visible`, 0..1, of their area in the view, and more than nothing.

    `boxes`: float32 [n, 4], xmin, ymin, xmax, ymax as fractions of the whole image.
    """
    xs, ys = _in_window(boxes[:, 0::2], boxes[:, 1::2], view)  # [n, 2] each, minimum and maximum
    seen_xs, seen_ys = (np.clip(sides, np.float32(0), np.float32(1)) for sides in (xs, ys))
    wide, tall = (sides[:, 1] - sides[:, 0] for sides in (seen_xs, seen_ys))
    least_tall, least_wide = (np.float32(LEAST_SIDE * side) for side in view.target)
    broad = wide * np.float32(view.content.width) >= least_wide
    high = tall * np.float32(view.content.height) >= least_tall
    with np.errstate(divide="ignore", invalid="ignore"):
        visible = (wide * tall) / ((xs[:, 1] - xs[:, 0]) * (ys[:, 1] - ys[:, 0]))
    kept = np.flatnonzero(broad & high & (visible >= np.float32(min_visible)))
    if view.mirrored:
        seen_xs = np.float32(1) - seen_xs[:, ::-1]
    xs, ys = _in_target(seen_xs, seen_ys, view)
    return SeenBoxes(np.stack([xs[:, 0], ys[:, 0], xs[:, 1], ys[:, 1]], 1)[kept], kept, visible[kept])


def see_keypoints(x: np.ndarray, y: np.ndarray, visibility: np.ndarray, view: View, flip: Sequence[int]) -> np.ndarray:
    """Key points as float32 [n, K, 3]: x and y in pixels of the target, and visibility.

    `x`, `y`: float32 [n, K], fractions of the whole image; `visibility`: int64 [n, K]. All three are 0 for points that
    are outside the window, and for those that were not there before. `flip`: of `Keypoints`; a mirrored view needs it.
    Raises UsageError where it is empty then.
    """
    x, y = _in_window(x, y, view)
    there = (visibility > 0) & (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    if view.mirrored:
        x = np.float32(1) - x
    points = np.stack([*_in_target(x, y, view), visibility.astype(np.float32)], 2)
    points = np.where(there[:, :, None], points, np.float32(0))
    if view.mirrored:
        check_flip(flip)
        points = points[:, list(flip)]
    return points


def see_raster(pixels: np.ndarray, view: View, ground: int = 0) -> np.ndarray:
    """A raster or a mask, [height, width] of the whole image, as [height, width] of the target: the nearest pixels.

    `ground`: the value of a letterbox's padding.
    """
    if pixels.shape != view.size:
        problem = f"got {pixels.shape[0]} x {pixels.shape[1]} pixels, expected the image's, "
        raise UsageError("raster", f"{problem}{view.size[0]} x {view.size[1]}", "convert the dataset again")
    rows = _sources(view.window.top, view.window.height, view.content.top, view.content.height, view.target[0])
    columns = _sources(view.window.left, view.window.width, view.content.left, view.content.width, view.target[1])
    if view.mirrored:
        part = slice(view.content.left, view.content.left + view.content.width)
        columns[part] = columns[part][::-1].copy()
    seen = (rows >= 0)[:, None] & (columns >= 0)
    return np.where(seen, pixels[np.ix_(np.maximum(rows, 0), np.maximum(columns, 0))], pixels.dtype.type(ground))


def see_areas(areas: np.ndarray, seen: SeenBoxes, view: View) -> np.ndarray:
    """The areas of the objects that are left, float32 [k], in pixels squared of the target.

    `areas`: float32 [n], in pixels squared of the image. An object that the window cuts loses as much of its area as
    of its box: exact for what is seen whole, and for others an estimate.
    """
    # In float64, because graphs are rewritten: a product of several factors is not always taken in the same order.
    scale = (view.content.height * view.content.width) / (view.window.height * view.window.width)
    return (areas[seen.kept].astype(np.float64) * scale * seen.visible).astype(np.float32)


def largest(boxes: np.ndarray, most: int) -> np.ndarray:
    """Which `most` boxes, xmin, ymin, xmax, ymax, are the largest: int64, ascending; of equals the first ones."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return np.sort(np.argsort(-areas, kind="stable")[:most])


def to_source(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Scale and offset, float32 [2] each, for x and y: pixel of the image = pixel of the target * scale + offset."""
    if view.mirrored:
        raise UsageError("to_source", "got a mirrored view, expected one as it is", "evaluate without a flip")
    window, content = view.window, view.content
    scale = np.array([window.width, window.height], np.float64) / np.array([content.width, content.height], np.float64)
    offset = np.array([window.left, window.top], np.float64) - np.array([content.left, content.top]) * scale
    return scale.astype(np.float32), offset.astype(np.float32)


def boxes_to_source(boxes: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Convert predicted boxes from pixels of the model's input to pixels of the source image: float32 [..., n, 4].

    Args:
        boxes: [..., n, 4] as xmin, ymin, xmax, ymax, for one image or a batch of them.
        scale: [..., 2], x and y, as `detection` returns it for a transform that does not mirror.
        offset: [..., 2], likewise.

    Example:
        for batch in make_batches(data["validation"], detection(letterbox(512)), batch_size=16, order="stored"):
            boxes = boxes_to_source(predict(batch["images"]), batch["scale"].numpy(), batch["offset"].numpy())
    """
    scale, offset = (np.tile(np.asarray(side, np.float32), 2)[..., None, :] for side in (scale, offset))
    return np.asarray(boxes, np.float32) * scale + offset


def masks_to_source(masks: np.ndarray, scale: np.ndarray, offset: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Convert predicted masks from the model's input to the source image: [k, height, width], by nearest pixels.

    Args:
        masks: [k, height, width] for one image.
        scale: [2], x and y, as `detection` returns it for a transform that does not mirror.
        offset: [2], likewise.
        size: (height, width) of the source image. Parts that the model did not see are 0.

    Example:
        height, width = target["orig_size"].tolist()
        found = masks_to_source(output["masks"][:, 0].numpy() > 0.5, target["scale"], target["offset"], (height, width))
    """
    scale, offset = (np.asarray(side, np.float64)[::-1] for side in (scale, offset))
    places = [
        np.floor((np.arange(side) + 0.5 - offset[axis]) / scale[axis]).astype(np.int64)
        for axis, side in enumerate(size)
    ]
    inside = [(place >= 0) & (place < side) for place, side in zip(places, masks.shape[1:], strict=True)]
    rows, columns = (np.clip(place, 0, side - 1) for place, side in zip(places, masks.shape[1:], strict=True))
    found = masks[:, rows[:, None], columns]
    return np.where(inside[0][:, None] & inside[1], found, masks.dtype.type(0))


def check_flip(flip: Sequence[int]) -> None:
    """Raise UsageError if key points cannot be mirrored."""
    if not flip:
        problem = "these key points cannot be mirrored: the dataset does not say which one becomes which"
        raise UsageError("keypoints", problem, "use a transform with flip=False, or Keypoints(names, flip=...)")


def _in_window(x: np.ndarray, y: np.ndarray, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Fractions of the image as fractions of the window: outside of 0..1 where they are outside of it."""
    top, left, height, width = (np.float32(side) for side in view.window)
    x = (x * np.float32(view.size[1]) - left) / width
    y = (y * np.float32(view.size[0]) - top) / height
    return x, y


def _in_target(x: np.ndarray, y: np.ndarray, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Fractions of the window as pixels of the target."""
    top, left, height, width = (np.float32(side) for side in view.content)
    return x * width + left, y * height + top


def _sources(start: int, extent: int, content_start: int, content: int, target: int) -> np.ndarray:
    """For each row (column) of the target the one of the image that is nearest; -1 where it shows none. int64."""
    place = np.arange(target) - content_start
    nearest = start + (2 * place + 1) * extent // (2 * content)
    return np.where((place >= 0) & (place < content), nearest, -1)


class Crop(ABC):
    """Choice of the window of an image that is resized to `target`, (height, width) in pixels. It pickles.

    `draws`: whether views are drawn at random. `mirrors`, `letterboxes`: whether a view may be mirrored, or padded with
    the value `fill`.
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
    """The whole image, with padding of the value `fill` around it."""

    target: tuple[int, int]
    fill: int
    letterboxes = True

    def choice(self, numbers: np.ndarray) -> ChooseView:
        del numbers
        return self._view

    def _view(self, height: int, width: int) -> View:
        return letterboxed((height, width), self.target)
