"""Augmentations refuse arguments by their names, and images that they are not defined for."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from augmentations import EACH, seeds

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import (
    Augmentation,
    affine,
    auto_augment,
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
from shardfeed.pipelines.augment.augmentation import drawn_edits
from shardfeed.pipelines.augment.host import edit_image

BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: affine(-5), "degrees: got -5, expected 0 or more; give (least, most) for a range"),
    (lambda: affine((5, -5)), "degrees: got (5, -5), expected (least, most); swap the two"),
    (lambda: affine(400), "degrees: got 400, expected a number from -360 to 360 or 2 numbers from -360 to 360"),
    (lambda: affine(float("nan")), "degrees: got nan, expected"),
    (lambda: affine(5, translate=(0.1, 1.5)), "translate: got (0.1, 1.5), expected 2 numbers from 0 to 1"),
    (lambda: affine(5, scale=(2, 1)), "scale: got (2, 1), expected (least, most); swap the two"),
    (lambda: affine(5, scale=(0, 1)), "scale: got (0, 1), expected 2 numbers from 0.01 to 100"),
    (lambda: affine(5, shear=(1, 2, 3)), "shear: got (1, 2, 3), expected"),  # type: ignore[arg-type]
    (lambda: affine(5, shear=(1, 2, 4, 3)), "shear: got (4, 3), expected (least, most); swap the two"),
    (lambda: affine(5, shear=90), "shear: got 90, expected a number from -89 to 89"),
    (lambda: affine(5, interpolation="cubic"), "interpolation: got 'cubic', expected 'nearest' or 'bilinear'"),  # type: ignore[arg-type]
    (lambda: affine(5, fill=256), "fill: got 256, expected an integer from 0 to 255 or 3 integers from 0 to 255"),
    (lambda: affine(5, p=2), "p: got 2, expected a number from 0 to 1"),
    (lambda: auto_augment("mnist"), "policy: got 'mnist', expected 'imagenet' or 'cifar10' or 'svhn'"),  # type: ignore[arg-type]
    (lambda: color_jitter(brightness=-0.1), "brightness: got -0.1, expected"),
    (lambda: color_jitter(brightness=math.inf), "brightness: got inf, expected a number from 0 to 100"),
    (lambda: color_jitter(saturation=(0.5, math.inf)), "saturation: got (0.5, inf), expected"),
    (lambda: photometric_distort(contrast=(0.5, math.inf)), "contrast: got (0.5, inf), expected 2 numbers from 0 to"),
    (lambda: color_jitter(contrast=(1.2, 0.8)), "contrast: got (1.2, 0.8), expected (least, most); swap the two"),
    (lambda: color_jitter(hue=-0.1), "hue: got -0.1, expected 0 or more; give (least, most) for a range"),
    (lambda: color_jitter(hue=0.6), "hue: got 0.6, expected a number from -0.5 to 0.5"),
    (lambda: erasing(scale=(0.5, 0.1)), "scale: got (0.5, 0.1), expected (least, most); swap the two"),
    (lambda: erasing(ratio=(3.3, 0.3)), "ratio: got (3.3, 0.3), expected (least, most); swap the two"),
    (lambda: erasing(value="random"), "value: got 'random', expected"),  # type: ignore[arg-type]
    (lambda: gaussian_blur(4), "kernel_size: got 4, expected an odd number; give 5"),
    (lambda: gaussian_blur(5, (2, 1)), "sigma: got (2, 1), expected (least, most); swap the two"),
    (lambda: one_of([]), "transforms: got an empty list, expected augmentations; give at least one"),
    (lambda: one_of([invert()], [1, 2]), "weights: got 2 weights for 1 augmentations; give one for each, or none"),
    (lambda: one_of([invert(), invert()], [0, 0]), "weights: all are 0, expected one that is more; leave weights out"),
    (lambda: one_of([invert()], [-1]), "weights: got -1 in the list, expected"),
    (lambda: one_of([invert]), "transforms: got"),  # type: ignore[list-item]
    (lambda: perspective(1.1), "distortion_scale: got 1.1, expected a number from 0 to 1"),
    (lambda: photometric_distort(hue=(0.1, -0.1)), "hue: got (0.1, -0.1), expected (least, most); swap the two"),
    (lambda: posterize(9), "bits: got 9, expected an integer from 0 to 8"),
    (lambda: rand_augment(magnitude=31), "magnitude: got 31, expected 0 to 30, as there are 31 bins; lower it, or"),
    (lambda: rand_augment(num_ops=-1), "num_ops: got -1, expected"),
    (lambda: random_apply(invert()), "transforms: got invert(p=0.5), expected a list of Augmentation"),  # type: ignore[arg-type]
    (lambda: random_apply(["invert"]), "transforms: got 'invert' in the list, expected Augmentation"),  # type: ignore[list-item]
    (lambda: sharpness(-1), "sharpness_factor: got -1, expected"),
    (lambda: solarize(300), "threshold: got 300, expected a number from 0 to 255"),
    (lambda: trivial_augment_wide(1), "num_magnitude_bins: got 1, expected"),
    *((lambda make=make: make(p=-0.1), "p: got -0.1, expected a number from 0 to 1") for make in (
        equalize, grayscale, invert, quarter_turns, vertical_flip
    )),
]  # fmt: skip

OF_8_BITS = {"auto_augment", "autocontrast", "equalize", "posterize", "rand_augment", "solarize"}
OF_8_BITS |= {"trivial_augment_wide", "one_of"}  # one of the latter equalizes
WIDE, NARROW = np.dtype(np.uint16), np.dtype(np.uint8)


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_bad_argument_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("one", EACH.values(), ids=EACH)
def test_images_of_16_bits(one: Augmentation) -> None:
    one.check(3, NARROW, (8, 8))
    if one.name not in OF_8_BITS:
        one.check(1, WIDE, (8, 8))
        return
    with pytest.raises(UsageError, match=r"augment: \w+ is defined for 8 bits, got images of uint16; leave \w+ out"):
        one.check(3, WIDE, (8, 8))


def test_the_refusal_names_the_part() -> None:
    nested = random_apply([grayscale(), one_of([invert(), solarize()])])
    with pytest.raises(UsageError, match="augment: solarize is defined for 8 bits, got images of uint16; leave solari"):
        nested.check(3, WIDE, (8, 8))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("one", [one for name, one in EACH.items() if name not in OF_8_BITS], ids=lambda one: one.name)
def test_16_bits_are_edited_as_8(one: Augmentation, channels: int) -> None:
    """An image of 257 times the values becomes 257 times the values, but for what is rounded in 8 bits."""
    narrow = np.random.default_rng(1).integers(0, 256, (31, 23, channels), np.uint8)
    edits = drawn_edits([one], seeds(30), narrow.shape[:2])
    for row in range(30):
        small, large = narrow.copy(), narrow.astype(np.uint16) * 257
        edit_image(small, edits, row)
        edit_image(large, edits, row)
        assert np.abs(large / 257 - small).max() <= 1.01


def test_a_gray_image_is_edited_as_one_of_three_channels() -> None:
    gray = np.random.default_rng(2).integers(0, 256, (20, 20, 1), np.uint8)
    some = [color_jitter(0.4, 0.4, 0.4, 0.1), grayscale(), photometric_distort(), invert(), affine(20), perspective()]
    edits = drawn_edits(some, seeds(50), (20, 20))
    for row in range(50):
        one, three = gray.copy(), np.repeat(gray, 3, 2)
        edit_image(one, edits, row)
        edit_image(three, edits, row)
        assert np.abs(three.astype(int).mean(2, keepdims=True) - one).max() <= 1.5
