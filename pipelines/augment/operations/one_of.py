"""One of several augmentations for each image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Range, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, edits_of_each
from shardfeed.pipelines.augment.edits import Edits


@checked
def one_of(
    transforms: Sequence[Augmentation], weights: Sequence[Annotated[float, Range(0, 2**53)]] | None = None
) -> "Alternatives":
    """Apply one of several augmentations to each image: torchvision's RandomChoice, whose `p` is `weights` here.

    Args:
        transforms: the augmentations. `random_apply([...], p=1)` makes a list one of them, and `random_apply([])`
            leaves an image as it is.
        weights: how often each is applied, relative to the others, 0 or more; none: equally often.

    Raises UsageError for an empty list, for what is no augmentation, and for weights that are not one for each or all
    0.

    Example:
        augment = [one_of([equalize(p=1), autocontrast(p=1), gaussian_blur(9)], weights=[1, 1, 2])]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    if not transforms:
        raise UsageError("transforms", "got an empty list, expected augmentations", "give at least one")
    if weights is None:
        return Alternatives(tuple(transforms), (1.0,) * len(transforms))
    if len(weights) != len(transforms):
        problem = f"got {len(weights)} weights for {len(transforms)} augmentations"
        raise UsageError("weights", problem, "give one for each, or none")
    if not sum(weights):
        raise UsageError("weights", "all are 0, expected one that is more", "leave weights out: equally often")
    return Alternatives(tuple(transforms), tuple(float(weight) for weight in weights))


@dataclass(frozen=True, repr=False)
class Alternatives(Augmentation, name="one_of"):
    """An augmentation as `one_of` makes it."""

    transforms: tuple[Augmentation, ...]
    weights: tuple[float, ...]

    @property
    def parts(self) -> tuple[Augmentation, ...]:
        return self.transforms

    def edits(self, draws: Draws) -> Edits:
        ends = np.cumsum(self.weights)
        choice = np.searchsorted(ends / ends[-1], draws.uniform(1)[:, 0], side="right")
        return Edits.chosen(choice, edits_of_each(self.transforms, draws))
