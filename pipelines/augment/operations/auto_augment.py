"""Pairs of changes that were learned on a dataset."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from shardfeed.declared import checked
from shardfeed.pipelines.augment import policies
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.auto_policies import CIFAR10, IMAGENET, SVHN
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.ranges import Colour, Interpolation, three

Policy = Literal["imagenet", "cifar10", "svhn"]
_PAIRS = {"imagenet": IMAGENET, "cifar10": CIFAR10, "svhn": SVHN}
_LAST_BIN = 9  # of ten magnitudes


@checked
def auto_augment(
    policy: Policy = "imagenet", interpolation: Interpolation = "nearest", fill: Colour = 0
) -> "AutoAugment":
    """Change each image by one of 25 pairs of changes that were learned on a dataset: torchvision's AutoAugment.

    Boxes, masks and key points follow. Source: Cubuk et al. 2019, "AutoAugment: Learning Augmentation Strategies from
    Data".

    Args:
        policy: the dataset, "imagenet", "cifar10" or "svhn".
        interpolation: "nearest" or "bilinear".
        fill: what is outside of the image gets this, 0 to 255, or (red, green, blue); of one channel the first.

    Raises UsageError for a value out of range; a loader, for images of 16 bits.

    Example:
        augment = [auto_augment("imagenet")]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return AutoAugment(policy, interpolation, three(fill))


@dataclass(frozen=True, repr=False)
class AutoAugment(Augmentation):
    """An augmentation as `auto_augment` makes it."""

    policy: Policy
    interpolation: Interpolation
    fill: tuple[int, int, int]
    eight_bits = True
    effect = Effect.WARPS

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(5)  # a pair, and a coin and a sign for each of both
        pairs, names = _PAIRS[self.policy], list(policies.AUTO)
        pair = np.floor(len(pairs) * numbers[:, 0]).astype(int)
        how = policies.Warped(draws.target, self.interpolation, self.fill)
        parts = []
        for place, (coin, sign) in enumerate((numbers[:, 1:3].T, numbers[:, 3:5].T)):
            steps = [each[place] for each in pairs]
            choice = np.array([names.index(name) for name, _, _ in steps])[pair]
            often = np.array([share for _, share, _ in steps])[pair]
            shares = np.array([(magnitude or 0) / _LAST_BIN for _, _, magnitude in steps])[pair]
            parts.append(policies.changed(policies.AUTO, choice, shares, sign < 0.5, how).where(coin < often))
        return Edits.joined(parts, len(draws))
