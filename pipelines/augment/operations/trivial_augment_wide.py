"""One random change of each image, by a random magnitude."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Range, checked
from shardfeed.pipelines.augment import policies
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.ranges import Colour, Interpolation, three

Bins = Annotated[int, Range(2, 1000)]


@checked
def trivial_augment_wide(
    num_magnitude_bins: Bins = 31, interpolation: Interpolation = "nearest", fill: Colour = 0
) -> "TrivialAugmentWide":
    """Change each image in one of fourteen ways, by a random magnitude: torchvision's TrivialAugmentWide.

    These are shearing by up to 0.99, shifting by up to 32 pixels, both along x and y, rotating by up to 135 degrees,
    brightness, colour, contrast and sharpness by factors of 0.01 to 1.99, posterizing to 8..2 bits, solarizing,
    autocontrast, equalizing, and nothing. Boxes, masks and key points follow. Source: Mueller and Hutter 2021,
    "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation".

    Args:
        num_magnitude_bins: how many magnitudes there are, from the least to the greatest, 2 to 1000.
        interpolation: "nearest" or "bilinear".
        fill: what is outside of the image gets this, 0 to 255, or (red, green, blue); of one channel the first.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [trivial_augment_wide(), erasing(p=0.1, value=(124, 116, 104))]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return TrivialAugmentWide(num_magnitude_bins, interpolation, three(fill))


@dataclass(frozen=True, repr=False)
class TrivialAugmentWide(Augmentation):
    """An augmentation as `trivial_augment_wide` makes it."""

    num_magnitude_bins: int
    interpolation: Interpolation
    fill: tuple[int, int, int]
    eight_bits = True
    effect = Effect.WARPS

    def edits(self, draws: Draws) -> Edits:
        number, magnitude, sign = draws.uniform(3).T
        choice = np.floor(len(policies.WIDE) * number).astype(int)
        shares = np.floor(self.num_magnitude_bins * magnitude) / (self.num_magnitude_bins - 1)
        how = policies.Warped(draws.target, self.interpolation, self.fill)
        return policies.changed(policies.WIDE, choice, shares, sign < 0.5, how)
