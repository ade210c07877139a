"""Images turned by right angles."""

from dataclasses import dataclass

import numpy as np

from shardfeed.declared import Fraction, checked
from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import Edit, Edits


@checked
def quarter_turns(p: Fraction = 1.0) -> "QuarterTurns":
    """Turn an image by 0, 90, 180 or 270 degrees, each equally often: for views from above, of tissue, of cells.

    Images that are not square are turned by 0 or 180 degrees, because a batch has images of one shape. No pixel
    changes. Boxes, masks and key points follow. torchvision has no such class; RandomChoice of four rotations does the
    same.

    Args:
        p: how often a turn is drawn, 0 to 1; also of those a quarter (or half) stay as they are.

    Raises UsageError for a `p` out of range.

    Example:
        augment = [quarter_turns(), vertical_flip()]  # the eight symmetries of a square
        batches = array_batches(data["train"], batch_size=256, image_size=224, augment=augment)
    """
    return QuarterTurns(p)


@dataclass(frozen=True, repr=False)
class QuarterTurns(Augmentation):
    """An augmentation as `quarter_turns` makes it."""

    p: float
    effect = Effect.MOVES

    def edits(self, draws: Draws) -> Edits:
        coin, number = draws.uniform(2).T
        height, width = draws.target
        turns = np.floor(4 * number) if height == width else 2 * np.floor(2 * number)
        return Edits.of(Edit.TURN, turns, count=len(draws)).where((coin < self.p) & (turns > 0))
