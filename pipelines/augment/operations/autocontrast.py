"""Images with as much contrast as fits."""

from dataclasses import dataclass

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def autocontrast(p: Fraction = 0.5) -> "Autocontrast":
    """Stretch each channel so that its darkest value is 0 and its brightest 255: torchvision's RandomAutocontrast.

    Values are rounded; torchvision drops the fraction, so some of its values are 1 less.

    Args:
        p: how often, 0 to 1.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [autocontrast()]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Autocontrast(p)


@dataclass(frozen=True, repr=False)
class Autocontrast(Augmentation):
    """An augmentation as `autocontrast` makes it."""

    p: float
    eight_bits = True

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.AUTOCONTRAST, count=len(draws)).where(draws.coin(self.p))
