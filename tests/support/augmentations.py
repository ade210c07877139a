"""Values of each augmentation, for tests of all of them."""

from collections.abc import Mapping

import numpy as np

from shardfeed.pipelines.augment import (
    Augmentation,
    affine,
    auto_augment,
    autocontrast,
    color_jitter,
    equalize,
    erasing,
    gaussian_blur,
    grayscale,
    invert,
    one_of,
    perspective,
    photometric_distort,
    posterize,
    quarter_turns,
    rand_augment,
    random_apply,
    sharpness,
    solarize,
    trivial_augment_wide,
    vertical_flip,
)

# By the name of its function, each with options of all kinds.
EACH: Mapping[str, Augmentation] = {
    "affine": affine(15, (0.1, 0.2), (0.8, 1.25), (1, 5, -3, 4), "bilinear", (1, 2, 3), p=0.6),
    "auto_augment": auto_augment("cifar10", fill=7),
    "autocontrast": autocontrast(0.3),
    "color_jitter": color_jitter(0.4, (0.5, 0.9), 0.4, 0.1, p=0.8),
    "equalize": equalize(0.7),
    "erasing": erasing(0.6, (0.02, 0.4), (0.3, 3.3), (124, 116, 104)),
    "gaussian_blur": gaussian_blur(23, (0.1, 2.0), p=0.5),
    "grayscale": grayscale(0.2),
    "invert": invert(0.4),
    "one_of": one_of([grayscale(1), random_apply([invert(1), equalize(1)], 0.5), affine(5)], [1, 2, 0.5]),
    "perspective": perspective(0.4, 0.7, "nearest", 9),
    "photometric_distort": photometric_distort(p=0.4),
    "posterize": posterize(3, 0.5),
    "quarter_turns": quarter_turns(0.9),
    "rand_augment": rand_augment(3, 5, 10),
    "random_apply": random_apply([color_jitter(0.4), one_of([vertical_flip(), gaussian_blur(5)])], 0.6),
    "sharpness": sharpness(1.7, 0.5),
    "solarize": solarize(100, 0.5),
    "trivial_augment_wide": trivial_augment_wide(),
    "vertical_flip": vertical_flip(0.5),
}


def seeds(count: int, start: int = 0) -> np.ndarray:
    """Seeds of samples as an order gives them, int64 [count, 2]."""
    return np.stack([np.arange(start, start + count), np.full(count, 11)], 1).astype(np.int64)
