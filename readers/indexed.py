"""tf.data of serialized records in an order made of numbers: read by position, a chunk at a time, several at once."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

# From the number of an epoch and of a chunk in it to the augmentation seeds, int64 [k, 2], and the records, [k].
ReadChunk = Callable[[int, int], tuple[np.ndarray, list[bytes]]]


def indexed_records(chunks: tf.data.Dataset, read: ReadChunk, *, parallelism: int) -> tf.data.Dataset:
    """What `read` gives for each of `chunks`, (epoch, chunk) as int64 [] each, sample by sample, in that order.

    Elements are {"seed": int64 [2], "record": string []}. `parallelism` chunks are read at once, and held. An error
    that `read` raises ends the iteration; its message is in TensorFlow's.
    """

    def read_arrays(epoch: np.ndarray, chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seeds, records = read(int(epoch), int(chunk))
        return seeds, np.array(records, object)

    @tf.autograph.experimental.do_not_convert  # nothing in it to convert, and it would warn of what it cannot read
    def read_tensors(epoch: tf.Tensor, chunk: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds, records = tf.numpy_function(read_arrays, [epoch, chunk], [tf.int64, tf.string])
        return {"seed": tf.ensure_shape(seeds, [None, 2]), "record": tf.ensure_shape(records, [None])}

    read_chunks = chunks.map(read_tensors, num_parallel_calls=parallelism, deterministic=True)
    return read_chunks.unbatch()
