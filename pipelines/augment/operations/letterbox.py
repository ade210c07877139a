"""The whole image, resized with its aspect ratio kept, and padded."""

from dataclasses import dataclass

from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.windows import Window


def letterboxed(size: tuple[int, int], target: tuple[int, int]) -> View:
    """Return the view of a whole image, centred in the target with its aspect ratio kept."""
    scale = min(target[0] / size[0], target[1] / size[1])
    height, width = (max(1, round(side * scale)) for side in size)
    content = Window((target[0] - height) // 2, (target[1] - width) // 2, height, width)
    return View(size, Window(0, 0, *size), target, content)


@dataclass(frozen=True)
class Letterbox(Crop):
    """The whole image, padded with the value `fill`."""

    target: tuple[int, int]
    fill: int
    channels: int = 3
    augment: tuple[Augmentation, ...] = ()
    letterboxes = True

    def view(self, height: int, width: int) -> View:
        return letterboxed((height, width), self.target)
