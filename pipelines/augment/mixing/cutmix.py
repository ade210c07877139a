"""CutMix: a rectangle of each image is replaced, and as much of its label."""

import math
import random
from dataclasses import dataclass

from shardfeed.declared import Classes, Fraction, checked
from shardfeed.pipelines.augment.mixing.arithmetic import Mixed
from shardfeed.pipelines.augment.mixing.mixing import Mixing
from shardfeed.pipelines.augment.mixing.mixup import Alpha
from shardfeed.pipelines.windows import Window


@checked
def cutmix(alpha: Alpha = 1.0, *, classes: Classes | None = None, p: Fraction = 1.0) -> "CutMix":
    """A batch transform that replaces a rectangle of each image by that of the sample before it in the batch: CutMix.

    Labels become float32 [b, classes], with the shares of the area. One rectangle is drawn for each batch, as by
    torchvision's CutMix: its centre uniformly in the image, its sides sqrt(1 - share) of the image's, cut at the
    border. The rest is as for `mixup`. Source: Yun et al. 2019, "CutMix: Regularization Strategy to Train Strong
    Classifiers with Localizable Features".

    Args:
        alpha: of the beta distribution of the share that is kept, 0.001 to 1,000.
        classes: number of classes. None: of the dataset's class names.
        p: how often a batch is mixed, 0 to 1.

    Raises UsageError as `mixup` does.

    Example:
        batches = train_batches(data["train"], batch_size=256, image_size=224, batch_transform=cutmix())
        model.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    """
    return CutMix(alpha, classes, p)


@dataclass(frozen=True, repr=False)
class CutMix(Mixing):
    """Made by `cutmix`."""

    def drawn(self, chance: random.Random, height: int, width: int) -> Mixed:
        half = 0.5 * math.sqrt(1 - self.share(chance))
        row, column = chance.randrange(height), chance.randrange(width)
        top, bottom = _cut(row, half * height, height)
        left, right = _cut(column, half * width, width)
        window = Window(top, left, bottom - top, right - left)
        return Mixed(1 - window.height * window.width / (height * width), window)


def _cut(centre: int, half: float, side: int) -> tuple[int, int]:
    """Both ends of a rectangle around a place, within 0..side."""
    return max(0, int(centre - half)), min(side, int(centre + half))
