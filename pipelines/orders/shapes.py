"""Batches of one shape, for images of many: which shape suits an image, and the order that draws by shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from shardfeed.declared import Longest, Natural, Range, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.orders.arithmetic import hashed, permuted
from shardfeed.pipelines.orders.order import DrawnSamples, IndexedOrder

_LEFT, _BATCHES, _SHAPE = range(10, 13)  # purposes of a key, as in `order`

MOST_SIDE = 65_535  # pixels, of the largest JPEG
MOST_SHAPES = 2 * MOST_SIDE  # of an order: as many as `shapes_of_area` can find
Side = Annotated[int, Range(1, MOST_SIDE)]
Area = Annotated[int, Range(1, MOST_SIDE**2)]
Shape = tuple[Side, Side]  # height and width in pixels
Shapes = Annotated[Sequence[Shape], Longest(MOST_SHAPES)]


@checked
def shapes_of_area(area: Area, *, step: Side = 64, ratios: tuple[float, float] = (1 / 2, 2)) -> list[Shape]:
    """The shapes of nearly one area, as (height, width) in pixels, for `Global(shapes=...)`.

    Of each height that is a multiple of `step`, and of each such width, the largest shape of at most `area`.

    Args:
        area: the most pixels of a shape, 1 to 65,535**2.
        step: height and width are multiples of it, and at most 65,535.
        ratios: least and greatest width over height.

    Raises UsageError if there is no such shape.

    Example:
        shapes_of_area(512 * 512, step=128)  # [(640, 384), (512, 512), (384, 640)]
    """
    least, most = ratios
    found: dict[float, Shape] = {}
    for side in range(step, math.isqrt(area) + 1, step):
        other = min(area // side, MOST_SIDE) // step * step
        found |= {width / height: (height, width) for height, width in ((side, other), (other, side))}
    if not found:
        problem = f"got {area}, expected at least {step**2:,} for a step of {step}"
        raise UsageError("area", problem, "use a smaller step")
    shapes = [found[ratio] for ratio in sorted(found) if least <= ratio <= most]
    if not shapes:
        problem = f"no shape of at most {area} pixels has sides that are multiples of {step}, and a ratio in {ratios}"
        raise UsageError("ratios", problem, "use a smaller step, or other ratios")
    return shapes


@checked
def by_ratio(shapes: Shapes) -> list[Shape]:
    """The shapes by width over height. Raises UsageError if there are none, too many, or two of one aspect ratio."""
    if not shapes:
        raise UsageError("shapes", f"got {shapes!r}, expected pairs (height, width)")
    numbers = [(int(height), int(width)) for height, width in shapes]  # not those of NumPy, which are no JSON
    ordered = sorted(numbers, key=lambda shape: shape[1] / shape[0])
    for one, other in pairwise(ordered):
        if one[0] * other[1] == one[1] * other[0]:
            problem = f"got {one} and {other}, which have one aspect ratio, and that alone decides"
            raise UsageError("shapes", problem, "leave one of them out")
    return ordered


def nearest(heights: np.ndarray, widths: np.ndarray, shapes: Sequence[Shape]) -> np.ndarray:
    """Which of the shapes, as `by_ratio` sorts them, each image gets: the one of the nearest ratio. int64 [n]."""
    ratios = np.array([width / height for height, width in shapes])
    # Products of two ratios instead of logarithms, which may differ in their last bit between machines.
    return np.searchsorted(ratios[:-1] * ratios[1:], (widths / heights) ** 2)


class ShapeFit(NamedTuple):
    """Number of images that a shape suits best; the share of their pixels that it cuts away, and of those enlarged."""

    shape: Shape
    images: int
    cut: float
    enlarged: float


def fits(heights: np.ndarray, widths: np.ndarray, shapes: Sequence[Shape]) -> list[ShapeFit]:
    """The `ShapeFit` of each shape, as `by_ratio` sorts them, and its images; 0 for a shape without any."""
    which, found = nearest(heights, widths, shapes), []
    for number, (height, width) in enumerate(shapes):
        tall, wide = heights[which == number] / height, widths[which == number] / width
        scale = np.minimum(tall, wide)
        cut = 1 - scale**2 / (tall * wide)
        found.append(
            ShapeFit((height, width), len(cut), *(float(x.mean()) if len(x) else 0.0 for x in (cut, scale < 1)))
        )
    return found


@checked
@dataclass(frozen=True)
class ShapeOrder(IndexedOrder):
    """Batches of one shape each: the samples of a shape, but for those that do not fill a batch of it.

    `heights`, `widths`: of the shapes, sorted by width over height. `strata`: number of samples of each; they are
    numbered shape by shape.

    In each epoch, the samples of each shape are permuted, and lie in a line, shape by shape. From a random place of it,
    the samples that fill no batch are taken out; they are the last step of an epoch, or left out of it. The rest is cut
    into batches, which are permuted. A batch has the shape of its middle sample. Fewer batches than there are shapes
    are mixed: of two neighbouring ratios, or of more where a shape has fewer samples than a batch.
    """

    kind = "shapes"

    heights: tuple[Side, ...]
    widths: tuple[Side, ...]
    strata: tuple[Natural, ...]

    def __post_init__(self) -> None:
        if not len(self.heights) == len(self.widths) == len(self.strata) or sum(self.strata) != self.samples:
            problem = "expected a height, a width and a number of samples for each shape, together all samples"
            raise UsageError("shapes", problem)
        if self.epoch_samples not in (self.samples, self.samples // self.batch_size * self.batch_size):
            problem = f"got {self.epoch_samples}, expected an epoch of all samples, or of all whole batches"
            raise UsageError("epoch_samples", problem)

    def used(self) -> list[Shape]:
        """The shapes that have samples."""
        shapes = zip(self.heights, self.widths, self.strata, strict=True)
        return [(height, width) for height, width, samples in shapes if samples]

    def shape(self, step: int) -> Shape:
        epoch, number = divmod(step, self.steps_per_epoch)
        size = min(self.batch_size, self.epoch_samples - number * self.batch_size)
        middle = self._places(epoch, np.array([number * self.batch_size + size // 2]))
        stratum = int(np.searchsorted(np.cumsum(self.strata), middle, "right")[0])
        return self.heights[stratum], self.widths[stratum]

    def draw(self, epoch: int, positions: np.ndarray) -> DrawnSamples:
        places, sizes = self._places(epoch, positions), np.array(self.strata, np.int64)
        ends = np.cumsum(sizes)
        strata = np.searchsorted(ends, places, "right")
        starts = (ends - sizes)[strata]
        keys = hashed(self.seed, _SHAPE, epoch, strata)
        return DrawnSamples(starts + permuted(places - starts, sizes[strata], keys), np.full_like(positions, epoch))

    def _places(self, epoch: int, positions: np.ndarray) -> np.ndarray:
        """The places in the epoch's line, int64 [k]."""
        whole, left = divmod(self.samples, self.batch_size)
        hole = int(hashed(self.seed, _LEFT, epoch) % np.uint64(whole * self.batch_size + 1))
        steps, slots = np.divmod(positions, self.batch_size)
        batches = permuted(steps % max(1, whole), max(1, whole), hashed(self.seed, _BATCHES, epoch))
        places = batches * self.batch_size + slots
        return np.where(steps < whole, places + left * (places >= hole), hole + slots)
