"""Decoding of images in TensorFlow: only the required part, at the required scale.

A JPEG is cropped while it is decoded. An image is scaled down in two steps: first by r = 1, 2, 4 or 8, the largest r
for which the reduced window is still at least as large as the target, then by a resize with the remaining factor, less
than 2 for windows up to 16 times the target. A JPEG is scaled by r while it is decoded, which saves time; other images
by means over about r x r pixels. Neither aliases. The resize is bilinear; with `antialias` it is a triangle filter as
wide as the scale requires, which costs more than the decoder, and r leaves it a factor of at least 2.

The accurate DCT gives Pillow's pixels bit for bit, and is no slower than TensorFlow's default, which is up to 6 levels
off.

TensorFlow's error for an image that it cannot decode names neither shard nor record, and nothing in a graph can catch
it. So if the manifest lists no formats for a split, or one that TensorFlow cannot decode, Python checks each image
first (`image_checker`): an image that TensorFlow can read passes unchanged; an image that only Pillow can read becomes
a PNG; any other is an error that names its record.
"""

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from PIL import Image

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.formats.jpeg_markers import SIGNATURE, is_whole
from shardfeed.pipelines.decoding.pixels import MARGIN, PILLOW_ERRORS, undecodable
from shardfeed.pipelines.samples import Samples, named, where_found
from shardfeed.readers.tensorflow.indexed import call_from_tensorflow, python_call
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, WIDTH

# From an image's (height, width), int32 [2], to the window to cut, int32 [4] (top, left, height, width), and the
# (height, width) to resize it to, int32 [2]; all in pixels.
ChooseWindow = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_DCT = "INTEGER_ACCURATE"
RATIOS = (1, 2, 4, 8)
_GAP = 2  # minimum factor by which the antialiasing resize shrinks an image shrunk before
_DECODED_BY_TENSORFLOW = frozenset({"jpeg", "png", PNG16, "raw"})
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_OTHERS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # of Pillow, without formats that start another program


class Decoded(NamedTuple):
    """A window of an image of `shape`, int32 [2], shrunk by r: [h, w, channels]; and its target, int32 [2].

    `window`: int32 [4], the part of the image that the pixels show. For a shrunk JPEG each side differs by up to r - 1
    pixels from the chosen one, because only whole pixels of the smaller image can be cut.
    """

    pixels: tf.Tensor
    shape: tf.Tensor
    window: tf.Tensor
    target: tf.Tensor


def decode_window(
    features: Mapping[str, tf.Tensor], choose: ChooseWindow, *, antialias: bool = False, channels: int = 3
) -> Decoded:
    """The window of an image that `choose` picks, with 3 channels or 1; `resized` then resizes it as `choose` says.

    `features["image/encoded"]` is a JPEG, a PNG, or, if `features["image/format"]` is "raw", the pixels themselves,
    uint8 `image/height` x `image/width` x 3. If the format is the constant "jpeg", "png" or "raw", this is decided when
    the graph is built; "png16" has to be such a constant, and is uint16. Otherwise "raw" is decided by that feature,
    and JPEG or PNG by each image's first bytes, because values of other programs ("JPEG", "jpg", ".jpg") are
    unreliable.
    """
    gap = _GAP if antialias else 1
    encoded = features[ENCODED]

    def jpeg() -> Decoded:
        return _jpeg_window(encoded, choose, gap, channels)

    def png(dtype: tf.DType = tf.uint8) -> Decoded:
        return _pixels_window(_with_channels(tf.image.decode_png(encoded, 3, dtype), channels), choose, gap)

    def raw() -> Decoded:
        shape = tf.stack([features[HEIGHT], features[WIDTH], 3])
        pixels = tf.reshape(tf.io.decode_raw(encoded, tf.uint8), shape)
        return _pixels_window(_with_channels(pixels, channels), choose, gap)

    def compressed() -> Decoded:
        return tf.cond(tf.io.is_jpeg(encoded), jpeg, png)

    form = tf.get_static_value(features[FORMAT]) if FORMAT in features else None  # bytes, or an array of one
    makers = {b"jpeg": jpeg, b"png": png, PNG16.encode(): partial(png, tf.uint16), b"raw": raw}
    known = None if form is None else makers.get(np.asarray(form).item())
    if known is not None:
        return known()
    if form is None and {FORMAT, HEIGHT, WIDTH} <= features.keys() and features[FORMAT].shape.rank == 0:
        return tf.cond(features[FORMAT] == b"raw", raw, compressed)
    return compressed()


