"""MixUp: images and labels of two samples are blended."""

import random
from dataclasses import dataclass
from typing import Annotated

from shardfeed.declared import Classes, Fraction, Range, checked
from shardfeed.pipelines.augment.mixing.arithmetic import WHOLE, Mixed
from shardfeed.pipelines.augment.mixing.mixing import Mixing

Alpha = Annotated[float, Range(0.001, 1000)]


@checked
def mixup(alpha: Alpha = 1.0, *, classes: Classes | None = None, p: Fraction = 1.0) -> "MixUp":
    """A batch transform that blends each sample with the one before it in the batch, images and labels: MixUp.

    Labels become float32 [b, classes]. One share is drawn for each batch, as by torchvision's MixUp, in steps of 1/256;
    over ranks, each mixes its own rows. The draw depends on the batch's first sample and the epoch, so that a resumed
    run is exact. Source: Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization".

    Args:
        alpha: of the beta distribution of the share, 0.001 to 1,000: 0.2 is usual for ImageNet; 1 draws uniformly.
        classes: number of classes. None: of the dataset's class names.
        p: how often a batch is mixed, 0 to 1.

    Raises UsageError for a value out of range; and while iterating, for a batch that is not of images and labels.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, batch_transform=mixup(0.2))
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images / 255), labels)
    """
    return MixUp(alpha, classes, p)


@dataclass(frozen=True, repr=False)
class MixUp(Mixing):
    """Made by `mixup`."""

    def drawn(self, chance: random.Random, height: int, width: int) -> Mixed:
        del height, width
        return Mixed(round(self.share(chance) * WHOLE) / WHOLE)
