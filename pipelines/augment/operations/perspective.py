"""Images seen from aside."""

from dataclasses import dataclass

import numpy as np

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment import warps
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.ranges import Colour, Interpolation, three

_AT_RIGHT = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], bool)  # of each corner, whether it is at the right, and below


@checked
def perspective(
    distortion_scale: Fraction = 0.5, p: Fraction = 0.5, interpolation: Interpolation = "bilinear", fill: Colour = 0
) -> "Perspective":
    """Move the four corners of an image inwards, each by itself: torchvision's RandomPerspective.

    Boxes, masks and key points follow. Images so small that their corners meet stay as they are.

    Args:
        distortion_scale: how far a corner moves, at most, as a share of the way to the centre in each direction, 0 to
            1.
        p: how often an image is changed, 0 to 1.
        interpolation: "nearest" or "bilinear".
        fill: what is outside of the image gets this, 0 to 255, or (red, green, blue); of one channel the first.

    Raises UsageError for a value out of range.

    Example:
        augment = [perspective(0.3, p=0.5)]
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return Perspective(distortion_scale, p, interpolation, three(fill))


@dataclass(frozen=True, repr=False)
class Perspective(Augmentation):
    """An augmentation as `perspective` makes it."""

    distortion_scale: float
    p: float
    interpolation: Interpolation
    fill: tuple[int, int, int]
    effect = Effect.WARPS

    def edits(self, draws: Draws) -> Edits:
        numbers = draws.uniform(9)  # a coin, and (column, row) of four corners
        size = np.array(draws.target[::-1])
        steps = np.floor(self.distortion_scale * (size // 2)) + 1  # places that a corner may have, each way
        moved = np.floor(numbers[:, 1:].reshape(-1, 4, 2) * steps)
        homographies, exists = warps.from_corners(np.where(_AT_RIGHT, size - 1 - moved, moved), draws.target)
        return warps.warped(homographies, self.interpolation, self.fill).where(exists & (numbers[:, 0] < self.p))
