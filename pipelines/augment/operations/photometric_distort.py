"""Colours as SSD changes them."""

from dataclasses import dataclass
from itertools import permutations
from typing import Annotated

import numpy as np

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment import colors
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits, composed, linear
from shardfeed.pipelines.augment.ranges import Factor, Span, ordered, within

Turn = Annotated[float, Range(-0.5, 0.5)]
_ORDERS = np.eye(3)[list(permutations(range(3)))]  # the six orders of three channels, as matrices


@checked
def photometric_distort(
    brightness: tuple[Factor, Factor] = (0.875, 1.125),
    contrast: tuple[Factor, Factor] = (0.5, 1.5),
    saturation: tuple[Factor, Factor] = (0.5, 1.5),
    hue: tuple[Turn, Turn] = (-0.05, 0.05),
    p: Fraction = 0.5,
) -> "PhotometricDistort":
    """Change colours, each way with its own coin, and the order of channels: torchvision's RandomPhotometricDistort.

    Contrast comes before or after saturation and hue. All are one linear change, so between them nothing is rounded or
    clipped; hue turns at the same brightness (torchvision turns it in HSV). Source: Liu et al. 2016, "SSD: Single Shot
    MultiBox Detector".

    Args:
        brightness, contrast, saturation: (least, most) of a factor, 0 to 100; 1 changes nothing.
        hue: (least, most), as shares of the circle, -0.5 to 0.5.
        p: how often each of the four changes, and how often channels are exchanged, 0 to 1.

    Raises UsageError for a value out of range, or a range that is empty.

    Example:
        augment = [photometric_distort()]
        batches = make_batches(data["train"], detection(random_resized_crop(512, augment=augment)), batch_size=16)
    """
    return PhotometricDistort(
        ordered("brightness", brightness),
        ordered("contrast", contrast),
        ordered("saturation", saturation),
        ordered("hue", hue),
        p,
    )


@dataclass(frozen=True, repr=False)
class PhotometricDistort(Augmentation):
    """An augmentation as `photometric_distort` makes it."""

    brightness: Span
    contrast: Span
    saturation: Span
    hue: Span
    p: float

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(11)  # four coins and values, when contrast comes, a coin and a number for the channels
        changed = numbers[:, [0, 1, 2, 3, 9]] < self.p
        brightness, contrast, saturation = (
            np.where(changed[:, at], within(span, numbers[:, 4 + at]), 1.0)
            for at, span in enumerate((self.brightness, self.contrast, self.saturation))
        )
        hue = np.where(changed[:, 3], within(self.hue, numbers[:, 7]), 0.0)
        first = numbers[:, 8] < 0.5
        whole = colors.brightness(brightness)
        whole = composed(whole, colors.contrast(np.where(first, contrast, 1.0)))
        whole = composed(whole, composed(colors.saturation(saturation), colors.hue(hue)))
        whole = composed(whole, colors.contrast(np.where(first, 1.0, contrast)))
        order = np.where(changed[:, 4], np.floor(6 * numbers[:, 10]), 0).astype(int)
        return Edits.each(Edit.MATRIX, composed(whole, linear(_ORDERS[order])))
