"""Batches of a split, as tf.data: the general form, and the one for training a classifier.

`make_batches` is the pipeline, to be read from top to bottom: order, serialized records, parse, transform (decode,
crop, augment), batch, prefetch. Images leave the host as uint8: casting and normalising belong to the device.

Everything random is a function of (seed, epoch) for the order and (seed, epoch, sample) for the augmentation: the same
arguments give the same batches bit for bit, however many threads make them.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsIndex

import tensorflow as tf

from shardfeed.budget import cpu_budget, memory_budget
from shardfeed.errors import UsageError, escape
from shardfeed.pipelines.augment import ImageTransform, Size, random_resized_crop
from shardfeed.pipelines.tuning import data_options, shuffle_buffer_records
from shardfeed.readers.parse import parse_spec
from shardfeed.readers.split import Split
from shardfeed.readers.stream import serialized_records
from shardfeed.schema import ENCODED, FORMAT, LABEL, Schema

Order = Literal["stream", "stored"]
# From a sample's parsed features and its seed, int64 [2], to what a batch is made of: a tensor or a nest of them.
Transform = Callable[[dict[str, tf.Tensor], tf.Tensor], Any]

_MAX_SEED = 2**63 - 1


def train_batches(
    split: Split,
    *,
    batch_size: int,
    image_size: Size,
    seed: int = 0,
    order: Order = "stream",
    label: str = LABEL,
    repeat: bool = False,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches for `model.fit`: (images uint8 [batch_size, height, width, 3], labels int64 [batch_size]).

    Each image is cut by `random_resized_crop(image_size)`; for any other transform use `make_batches`, where the
    arguments are explained. `label` names a feature with one number a record.

    Each iteration is an epoch in another order: every sample once, except the last `len(split) % batch_size` of that
    order, which are left out, other ones each epoch. With `repeat` the epochs follow each other without end.
    """
    return make_batches(
        split,
        labelled(random_resized_crop(image_size), label),
        batch_size=batch_size,
        order=order,
        seed=seed,
        repeat=repeat,
        keys=image_and_label_keys(split.schema, label),
        shuffle_buffer=shuffle_buffer,
        parallelism=parallelism,
        prefetch=prefetch,
    )


