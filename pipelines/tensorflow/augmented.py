"""Augmentations in a graph: NumPy's own code, called by TensorFlow, so that results equal those of other frameworks.

Only augmented images come here. Moves are float64 [n, 25], as `places.packed` makes them of `View.moves`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.pipelines import geometry
from shardfeed.pipelines.augment import places
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.edits import NUMBERS
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.geometry import SeenBoxes
from shardfeed.readers.tensorflow.indexed import call_from_tensorflow, python_call

MOVE_NUMBERS = 1 + NUMBERS  # of a move in one row: its kind, and the numbers of the edit


def edited(image: tf.Tensor, seed: tf.Tensor, crop: Crop) -> tuple[tf.Tensor, tf.Tensor]:
    """An image after the crop's augmentations, drawn by a sample's seed, int64 [2]; and its moves."""

    def edit(image: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        edits = crop.edits(seed[None])
        assert edits is not None
        made = image.copy()
        edit_image(made, edits, 0)
        return made, places.packed(edits.moves(0))

    made, moves = _called(edit, [image, seed], [image.dtype, tf.float64])
    return tf.ensure_shape(made, image.shape), tf.ensure_shape(moves, [None, MOVE_NUMBERS])


def boxes_after_moves(seen: Sequence[Any], moves: tf.Tensor, target: Any, min_visible: float) -> Sequence[tf.Tensor]:
    """`geometry.boxes_after_moves` of the boxes, `kept` and `visible` of a crop: also the boxes' growth."""

    def follow(boxes: Any, kept: Any, visible: Any, moves: np.ndarray, target: np.ndarray) -> tuple[Any, ...]:
        crop = SeenBoxes(boxes, kept, visible)
        return tuple(geometry.boxes_after_moves(crop, places.unpacked(moves), _size(target), min_visible))

    types = [tf.float32, tf.int64, tf.float32, tf.float64]
    given = [*seen, moves, tf.stack(target)]
    made = _called(follow, given, types)
    shapes = ([None, 4], [None], [None], [None])
    return [tf.ensure_shape(values, shape) for values, shape in zip(made, shapes, strict=True)]


def finished_points(
    points: tf.Tensor,
    inside: tf.Tensor,
    visibility: tf.Tensor | None,
    mirrored: tf.Tensor | None,
    moves: tf.Tensor,
    target: Any,
    flip: Sequence[int],
) -> tf.Tensor:
    """`geometry.finished_points`."""

    def finish(points: Any, inside: Any, mirrored: Any, moves: Any, target: Any, *visibility: Any) -> tuple[np.ndarray]:
        shown = visibility[0] if visibility else None
        made = geometry.finished_points(
            points, inside, shown, bool(mirrored), places.unpacked(moves), _size(target), flip
        )
        return (made,)

    mirrored = tf.constant(False) if mirrored is None else mirrored
    given = [points, inside, mirrored, moves, tf.stack(target), *([] if visibility is None else [visibility])]
    (made,) = _called(finish, given, [tf.float32])
    return tf.ensure_shape(made, [*points.shape[:2], 2 if visibility is None else 3])


def move_rasters(rasters: tf.Tensor, moves: tf.Tensor, outside: int | None) -> tf.Tensor:
    """`places.move_raster` of each of some masks or rasters of a view, [k, height, width]."""

    def move(rasters: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray]:
        made, same = np.empty_like(rasters), places.unpacked(moves)
        for moved, raster in zip(made, rasters, strict=True):
            moved[:] = places.move_raster(raster, same, outside)
        return (made,)

    (made,) = _called(move, [rasters, moves], [rasters.dtype])
    return tf.ensure_shape(made, rasters.shape)


def _called(
    function: Callable[..., tuple[np.ndarray, ...]], tensors: Sequence[tf.Tensor], dtypes: Sequence[tf.DType]
) -> tuple[tf.Tensor, ...]:
    """Call a Python function with tensors. The graph does not keep it, and no call outlives the interpreter."""

    def call(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with call_from_tensorflow() as ending:
            if ending:
                raise StopIteration  # the data has ended
            return function(*arrays)

    return python_call(call, dtypes)(*tensors)


def _size(target: np.ndarray) -> tuple[int, int]:
    return int(target[0]), int(target[1])
