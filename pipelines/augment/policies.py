"""Changes that policies choose from, by one magnitude each, and the ranges of magnitudes.

Names, ranges and roundings are torchvision's. Sources: Cubuk et al. 2019, "AutoAugment"; Cubuk et al. 2020,
"RandAugment"; Mueller and Hutter 2021, "TrivialAugment".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardfeed.pipelines.augment import colors, warps
from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits
from shardfeed.pipelines.augment.ranges import Interpolation


@dataclass(frozen=True)
class Warped:
    """How images are warped: their (height, width) in pixels, and the options of `warps.warped`."""

    target: tuple[int, int]
    interpolation: Interpolation
    fill: tuple[int, int, int]

    def sheared(self, x: np.ndarray | float, y: np.ndarray | float) -> Edits:
        """Shear along x and y by slopes."""
        return self._edits(warps.sheared(np.size(x + y), x, y))

    def shifted(self, x: np.ndarray | float, y: np.ndarray | float) -> Edits:
        """Shift to the right and down by whole pixels; fractions are dropped."""
        return self._edits(warps.affine(np.size(x + y), (0, 0), shift=(np.trunc(x), np.trunc(y))))

    def turned(self, degrees: np.ndarray) -> Edits:
        """Turn to the left."""
        return self._edits(warps.affine(len(degrees), warps.centre(self.target), angle=-np.radians(degrees)))

    def _edits(self, homographies: np.ndarray) -> Edits:
        return warps.warped(homographies, self.interpolation, self.fill)


class PolicyChange(NamedTuple):
    """A change of images by magnitudes, float64 [k]. `signed`: whether half of them are negative."""

    edits: Callable[[np.ndarray, Warped], Edits]
    signed: bool = False


def _by_matrix(linear: Callable[[np.ndarray], np.ndarray]) -> PolicyChange:
    """A change of colours by the factor 1 + magnitude."""
    return PolicyChange(lambda magnitudes, _: Edits.each(Edit.MATRIX, linear(1 + magnitudes)), signed=True)


def _by_table(kind: Edit) -> PolicyChange:
    """A change without a magnitude."""
    return PolicyChange(lambda magnitudes, _: Edits.of(kind, count=len(magnitudes)))


CHANGES: Mapping[str, PolicyChange] = {
    "identity": _by_table(Edit.NONE),
    "shear_x": PolicyChange(lambda slopes, how: how.sheared(slopes, 0.0), signed=True),
    "shear_y": PolicyChange(lambda slopes, how: how.sheared(0.0, slopes), signed=True),
    "translate_x": PolicyChange(lambda pixels, how: how.shifted(pixels, 0.0), signed=True),
    "translate_y": PolicyChange(lambda pixels, how: how.shifted(0.0, pixels), signed=True),
    # The same by shares of the side.
    "translate_x_share": PolicyChange(lambda shares, how: how.shifted(shares * how.target[1], 0.0), signed=True),
    "translate_y_share": PolicyChange(lambda shares, how: how.shifted(0.0, shares * how.target[0]), signed=True),
    "rotate": PolicyChange(lambda degrees, how: how.turned(degrees), signed=True),
    "brightness": _by_matrix(colors.brightness),
    "color": _by_matrix(colors.saturation),
    "contrast": _by_matrix(colors.contrast),
    "sharpness": PolicyChange(
        lambda magnitudes, _: Edits.of(Edit.SHARPNESS, 1 + magnitudes, count=len(magnitudes)), signed=True
    ),
    "posterize": PolicyChange(lambda bits, _: Edits.of(Edit.POSTERIZE, np.rint(bits), count=len(bits))),
    "solarize": PolicyChange(lambda shares, _: Edits.of(Edit.SOLARIZE, 255 * shares, count=len(shares))),
    "autocontrast": _by_table(Edit.AUTOCONTRAST),
    "equalize": _by_table(Edit.EQUALIZE),
    "invert": PolicyChange(lambda magnitudes, _: Edits.each(Edit.MATRIX, colors.inverted(np.ones(len(magnitudes))))),
}

Space = Mapping[str, tuple[float, float]]  # of a policy: changes, and the magnitudes of the first and the last bin

_SIDE = 150 / 331  # of the images of AutoAugment, which were shifted by 150 pixels at most
RAND: Space = {
    "identity": (0, 0),
    "shear_x": (0, 0.3),
    "shear_y": (0, 0.3),
    "translate_x_share": (0, _SIDE),
    "translate_y_share": (0, _SIDE),
    "rotate": (0, 30),
    "brightness": (0, 0.9),
    "color": (0, 0.9),
    "contrast": (0, 0.9),
    "sharpness": (0, 0.9),
    "posterize": (8, 4),
    "solarize": (1, 0),
    "autocontrast": (0, 0),
    "equalize": (0, 0),
}
WIDE: Space = {
    "identity": (0, 0),
    "shear_x": (0, 0.99),
    "shear_y": (0, 0.99),
    "translate_x": (0, 32),
    "translate_y": (0, 32),
    "rotate": (0, 135),
    "brightness": (0, 0.99),
    "color": (0, 0.99),
    "contrast": (0, 0.99),
    "sharpness": (0, 0.99),
    "posterize": (8, 2),
    "solarize": (1, 0),
    "autocontrast": (0, 0),
    "equalize": (0, 0),
}
AUTO: Space = {**RAND, "invert": (0, 0)}


def changed(space: Space, choice: np.ndarray, shares: np.ndarray | float, negative: np.ndarray, how: Warped) -> Edits:
    """One change of each of k images.

    `choice`: int [k], which of the space. `shares`: of the way from the first bin to the last, 0..1, float64 [k] or one
    for all. `negative`: bool [k], of those that are signed.
    """
    first, last = np.array(list(space.values()), np.float64)[choice].T
    magnitudes = first + (last - first) * shares
    kinds, numbers = np.zeros((len(choice), 1), np.int32), np.zeros((len(choice), 1, NUMBERS))
    for at, name in enumerate(space):
        rows = np.flatnonzero(choice == at)
        if len(rows):
            change = CHANGES[name]
            signs = np.where(negative[rows], -1.0, 1.0) if change.signed else 1.0
            made = change.edits(signs * magnitudes[rows], how)
            kinds[rows], numbers[rows] = made.kinds, made.numbers
    return Edits(kinds, numbers)
