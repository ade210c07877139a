"""Brightness, contrast, saturation and hue, in an order that is drawn."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment import colors
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits, composed
from shardfeed.pipelines.augment.ranges import Factor, Span, around, within

Strength = Factor | tuple[Factor, Factor]
Turn = Annotated[float, Range(-0.5, 0.5)]
_CHANGES = (colors.brightness, colors.contrast, colors.saturation, colors.hue)


@checked
def color_jitter(
    brightness: Strength = 0.0,
    contrast: Strength = 0.0,
    saturation: Strength = 0.0,
    hue: Turn | tuple[Turn, Turn] = 0.0,
    *,
    p: Fraction = 1.0,
) -> "ColorJitter":
    """Change brightness, contrast, saturation and hue by random factors, in a random order: torchvision's ColorJitter.

    The four are one linear change, so between them nothing is rounded or clipped. Hue turns at the same brightness, as
    in NVIDIA's DALI; torchvision turns it in HSV. docs/augmentations.md shows by how much that differs.

    Args:
        brightness, contrast, saturation: a number x for factors of max(0, 1 - x) to 1 + x, or (least, most), 0 to
            100. 0 changes nothing.
        hue: a number x for -x to x, or (least, most), as shares of the circle, -0.5 to 0.5. 0 changes nothing.
        p: how often an image is changed, 0 to 1.

    Raises UsageError for a value out of range, or a range that is empty.

    Example:
        augment = [color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return ColorJitter(
        around("brightness", brightness, 1.0, 0.0),
        around("contrast", contrast, 1.0, 0.0),
        around("saturation", saturation, 1.0, 0.0),
        around("hue", hue),
        p,
    )


@dataclass(frozen=True, repr=False)
class ColorJitter(Augmentation):
    """An augmentation as `color_jitter` makes it: factors and turns are drawn uniformly within (least, most)."""

    brightness: Span
    contrast: Span
    saturation: Span
    hue: Span
    p: float

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(9)  # a coin, four values, four places in the order
        spans = (self.brightness, self.contrast, self.saturation, self.hue)
        drawn = zip(_CHANGES, spans, numbers[:, 1:5].T, strict=True)
        changes = np.stack([change(within(span, column)) for change, span, column in drawn], 1)
        order, rows = numbers[:, 5:9].argsort(1), np.arange(len(draws))
        whole = changes[rows, order[:, 0]]
        for place in range(1, len(_CHANGES)):
            whole = composed(whole, changes[rows, order[:, place]])
        return Edits.each(Edit.MATRIX, whole).where(numbers[:, 0] < self.p)
