"""TFRecords as other programs write them: by TensorFlow's own writer, under keys and names of theirs."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from pictures import image_bytes


def example(features: dict[str, Any]) -> bytes:
    """A serialized Example by TensorFlow of scalars and lists of bytes, floats or ints."""
    made = {}
    for key, value in features.items():
        values = value if isinstance(value, list) else [value]
        if values and isinstance(values[0], bytes):
            made[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif values and isinstance(values[0], float):
            made[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def picture(number: int, form: str = "JPEG", size: tuple[int, int] = (40, 56)) -> bytes:
    """An image file of that format, another one for each number."""
    coarse = np.random.default_rng(number).integers(0, 255, (5, 7, 3), np.uint8)
    return image_bytes(Image.fromarray(coarse).resize(size[::-1]), form)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A TFRecord file of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(example(row))
