"""The centre of an image, resized: what a model is evaluated on."""

from dataclasses import dataclass

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.view import View, cropped
from shardfeed.pipelines.windows import Window


def center_window(height: int, width: int, target: tuple[int, int], crop_fraction: float) -> Window:
    """The largest centred window with the aspect ratio of `target`, scaled by `crop_fraction`."""
    scale = min(height / target[0], width / target[1]) * crop_fraction
    tall, wide = (max(1, round(side * scale)) for side in target)
    return Window((height - tall) // 2, (width - wide) // 2, tall, wide)


@dataclass(frozen=True)
class CenterCrop(Crop):
    """The centre: the largest window with the target's aspect ratio, times `crop_fraction`."""

    target: tuple[int, int]
    crop_fraction: float
    channels: int = 3
    augment: tuple[Augmentation, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.crop_fraction <= 1:
            raise UsageError("crop_fraction", f"got {self.crop_fraction!r}, expected more than 0, at most 1")

    def view(self, height: int, width: int) -> View:
        return cropped((height, width), center_window(height, width, self.target, self.crop_fraction), self.target)
