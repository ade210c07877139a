"""Augmentations that people train with, as tuples to read, print and change: `[*recipes.simclr, erasing(p=0.1)]`.

Each is for `augment=` of a loader, except `dino`, which is for its `views=`. Crop and flip are the loader's own. They
are here, and are imported from `shardfeed.pipelines.augment`, because crops have augmentations.
"""

from shardfeed.pipelines.arrays import crop
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.color_jitter import color_jitter
from shardfeed.pipelines.augment.operations.erasing import erasing
from shardfeed.pipelines.augment.operations.gaussian_blur import gaussian_blur
from shardfeed.pipelines.augment.operations.grayscale import grayscale
from shardfeed.pipelines.augment.operations.photometric_distort import photometric_distort
from shardfeed.pipelines.augment.operations.solarize import solarize
from shardfeed.pipelines.augment.operations.trivial_augment_wide import trivial_augment_wide

__all__ = ["detection_photometric", "dino", "moco_v2", "simclr", "torchvision_classification"]

_IMAGENET_MEAN = (124, 116, 104)  # which is 0 after normalisation

Recipe = tuple[Augmentation, ...]

# Classification, from scratch. Source: torchvision's references/classification with the options of its weights
# IMAGENET1K_V2 (`--auto-augment ta_wide --random-erase 0.1`), with crops of 176 pixels and mixup or cutmix of batches;
# "How to Train State-Of-The-Art Models Using TorchVision's Latest Primitives", 2021. It erases after normalisation.
torchvision_classification: Recipe = (trivial_augment_wide(), erasing(p=0.1, value=_IMAGENET_MEAN))

# Two views of each image, whose representations should agree. Source: Chen et al. 2020, "A Simple Framework for
# Contrastive Learning of Visual Representations" (SimCLR), appendix A, with strength 1. The blur is for 224 pixels: its
# width is a tenth of the side.
simclr: Recipe = (color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8), grayscale(p=0.2), gaussian_blur(23, (0.1, 2.0), p=0.5))

# The same at half the strength, as most others have it. Source: Chen et al. 2020, "Improved Baselines with Momentum
# Contrastive Learning" (MoCo v2), and its program. Its crops have an area of at least 0.2.
moco_v2: Recipe = (color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8), grayscale(p=0.2), gaussian_blur(23, (0.1, 2.0), p=0.5))

# Ten views, two large ones and eight small ones. Source: Caron et al. 2021, "Emerging Properties in Self-Supervised
# Vision Transformers" (DINO), and its program: it blurs all of the first view, a tenth of the second, which it may
# solarize, and half of the small ones.
_DINO_COLOURS: Recipe = (color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8), grayscale(p=0.2))
dino: tuple[Crop, ...] = (
    crop(224, area=(0.4, 1.0), augment=[*_DINO_COLOURS, gaussian_blur(23, (0.1, 2.0))]),
    crop(224, area=(0.4, 1.0), augment=[*_DINO_COLOURS, gaussian_blur(23, (0.1, 2.0), p=0.1), solarize(128, p=0.2)]),
    *[crop(96, area=(0.05, 0.4), augment=[*_DINO_COLOURS, gaussian_blur(23, (0.1, 2.0), p=0.5)])] * 8,
)

# Detection, before or after the crop. Source: torchvision's references/detection (`--data-augmentation ssd`), after Liu
# et al. 2016, "SSD: Single Shot MultiBox Detector".
detection_photometric: Recipe = (photometric_distort(),)
