"""Images upside down."""

from dataclasses import dataclass

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def vertical_flip(p: Fraction = 0.5) -> "VerticalFlip":
    """Mirror an image upside down: torchvision's RandomVerticalFlip. Boxes, masks and key points follow.

    Args:
        p: how often, 0 to 1.

    Raises UsageError for a value out of range.

    Example:
        augment = [vertical_flip()]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return VerticalFlip(p)


@dataclass(frozen=True, repr=False)
class VerticalFlip(Augmentation):
    """An augmentation as `vertical_flip` makes it."""

    p: float
    effect = Effect.MOVES | Effect.MIRRORS

    def edits(self, draws: Draws) -> Edits:
        return Edits.of(Edit.TURN, 0, 1, count=len(draws)).where(draws.coin(self.p))
