"""Boxes, keypoints and rasters in the view drawn by their image's transform, in TensorFlow operations.

It is the same arithmetic as in `pipelines.geometry`, the reference, in the same order: results are equal to the last
bit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from shardfeed.pipelines.augment.crops import BY_ORDER, Crop
from shardfeed.pipelines.geometry import LEAST_SIDE
from shardfeed.pipelines.tensorflow.augmented import boxes_after_moves, finished_points, move_rasters


class ViewTensors(NamedTuple):
    """`view.View` as tensors.

    `size`: int32 [2], height and width of the image. `window`, `content`: int32 [4], top, left, height, width; of the
    image, and of the target. `target`: (height, width); int32 [] each, if the order decides them. `mirrored`: bool [];
    None: never. `moves`: float64 [n, 25], as `places.packed` makes it of `View.moves`; None: never any.
    """

    size: tf.Tensor
    window: tf.Tensor
    content: tf.Tensor
    target: tuple[Any, Any]
    mirrored: tf.Tensor | None
    moves: tf.Tensor | None = None


def static_sides(target: tuple[Any, Any]) -> tuple[int | None, int | None]:
    """(height, width) of a view's target as TensorFlow knows them without running; None for what an order decides."""
    height, width = (side if isinstance(side, int) and side else None for side in target)
    return height, width


VIEW_NUMBERS = 13  # of a view in one row: size, window, content, target, and whether it is mirrored


def row_view(row: tf.Tensor, crop: Crop, moves: tf.Tensor | None = None) -> ViewTensors:
    """The view by `crop` that a row of numbers encodes, int32 [13]. `moves`: as in `ViewTensors`."""
    size, window, content, target, mirrored = tf.split(row, [2, 4, 4, 2, 1])
    sides = (target[0], target[1]) if crop.target == BY_ORDER else crop.target
    return ViewTensors(size, window, content, sides, mirrored[0] > 0 if crop.mirrors else None, moves)


class SeenBoxTensors(NamedTuple):
    """`geometry.SeenBoxes` as tensors: float32 [k, 4], int64 [k], float32 [k], and float64 [k] or None."""

    boxes: tf.Tensor
    kept: tf.Tensor
    visible: tf.Tensor
    growth: tf.Tensor | None = None

    def chosen(self, rows: tf.Tensor) -> "SeenBoxTensors":
        """Those of some rows."""
        columns: Any = (None if values is None else tf.gather(values, rows) for values in self)
        return SeenBoxTensors(*columns)


def see_boxes(boxes: Sequence[tf.Tensor], view: ViewTensors, min_visible: float) -> SeenBoxTensors:
    """`geometry.see_boxes`. `boxes`: xmin, ymin, xmax, ymax, float32 [n] each."""
    corners = tf.stack(boxes, 1)
    corners = tf.reshape(corners, [-1, 2, 2])  # of each object: minimum and maximum, of x and y
    places = _in_window(corners, view)
    seen = tf.clip_by_value(places, 0.0, 1.0)
    sides = seen[:, 1] - seen[:, 0]
    whole = places[:, 1] - places[:, 0]
    visible = (sides[:, 0] * sides[:, 1]) / (whole[:, 0] * whole[:, 1])
    content = tf.cast(tf.reverse(view.content[2:], [0]), tf.float32)
    least = LEAST_SIDE * tf.cast(tf.stack(view.target[::-1]), tf.float32)
    kept = tf.where(tf.reduce_all(sides * content >= least, 1) & (visible >= min_visible))[:, 0]
    seen, visible = tf.gather(seen, kept), tf.gather(visible, kept)
    if view.mirrored is not None:
        turned = tf.stack([1.0 - tf.reverse(seen[:, :, 0], [1]), seen[:, :, 1]], 2)
        seen = tf.where(view.mirrored, turned, seen)
    shown = tf.reshape(_in_target(seen, view), [-1, 4])
    if view.moves is None:
        return SeenBoxTensors(shown, kept, visible)
    return SeenBoxTensors(*boxes_after_moves([shown, kept, visible], view.moves, view.target, min_visible))


