"""Boxes, masks and key points after augmentations that move or erase the pixels below them.

Moves are those of `View.moves`: kinds of edits, in turn, with their numbers. Each kind states its effect beside its
pixel values, in values/warp.py, turn.py and erase.py; here are the things that follow it. Places are in pixels of the
target, as boxes have them: the first pixel reaches from 0 to 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shardfeed.pipelines.augment import polygons
from shardfeed.pipelines.augment.edits import NUMBERS, Edit, Edits
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.augment.values import erase, turn, warp

Moves = Sequence[tuple[Edit, np.ndarray]]
Size = tuple[int, int]

_ROUNDED = np.full(2, 1e-6)  # pixels: a point this near to the border is on it

_FORWARD: dict[Edit, Callable[[np.ndarray, Size], np.ndarray]] = {Edit.WARP: warp.forward, Edit.TURN: turn.forward}


class MovedBoxes(NamedTuple):
    """Boxes after moves.

    `boxes`: float32 [n, 4], xmin, ymin, xmax, ymax: around the part of each that is still in the target. `visible`:
    float64 [n], the area of that part that is not erased, as a share of the moved shape, 0..1. `growth`: float64 [n],
    the area of the moved shape as a multiple of that of the box.
    """

    boxes: np.ndarray
    visible: np.ndarray
    growth: np.ndarray


def move_boxes(boxes: np.ndarray, moves: Moves, target: Size) -> MovedBoxes:
    """Move boxes, float32 [n, 4], by their corners. `target`: (height, width), to which each move clips them.

    Each erased rectangle covers its share of what was visible, which is an estimate if several overlap.
    """
    shapes, frame = polygons.of_boxes(boxes), np.array([0, 0, target[1], target[0]], np.float64)
    visible, growth = np.ones(len(boxes)), np.ones(len(boxes))
    for kind, numbers in moves:
        area = polygons.areas(shapes)
        if kind == Edit.ERASE:
            covered = polygons.areas(polygons.clipped(shapes, erase.corners(numbers)))
            visible *= 1 - _shares(covered, area)
            continue
        shapes = polygons.projected(_FORWARD[kind](numbers, target), shapes)
        whole = polygons.areas(shapes)
        shapes = polygons.clipped(shapes, frame)
        growth *= _shares(whole, area)
        visible *= _shares(polygons.areas(shapes), whole)
    return MovedBoxes(polygons.enclosing(shapes).astype(np.float32), visible.clip(0, 1), growth)


def move_points(points: np.ndarray, moves: Moves, target: Size) -> tuple[np.ndarray, np.ndarray]:
    """Move points, float32 [n, K, 2], x and y; and tell whether each was in the target after each move, bool [n, K].

    A point that is erased counts as outside.
    """
    inside, places = np.ones(points.shape[:2], bool), points.astype(np.float64)
    sides = np.array([target[1], target[0]], np.float64)
    frame = np.concatenate([-_ROUNDED, sides + _ROUNDED])
    for kind, numbers in moves:
        if kind == Edit.ERASE:
            inside &= ~_within(places, erase.corners(numbers))
            continue
        places = polygons.through(_FORWARD[kind](numbers, target), places)
        within = _within(places, frame)
        places = np.where(within[..., None], places.clip(0, sides), places)
        inside &= within
    return places.astype(np.float32), inside


def move_raster(pixels: np.ndarray, moves: Moves, outside: int | None) -> np.ndarray:
    """A mask or raster, [height, width], whose pixels are the nearest ones of where the image's come from.

    `outside`: the value of pixels from outside of the image, and of those that are erased; None: 0 outside, and erased
    pixels keep their values.
    """
    for kind, numbers in moves:
        pixels = _RASTERS[kind](pixels, numbers, outside)
    return pixels


def _warped(pixels: np.ndarray, numbers: np.ndarray, outside: int | None) -> np.ndarray:
    """As `warp.moved`: if the values are bytes, by the code that warps images, which may be compiled."""
    if pixels.itemsize > 1:
        return warp.moved(pixels, numbers, outside)
    made = pixels.copy()
    edit_image(made.view(np.uint8)[..., None], Edits.each(Edit.WARP, warp.nearest(numbers, outside or 0)[None]), 0)
    return made


_RASTERS: dict[Edit, Callable[[np.ndarray, np.ndarray, int | None], np.ndarray]] = {
    Edit.WARP: _warped,
    Edit.TURN: turn.moved,
    Edit.ERASE: erase.moved,
}


def are_mirrored(moves: Moves, target: Size) -> bool:
    """Whether the moves, all together, swap left and right, or up and down."""
    forward = (_FORWARD[kind](numbers, target) for kind, numbers in moves if kind in _FORWARD)
    return sum(bool(np.linalg.det(homography) < 0) for homography in forward) % 2 == 1


def are_moved(moves: Moves) -> bool:
    """Whether places change, not only the pixels there."""
    return any(kind in _FORWARD for kind, _ in moves)


def packed(moves: Moves) -> np.ndarray:
    """Moves as an array, float64 [n, 1 + NUMBERS]: of each its kind and its numbers."""
    rows = [(float(kind), *numbers) for kind, numbers in moves]
    return np.array(rows, np.float64).reshape(-1, 1 + NUMBERS)


def unpacked(rows: np.ndarray) -> Moves:
    """The moves of an array as `packed` makes it, without rows of zeros."""
    return [(Edit(int(row[0])), row[1:]) for row in rows if row[0] != Edit.NONE]


def _within(places: np.ndarray, rectangle: np.ndarray) -> np.ndarray:
    """Whether each place, [..., 2], is in the rectangle xmin, ymin, xmax, ymax, or on its border."""
    x_and_y = (places >= rectangle[:2]) & (places <= rectangle[2:])
    return x_and_y[..., 0] & x_and_y[..., 1]


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """parts / wholes; 0 for wholes of 0."""
    return np.divide(parts, wholes, out=np.zeros_like(wholes), where=wholes > 0)
