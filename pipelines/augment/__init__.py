"""Augmentations: values for `augment=[...]` of every loader, with the same draws in every framework.

    color_jitter, grayscale, invert             colours: linear, so that those that follow each other are one
    photometric_distort
    solarize, posterize, equalize,              values, by a table
    autocontrast
    gaussian_blur, sharpness                    sharpness
    affine, perspective, vertical_flip,         geometry, which boxes, masks and key points follow
    quarter_turns, erasing
    rand_augment, trivial_augment_wide,         policies
    auto_augment
    random_apply, one_of                        lists of others
    recipes                                     what people train with, as lists
    mixup, cutmix                               of a batch: for `batch_transform=`
    Augmentation                                the role of all of them

Names, parameters and defaults are torchvision's; the docstrings say where results differ.

Before all of these comes the crop, with its flip, which the loaders make from `image_size=` and `crop()`: crops.py, and
random_resized_crop.py, center_crop.py, letterbox.py and horizontal_flip.py among the operations.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines import recipes as recipes
    from shardfeed.pipelines.augment.augmentation import Augmentation as Augmentation
    from shardfeed.pipelines.augment.mixing.cutmix import cutmix as cutmix
    from shardfeed.pipelines.augment.mixing.mixup import mixup as mixup
    from shardfeed.pipelines.augment.operations.affine import affine as affine
    from shardfeed.pipelines.augment.operations.auto_augment import auto_augment as auto_augment
    from shardfeed.pipelines.augment.operations.autocontrast import autocontrast as autocontrast
    from shardfeed.pipelines.augment.operations.color_jitter import color_jitter as color_jitter
    from shardfeed.pipelines.augment.operations.equalize import equalize as equalize
    from shardfeed.pipelines.augment.operations.erasing import erasing as erasing
    from shardfeed.pipelines.augment.operations.gaussian_blur import gaussian_blur as gaussian_blur
    from shardfeed.pipelines.augment.operations.grayscale import grayscale as grayscale
    from shardfeed.pipelines.augment.operations.invert import invert as invert
    from shardfeed.pipelines.augment.operations.one_of import one_of as one_of
    from shardfeed.pipelines.augment.operations.perspective import perspective as perspective
    from shardfeed.pipelines.augment.operations.photometric_distort import photometric_distort as photometric_distort
    from shardfeed.pipelines.augment.operations.posterize import posterize as posterize
    from shardfeed.pipelines.augment.operations.quarter_turns import quarter_turns as quarter_turns
    from shardfeed.pipelines.augment.operations.rand_augment import rand_augment as rand_augment
    from shardfeed.pipelines.augment.operations.random_apply import random_apply as random_apply
    from shardfeed.pipelines.augment.operations.sharpness import sharpness as sharpness
    from shardfeed.pipelines.augment.operations.solarize import solarize as solarize
    from shardfeed.pipelines.augment.operations.trivial_augment_wide import trivial_augment_wide as trivial_augment_wide
    from shardfeed.pipelines.augment.operations.vertical_flip import vertical_flip as vertical_flip

__all__, __getattr__, __dir__ = lazy_names(__name__)
