"""tf.data of a split's serialized records, each with its number: in stored order, or shuffled by a seed.

The shuffled order is made of sequential reads: shards in random order, several of them interleaved, then a shuffle
buffer. It is a permutation of the split and a function of the seed, the split's shards and the buffer's size alone:
neither of how many shards are read at once, nor of the machine, nor of `tf.random.set_seed`.

Damage raises: TensorFlow checks the CRC of every record, and a shard with another number of records than the manifest
says (one cut between records looks like a shorter one) is an error here. TensorFlow's message does not name the shard;
`shardfeed verify` does.
"""

import os
from typing import Any

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.readers.split import Split

INTERLEAVED_SHARDS = 16  # read at a time; part of the order, so it must not depend on the machine
BLOCK_RECORDS = 8  # taken from a shard at a time; the shuffle buffer parts them again
READ_BYTES = 1 << 20  # read from a shard at a time: few round trips to a network disk, 16 MB in all


def serialized_records(
    split: Split, *, seed: int | tf.Tensor | None = None, shuffle_buffer: int = 1, parallelism: int = 1
) -> tf.data.Dataset:
    """Each sample of `split` once, as (index int64 [], record string []): its place in the whole split, its Example.

    With no `seed` they come in stored order. An int64 `seed` (a number, or a tensor inside `Dataset.flat_map`)
    gives the shuffled order; iterating again gives the same one. `shuffle_buffer` records are held in memory to be
    shuffled, and `parallelism` shards are read at once: at most 16, and one where the order is the stored one.

    Raises UsageError for an empty split, and for a slice whose step is not 1.
    """
    slices = split.shard_slices()
    if not slices:
        raise UsageError(f"split {split.name}", "it has no samples", "nothing can be read from it")
    table: Any = {  # the type stubs know no nested input
        "path": [os.fsencode(s.path) for s in slices],
        "records": tf.constant([s.records for s in slices], tf.int64),
        "first": tf.constant([s.first for s in slices], tf.int64),
        "skip": tf.constant([s.skip for s in slices], tf.int64),
        # -1 is "to the end": only then is the end reached, where too many records are noticed.
        "take": tf.constant([-1 if s.skip + s.take == s.records else s.take for s in slices], tf.int64),
    }
    shards = tf.data.Dataset.from_tensor_slices(table)
    if seed is None:
        return shards.flat_map(_shard_records)
    interleaved = min(len(slices), INTERLEAVED_SHARDS)
    records = _shuffled(shards, len(slices), seed, 1).interleave(
        _shard_records,
        cycle_length=interleaved,
        block_length=BLOCK_RECORDS,
        num_parallel_calls=min(parallelism, interleaved),
        deterministic=True,
    )
    return _shuffled(records, shuffle_buffer, seed, 2)


def _shard_records(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(shard["path"], buffer_size=READ_BYTES)
    counted = records.apply(tf.data.experimental.assert_cardinality(shard["records"]))
    return counted.enumerate(shard["first"]).skip(shard["skip"]).take(shard["take"])


def _shuffled(dataset: tf.data.Dataset, buffer: int, seed: int | tf.Tensor, salt: int) -> tf.data.Dataset:
    """`dataset.shuffle(buffer)` in an order that depends on `seed` and `salt` alone.

    The method would mix in the seed of `tf.random.set_seed`, which Keras users set to initialise weights.
    """
    specs = tf.nest.flatten(dataset.element_spec)
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=tf.data.experimental.to_variant(dataset),
        buffer_size=buffer,
        seed=seed,
        seed2=salt,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=False,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )
    return tf.data.experimental.from_variant(variant, dataset.element_spec)
