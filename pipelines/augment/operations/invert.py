"""Negatives."""

from dataclasses import dataclass

import numpy as np

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment import colors
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def invert(p: Fraction = 0.5) -> "Invert":
    """Make a negative of an image: torchvision's RandomInvert. It is linear, so one with other changes of colours.

    Args:
        p: how often, 0 to 1.

    Raises UsageError for a `p` out of range.

    Example:
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=[invert()])
    """
    return Invert(p)


@dataclass(frozen=True, repr=False)
class Invert(Augmentation):
    """An augmentation as `invert` makes it."""

    p: float

    def edits(self, draws: Draws) -> Edits:
        return Edits.each(Edit.MATRIX, colors.inverted(np.ones(len(draws)))).where(draws.coin(self.p))
