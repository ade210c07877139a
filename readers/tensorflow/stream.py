"""tf.data of a split's serialized records, each with its number: in stored order, or shuffled by a seed.

The shuffled order is described in `shuffled.py`; `shuffled_places` gives the numbers alone.

Damage raises an error, unless a `Skip` is given: TensorFlow checks the CRC of every record, and a shard whose number of
records differs from the manifest (a shard truncated between records looks like a shorter one) is an error here.
TensorFlow's message does not name the shard; `shardfeed verify` does. A dataset that was replaced by another one raises
an error by the end of the epoch.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.formats.registry import NATIVE
from shardfeed.readers.skip import Skip, read_intact
from shardfeed.readers.split import ShardSlice, Split
from shardfeed.readers.tensorflow.indexed import indexed_records, look_at_manifests, python_map
from shardfeed.readers.tensorflow.shuffled import ReadShard, between, shuffled_shards

READ_BYTES = 1 << 20  # read from a shard at a time: few round trips to a network disk, 16 MB in all
_LOAD_RECORDS = 64  # read into the page cache at once, or 1 MB if these are fewer: each time costs a call of Python
_SKIP_RECORDS = 64  # read at once by the index; with damaged ones it also decides which neighbour replaces one
_REMOTE_BYTES = 8 << 20  # of a remote shard, read at once: at 200 MB/s this takes as long as a request of 30 ms


def serialized_records(
    split: Split,
    *,
    seed: int | tf.Tensor | None = None,
    shuffle_buffer: int = 1,
    parallelism: int = 1,
    damaged: Skip | None = None,
    fill: bool = False,
) -> tf.data.Dataset:
    """Each sample of `split` once, as (index int64 [], record string []): its place in the whole split, its Example.

    With no `seed` they come in stored order. An int64 `seed` (a number, or a tensor inside `Dataset.flat_map`) gives
    the shuffled order; iterating again gives the same one. `shuffle_buffer` records are held in memory to be shuffled,
    and `parallelism` shards are read at once: at most 16, and one in stored order.

    With `damaged`, damaged records are left out and counted; with `fill`, a neighbour in the shard is repeated under
    the number of each. Records are then read by the index and in Python, so tf.data service cannot be used.

    Raises UsageError for an empty split, and for a slice whose step is not 1.
    """
    slices = _slices(split)
    local = all_local(split)
    look = look_at_manifests(split) if damaged is None and local else None  # else reads are bound to a version
    by_tensorflow = damaged is None and local and {piece.format for piece in slices} == {NATIVE.name}
    remote = max(1, _REMOTE_BYTES * len(split) // max(1, split.record_bytes))
    at_once = _SKIP_RECORDS if damaged is not None or local else remote
    read = _shard_records if by_tensorflow else _shard_records_by_index(split.whole_split, at_once, damaged, fill)
    if seed is None:
        return between(look, _table(slices).flat_map(read), look)
    return shuffled_shards(_table(slices), split, slices, read, look, seed, shuffle_buffer, parallelism)


def shuffled_places(
    split: Split, *, seed: int | tf.Tensor, shuffle_buffer: int = 1, parallelism: int = 1, unread: int = 0
) -> tf.data.Dataset:
    """The indices that `serialized_records` gives in shuffled order, int64 [], without their records.

    All shards must be local files. The records of indices in the shuffle buffer are in the page cache, read
    sequentially, except those of about the first `unread` indices, which the caller skips.

    Raises UsageError as `serialized_records` does.
    """
    slices, shards = _slices(split), split.shards
    at_once = max(_LOAD_RECORDS, READ_BYTES * len(split) // max(1, split.record_bytes))
    left = unread - shuffle_buffer

    def load(start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray]:
        nonlocal left  # not exact: threads count without a lock, and a second iteration counts on
        places = np.arange(int(start), int(stop))
        left -= len(places)
        if left <= 0:
            shards.load(places)
        return (places,)

    @tf.autograph.experimental.do_not_convert  # nothing to convert, and AutoGraph would warn
    def read(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
        return python_map(_pieces(shard, at_once), load, (tf.TensorSpec([None], tf.int64),), parallelism=1).unbatch()

    return shuffled_shards(_table(slices), split, slices, read, None, seed, shuffle_buffer, parallelism)


def all_local(split: Split) -> bool:
    """Whether all records of a split are read from whole files of this machine."""
    return all(split.shards.is_local_file(number) for number in split.shard_numbers())


def _slices(split: Split) -> list[ShardSlice]:
    slices = split.shard_slices()
    if not slices:
        raise UsageError(f"split {split.name}", "it has no samples", "use another split")
    return slices


def _table(slices: Sequence[ShardSlice]) -> tf.data.Dataset:
    table: Any = {  # the type stubs lack nested inputs
        "path": [os.fsencode(s.path) for s in slices],
        "records": tf.constant([s.records for s in slices], tf.int64),
        "first": tf.constant([s.first for s in slices], tf.int64),
        "skip": tf.constant([s.skip for s in slices], tf.int64),
        # -1 means "to the end": only then does reading reach the end, where extra records are noticed.
        "take": tf.constant([-1 if s.skip + s.take == s.records else s.take for s in slices], tf.int64),
    }
    return tf.data.Dataset.from_tensor_slices(table)


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
        where = f"split {split.name}, sample {start}"
        found = read_intact(split.payloads, places, damaged.note, fill=fill, place=where)
        given = places[found.rows]
        return np.stack([given, given], axis=1), found.payloads

    @tf.autograph.experimental.do_not_convert  # nothing to convert, and AutoGraph would warn
    def shard_records(shard: dict[str, tf.Tensor]) -> tf.data.Dataset:
        pieces = _pieces(shard, at_once)
        return indexed_records(pieces, read, parallelism=1).map(lambda places, record: (places[0], record))

    return shard_records


def _pieces(shard: dict[str, tf.Tensor], at_once: int) -> tf.data.Dataset:
    """The records of `shard` that belong to the view, in pieces of `at_once`: (first, end), places in the split."""
    start = shard["first"] + shard["skip"]
    take = tf.where(shard["take"] < 0, shard["records"] - shard["skip"], shard["take"])
    starts = tf.data.Dataset.range(start, start + take, at_once)
    return starts.map(lambda number: (number, tf.minimum(number + at_once, start + take)))
