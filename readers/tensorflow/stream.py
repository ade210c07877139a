"""tf.data of a split's serialized records, each with its number: in stored order, or shuffled by a seed.

The shuffled order is made of sequential reads: shards in random order, several of them interleaved, then a shuffle
buffer. It is a permutation of the split, and depends only on the seed, the split's shards and the buffer's size:
neither on how many shards are read at once, nor on the machine, nor on `tf.random.set_seed`.

A large buffer takes a while to fill, and returns nothing before. So an epoch begins with the records of a few shards,
an eighth of the buffer's size, which go through a small buffer of their own while the large one fills in the
background.

Damage raises an error, unless a `Skip` is given: TensorFlow checks the CRC of every record, and a shard whose number of
records differs from the manifest (a shard truncated between records looks like a shorter one) is an error here.
TensorFlow's message does not name the shard; `shardfeed verify` does. A dataset that was replaced by another one raises
an error by the end of the epoch.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.formats.registry import NATIVE
from shardfeed.readers.skip import Skip, read_intact
from shardfeed.readers.split import ShardSlice, Split
from shardfeed.readers.tensorflow.indexed import indexed_records, look_at_manifests

INTERLEAVED_SHARDS = 16  # read at a time; part of the order, so it must not depend on the machine
BLOCK_RECORDS = 8  # taken from a shard at a time; the shuffle buffer separates them again
READ_BYTES = 1 << 20  # read from a shard at a time: few round trips to a network disk, 16 MB in all
# Bytes of records read before the first one is returned: a fraction of a second from a local disk. Counted in the
# dataset's own records, even if a cache holds larger ones: the order must not depend on it.
START_BYTES = 64 << 20
_SKIP_RECORDS = 64  # read at once by the index; with damaged ones it also decides which neighbour replaces one
_REMOTE_BYTES = 8 << 20  # of a remote shard, read at once: at 200 MB/s this takes as long as a request of 30 ms
_HANDED_OVER = 16  # records at a time from one thread to another
_START_SHARE = 8  # the start of an epoch has this many times fewer records than the buffer; see `_with_early_start`

ReadShard = Callable[[dict[str, tf.Tensor]], tf.data.Dataset]  # from a shard's number and path to (position, record)


def serialized_records(
    split: Split,
    *,
    seed: int | tf.Tensor | None = None,
    shuffle_buffer: int = 1,
    parallelism: int = 1,
    damaged: Skip | None = None,
    fill: bool = False,
) -> tf.data.Dataset:
    """Each sample of `split` once, as (index int64 [], record string []): its position in the whole split, its Example.

    With no `seed` they come in stored order. An int64 `seed` (a number, or a tensor inside `Dataset.flat_map`) gives
    the shuffled order; iterating again gives the same one. `shuffle_buffer` records are held in memory to be shuffled,
    and `parallelism` shards are read at once: at most 16, and one in stored order.

    With `damaged`, damaged records are left out and counted; with `fill`, a neighbour in the shard is repeated under
    the number of each. Records are then read by the index and in Python, so tf.data service cannot be used.

    Raises UsageError for an empty split, and for a slice whose step is not 1.
    """
    slices = split.shard_slices()
    if not slices:
        raise UsageError(f"split {split.name}", "it has no samples", "use another split")
    table: Any = {  # the type stubs lack nested inputs
        "path": [os.fsencode(s.path) for s in slices],
        "records": tf.constant([s.records for s in slices], tf.int64),
        "first": tf.constant([s.first for s in slices], tf.int64),
        "skip": tf.constant([s.skip for s in slices], tf.int64),
        # -1 means "to the end": only then does reading reach the end, where extra records are noticed.
        "take": tf.constant([-1 if s.skip + s.take == s.records else s.take for s in slices], tf.int64),
    }
    shards = tf.data.Dataset.from_tensor_slices(table)
    local = all(split.shards.is_local_file(number) for number in split.shard_numbers())
    look = look_at_manifests(split) if damaged is None and local else None  # else reads are bound to a version
    by_tensorflow = damaged is None and local and {piece.format for piece in slices} == {NATIVE.name}
    remote = max(1, _REMOTE_BYTES * len(split) // max(1, split.record_bytes))
    at_once = _SKIP_RECORDS if damaged is not None or local else remote
    read = _shard_records if by_tensorflow else _shard_records_by_index(split.whole_split, at_once, damaged, fill)
    if seed is None:
        return _between(look, shards.flat_map(read), look)
    ordered = _shuffled(shards, len(slices), seed, 1)
    start = max(1, START_BYTES * len(split) // max(1, split.record_bytes))
    if shuffle_buffer < _START_SHARE * start:
        records = _interleaved(ordered, read, len(slices), parallelism)
        return _shuffled(_between(look, records, look), shuffle_buffer, seed, 2)
    return _with_early_start(ordered, read, look, slices, seed, start, shuffle_buffer, parallelism)


def _between(
    before: tf.data.Dataset | None, records: tf.data.Dataset, after: tf.data.Dataset | None
) -> tf.data.Dataset:
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


def _with_early_start(
    shards: tf.data.Dataset,
    read: ReadShard,
    look: tf.data.Dataset | None,
    slices: Sequence[ShardSlice],
    seed: int | tf.Tensor,
    start: int,
    shuffle_buffer: int,
    parallelism: int,
) -> tf.data.Dataset:
    """Yield the records of `shards` through a large buffer, but the first ones through one of `start` records.

    These are the records of the whole shards that make an eighth of the buffer. If one shard has more, only that many
    are taken, and the rest is reached by reading the shard again.
    """
    mean = sum(s.take for s in slices) / len(slices)
    first_records = shuffle_buffer // _START_SHARE
    count = min(max(1, round(first_records / mean)), len(slices) - 1)
    takes = sorted(s.take for s in slices)
    if count and takes[-1] <= 2 * first_records:  # whole shards
        parts = [(shards.take(count), count, look, None), (shards.skip(count), len(slices) - count, None, look)]
        longest = sum(takes[-count:])
    else:
        head = shards.take(1).map(lambda shard: _head(shard, first_records))
        tail = shards.take(1).map(lambda shard: _tail(shard, first_records))
        parts = [(head, 1, look, None), (tail.concatenate(shards.skip(1)), len(slices), None, look)]
        longest = first_records
    buffers = [min(start, longest), shuffle_buffer]
    first, rest = (
        _shuffled(_between(before, _interleaved(part, read, number, parallelism), after), buffer, seed, salt)
        for (part, number, before, after), buffer, salt in zip(parts, buffers, (3, 2), strict=True)
    )
    return _read_together(first, rest, longest)


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


def _shard_records(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(shard["path"], buffer_size=READ_BYTES)
    counted = records.apply(tf.data.experimental.assert_cardinality(shard["records"])).enumerate(shard["first"])
    return counted.skip(shard["skip"]).take(shard["take"])


def _shard_records_by_index(split: Split, at_once: int, damaged: Skip | None, fill: bool) -> ReadShard:
    """As `_shard_records`, for shards of any format and storage, `at_once` records of each in turn.

    With `damaged`, without the damaged records.
    """

    def read(start: int, stop: int) -> tuple[np.ndarray, list[bytes]]:
        places = np.arange(start, stop)
        if damaged is None:
            return np.stack([places, places], axis=1), split.payloads(places)
        groups = np.zeros(len(places), np.int64) if fill else None
        where = f"split {split.name}, sample {start}"
        found = read_intact(split.payloads, places, damaged.note, fill=groups, place=where)
        given = places[found.rows]
        return np.stack([given, given], axis=1), found.payloads

    @tf.autograph.experimental.do_not_convert  # nothing to convert, and AutoGraph would warn
    def shard_records(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
        start = shard["first"] + shard["skip"]
        take = tf.where(shard["take"] < 0, shard["records"] - shard["skip"], shard["take"])
        starts = tf.data.Dataset.range(start, start + take, at_once)
        pieces = starts.map(lambda number: (number, tf.minimum(number + at_once, start + take)))
        return indexed_records(pieces, read, parallelism=1).map(lambda places, record: (places[0], record))

    return shard_records


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