def see_points(
    x: tf.Tensor, y: tf.Tensor, visibility: tf.Tensor | None, view: ViewTensors, flip: Sequence[int]
) -> tf.Tensor:
    """`geometry.see_points`: float32 [n, K, 3], or [n, K, 2] without visibility.

    `x`, `y`: float32 [n, K]; `visibility`: int64 [n, K].
    """
    places = _in_window(tf.stack([x, y], 2), view)
    inside = tf.reduce_all((places >= 0.0) & (places <= 1.0), 2)

    if view.moves is not None:
        shown = _in_target(_turned_if_mirrored(places, view), view)
        return finished_points(shown, inside, visibility, view.mirrored, view.moves, view.target, flip)

    def points(places: tf.Tensor) -> tf.Tensor:
        if visibility is None:
            return _in_target(places, view)
        found = tf.concat([_in_target(places, view), tf.cast(visibility, tf.float32)[:, :, None]], 2)
        return tf.where(((visibility > 0) & inside)[:, :, None], found, 0.0)

    if view.mirrored is None:
        return points(places)
    turned = tf.gather(points(tf.stack([1.0 - places[:, :, 0], places[:, :, 1]], 2)), list(flip), axis=1)
    return tf.where(view.mirrored, turned, points(places))


def _turned_if_mirrored(places: tf.Tensor, view: ViewTensors) -> tf.Tensor:
    """Places as fractions of the window, float32 [n, K, 2], of the image as it is shown."""
    if view.mirrored is None:
        return places
    turned = tf.stack([1.0 - places[:, :, 0], places[:, :, 1]], 2)
    return tf.where(view.mirrored, turned, places)


def see_raster(pixels: tf.Tensor, view: ViewTensors, padding: int | None) -> tf.Tensor:
    """`geometry.see_raster`: [height, width] of the target, of any dtype."""
    rows, columns = source_pixels(view)
    seen = (rows >= 0)[:, None] & (columns >= 0)
    picked = tf.gather(tf.gather(pixels, tf.maximum(rows, 0)), tf.maximum(columns, 0), axis=1)
    picked = tf.where(seen, picked, tf.cast(padding or 0, pixels.dtype))
    picked = tf.ensure_shape(picked, static_sides(view.target))
    return picked if view.moves is None else move_rasters(picked[None], view.moves, padding)[0]


def source_pixels(view: ViewTensors) -> tuple[tf.Tensor, tf.Tensor]:
    """Nearest row and column of the image for each one of the target; -1 in the padding. int32."""

    def nearest(axis: int) -> tf.Tensor:
        start, extent = view.window[axis], view.window[2 + axis]
        place = tf.range(view.target[axis]) - view.content[axis]
        content = view.content[2 + axis]
        if axis == 1 and view.mirrored is not None:
            place = tf.where(view.mirrored, content - 1 - place, place)
        inside = (place >= 0) & (place < content)
        return tf.where(inside, start + (2 * place + 1) * extent // (2 * content), -1)

    return nearest(0), nearest(1)


def see_areas(areas: tf.Tensor, seen: SeenBoxTensors, view: ViewTensors) -> tf.Tensor:
    """`geometry.see_areas`: float32 [k]. `areas`: float32 [n]."""
    window, content = (tf.reduce_prod(tf.cast(part[2:], tf.float64)) for part in (view.window, view.content))
    scaled = tf.cast(tf.gather(areas, seen.kept), tf.float64) * (content / window)
    scaled *= tf.cast(seen.visible, tf.float64)
    return tf.cast(scaled if seen.growth is None else scaled * seen.growth, tf.float32)


def box_areas(boxes: tf.Tensor) -> tf.Tensor:
    """Areas, float32 [n], of boxes, float32 [n, 4]: xmin, ymin, xmax, ymax."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def largest(boxes: tf.Tensor, most: int) -> tf.Tensor:
    """`geometry.largest`: int32."""
    chosen = tf.math.top_k(box_areas(boxes), tf.minimum(tf.shape(boxes)[0], most), sorted=False).indices
    return tf.sort(chosen)


def to_source(view: ViewTensors) -> tuple[tf.Tensor, tf.Tensor]:
    """`geometry.to_source`: scale and offset, float32 [2] each, for x and y."""
    window, content = (tf.cast(tf.reverse(tf.reshape(part, [2, 2]), [1]), tf.float64) for part in view[1:3])
    scale = window[1] / content[1]
    return tf.cast(scale, tf.float32), tf.cast(window[0] - content[0] * scale, tf.float32)


def _in_window(places: tf.Tensor, view: ViewTensors) -> tf.Tensor:
    """Fractions of the image, x and y in the last axis, as fractions of the window."""
    top, left, height, width = tf.unstack(tf.cast(view.window, tf.float32))
    size = tf.cast(tf.reverse(view.size, [0]), tf.float32)
    return (places * size - tf.stack([left, top])) / tf.stack([width, height])


def _in_target(places: tf.Tensor, view: ViewTensors) -> tf.Tensor:
    """Fractions of the window as pixels of the target."""
    top, left, height, width = tf.unstack(tf.cast(view.content, tf.float32))
    return places * tf.stack([width, height]) + tf.stack([left, top])
