"""Several random changes of each image, by one magnitude."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Natural, Range, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import policies
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.ranges import Colour, Interpolation, three

Bins = Annotated[int, Range(2, 1000)]


@checked
def rand_augment(
    num_ops: Annotated[int, Range(0, 100)] = 2,
    magnitude: Natural = 9,
    num_magnitude_bins: Bins = 31,
    interpolation: Interpolation = "nearest",
    fill: Colour = 0,
) -> "RandAugment":
    """Change each image in some of fourteen ways, by one magnitude: torchvision's RandAugment.

    At the greatest magnitude these are shearing by 0.3, shifting by 45 % of the side, both along x and y, rotating by
    30 degrees, brightness, colour, contrast and sharpness by factors of 0.1 or 1.9, posterizing to 4 bits, solarizing,
    autocontrast, equalizing, and nothing; one may come more than once. Boxes, masks and key points follow. Source:
    Cubuk et al. 2020, "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space".

    Args:
        num_ops: how many changes an image gets, 0 to 100.
        magnitude: which of the magnitudes, from 0 to num_magnitude_bins - 1.
        num_magnitude_bins: how many magnitudes there are, from the least to the greatest, 2 to 1000.
        interpolation: "nearest" or "bilinear".
        fill: what is outside of the image gets this, 0 to 255, or (red, green, blue); of one channel the first.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=[rand_augment(2, 9)])
    """
    if magnitude >= num_magnitude_bins:
        problem = f"got {magnitude}, expected 0 to {num_magnitude_bins - 1}, as there are {num_magnitude_bins} bins"
        raise UsageError("magnitude", problem, "lower it, or raise num_magnitude_bins")
    return RandAugment(num_ops, magnitude, num_magnitude_bins, interpolation, three(fill))


@dataclass(frozen=True, repr=False)
class RandAugment(Augmentation):
    """An augmentation as `rand_augment` makes it."""

    num_ops: int
    magnitude: int
    num_magnitude_bins: int
    interpolation: Interpolation
    fill: tuple[int, int, int]
    eight_bits = True
    effect = Effect.WARPS

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(2 * self.num_ops)
        choices = np.floor(len(policies.RAND) * numbers[:, 0::2]).astype(int)
        negative = numbers[:, 1::2] < 0.5
        share = self.magnitude / (self.num_magnitude_bins - 1)
        how = policies.Warped(draws.target, self.interpolation, self.fill)
        parts = [
            policies.changed(policies.RAND, choices[:, at], share, negative[:, at], how) for at in range(self.num_ops)
        ]
        return Edits.joined(parts, len(draws))
