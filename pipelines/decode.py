"""Encoded images to pixels: only the part that is needed, at the scale that is needed.

A JPEG is cropped while it is decoded. Where its window is at least twice the target, it is also scaled down by 2, 4 or
8 while it is decoded, which is faster and, unlike skipping pixels, does not alias: less than a factor of 2 is left to
the resize, for windows up to 16 times the target. The resize is bilinear without antialiasing, because the
antialiasing kernel costs more than the decoder; so a large PNG made small does alias.

The accurate DCT gives Pillow's pixels bit for bit, and is no slower than TensorFlow's default, which is up to 6 levels
off. Only the outermost columns of a window may differ, by a few levels, where colour is subsampled: the decoder does
not see the neighbours it would smooth them with.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from shardfeed.schema import ENCODED, FORMAT

# From an image's (height, width), int32 [2], to the window to cut, int32 [4] (top, left, height, width), and the
# (height, width) to resize it to, int32 [2]; all in pixels.
ChooseWindow = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_DCT = "INTEGER_ACCURATE"
_RATIOS = (1, 2, 4, 8)


def decode_resized(features: Mapping[str, tf.Tensor], choose: ChooseWindow) -> tf.Tensor:
    """The window of an image that `choose` picks, resized as it says, rounded: uint8 [h, w, 3], gray made RGB.

    `features["image/encoded"]` is a JPEG or a PNG. Which one is decided when the graph is built where
    `features["image/format"]` is a constant, else by each image's first bytes.
    """
    encoded = features[ENCODED]
    form = tf.get_static_value(features[FORMAT]) if FORMAT in features else None  # bytes, or an array of one
    if form is None:
        image, target = tf.cond(
            tf.io.is_jpeg(encoded), lambda: _jpeg_window(encoded, choose), lambda: _png_window(encoded, choose)
        )
    else:
        image, target = (_jpeg_window if np.asarray(form).item().lower() == b"jpeg" else _png_window)(encoded, choose)
    # As float32 first: resizing uint8 takes twice as long. Adding a half before the cut rounds, and is cheaper than
    # tf.round; bilinear values never leave 0..255.
    return tf.cast(tf.image.resize(tf.cast(image, tf.float32), target) + 0.5, tf.uint8)


def _jpeg_window(encoded: tf.Tensor, choose: ChooseWindow) -> tuple[tf.Tensor, tf.Tensor]:
    window, target = choose(tf.image.extract_jpeg_shape(encoded)[:2])  # reads the header only

    def decode(ratio: int) -> tf.Tensor:
        # The window is in pixels of the scaled image, whose sides are ceil(side / ratio): rounding down stays inside.
        return tf.image.decode_and_crop_jpeg(encoded, window // ratio, channels=3, ratio=ratio, dct_method=_DCT)

    fits = tf.reduce_min(window[2:] // target)  # so many times the target fits into the window
    branch = tf.reduce_sum(tf.cast(fits >= _RATIOS[1:], tf.int32))
    return tf.switch_case(branch, [lambda ratio=ratio: decode(ratio) for ratio in _RATIOS]), target


def _png_window(encoded: tf.Tensor, choose: ChooseWindow) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.image.decode_png(encoded, channels=3)
    window, target = choose(tf.shape(image)[:2])
    top, left, height, width = tf.unstack(window)
    return tf.image.crop_to_bounding_box(image, top, left, height, width), target
