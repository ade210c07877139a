"""Augmentations beside torchvision's functions with the same parameters: what both make of an image.

`CASES` has the bounds of their differences, in levels of 255. tests/golden/torchvision.npz has what torchvision makes
of `small_photo()`, so that they are checked where torchvision is not installed; to write it:
`python tests/support/torchvision_cases.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardfeed.pipelines.augment import (
    affine,
    autocontrast,
    color_jitter,
    equalize,
    gaussian_blur,
    grayscale,
    invert,
    policies,
    posterize,
    sharpness,
    solarize,
    vertical_flip,
    warps,
)
from shardfeed.pipelines.augment.augmentation import Augmentation, drawn_edits
from shardfeed.pipelines.augment.edits import Edits
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.augment.ranges import Interpolation

GOLDEN = Path(__file__).parents[1] / "golden" / "torchvision.npz"
_SEED = np.array([[3, 4]], np.int64)
_BINS = 31

Size = tuple[int, int]
Theirs = Callable[[Any, Any], Any]  # from `v2.functional` and a tensor, uint8 [3, height, width], to another


@dataclass(frozen=True)
class Case:
    """An operation and its parameters, as we and as torchvision carry it out; and the bounds of the difference.

    `largest`: of any value; `mean`: of all. `moved`: of changes that take pixels from elsewhere, the share of pixels
    that may differ by more, because their place is halfway between two.
    """

    name: str
    ours: Callable[[Size], Edits]
    theirs: Theirs
    largest: int
    mean: float
    moved: float = 0.0

    def made_by_us(self, image: np.ndarray) -> np.ndarray:
        """The image after the edit, uint8 [height, width, 3]."""
        made = image.copy()
        edit_image(made, self.ours(image.shape[:2]), 0)
        return made

    def made_by_torchvision(self, image: np.ndarray) -> np.ndarray:
        """The image as torchvision makes it, uint8 [height, width, 3]."""
        import torch
        from torchvision.transforms import v2  # type: ignore[import-not-found]

        made = self.theirs(v2.functional, torch.from_numpy(image.transpose(2, 0, 1).copy()))
        return made.numpy().transpose(1, 2, 0)


@dataclass(frozen=True)
class Difference:
    """How far two images are apart: in levels, and the share of values that differ by more than a bound."""

    largest: int
    mean: float
    beyond: float

    @classmethod
    def of(cls, one: np.ndarray, other: np.ndarray, bound: int) -> "Difference":
        apart = np.abs(one.astype(int) - other)
        return cls(int(apart.max()), float(apart.mean()), float((apart > bound).any(-1).mean()))


def _drawn(augment: Sequence[Augmentation]) -> Callable[[Size], Edits]:
    return lambda size: drawn_edits(augment, _SEED, size)


def _linear(name: str, augment: Augmentation, theirs: Theirs) -> Case:
    """A change of colours: we round to the nearest, and torchvision towards 0."""
    return Case(name, _drawn([augment]), theirs, 1, 1.0)


def _colours() -> list[Case]:
    cases = [Case("grayscale", _drawn([grayscale(1)]), lambda f, x: f.rgb_to_grayscale(x, 3), 1, 1.0)]
    for factor in (0.0, 0.4, 1.6):
        span = (factor, factor)
        cases += [
            _linear(
                f"brightness {factor}",
                color_jitter(brightness=span),
                lambda f, x, factor=factor: f.adjust_brightness(x, factor),
            ),
            _linear(
                f"contrast {factor}",
                color_jitter(contrast=span),
                lambda f, x, factor=factor: f.adjust_contrast(x, factor),
            ),
            _linear(
                f"saturation {factor}",
                color_jitter(saturation=span),
                lambda f, x, factor=factor: f.adjust_saturation(x, factor),
            ),
        ]
    for turn, largest, mean in ((0.05, 100, 18.0), (-0.1, 160, 27.0), (0.5, 255, 60.0)):
        cases.append(
            Case(
                f"hue {turn}",
                _drawn([color_jitter(hue=(turn, turn))]),
                lambda f, x, turn=turn: f.adjust_hue(x, turn),
                largest,
                mean,
            )
        )
    jitters = [
        color_jitter(brightness=(1.4, 1.4)),
        color_jitter(contrast=(0.6, 0.6)),
        color_jitter(saturation=(1.4, 1.4)),
    ]
    cases.append(
        Case(
            "brightness 1.4, contrast 0.6, saturation 1.4",
            _drawn(jitters),
            lambda f, x: f.adjust_saturation(f.adjust_contrast(f.adjust_brightness(x, 1.4), 0.6), 1.4),
            255,
            10.0,
        )
    )
    return cases


def _values() -> list[Case]:
    return [
        Case("invert", _drawn([invert(1)]), lambda f, x: f.invert(x), 0, 0),
        Case("solarize 128", _drawn([solarize(128, 1)]), lambda f, x: f.solarize(x, 128), 0, 0),
        Case("posterize 3", _drawn([posterize(3, 1)]), lambda f, x: f.posterize(x, 3), 0, 0),
        Case("equalize", _drawn([equalize(1)]), lambda f, x: f.equalize(x), 0, 0),
        Case("autocontrast", _drawn([autocontrast(1)]), lambda f, x: f.autocontrast(x), 1, 1.0),
        Case("vertical_flip", _drawn([vertical_flip(1)]), lambda f, x: f.vertical_flip(x), 0, 0),
    ]


def _sharpness() -> list[Case]:
    cases = []
    for factor in (0.0, 0.5, 2.0):
        cases.append(
            Case(
                f"sharpness {factor}",
                _drawn([sharpness(factor, 1)]),
                lambda f, x, factor=factor: f.adjust_sharpness(x, factor),
                1,
                1.0,
            )
        )
    for width, sigma in ((23, 0.1), (23, 1.0), (23, 2.0), (5, 2.0)):
        cases.append(
            Case(
                f"gaussian_blur {width}, sigma {sigma}",
                _drawn([gaussian_blur(width, sigma)]),
                lambda f, x, width=width, sigma=sigma: f.gaussian_blur(x, [width, width], [sigma, sigma]),
                1,
                0.2,
            )
        )
    return cases


def _geometry() -> list[Case]:
    # With a fill colour torchvision's bilinear edges are too dark: pixels there are weighted twice. Ours are not.
    cases = []
    fills: dict[Interpolation, tuple[int, int, int]] = {"nearest": (9, 99, 200), "bilinear": (0, 0, 0)}
    for interpolation, fill in fills.items():
        turned = affine((20, 20), scale=(1.2, 1.2), shear=(10, 10, 5, 5), interpolation=interpolation, fill=fill)
        options = {"interpolation": interpolation, "fill": list(fill) if any(fill) else None}
        cases += [
            Case(
                f"affine, {interpolation}",
                _drawn([turned]),
                lambda f, x, options=options: f.affine(x, 20, [0, 0], 1.2, [10, 5], **options),
                1,
                0.3,
                moved=0.01,
            ),
            Case(
                f"perspective, {interpolation}",
                lambda size, how=interpolation, fill=fill: _seen_aside(size, how, fill),
                lambda f, x, options=options: f.perspective(
                    x, _corners(x.shape[1:], 0), _corners(x.shape[1:], 1), **options
                ),
                1,
                0.3,
                moved=0.01,
            ),
        ]
    return cases


def _corners(size: Size, share: float) -> list[list[int]]:
    """The corners of an image, moved inwards by a `share` of what they are moved by."""
    height, width = size
    moves = [(0.1, 0.2), (0.0, 0.05), (0.2, 0.1), (0.15, 0.0)]
    at_right = [(0, 0), (1, 0), (1, 1), (0, 1)]
    return [
        [
            int((width - 1) * abs(right - share * across) + 0.5),
            int((height - 1) * abs(below - share * down) + 0.5),
        ]
        for (right, below), (across, down) in zip(at_right, moves, strict=True)
    ]


def _seen_aside(size: Size, interpolation: Any, fill: tuple[int, int, int]) -> Edits:
    homographies, _ = warps.from_corners(np.array([_corners(size, 1)], float), size)
    return warps.warped(homographies, interpolation, fill)


# torchvision's names of the changes of policies.
_NAMES = {
    "identity": "Identity",
    "shear_x": "ShearX",
    "shear_y": "ShearY",
    "translate_x": "TranslateX",
    "translate_y": "TranslateY",
    "translate_x_share": "TranslateX",
    "translate_y_share": "TranslateY",
    "rotate": "Rotate",
    "brightness": "Brightness",
    "color": "Color",
    "contrast": "Contrast",
    "sharpness": "Sharpness",
    "posterize": "Posterize",
    "solarize": "Solarize",
    "autocontrast": "AutoContrast",
    "equalize": "Equalize",
    "invert": "Invert",
}
_WARPED = {"shear_x", "shear_y", "translate_x", "translate_y", "translate_x_share", "translate_y_share", "rotate"}


def _policies() -> list[Case]:
    """Each change of each policy, at two of 31 magnitudes, one of them negative if there is a sign."""
    cases = []
    for policy, space in (("RandAugment", policies.RAND), ("TrivialAugmentWide", policies.WIDE)):
        for name in space:
            for place, negative in ((9, True), (26, False)):
                cases.append(_policy_case(policy, space, name, place, negative))
    return cases


def _policy_case(policy: str, space: policies.Space, name: str, place: int, negative: bool) -> Case:
    def ours(size: Size) -> Edits:
        choice, share = np.array([list(space).index(name)]), place / (_BINS - 1)
        how = policies.Warped(size, "nearest", (0, 0, 0))
        return policies.changed(space, choice, share, np.array([negative]), how)

    def theirs(_: Any, image: Any) -> Any:
        from torchvision.transforms import v2  # type: ignore[import-not-found]

        transform = getattr(v2, policy)()
        magnitudes, signed = transform._AUGMENTATION_SPACE[_NAMES[name]]
        found = magnitudes(_BINS, *image.shape[1:])
        magnitude = 0.0 if found is None else float(found[place])
        magnitude *= -1 if signed and negative else 1
        return transform._apply_image_or_video_transform(image, _NAMES[name], magnitude, "nearest", {})

    sign = "-" if negative and policies.CHANGES[name].signed else ""
    moved = 0.01 if name in _WARPED else 0.0
    return Case(f"{policy}: {name} {sign}{place}", ours, theirs, 0 if moved else 1, 1.0, moved)


CASES = [*_colours(), *_values(), *_sharpness(), *_geometry(), *_policies()]


def small_photo() -> np.ndarray:
    """Some shades with noise, uint8 [13, 16, 3], the same everywhere."""
    rows, columns = np.mgrid[:13, :16]
    shades = np.stack([16 * columns, 255 - 19 * rows, 120 + 7 * rows - 5 * columns], -1)
    noise = (rows * 7919 + columns * 104729)[..., None] * np.array([3, 5, 7]) % 61 - 30
    return np.clip(shades + noise, 3, 251).astype(np.uint8)


def main() -> None:
    photo = small_photo()
    made = np.stack([case.made_by_torchvision(photo) for case in CASES])
    # Differences of neighbours compress to half the bytes.
    steps = np.diff(made, axis=2, prepend=np.uint8(0))
    np.savez_compressed(GOLDEN, names=np.array([case.name for case in CASES]), steps=np.ascontiguousarray(steps))


if __name__ == "__main__":
    main()