def make_batches(
    split: Split,
    transform: Transform,
    *,
    batch_size: int,
    order: Order = "stream",
    seed: int = 0,
    repeat: bool = False,
    drop_remainder: bool = True,
    pad: float | None = None,
    keys: Iterable[str] | None = None,
    epoch_samples: int | None = None,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches of what `transform(features, seed)` makes of each sample, with asserted cardinality.

    `features` holds those named by `keys` (all of the schema, unless given): scalars, and 1-D tensors [n] for ragged
    ones; `image/format` is a constant where all images of the split have the same. `seed` is int64 [2], the sample's
    own in this epoch, for `tf.random.stateless_*`.

    `order`: "stream" shuffles (shards, then `shuffle_buffer` records at a time; see readers.stream), differently each
    iteration; "stored" does not. `seed`: 0 to 2^63 - 1; iteration i of two datasets made with the same arguments
    gives the same batches, whatever `tf.random.set_seed` says. With `repeat`, epochs 0, 1, 2... follow each other in
    one endless iteration, which starts with epoch 0 each time.

    `epoch_samples`: how many samples, from the start of its order, make an epoch; all of the split unless given.
    `drop_remainder`: those that would not fill an epoch's last batch are left out; otherwise that batch is smaller.
    `pad`: None where all samples have one, static shape; else components whose shape varies are padded at their end to
    the batch's longest with this number, strings with "".

    `shuffle_buffer`: records; unless given, 16,384, fewer where that takes more than a quarter of the memory granted.
    It decides the order: give it to have the same order on a smaller machine. `parallelism`: samples transformed, and
    shards read, at once; unless given, the CPUs granted. `prefetch`: batches made ahead.

    Raises UsageError for an empty split, a batch that the split cannot fill, and arguments that cannot be meant.
    """
    # What was asked for.
    batch_size = _at_least("batch_size", batch_size, 1)
    prefetch = _at_least("prefetch", prefetch, 1)
    threads = cpu_budget() if parallelism is None else _at_least("parallelism", parallelism, 1)
    if shuffle_buffer is None:
        buffer = shuffle_buffer_records(max(1, len(split)), split.record_bytes, memory_budget())
    else:
        buffer = min(_at_least("shuffle_buffer", shuffle_buffer, 1), max(1, len(split)))
    _check_epochs(order, seed, repeat, drop_remainder)
    steps, samples = epoch_size(split, batch_size, epoch_samples, drop_remainder)

    # What is parsed; the format is not worth reading where all images have the same.
    spec = parse_spec(split.schema, keys)
    constants = {}
    if FORMAT in spec and len(split.formats) == 1:
        del spec[FORMAT]
        constants = {FORMAT: next(iter(split.formats))}

    @tf.autograph.experimental.do_not_convert  # plain Python, which AutoGraph would warn it cannot read
    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        """The samples of one epoch in order: {seed of the epoch's samples, (place in the split, record)}."""
        key = tf.stack([tf.constant(seed, tf.int64), number])
        order_seed, sample_seed = tf.unstack(
            tf.random.stateless_uniform([2], key, tf.int64.min, tf.int64.max, tf.int64, alg="philox")
        )
        if order == "stream":
            records = serialized_records(split, seed=order_seed, shuffle_buffer=buffer, parallelism=threads)
        else:
            records = serialized_records(split)
        seeds = tf.data.Dataset.from_tensors(sample_seed).repeat()
        return tf.data.Dataset.zip({"seed": seeds, "record": records.take(samples)})

    def sample(numbered: dict[str, Any]) -> Any:
        index, record = numbered["record"]
        features = tf.io.parse_single_example(record, spec)
        features |= {key: tf.constant(value) for key, value in constants.items()}
        return transform(features, tf.stack([numbered["seed"], index]))

    # And now in the order in which things happen.
    batches = _epoch_numbers(order, seed, repeat).flat_map(epoch)
    batches = batches.map(sample, num_parallel_calls=threads)
    batches = _batch(batches, batch_size, drop_remainder, pad)
    cardinality = tf.data.INFINITE_CARDINALITY if repeat else steps
    batches = batches.apply(tf.data.experimental.assert_cardinality(cardinality))
    return batches.prefetch(prefetch).with_options(data_options(threads))


def _epoch_numbers(order: Order, seed: int, repeat: bool) -> tf.data.Dataset:
    """The numbers of the epochs of one iteration: 0, 1, 2... with `repeat`, else one, another in each iteration."""
    if repeat:
        return tf.data.Dataset.counter()
    if order == "stored":
        return tf.data.Dataset.range(1)
    # `Dataset.random(seed, rerandomize_each_iteration=True)`, which would mix in the seed of `tf.random.set_seed`.
    numbers = tf.raw_ops.RandomDatasetV2(
        seed=seed,
        seed2=1,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return tf.data.experimental.from_variant(numbers, tf.TensorSpec([], tf.int64)).take(1)


def _batch(samples: tf.data.Dataset, size: int, drop_remainder: bool, pad: float | None) -> tf.data.Dataset:
    """`samples` in batches of `size`, padded with `pad` unless that is None."""
    specs = tf.nest.flatten(samples.element_spec)
    if pad is None:
        for spec in specs:
            if not spec.shape.is_fully_defined():
                raise UsageError(
                    "transform",
                    f"got a component of shape {spec.shape}, expected one shape for all samples",
                    "give pad=..., or make the shape static with tf.ensure_shape",
                )
        return samples.batch(size, drop_remainder=drop_remainder)
    values = [_padding(spec, pad) for spec in specs]
    return samples.padded_batch(
        size,
        padding_values=tf.nest.pack_sequence_as(samples.element_spec, values),
        drop_remainder=drop_remainder,
    )


def _padding(spec: tf.TensorSpec, pad: float) -> tf.Tensor:
    """`pad` as a scalar of the component's dtype. A component that does not vary is not padded, whatever its dtype."""
    if spec.dtype == tf.string:
        return tf.constant("")
    if spec.shape.is_fully_defined():
        return tf.zeros([], spec.dtype)
    if spec.dtype.is_integer and not (float(pad).is_integer() and spec.dtype.min <= pad <= spec.dtype.max):
        raise UsageError("pad", f"got {pad!r}, which {spec.dtype.name} cannot hold", "the transform may cast")
    return tf.cast(pad, spec.dtype)


def epoch_size(split: Split, batch_size: int, epoch_samples: int | None, drop_remainder: bool) -> tuple[int, int]:
    """Batches of an epoch, at least 1, and samples in them. Raises UsageError for an empty split or epoch."""
    if len(split) == 0:
        raise UsageError(f"split {split.name}", "it has no samples", "nothing can be read from it")
    samples = len(split) if epoch_samples is None else _at_least("epoch_samples", epoch_samples, 1)
    if samples > len(split):
        raise UsageError("epoch_samples", f"got {samples}, expected at most {len(split)}, all of split {split.name}")
    if drop_remainder and batch_size > samples:
        raise UsageError(
            "batch_size",
            f"got {batch_size}, expected at most {samples}: an epoch of split {split.name} has no more samples",
            "give a smaller one, or make_batches(..., drop_remainder=False)",
        )
    steps = samples // batch_size if drop_remainder else -(-samples // batch_size)
    return steps, min(samples, steps * batch_size)


def check_shared_batch(batch_size: int, replicas: int) -> None:
    """Raises UsageError, with the nearest that would do, unless a global batch is shared out evenly."""
    _at_least("replicas", replicas, 1)
    if _at_least("batch_size", batch_size, 1) % replicas:
        below = batch_size // replicas * replicas
        remedy = f"use {below} or {below + replicas}" if below else f"use {replicas}"
        raise UsageError("batch_size", f"got {batch_size}, expected a multiple of the {replicas} replicas", remedy)


def labelled(transform: ImageTransform, label: str) -> Transform:
    """A transform to (image, label): `transform`'s image, and the feature `label`."""
    return lambda features, seed: (transform(features, seed), features[label])


def image_and_label_keys(schema: Schema, label: str) -> list[str]:
    """The features that `labelled` needs. Raises UsageError unless `label` has one number a record."""
    numbers = [key for key, feature in schema.features.items() if feature.dtype != "bytes" and not feature.ragged]
    if label not in numbers:
        raise UsageError(
            "label",
            f"got {escape(label)!r}, expected a feature with one number a record",
            f"there is {', '.join(map(repr, sorted(numbers))) or 'none'}",
        )
    return sorted({ENCODED, label} | ({FORMAT} & schema.features.keys()))


def _check_epochs(order: Order, seed: int, repeat: bool, drop_remainder: bool) -> None:
    if order not in ("stream", "stored"):
        raise UsageError("order", f"got {order!r}, expected 'stream' or 'stored'")
    if _at_least("seed", seed, 0) > _MAX_SEED:
        raise UsageError("seed", f"got {seed!r}, expected at most 2^63 - 1")
    if repeat and not drop_remainder:
        raise UsageError("repeat", "got True with drop_remainder=False: epochs end within a batch", "use one of them")


def _at_least(place: str, value: int, least: int) -> int:
    if not isinstance(value, SupportsIndex) or operator.index(value) < least:
        raise UsageError(place, f"got {value!r}, expected an integer of at least {least}")
    return operator.index(value)
