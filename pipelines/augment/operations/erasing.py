"""Images with a rectangle of one colour."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from shardfeed.declared import Fraction, Range, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edit, Edits
from shardfeed.pipelines.augment.ranges import Colour, Span, ordered, three, within

Ratio = Annotated[float, Range(0.01, 100)]
_ATTEMPTS = 10  # to draw a rectangle that is smaller than the image


@checked
def erasing(
    p: Fraction = 0.5,
    scale: tuple[Fraction, Fraction] = (0.02, 0.33),
    ratio: tuple[Ratio, Ratio] = (0.3, 3.3),
    value: Colour = 0,
) -> "Erasing":
    """Fill a rectangle of an image with one colour: torchvision's RandomErasing, without value="random".

    It comes before normalisation, where 0 is black. torchvision's recipes erase after that, where 0 is the mean colour:
    `value=(124, 116, 104)` is the same for the mean of ImageNet. Masks get 0 and key points become invisible in the
    rectangle; boxes stay. If ten rectangles in turn do not fit, an image stays as it is, as with torchvision. Source:
    Zhong et al. 2020, "Random Erasing Data Augmentation".

    Args:
        p: how often a rectangle is filled, 0 to 1.
        scale: (least, most), its share of the image, 0 to 1.
        ratio: (least, most), its height over its width, 0.01 to 100; their logarithm is uniform.
        value: the colour, 0 to 255, or (red, green, blue); of one channel the first.

    Raises UsageError for a value out of range, or a range that is empty.

    Example:
        augment = [erasing(p=0.1, value=(124, 116, 104))]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Erasing(p, ordered("scale", scale), ordered("ratio", ratio), three(value))


@dataclass(frozen=True, repr=False)
class Erasing(Augmentation):
    """An augmentation as `erasing` makes it."""

    p: float
    scale: Span
    ratio: Span
    value: tuple[int, int, int]
    effect = Effect.ERASES

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(3 + 2 * _ATTEMPTS)  # a coin, a place, and an area and a ratio for each attempt
        height, width = draws.target
        attempts = numbers[:, 3:].reshape(-1, _ATTEMPTS, 2)
        areas = within(self.scale, attempts[:, :, 0]) * (height * width)
        ratios = np.exp(within((math.log(self.ratio[0]), math.log(self.ratio[1])), attempts[:, :, 1]))
        tall, wide = np.rint(np.sqrt(areas * ratios)), np.rint(np.sqrt(areas / ratios))
        fits = (tall < height) & (wide < width)
        first = np.arange(len(draws)), fits.argmax(1)
        tall, wide = tall[first], wide[first]
        top = np.floor((height - tall + 1) * numbers[:, 1])
        left = np.floor((width - wide + 1) * numbers[:, 2])
        edits = Edits.of(Edit.ERASE, top, left, tall, wide, *self.value, count=len(draws))
        return edits.where(fits[first] & (numbers[:, 0] < self.p))
