"""Transforms: from one sample's features and its seed to an image of fixed size. Closures, passed as objects.

Every transform is called as `transform(features, seed)`: `features` as they were parsed (`image/encoded` at least),
`seed` int64 [2], a function of the run's seed, the epoch and the sample, so that the same sample in the same epoch is
cut the same way wherever and whenever that happens. It returns uint8 [height, width, 3].
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines.decode import decode_resized

ImageTransform = Callable[[Mapping[str, tf.Tensor], tf.Tensor], tf.Tensor]
Size = int | tuple[int, int]

_ATTEMPTS = 100  # to find a window; where none fits (a very long image), the window is the whole image


def random_resized_crop(
    size: Size,
    *,
    area: tuple[float, float] = (0.08, 1.0),
    aspect_ratio: tuple[float, float] = (3 / 4, 4 / 3),
    flip: bool = True,
) -> ImageTransform:
    """A random window of the image, resized to `size`, mirrored half of the time: the usual crop of training.

    `size`: pixels, one side or (height, width). `area`: the window's share of the image, least and most, within 0..1.
    `aspect_ratio`: its width over its height, least and most. `flip`: mirror left and right.
    Source: Szegedy et al. 2015, section 6, as TensorFlow's `stateless_sample_distorted_bounding_box` draws it.

    Raises UsageError for a size that is not positive, and for a range that is empty or out of bounds.
    """
    height, width = image_size(size)
    _check_range("area", area, 1.0)
    _check_range("aspect_ratio", aspect_ratio, float("inf"))

    def transform(features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
                tf.concat([shape, [3]], 0),
                tf.zeros([1, 0, 4]),
                seed,
                min_object_covered=0.0,
                area_range=area,
                aspect_ratio_range=aspect_ratio,
                max_attempts=_ATTEMPTS,
                use_image_if_no_bounding_boxes=True,
            )
            return tf.concat([begin[:2], extent[:2]], 0), tf.constant([height, width])

        image = decode_resized(features, choose)
        if flip:
            # Another key than the window's: the same one would tie mirroring to the window's place.
            mirror = tf.random.stateless_uniform([], seed + tf.constant([1, 0], tf.int64)) < 0.5
            image = tf.cond(mirror, lambda: tf.reverse(image, [1]), lambda: image)
        return tf.ensure_shape(image, [height, width, 3])

    return transform


def resize_center_crop(size: Size, *, crop_fraction: float = 0.875) -> ImageTransform:
    """The middle of the image, resized to `size`: the usual crop of evaluation. The seed is not used.

    The window is the largest with the aspect ratio of `size`, times `crop_fraction`, centred. With the default 0.875 it
    is what is left of an image resized so that it just covers 256 x 256, of which the middle 224 x 224 are cut.

    Raises UsageError for a size that is not positive, and for a fraction that is not within 0..1.
    """
    height, width = image_size(size)
    if not 0 < crop_fraction <= 1:
        raise UsageError("crop_fraction", f"got {crop_fraction!r}, expected more than 0, at most 1")

    def transform(features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        del seed

        def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            target = tf.constant([height, width])
            scale = tf.reduce_min(shape / target) * crop_fraction
            window = tf.maximum(1, tf.cast(tf.round(tf.cast(target, tf.float64) * scale), tf.int32))
            return tf.concat([(shape - window) // 2, window], 0), target

        return tf.ensure_shape(decode_resized(features, choose), [height, width, 3])

    return transform


def letterbox(size: Size, *, fill: int = 0) -> ImageTransform:
    """The whole image, resized to fit into `size` with its own aspect ratio, centred on a ground of value `fill`.

    An image of h x w takes h' x w' = round(h * s) x round(w * s) pixels with s = min(height / h, width / w), each at
    least 1, with (height - h') // 2 rows of ground above and (width - w') // 2 columns to the left. Boxes have to
    follow: a caller computes that from `image/height` and `image/width`. The seed is not used.

    Raises UsageError for a size that is not positive, and for a fill that is not within 0..255.
    """
    height, width = image_size(size)
    if not 0 <= fill <= 255:
        raise UsageError("fill", f"got {fill!r}, expected 0 to 255")

    def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scale = tf.reduce_min([height, width] / shape)
        target = tf.maximum(1, tf.cast(tf.round(tf.cast(shape, tf.float64) * scale), tf.int32))
        return tf.concat([[0, 0], shape], 0), target

    def transform(features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        del seed
        image = decode_resized(features, choose)
        spare = [height, width] - tf.shape(image)[:2]
        before = spare // 2
        margins = tf.stack([before, spare - before], 1)
        image = tf.pad(image, tf.concat([margins, [[0, 0]]], 0), constant_values=tf.cast(fill, tf.uint8))
        return tf.ensure_shape(image, [height, width, 3])

    return transform


def image_size(size: Size) -> tuple[int, int]:
    """(height, width) in pixels. Raises UsageError unless both are positive integers."""
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UsageError("image_size", f"got {size!r}, expected pixels: one positive integer, or (height, width)")
    return sides


def _check_range(place: str, span: tuple[float, float], most: float) -> None:
    low, high = span
    if not 0 < low <= high <= most:
        raise UsageError(place, f"got {span!r}, expected (least, most) with 0 < least <= most <= {most:g}")
