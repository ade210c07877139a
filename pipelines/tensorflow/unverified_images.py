"""Images that TensorFlow may not be able to decode: each is checked before it is decoded.

TensorFlow's error for an image that it cannot decode names neither shard nor record, and nothing in a graph can catch
it. So if the manifest lists no formats for a split, or one that TensorFlow cannot decode, Python checks each image: an
image that TensorFlow can read passes unchanged; an image that only Pillow can read becomes a PNG; any other is an error
that names its record.
"""

import io
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from PIL import Image

from shardfeed.errors import IntegrityError, RecordError
from shardfeed.jpeg.markers import SIGNATURE, is_whole
from shardfeed.pipelines.decoding.pixels import PILLOW_ERRORS, undecodable
from shardfeed.pipelines.samples import Samples, named, where_found
from shardfeed.readers.tensorflow.indexed import call_from_tensorflow

_DECODED_BY_TENSORFLOW = frozenset({"jpeg", "png", "raw"})
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_OTHERS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # of Pillow, without formats that start another program


def tensorflow_decodes(formats: Mapping[str, int]) -> bool:
    """Whether all images of a split are known to be decodable by TensorFlow. `formats`: as in its manifest."""
    return bool(formats) and formats.keys() <= _DECODED_BY_TENSORFLOW


def image_checker(samples: Samples) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor | None], tf.Tensor]:
    """Make the function from a serialized record, its image and `image/format`, string [] each, to an image file.

    The file is a JPEG or PNG with the image's pixels; raw pixels are passed on unchanged. Iterating raises an error
    that names the record if its image is neither, nor readable by Pillow.
    """

    def look(record: bytes, encoded: bytes) -> np.ndarray:
        with call_from_tensorflow() as ending:
            if ending:
                return np.array(encoded, object)
            try:
                return np.array(as_jpeg_or_png(encoded), object)
            except IntegrityError as error:
                place = where_found(samples, record) + named(record)
                raise RecordError(place, error.problem, error.remedy) from None

    def checked_image(record: tf.Tensor, encoded: tf.Tensor, form: tf.Tensor | None) -> tf.Tensor:
        def seen() -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(look, [record, encoded], tf.string), [])

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
