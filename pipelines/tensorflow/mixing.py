"""Mixing of TensorFlow's tensors, as operations of a graph; what is drawn comes from Python."""

import numpy as np
import tensorflow as tf

from shardfeed.pipelines.augment.mixing import arithmetic
from shardfeed.pipelines.augment.mixing.arithmetic import BITS, WHOLE, Draw, mixes
from shardfeed.pipelines.windows import sample_seeds


@mixes("tensorflow")
def mixed_tensors(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, draw: Draw, classes: int | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The batch, mixed: images [b, height, width, channels], seed int64 [2]."""
    counted = labels[:0] if labels.dtype.is_floating else labels  # numbers of classes
    if counted is labels:
        arithmetic.check_classes(np.zeros(0, np.int64), classes)

    def numbers(pair: np.ndarray, height: int, width: int, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(known):
            arithmetic.check_classes(known, classes)
        share, box = draw(sample_seeds(pair[None])[0], int(height), int(width))
        return np.array(share, np.float32), np.array(box or (0, 0, 0, 0), np.int32)

    size = tf.shape(images)
    share, box = tf.numpy_function(numbers, [seed, size[1], size[2], counted], [tf.float32, tf.int32])
    share, box = tf.ensure_shape(share, []), tf.ensure_shape(box, [4])
    boxed = tf.reduce_any(box > 0)
    others = tf.roll(images, 1, 0)
    made = tf.cond(boxed, lambda: _pasted(images, others, box), lambda: _blended(images, others, share))
    soft = labels if labels.dtype.is_floating else tf.one_hot(labels, classes)
    return tf.ensure_shape(made, images.shape), soft * share + tf.roll(soft, 1, 0) * (1 - share)


def _pasted(images: tf.Tensor, others: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    rows, columns = tf.range(tf.shape(images)[1]), tf.range(tf.shape(images)[2])
    inside_rows = (rows >= box[0]) & (rows < box[0] + box[2])
    inside_columns = (columns >= box[1]) & (columns < box[1] + box[3])
    inside = inside_rows[:, None] & inside_columns[None, :]
    return tf.where(inside[None, :, :, None], others, images)


def _blended(images: tf.Tensor, others: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    if images.dtype.is_floating:
        kept = tf.cast(share, images.dtype)
        return images * kept + others * (1 - kept)
    wide = tf.int32 if images.dtype == tf.uint8 else tf.int64
    part = tf.cast(tf.round(share * WHOLE), wide)
    total = tf.cast(images, wide) * part + tf.cast(others, wide) * (WHOLE - part) + (WHOLE >> 1)
    return tf.cast(tf.bitwise.right_shift(total, tf.cast(BITS, wide)), images.dtype)
