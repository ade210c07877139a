"""One of several augmentations for each image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, overload

import numpy as np

from shardfeed.declared import Range, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, edits_of_each
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.mixing.mixing import Mixing, OneMixing


@overload
def one_of(
    transforms: Sequence[Augmentation], weights: Sequence[float] | None = None
) -> "Alternatives": ...  # type checkers know which of the two it is


@overload
def one_of(transforms: Sequence[Mixing], weights: Sequence[float] | None = None) -> OneMixing: ...


@checked
def one_of(
    transforms: Sequence[Augmentation] | Sequence[Mixing],
    weights: Sequence[Annotated[float, Range(0, 2**53)]] | None = None,
) -> "Alternatives | OneMixing":
    """Apply one of several augmentations to each image: torchvision's RandomChoice, whose `p` is `weights` here.

    Of `mixup()` and `cutmix()` it is one for each batch: give it as `batch_transform`.

    Args:
        transforms: the augmentations. `random_apply([...], p=1)` makes a list one of them, and `random_apply([])`
            leaves an image as it is. Or mixings.
        weights: how often each is applied, relative to the others, 0 or more; none: equally often.

    Raises UsageError for an empty list, for what is no augmentation, and for weights that are not one for each or all
    0.

    Example:
        augment = [one_of([equalize(p=1), autocontrast(p=1), gaussian_blur(9)], weights=[1, 1, 2])]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)

        by_turns = one_of([mixup(0.2), cutmix(1.0)])
        batches = array_batches(data["train"], batch_size=256, image_size=224, batch_transform=by_turns)
    """
    if not transforms:
        raise UsageError("transforms", "got an empty list, expected augmentations", "give at least one")
    shares = _shares(weights, len(transforms))
    mixings = [each for each in transforms if isinstance(each, Mixing)]
    augmentations = [each for each in transforms if isinstance(each, Augmentation)]
    if mixings and augmentations:
        problem = "got augmentations of images and mixings of batches, expected one kind"
        raise UsageError("transforms", problem, "give mixings to batch_transform=")
    return OneMixing.of(mixings, shares) if mixings else Alternatives(tuple(augmentations), shares)


def _shares(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """A weight for each; none: equal ones. Raises UsageError for another number of weights, or if all are 0."""
    if weights is None:
        return (1.0,) * count
    if len(weights) != count:
        problem = f"got {len(weights)} weights for {count} augmentations"
        raise UsageError("weights", problem, "give one for each, or none")
    if not sum(weights):
        raise UsageError("weights", "all are 0, expected one that is more", "leave weights out: equally often")
    return tuple(float(weight) for weight in weights)


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
