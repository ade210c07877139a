"""Augmentations that some images get."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, edits_of_each
from shardfeed.pipelines.augment.edits import Edits


@checked
def random_apply(transforms: Sequence[Augmentation], p: Fraction = 0.5) -> "RandomApply":
    """Apply a list of augmentations to some of the images, all of them or none: torchvision's RandomApply.

    Args:
        transforms: the augmentations, in turn.
        p: how often, 0 to 1.

    Raises UsageError for a `p` out of range, and for what is no augmentation.

    Example:
        augment = [random_apply([affine(15), gaussian_blur(9)], p=0.3)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return RandomApply(tuple(transforms), p)


@dataclass(frozen=True, repr=False)
class RandomApply(Augmentation):
    """An augmentation as `random_apply` makes it."""

    transforms: tuple[Augmentation, ...]
    p: float

    @property
    def parts(self) -> tuple[Augmentation, ...]:
        return self.transforms

    def edits(self, draws: Draws) -> Edits:
        parts = edits_of_each(self.transforms, draws)
        return Edits.joined(parts, len(draws)).where(draws.coin(self.p))
