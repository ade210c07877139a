"""Turned, shifted, scaled and sheared images."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment import warps
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.ranges import Colour, Interpolation, Span, around, ordered, three, within

Angle = Annotated[float, Range(-360, 360)]
Slant = Annotated[float, Range(-89, 89)]
Scale = Annotated[float, Range(0.01, 100)]


@checked
def affine(
    degrees: Angle | tuple[Angle, Angle],
    translate: tuple[Fraction, Fraction] | None = None,
    scale: tuple[Scale, Scale] | None = None,
    shear: Slant | tuple[Slant, Slant] | tuple[Slant, Slant, Slant, Slant] | None = None,
    interpolation: Interpolation = "nearest",
    fill: Colour = 0,
    *,
    p: Fraction = 1.0,
) -> "Affine":
    """Turn, shift, scale and shear an image around its centre: torchvision's RandomAffine, without `center`.

    Boxes, masks and key points follow. Places are computed in float64 and torchvision's in float32, so a few pixels
    that are halfway between two may differ.

    Args:
        degrees: a number x for turns of -x to x, clockwise, or (least, most); -360 to 360.
        translate: the largest shift across and down, as shares of the width and the height, 0 to 1; in whole pixels.
        scale: (least, most), 0.01 to 100; 1 is the size of the image.
        shear: a number x for -x to x degrees along x, or (least, most), or four numbers, with a range along y; -89 to
            89.
        interpolation: "nearest" or "bilinear".
        fill: what is outside of the image gets this, 0 to 255, or (red, green, blue); of one channel the first.
        p: how often an image is changed, 0 to 1.

    Raises UsageError for a value out of range, or a range that is empty.

    Example:
        augment = [affine(15, translate=(0.1, 0.1), scale=(0.9, 1.1), interpolation="bilinear")]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Affine(
        around("degrees", degrees),
        translate or (0.0, 0.0),
        ordered("scale", scale or (1.0, 1.0)),
        _shears(shear or 0.0),
        interpolation,
        three(fill),
        p,
    )


@dataclass(frozen=True, repr=False)
class Affine(Augmentation):
    """An augmentation as `affine` makes it."""

    degrees: Span
    translate: tuple[float, float]
    scale: Span
    shear: tuple[float, float, float, float]
    interpolation: Interpolation
    fill: tuple[int, int, int]
    p: float
    effect = Effect.WARPS

    def edits(self, draws: Draws) -> Edits:
        coin, turn, across, down, size, slant, rise = draws.uniform(7).T
        height, width = draws.target
        farthest = self.translate[0] * width, self.translate[1] * height
        homographies = warps.affine(
            len(draws),
            warps.centre(draws.target),
            angle=np.radians(within(self.degrees, turn)),
            shift=(np.rint(farthest[0] * (2 * across - 1)), np.rint(farthest[1] * (2 * down - 1))),
            scale=within(self.scale, size),
            shear=(np.radians(within(self.shear[:2], slant)), np.radians(within(self.shear[2:], rise))),
        )
        return warps.warped(homographies, self.interpolation, self.fill).where(coin < self.p)


def _shears(shear: float | Span | tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The ranges along x and y, in degrees. Raises UsageError if one is empty, or if a number is negative."""
    if isinstance(shear, tuple) and len(shear) == 4:
        return *ordered("shear", shear[:2]), *ordered("shear", shear[2:])
    return *around("shear", shear), 0.0, 0.0
