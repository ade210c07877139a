"""Images with fewer levels."""

from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def posterize(bits: Annotated[int, Range(0, 8)], p: Fraction = 0.5) -> "Posterize":
    """Keep the first bits of each value, and set the others to 0: torchvision's RandomPosterize.

    Args:
        bits: that are kept, 0 to 8; 8 changes nothing.
        p: how often, 0 to 1.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [posterize(4)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Posterize(bits, p)


@dataclass(frozen=True, repr=False)
class Posterize(Augmentation):
    """An augmentation as `posterize` makes it."""

    bits: int
    p: float
    eight_bits = True

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.POSTERIZE, self.bits, count=len(draws)).where(draws.coin(self.p))
