"""Images whose values are about equally frequent."""

from dataclasses import dataclass

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def equalize(p: Fraction = 0.5) -> "Equalize":
    """Make all values of each channel about equally frequent: torchvision's RandomEqualize.

    Source: Pillow's `ImageOps.equalize`.

    Args:
        p: how often, 0 to 1.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [equalize()]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Equalize(p)


@dataclass(frozen=True, repr=False)
class Equalize(Augmentation):
    """An augmentation as `equalize` makes it."""

    p: float
    eight_bits = True

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.EQUALIZE, count=len(draws)).where(draws.coin(self.p))
