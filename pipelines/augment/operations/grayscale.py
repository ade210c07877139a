"""Gray images."""

from dataclasses import dataclass

import numpy as np

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment import colors
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def grayscale(p: Fraction = 0.1) -> "Grayscale":
    """Make an image gray, with three equal channels: torchvision's RandomGrayscale.

    Brightness is 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601).

    Args:
        p: how often, 0 to 1.

    Raises UsageError for a `p` out of range.

    Example:
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=[grayscale(p=0.2)])
    """
    return Grayscale(p)


@dataclass(frozen=True, repr=False)
class Grayscale(Augmentation):
    """An augmentation as `grayscale` makes it."""

    p: float

    def edits(self, draws: Draws) -> Edits:
        return Edits.each(Edit.MATRIX, colors.saturation(np.zeros(len(draws)))).where(draws.coin(self.p))
