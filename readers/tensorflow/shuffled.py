"""Records in shuffled order, by sequential reads: shards in random order, interleaved, then a shuffle buffer.

The order is a permutation of the split, and depends only on the seed, the split's shards and the buffer's size:
neither on how many shards are read at once, nor on the machine, nor on `tf.random.set_seed`.

A large buffer takes a while to fill, and returns nothing before. So an epoch begins with the records of a few shards,
an eighth of the buffer's size, which go through a small buffer of their own while the large one fills in the
background.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from shardfeed.readers.split import ShardSlice, Split

INTERLEAVED_SHARDS = 16  # read at a time; part of the order, so it must not depend on the machine
BLOCK_RECORDS = 8  # taken from a shard at a time; the shuffle buffer separates them again
# Bytes of records read before the first one is returned: a fraction of a second from a local disk. Counted in the
# dataset's own records, even if a cache holds larger ones: the order must not depend on it.
START_BYTES = 64 << 20
_HANDED_OVER = 16  # records at a time from one thread to another
_START_SHARE = 8  # the start of an epoch has this many times fewer records than the buffer; see `shuffled_shards`

ReadShard = Callable[[dict[str, tf.Tensor]], tf.data.Dataset]  # from a shard of the table to its elements


def shuffled_shards(
    shards: tf.data.Dataset,
    split: Split,
    slices: Sequence[ShardSlice],
    read: ReadShard,
    look: tf.data.Dataset | None,
    seed: int | tf.Tensor,
    shuffle_buffer: int,
    parallelism: int,
) -> tf.data.Dataset:
    """Shuffle the elements that `read` returns for each of `shards`, a table with one row for each of `slices`.

    `look`: a check before the first element and after the last. For the other arguments see `serialized_records`.
    """
    ordered = _shuffled(shards, len(slices), seed, 1)
    start = max(1, START_BYTES * len(split) // max(1, split.record_bytes))
    if shuffle_buffer < _START_SHARE * start:
        records = _interleaved(ordered, read, len(slices), parallelism)
        return _shuffled(between(look, records, look), shuffle_buffer, seed, 2)
    # The first records go through a buffer of `start` records, the others through a large one. The first are those of
    # the whole shards that make an eighth of the buffer. If one shard has more, only that many are taken, and the rest
    # is reached by reading the shard again.
    mean = sum(s.take for s in slices) / len(slices)
    first_records = shuffle_buffer // _START_SHARE
    count = min(max(1, round(first_records / mean)), len(slices) - 1)
    takes = sorted(s.take for s in slices)
    if count and takes[-1] <= 2 * first_records:  # whole shards
        parts = [(ordered.take(count), count, look, None), (ordered.skip(count), len(slices) - count, None, look)]
        longest = sum(takes[-count:])
    else:
        head = ordered.take(1).map(lambda shard: _head(shard, first_records))
        tail = ordered.take(1).map(lambda shard: _tail(shard, first_records))
        parts = [(head, 1, look, None), (tail.concatenate(ordered.skip(1)), len(slices), None, look)]
        longest = first_records
    buffers = [min(start, longest), shuffle_buffer]
    first, rest = (
        _shuffled(between(before, _interleaved(part, read, number, parallelism), after), buffer, seed, salt)
        for (part, number, before, after), buffer, salt in zip(parts, buffers, (3, 2), strict=True)
    )
    return _read_together(first, rest, longest)


def between(before: tf.data.Dataset | None, records: tf.data.Dataset, after: tf.data.Dataset | None) -> tf.data.Dataset:
    """`records`, with a check before the first and after the last.

    It comes before the shuffle buffer, which reads past the last record before it returns the records it holds: so even
    a reader that takes exactly the expected number gets the error.
    """
    begun = records if before is None else before.concatenate(records)
    return begun if after is None else begun.concatenate(after)


def _interleaved(shards: tf.data.Dataset, read: ReadShard, count: int, parallelism: int) -> tf.data.Dataset:
    """The records of `count` shards, several shards at a time."""
    cycle = min(count, INTERLEAVED_SHARDS)
    return shards.interleave(
        read,
        cycle_length=cycle,
        block_length=BLOCK_RECORDS,
        num_parallel_calls=min(parallelism, cycle),
        deterministic=True,
    )


def _read_together(first: tf.data.Dataset, rest: tf.data.Dataset, longest: int) -> tf.data.Dataset:
    """`first`, of at most `longest` elements, and then `rest`; but both are read from the beginning.

    This is a parallel interleave with a block that holds all of `first`. The method `Dataset.interleave` would keep two
    blocks of `rest` waiting next to its shuffle buffer for the whole epoch; the op can be told to keep one element.
    Elements are some records each, because the op wakes a thread for each element.
    """
    groups = [dataset.batch(_HANDED_OVER) for dataset in (first, rest)]
    variants = [tf.data.experimental.to_variant(dataset) for dataset in groups]

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
    def part(number: tf.Tensor) -> tf.Tensor:
        return tf.cond(number == 0, lambda: variants[0], lambda: variants[1])

    chosen: Any = part  # a plain function for the type stubs
    chosen = chosen.get_concrete_function()
    spec = groups[0].element_spec
    specs = tf.nest.flatten(spec)
    variant = tf.raw_ops.ParallelInterleaveDatasetV4(
        input_dataset=tf.data.experimental.to_variant(tf.data.Dataset.range(2)),
        other_arguments=chosen.captured_inputs,
        cycle_length=2,
        block_length=-(-longest // _HANDED_OVER),
        buffer_output_elements=1,
        prefetch_input_elements=0,
        num_parallel_calls=2,
        f=chosen,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
        deterministic="true",
    )
    return tf.data.experimental.from_variant(variant, spec).unbatch()


def _head(shard: dict[str, tf.Tensor], count: int) -> dict[str, tf.Tensor]:
    """The first `count`, at most, of the records of `shard` that belong to the view."""
    take = shard["take"]
    return shard | {"take": tf.where(take < 0, tf.constant(count, tf.int64), tf.minimum(take, count))}


def _tail(shard: dict[str, tf.Tensor], count: int) -> dict[str, tf.Tensor]:
    """The records of `shard` after the `count` that `_head` takes."""
    take = shard["take"]
    left = tf.where(take < 0, take, tf.maximum(take - count, 0))
    return shard | {"skip": shard["skip"] + count, "take": left}


def _shuffled(dataset: tf.data.Dataset, buffer: int, seed: int | tf.Tensor, salt: int) -> tf.data.Dataset:
    """`dataset.shuffle(buffer)` in an order that depends only on `seed` and `salt`.

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
