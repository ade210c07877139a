"""Records whose images are pixels: `image/format` "raw", height * width * 3 bytes, uint8 RGB, row by row.

TensorFlow decodes them as in pipelines/tensorflow/decode.py, so that a crop of the pixels equals the crop that a
training step would have decoded.
"""

from collections.abc import Sequence

import numpy as np

from shardfeed.errors import IntegrityError, escape
from shardfeed.pipelines.caching.copies import record_sizes
from shardfeed.readers.split import Record, Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH

_RAW = b"raw"
_JPEG_START = b"\xff\xd8\xff"
_SAMPLED = 64  # records read to estimate their size without the image
_LONGER = 8  # additional bytes for the lengths of long fields


def to_pixels(record: Record) -> Record:
    """Return the record with its image decoded to RGB, otherwise unchanged. A record with pixels is returned unchanged.

    Raises IntegrityError for an image that cannot be decoded, or whose size differs from the record's.
    """
    import tensorflow as tf

    encoded, height, width = _encoded(record), record[HEIGHT], record[WIDTH]
    if record[FORMAT] == _RAW:
        return record
    try:
        with tf.device("CPU:0"):
            if encoded.startswith(_JPEG_START):
                image = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
            else:
                image = tf.io.decode_png(encoded, channels=3)
    except tf.errors.InvalidArgumentError as error:
        problem = f"its image cannot be decoded: {escape(error.message)}"
        raise IntegrityError("record", problem, "convert again, without --check header") from None
    if image.shape != (height, width, 3):
        problem = f"its image is {image.shape[0]}x{image.shape[1]}, its record says {height}x{width}"
        raise IntegrityError("record", problem)
    pieces: Record = {RESTARTS: b""} if RESTARTS in record else {}  # of the JPEG, which is gone
    return {**record, ENCODED: image.numpy().tobytes(), FORMAT: _RAW, **pieces}


def pixel_record_sizes(split: Split, numbers: Sequence[int]) -> np.ndarray:
    """Framed bytes of each record once its image is pixels, int64 [records of the split]; 0 outside shards `numbers`.

    The pixels are exact, from the columns of heights and widths; the rest of a record is the mean of a few.
    """
    sizes = record_sizes(split, numbers)
    copied = np.flatnonzero(sizes)  # a record has its frame at least
    sampled = copied[np.linspace(0, len(copied) - 1, min(_SAMPLED, len(copied))).astype(np.int64)]
    payloads = split.payloads(sampled)
    others = sizes[sampled] - [len(_encoded(split.parse(payload))) for payload in payloads]
    pixels = split.column(HEIGHT)[copied] * split.column(WIDTH)[copied] * 3
    sizes[copied] = pixels + int(np.mean(others)) + _LONGER
    return sizes


def _encoded(record: Record) -> bytes:
    encoded = record[ENCODED]
    assert isinstance(encoded, bytes)  # according to the schema of every dataset
    return encoded
