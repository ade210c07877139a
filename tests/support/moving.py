"""Moves of every kind, from numbers of 0..1: what boxes, masks and key points must follow."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from shardfeed.pipelines.augment.augmentation import Augmentation, Draws, Effect
from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits

FILL = (90, 90, 90)
Move = tuple[Edit, np.ndarray]


def numbered(kind: Edit, *numbers: float) -> Move:
    """A move with its numbers."""
    values = np.zeros(NUMBERS)
    values[: len(numbers)] = numbers
    return kind, values


def warped(homography: np.ndarray, *, bilinear: bool = True) -> Move:
    """A warp by a homography from the new image to the old, in pixels counted from the centre of the first."""
    return numbered(Edit.WARP, *homography.ravel(), bilinear, *FILL)


def affine(numbers: np.ndarray, target: tuple[int, int]) -> Move:
    """Up to 45 degrees, a fifth of the image, 0.6 to 1.5 times as large, 15 degrees of shear."""
    height, width = target
    angle, shear = np.radians(90 * numbers[0] - 45), np.radians(30 * numbers[1] - 15)
    scale = 0.6 + 0.9 * numbers[2]
    shift = np.array([(0.4 * numbers[3] - 0.2) * width, (0.4 * numbers[4] - 0.2) * height])
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn @ np.array([[1, np.tan(shear)], [0, 1]])
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    forward = np.eye(3)
    forward[:2, :2], forward[:2, 2] = turn, centre + shift - turn @ centre
    return warped(np.linalg.inv(forward))


def perspective(numbers: np.ndarray, target: tuple[int, int]) -> Move:
    """Each corner moves inwards by up to a fifth of the image."""
    height, width = target
    old = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], np.float64)
    inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * [width - 1, height - 1]
    new = old + 0.2 * inwards * numbers[:8].reshape(4, 2)
    rows = []
    for (x, y), (u, v) in zip(new, old, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    solved = np.linalg.solve(np.array(rows), old.ravel())
    return warped(np.append(solved, 1).reshape(3, 3))


def turn(numbers: np.ndarray, target: tuple[int, int]) -> Move:
    """Quarter turns of a square, half turns of other images; mirrored or not."""
    quarters = int(4 * numbers[0]) if target[0] == target[1] else 2 * int(2 * numbers[0])
    return numbered(Edit.TURN, quarters, numbers[1] < 0.5)


def upside_down(numbers: np.ndarray, target: tuple[int, int]) -> Move:
    return numbered(Edit.TURN, 0, 1)


def erased(numbers: np.ndarray, target: tuple[int, int]) -> Move:
    """A rectangle of a third of each side at most."""
    tall, wide = (1 + int(side / 3 * number) for side, number in zip(target, numbers, strict=False))
    top, left = int((target[0] - tall) * numbers[2]), int((target[1] - wide) * numbers[3])
    return numbered(Edit.ERASE, top, left, tall, wide, *FILL)


WAYS: dict[str, tuple[Effect, Callable[[np.ndarray, tuple[int, int]], Move]]] = {
    "affine": (Effect.MOVES | Effect.UNCOVERS, affine),
    "perspective": (Effect.MOVES | Effect.UNCOVERS, perspective),
    "turn": (Effect.MOVES | Effect.MIRRORS, turn),
    "upside_down": (Effect.MOVES | Effect.MIRRORS, upside_down),
    "erased": (Effect.ERASES, erased),
}
NUMBERS_OF_MOVE = 8


@dataclass(frozen=True, repr=False)
class Moving(Augmentation):
    """A move of each of some ways, in turn; of a quarter of the images none."""

    ways: tuple[str, ...]

    @property
    def effect(self) -> Effect:  # type: ignore[override]
        return reduce(or_, (WAYS[way][0] for way in self.ways), Effect.NONE)

    def edits(self, draws: Draws) -> Edits:
        parts = []
        for its, way in zip(draws.places(len(self.ways)), self.ways, strict=True):
            rows = its.uniform(NUMBERS_OF_MOVE)
            moves = [WAYS[way][1](numbers, draws.target) for numbers in rows]
            kinds = np.array([[kind] for kind, _ in moves], np.int32).reshape(-1, 1)
            parts.append(Edits(kinds, np.array([[values] for _, values in moves]).reshape(-1, 1, NUMBERS)))
        return Edits.joined(parts, len(draws)).where(draws.uniform(1)[:, 0] < 0.75)