def _with_channels(pixels: tf.Tensor, channels: int) -> tf.Tensor:
    """RGB, or its brightness, as `decoding.pixels` computes it."""
    if channels == 3:
        return pixels
    weighted = tf.cast(pixels, tf.int64) * tf.constant([19_595, 38_470, 7_471], tf.int64)
    return tf.cast((tf.reduce_sum(weighted, -1, keepdims=True) + (1 << 15)) // (1 << 16), pixels.dtype)


def resized(image: tf.Tensor, target: tf.Tensor, *, antialias: bool = False) -> tf.Tensor:
    """[h, w, channels] to [*target, channels] of the same dtype, rounded."""
    dtype = image.dtype
    image = tf.cast(image, tf.float32)  # before resizing: resizing uint8 takes twice as long
    if antialias:
        pixels = tf.image.resize(image, target, antialias=True)
    else:
        # The op itself: `tf.image.resize` adds a dozen ops that inspect shapes.
        pixels = tf.raw_ops.ResizeBilinear(images=image[None], size=target, half_pixel_centers=True)[0]
    # Adding a half before truncation rounds, and is cheaper than tf.round; no value leaves the range.
    return tf.cast(pixels + 0.5, dtype)


def ratio_branch(window: tf.Tensor, target: tf.Tensor, gap: int = 1) -> tf.Tensor:
    """Index of the ratio in RATIOS to shrink `window` by: it still covers `gap` times `target` in both directions."""
    fits = tf.reduce_min(window[2:] // target)
    return tf.reduce_sum(tf.cast(fits >= [gap * ratio for ratio in RATIOS[1:]], tf.int32))


def _by_ratio(branch: tf.Tensor, shrink: Callable[[int], tf.Tensor]) -> tf.Tensor:
    """Return `shrink(ratio)` for the ratio at index `branch` of RATIOS."""

    def larger() -> tf.Tensor:
        return tf.switch_case(branch - 1, [lambda ratio=ratio: shrink(ratio) for ratio in RATIOS[1:]])

    return tf.cond(branch < 1, lambda: shrink(1), larger)  # the usual case first: each further branch costs


def _jpeg_window(encoded: tf.Tensor, choose: ChooseWindow, gap: int, channels: int) -> Decoded:
    shape = tf.image.extract_jpeg_shape(encoded)[:2]  # reads the header only
    window, target = choose(shape)

    def decode(ratio: int) -> tf.Tensor:
        # In pixels of the scaled image, whose sides are ceil(side / ratio): rounding down stays inside.
        top, left, height, width = tf.unstack(window if ratio == 1 else window // ratio)
        before = tf.minimum(left, MARGIN)
        right = tf.minimum(left + width + MARGIN, shape[1] if ratio == 1 else -(-shape[1] // ratio))
        wider = tf.stack([top, left - before, height, right - left + before])
        image = tf.image.decode_and_crop_jpeg(encoded, wider, channels=channels, ratio=ratio, dct_method=_DCT)
        return tf.slice(image, [0, before, 0], [height, width, channels])

    branch = ratio_branch(window, target, gap)
    ratio = tf.bitwise.left_shift(1, branch)
    return Decoded(_by_ratio(branch, decode), shape, window // ratio * ratio, target)


def _pixels_window(pixels: tf.Tensor, choose: ChooseWindow, gap: int) -> Decoded:
    whole = tf.shape(pixels)[:2]
    window, target = choose(whole)
    top, left, height, width = tf.unstack(window)
    cut = tf.slice(pixels, [top, left, 0], [height, width, -1])

    def shrink(ratio: int) -> tf.Tensor:
        if ratio == 1:
            return cut
        size = tf.maximum(1, window[2:] // ratio)
        return tf.cast(tf.raw_ops.ResizeArea(images=cut[None], size=size)[0] + 0.5, pixels.dtype)

    return Decoded(_by_ratio(ratio_branch(window, target, gap), shrink), whole, window, target)


def tensorflow_decodes(formats: Mapping[str, int]) -> bool:
    """Whether all images of a split are known to be decodable by TensorFlow. `formats`: as in its manifest."""
    return bool(formats) and formats.keys() <= _DECODED_BY_TENSORFLOW


def image_checker(samples: Samples) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor | None], tf.Tensor]:
    """Make the function from a serialized record, its image and `image/format`, string [] each, to an image file.

    The file is a JPEG or PNG with the image's pixels; raw pixels are passed on unchanged. Iterating raises an error
    that names the record if its image is neither, nor readable by Pillow.
    """

    def look(record: bytes, encoded: bytes) -> tuple[np.ndarray]:
        with call_from_tensorflow() as ending:
            if ending:
                return (np.array(encoded, object),)
            try:
                return (np.array(as_jpeg_or_png(encoded), object),)
            except IntegrityError as error:
                place = where_found(samples, record) + named(record)
                raise RecordError(place, error.problem, error.remedy) from None

    call_python = python_call(look, [tf.string])

    def checked_image(record: tf.Tensor, encoded: tf.Tensor, form: tf.Tensor | None) -> tf.Tensor:
        def seen() -> tf.Tensor:
            return tf.ensure_shape(call_python(record, encoded)[0], [])

        if form is None or "raw" not in samples.formats:
            return seen()
        return tf.cond(form == b"raw", lambda: encoded, seen)

    return checked_image


def as_jpeg_or_png(encoded: bytes) -> bytes:
    """The image as TensorFlow decodes it. Raises IntegrityError if Pillow does not decode it either."""
    if is_whole(encoded) or (encoded.startswith(_PNG) and encoded.endswith(_PNG_END)):
        return encoded
    try:
        with Image.open(io.BytesIO(encoded), formats=_OTHERS) as image:
            image.load()
            if encoded.startswith((SIGNATURE, _PNG)):  # with extra bytes after its end
                return encoded
            stored = io.BytesIO()
            image.convert("RGB").save(stored, "PNG", compress_level=1)
            return stored.getvalue()
    except PILLOW_ERRORS as error:
        raise undecodable(encoded, error) from None
