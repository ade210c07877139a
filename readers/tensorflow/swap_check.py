"""Whether what tf.data reads still belongs to the dataset that was opened: a look in its graph, twice an epoch.

A converter may swap a dataset's directory for another while it is read. Shards of the same name then hold other
records, each of them intact, and an epoch would mix both. What tells is the manifest beside them: it is compared before
the first shard is opened and after the last one was read, so that an epoch of two datasets raises by its end.
"""

import os
from typing import Any

import tensorflow as tf

from shardfeed.naming import MANIFEST
from shardfeed.readers.split import Split

_BUCKETS = (1 << 63) - 1  # of the hash that stands for a manifest
_REPLACED = "replaced by another dataset since it was opened; open it again: "


def look_at_manifests(split: Split) -> tf.data.Dataset:
    """No (place, record), but an error where a manifest beside its shards is not the one that was there at first.

    Raises IntegrityError when it is another one by now.
    """
    hashes: dict[str, int] = {}
    with tf.init_scope():  # numbers, also where a function is being traced
        for shard in split.shard_numbers():
            path = os.path.join(split.shards.read_from(shard)[0], MANIFEST)
            if path not in hashes:  # a split and a copy of some of its shards have one each
                hashes[path] = int(_hash(tf.constant(os.fsencode(path))).numpy())
                split.shards.check_current(shard)  # after it was read: what was hashed is the right one

    # As elements, not as constants: reading a file is no state to TensorFlow, which would do it once for all epochs.
    table = ([os.fsencode(path) for path in hashes], tf.constant(list(hashes.values()), tf.int64))
    looks = tf.data.Dataset.from_tensor_slices(table)
    differs: Any = _differs  # the type stubs know no element of two parts
    return looks.filter(differs).map(lambda path, expected: (expected, path))


@tf.autograph.experimental.do_not_convert
def _differs(path: tf.Tensor, expected: tf.Tensor) -> tf.Tensor:
    """False; an error where the manifest at `path` has another hash."""
    same = tf.equal(_hash(path), expected)
    with tf.control_dependencies([tf.debugging.Assert(same, [_REPLACED, path])]):
        return tf.logical_not(same)


def _hash(path: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(tf.io.read_file(path), _BUCKETS)
