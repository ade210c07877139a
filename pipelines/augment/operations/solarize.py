"""Images whose bright values are inverted."""

from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def solarize(threshold: Annotated[float, Range(0, 255)] = 128.0, p: Fraction = 0.5) -> "Solarize":
    """Invert the values from a threshold on: torchvision's RandomSolarize, whose threshold has no default.

    Source: Pillow's `ImageOps.solarize`, whose default is ours.

    Args:
        threshold: values from this on are inverted, 0 to 255.
        p: how often, 0 to 1.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [solarize(128, p=0.2)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Solarize(threshold, p)


@dataclass(frozen=True, repr=False)
class Solarize(Augmentation):
    """An augmentation as `solarize` makes it."""

    threshold: float
    p: float
    eight_bits = True

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.SOLARIZE, self.threshold, count=len(draws)).where(draws.coin(self.p))
