"""Augmentations: values for `augment=[...]` of every loader, with the same draws in every framework.

    color_jitter, grayscale                     colours
    gaussian_blur                               sharpness
    mixup, cutmix                               of a batch: for `batch_transform=`

Names, parameters and defaults are torchvision's; the docstrings say where results differ.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines.augment.augmentation import Augmentation as Augmentation
    from shardfeed.pipelines.augment.mixing.cutmix import cutmix as cutmix
    from shardfeed.pipelines.augment.mixing.mixup import mixup as mixup
    from shardfeed.pipelines.augment.operations.color_jitter import color_jitter as color_jitter
    from shardfeed.pipelines.augment.operations.gaussian_blur import gaussian_blur as gaussian_blur
    from shardfeed.pipelines.augment.operations.grayscale import grayscale as grayscale

__all__, __getattr__, __dir__ = lazy_names(__name__)
