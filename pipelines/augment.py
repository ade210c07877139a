"""Transforms: from one sample's features and its seed to an image of fixed size. Closures, passed as objects.

Every transform is called as `transform(features, seed)`: `features` as they were parsed (`image/encoded` at least),
`seed` int64 [2], a function of the run's seed, the epoch and the sample, so that the same sample in the same epoch is
cut the same way wherever and whenever that happens. It returns uint8 [height, width, 3].
"""

import math
from collections.abc import Callable, Mapping

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines.decode import decode_resized

ImageTransform = Callable[[Mapping[str, tf.Tensor], tf.Tensor], tf.Tensor]
Size = int | tuple[int, int]

_ATTEMPTS = 10  # to draw a window that fits into the image
# Added to the seed, so that a caller who gives the same seed to another random op gets other numbers than the crop did.
_OWN_KEY = (0x5EED0FC209, 0)


def random_resized_crop(
    size: Size,
    *,
    area: tuple[float, float] = (0.08, 1.0),
    aspect_ratio: tuple[float, float] = (3 / 4, 4 / 3),
    flip: bool = True,
) -> ImageTransform:
    """A random window of the image, resized to `size`, mirrored half of the time: the usual crop of training.

    `size`: pixels, one side or (height, width). `area`: the window's share of the image, least and most, within 0..1,
    drawn evenly. `aspect_ratio`: its width over its height, least and most, drawn evenly on a logarithmic scale.
    Where ten draws do not fit into the image (a very long one), the window is the largest one in its middle with an
    aspect ratio in that range. `flip`: mirror left and right.
    Source: Szegedy et al. 2015, section 6, in the form of torchvision's RandomResizedCrop.

    Raises UsageError for a size that is not positive, and for a range that is empty or out of bounds.
    """
    height, width = image_size(size)
    _check_range("area", area, 1.0)
    _check_range("aspect_ratio", aspect_ratio, math.inf)

    def transform(features: Mapping[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        own = seed + tf.constant(_OWN_KEY, tf.int64)
        uniform = tf.random.stateless_uniform([2 * _ATTEMPTS + 3], own, alg="philox")  # one call: each costs

        def choose(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return _random_window(shape, uniform, area, aspect_ratio), tf.constant([height, width])

        image = decode_resized(features, choose)
        if flip:
            image = tf.cond(uniform[-1] < 0.5, lambda: tf.reverse(image, [1]), lambda: image)
        return tf.ensure_shape(image, [height, width, 3])

    return transform


def _random_window(
    shape: tf.Tensor, uniform: tf.Tensor, area: tuple[float, float], aspect_ratio: tuple[float, float]
) -> tf.Tensor:
    """A window, int32 [4] (top, left, height, width), of an image of `shape`, int32 [2].

    `uniform`: float32 [2 * _ATTEMPTS + 3] in 0..1: for the shares, the aspect ratios, top and left, and one to spare.
    """
    size = tf.cast(shape, tf.float32)
    pixels = tf.reduce_prod(size) * (area[0] + (area[1] - area[0]) * uniform[:_ATTEMPTS])
    low, high = math.log(aspect_ratio[0]), math.log(aspect_ratio[1])
    ratios = tf.exp(low + (high - low) * uniform[_ATTEMPTS : 2 * _ATTEMPTS])
    drawn = tf.round(tf.sqrt(tf.stack([pixels / ratios, pixels * ratios], 1)))
    # The last candidate always fits: the image, cut in one direction to the nearest aspect ratio that is allowed.
    nearest = tf.clip_by_value(size[1] / size[0], *aspect_ratio)
    largest = tf.maximum(1.0, tf.round(tf.minimum(size, tf.stack([size[1] / nearest, size[0] * nearest]))))
    candidates = tf.concat([drawn, largest[None]], 0)
    fits = tf.reduce_all((candidates >= 1) & (candidates <= size), 1)
    first = tf.argmax(fits)
    extent = candidates[first]
    # The largest one lies in the middle, the others anywhere.
    place = tf.where(first == _ATTEMPTS, 0.5, uniform[-3:-1])
    begin = tf.floor((size - extent + 1) * place)
    return tf.cast(tf.concat([begin, extent], 0), tf.int32)


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
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UsageError("image_size", f"got {size!r}, expected pixels: one positive integer, or (height, width)")
    height, width = sides
    return height, width


def _check_range(place: str, span: tuple[float, float], most: float) -> None:
    low, high = span
    if not 0 < low <= high <= most:
        raise UsageError(place, f"got {span!r}, expected (least, most) with 0 < least <= most <= {most:g}")
