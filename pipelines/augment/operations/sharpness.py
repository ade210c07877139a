"""Sharper or smoother images."""

from dataclasses import dataclass

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits
from shardfeed.pipelines.augment.ranges import Factor


@checked
def sharpness(sharpness_factor: Factor, p: Fraction = 0.5) -> "Sharpness":
    """Blend an image with itself smoothed by 3x3 pixels: torchvision's RandomAdjustSharpness.

    Pixels at the border stay, and images with a side of less than 3. Values are rounded; torchvision drops the
    fraction, so some of its values are 1 less.

    Args:
        sharpness_factor: 0 is the smoothed image, 1 the image, 2 twice as sharp; 0 to 100.
        p: how often, 0 to 1.

    Raises UsageError for a value out of range.

    Example:
        augment = [sharpness(2.0)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Sharpness(sharpness_factor, p)


@dataclass(frozen=True, repr=False)
class Sharpness(Augmentation):
    """An augmentation as `sharpness` makes it."""

    sharpness_factor: float
    p: float

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.SHARPNESS, self.sharpness_factor, count=len(draws)).where(draws.coin(self.p))
