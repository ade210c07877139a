"""Whether a shard that tf.data opens still belongs to the dataset that was opened: a check in its graph.

A converter may swap a dataset's directory for another while it is read. Shards of the same name then hold other
records, each of them intact, and an epoch would mix both. What tells is the manifest beside them.
"""

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from shardfeed.naming import MANIFEST
from shardfeed.readers.split import ShardSlice, Split

_BUCKETS = (1 << 63) - 1  # of the hash that stands for a manifest
_REPLACED = "replaced by another dataset since it was opened; open it again: "


def manifest_table(split: Split, slices: Sequence[ShardSlice]) -> dict[str, Any]:
    """For each slice, where its manifest lies and what it hashes to: string [k], int64 [k].

    Raises IntegrityError when it is another one by now.
    """
    paths = [os.path.join(os.path.dirname(s.path), MANIFEST) for s in slices]
    hashes: dict[str, int] = {}
    with tf.init_scope():  # numbers, also where a function is being traced
        for path, shard in zip(paths, split.shard_numbers(), strict=True):
            if path not in hashes:
                hashes[path] = int(_hash(tf.constant(os.fsencode(path))).numpy())
                split.shards.check_current(shard)  # after it was read: what was hashed is the right one
    return {
        "manifest": [os.fsencode(path) for path in paths],
        "manifest_hash": tf.constant([hashes[path] for path in paths], tf.int64),
    }


def _hash(path: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(tf.io.read_file(path), _BUCKETS)


def checked_path(shard: dict[str, tf.Tensor]) -> tf.Tensor:
    """The path of `shard`, after a look at its manifest: fails where that is another one."""
    with tf.control_dependencies([_assertion(shard)]):
        return tf.identity(shard["path"])


def check_at_end(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
    """No (place, record), but a second look: the directory may have been swapped between the first and the opening."""

    @tf.autograph.experimental.do_not_convert
    def nothing(*element: tf.Tensor) -> tf.Tensor:
        place, record = element
        with tf.control_dependencies([_assertion(shard)]):
            return tf.less(place, 0) & tf.equal(record, b"")

    return tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.constant(b""))).filter(nothing)


def _assertion(shard: dict[str, tf.Tensor]) -> tf.Operation:
    same = tf.equal(_hash(shard["manifest"]), shard["manifest_hash"])
    return tf.debugging.Assert(same, [_REPLACED, shard["manifest"]])
