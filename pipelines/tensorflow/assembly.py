"""The pipeline itself, to be read from top to bottom: order, records, parse, transform, batch, prefetch.

Images leave the host as uint8: casting and normalising belong to the device. Everything random is a function of (seed,
epoch) for the order and (seed, epoch, sample) for the augmentation: the same order gives the same batches bit for bit,
with any number of threads, and from any step.
"""

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import numpy as np
import tensorflow as tf

import shardfeed.pipelines.tensorflow.mixing  # noqa: F401  # so that mixings know TensorFlow's tensors
from shardfeed.errors import UsageError
from shardfeed.pipelines.augment.mixing.mixing import Mixing
from shardfeed.pipelines.batch_transforms import BatchTransform, check_returned
from shardfeed.pipelines.caching.client import chunk_of, close_clients, read_ahead_in_order, reads_in_turn
from shardfeed.pipelines.engine import DrawnReader, Records
from shardfeed.pipelines.objects import SchemaTransform
from shardfeed.pipelines.orders.order import BlockOrder, IndexedOrder, Order, StreamOrder
from shardfeed.pipelines.orders.shapes import ShapeOrder
from shardfeed.pipelines.samples import Samples, pixel_dtype, where_found
from shardfeed.pipelines.tensorflow.decode import image_checker, tensorflow_decodes
from shardfeed.pipelines.tensorflow.host_decoding import check_shapes, images_on_host
from shardfeed.pipelines.windows import BATCH_KEY
from shardfeed.processes import limit_arenas
from shardfeed.readers.skip import Skip
from shardfeed.readers.split import Split
from shardfeed.readers.tensorflow.indexed import (
    indexed_records,
    iteration_number,
    parse_spec,
    python_map,
    random_number,
)
from shardfeed.readers.tensorflow.stream import all_local, serialized_records, shuffled_places
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, WIDTH


def data_options(cpus: int) -> tf.data.Options:
    """Options of a pipeline whose parallelism and buffers are explicit: `cpus` threads of its own, nothing tuned.

    Autotuning off: its thread delays the end of an iterator by up to seconds per epoch, it reads the host's memory, and
    with explicit numbers it has nothing to find. Deterministic: the same samples in the same order on any machine.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.threading.private_threadpool_size = cpus
    options.threading.max_intra_op_parallelism = 1  # samples run in parallel; splitting one resize only adds waiting
    options.experimental_optimization.inject_prefetch = False  # the caller sets the buffers
    # One op that decodes straight into the batch: the copy runs on all threads, into memory a GPU can read directly.
    options.experimental_optimization.map_and_batch_fusion = True
    # If several workers share a pipeline, each takes every n-th sample. Sharding by file starves workers.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options


# From a sample's parsed features and its seed, int64 [2], to the parts of a batch: a tensor or a nest of tensors.
Transform = Annotated[
    Callable[[dict[str, tf.Tensor], tf.Tensor], Any], "give a function of a record's features and a seed"
]


_IN_FLIGHT = 2  # samples for each thread: one is always waiting, so that no thread waits for reading
_MOST_READ = 8  # batches of encoded images, read at once
_SEEDED = attrgetter("seeds", "payloads")
_PREFETCHED = 2  # batches made ahead: one is taken while another is made


@dataclass(frozen=True)
class Share:
    """Share of the batches: replica batches, `1 / replicas` of each, of input pipeline `part` out of `parts`.

    Each pipeline feeds `replicas / parts` replicas, with consecutive replica batches of its part of each step.
    """

    replicas: int = 1
    part: int = 0
    parts: int = 1


class _ReadOptions(NamedTuple):
    """How samples are read: see `assemble_batches`."""

    start_step: int | None
    share: Share
    damaged: Skip | None
    fill: bool


def assemble_batches(
    samples: Samples,
    order: Order,
    transform: Transform,
    *,
    start_step: int | None,
    share: Share | None = None,
    pad: float | None,
    keys: Iterable[str] | None,
    damaged: Skip | None,
    fill: bool = True,
    evaluates: bool = False,
    parallelism: int,
    batch_transform: BatchTransform | None = None,
) -> tf.data.Dataset:
    """Batches of `samples`, each after `transform`, in `order`; cardinality asserted.

    Args:
        start_step: the step of the run at which each iteration starts, which then has no end. None: each is an epoch.
        share: which part of each step's batch; None: all of it.
        pad: value that pads components whose shape varies; None: they are not padded.
        keys: the features that are parsed; None: all of the schema.
        damaged: counts damaged records, which are left out; None: they raise.
        fill: an intact record of the same step is repeated for each that is left out; False: none is, and the
            cardinality is unknown.
        evaluates: each iteration is epoch 0, not the next one; of an order with indices, and without `start_step`.
        parallelism: samples transformed, and shards or batches read, at once.
        batch_transform: function applied to each replica's batch; None: none.
    """
    share = share or Share()
    samples = read_ahead_in_order(samples, order, part=share.part, parts=share.parts, threads=True)
    counted = damaged is None or fill  # else the number of samples is unknown
    whole = counted and order.epoch_samples % order.batch_size == 0
    size = order.batch_size // share.replicas

    # The features to parse; the format is not needed if all images have the same.
    schema = samples.schema
    if isinstance(transform, SchemaTransform):
        needed, transform = transform.bind(schema)
        keys = needed if keys is None else keys
    spec = parse_spec(schema, None if keys is None else [schema.key(key) or key for key in keys])
    aliases = {alias: key for alias, key in schema.aliases.items() if key in spec}
    image = schema.key(ENCODED)
    if image in spec and "raw" in samples.formats:  # raw pixels have no header with their shape
        spec |= parse_spec(schema, [FORMAT, HEIGHT, WIDTH])
    constants = {}
    has_image = image in spec and schema.kind(image) == "image" and schema.features[image].scalar
    deep = has_image and pixel_dtype(samples) == tf.uint16  # also a selection of images of several formats
    if deep or (FORMAT in spec and len(samples.formats) == 1):
        spec.pop(FORMAT, None)
        constants = {FORMAT: PNG16 if deep else next(iter(samples.formats))}
    look = image_checker(samples) if has_image and not tensorflow_decodes(samples.formats) else None

    on_host = None
    if image == ENCODED and has_image and look is None:
        on_host = images_on_host(samples, transform, parallelism)
    check_shapes(order, transform, on_host, samples)
    alike = isinstance(order, ShapeOrder)  # samples of a batch, and not those of two: only our own transforms make them

    def seeded(seed: tf.Tensor, record: Any) -> tuple[tf.Tensor, tf.Tensor]:  # of a stream: a sample, or a batch
        return tf.stack([seed, record[0]], -1), record[1]

    def sample(seed: tf.Tensor, record: Any) -> Any:
        if isinstance(record, tuple):  # not by a separate map, which would cost more
            seed, record = seeded(seed, record)
        features = tf.io.parse_single_example(record, spec) if spec else {}  # it refuses an empty one
        features |= {key: tf.constant(value) for key, value in constants.items()}
        if look is not None and image is not None:
            features[image] = look(record, features[image], features.get(FORMAT))
        features |= {alias: features[key] for alias, key in aliases.items()}
        made = transform(features, seed)
        return made if batch_transform is None else (made, seed)

    def finished(*ready: tf.Tensor) -> Any:
        assert on_host is not None
        made = on_host.finish(spec, aliases, *ready)
        return made if batch_transform is None else (made, ready[0])

    def batched(records: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
        return _batch(records.map(function, num_parallel_calls=_IN_FLIGHT * parallelism), size, whole, pad, alike)

    limit_arenas(parallelism)
    how, in_turn = _ReadOptions(start_step, share, damaged, fill), reads_in_turn(samples, order)

    # From here on, steps are in the order in which they happen.
    if isinstance(order, IndexedOrder):
        given, read = _drawn(samples, order, how, evaluates)
    else:
        assert isinstance(order, StreamOrder)
        assert isinstance(samples, Split)
        assert order.parts == share.parts
        by_place = on_host is not None and damaged is None and all_local(samples)
        given, read = _streamed(samples, order, how, parallelism, by_place)
        if on_host is not None:
            given = given.batch(size, drop_remainder=whole)
            given = given if by_place else given.map(seeded)
    if on_host is not None:
        made = on_host.of_batches(given, read, size if whole else None, in_turn=in_turn)
        made = made if counted else made.filter(lambda seeds, *_: tf.size(seeds) > 0)
        batches = batched(made.unbatch(), finished) if on_host.follows else made.map(finished)
    else:
        if isinstance(order, IndexedOrder):
            at_once = 1 if in_turn else max(2, min(parallelism, _MOST_READ))
            given = indexed_records(given, lambda number: _SEEDED(read(number)), parallelism=at_once)
        batches = batched(given, sample)
    if batch_transform is not None:
        # A batch's seed is its first sample's, a function of the epoch and the position: no steps are counted.
        batches = batches.map(_on_batch(batch_transform), parallelism)
    per_step = share.replicas // share.parts
    cardinality = order.steps_per_epoch * per_step if start_step is None else tf.data.INFINITE_CARDINALITY
    if counted:
        batches = batches.apply(tf.data.experimental.assert_cardinality(cardinality))
    batches = batches.prefetch(_PREFETCHED).with_options(
        data_options(parallelism + (on_host.waiting if on_host else 0))
    )
    # An iterator in C++ may keep the reading function, and so the samples, for longer.
    weakref.finalize(batches, close_clients, samples).atexit = False
    return batches


def _on_batch(batch_transform: BatchTransform) -> Callable[[Any, tf.Tensor], Any]:
    """A batch transform as a function of a batch and the seeds of its samples."""

    def change(made: Any, seeds: tf.Tensor) -> Any:
        changed = batch_transform(made, seeds[0] + BATCH_KEY)
        check_returned(changed, batch_transform)
        return changed

    if isinstance(batch_transform, Mixing):
        return tf.autograph.experimental.do_not_convert(change)  # it has no Python of a graph, and would warn
    return change


def _drawn(
    samples: Samples, order: IndexedOrder, how: _ReadOptions, evaluates: bool
) -> tuple[tf.data.Dataset, Callable[..., Records]]:
    """Numbers of replica batches, from any on at no cost, and a function that draws and reads the records of one."""
    start_step, share, damaged, fill = how
    per_step = share.replicas // share.parts
    window = order.window if isinstance(order, BlockOrder) else order.epoch_samples
    per_epoch = -(-order.epoch_samples // window)
    reader = DrawnReader(samples, order, fill=fill, may_be_empty=not fill)
    note = None if damaged is None else damaged.note

    def read(number: int) -> Records:
        step, replica = divmod(int(number), per_step)
        drawn = order.drawn(step, share.part * per_step + replica, share.replicas)
        return reader(drawn, chunk_of(order, step), note)

    def load(number: np.ndarray) -> tuple[np.ndarray]:
        reader.load(int(number))
        return (number,)

    def first(number: Any) -> Any:
        """The first batch that begins in a window."""
        steps = number // per_epoch * order.steps_per_epoch - (-(number % per_epoch) * window // order.batch_size)
        return steps * per_step

    epoch, step = divmod(start_step or 0, order.steps_per_epoch)
    start = epoch * per_epoch + step * order.batch_size // window
    if start_step is not None:
        windows = tf.data.Dataset.counter(start)
    elif evaluates:  # the same each time, including a transform's draws
        windows = tf.data.Dataset.range(per_epoch)
    else:
        windows = iteration_number().flat_map(lambda n: tf.data.Dataset.range(n * per_epoch, (n + 1) * per_epoch))
    if isinstance(order, BlockOrder):  # the next window is read while one is used
        windows = python_map(windows, load, (tf.TensorSpec([], tf.int64),), parallelism=1)
    numbers = windows.flat_map(lambda number: tf.data.Dataset.range(first(number), first(number + 1)))
    return numbers.skip((start_step or 0) * per_step - first(start)), read


def _streamed(
    split: Split, order: StreamOrder, how: _ReadOptions, parallelism: int, by_place: bool
) -> tuple[tf.data.Dataset, Callable[..., Records]]:
    """(seed of the epoch, (place, record)), read shard by shard; with `by_place` (seed of the epoch, place).

    And a function from batches of (seed of the epoch, place), or of (seed of the sample, record), to their records.

    To start in the middle of an epoch, earlier records are read and dropped; of places, only those in the shuffle
    buffer are read. Each of several input pipelines streams its own part of the split: parts are cut by samples, not by
    shards, so that none is empty even with few shards. A part has enough samples for its share of each step.
    """
    start_step, share, damaged, fill = how
    lengths = [len(split) * number // share.parts for number in (share.part, share.part + 1)]
    part = split[lengths[0] : lengths[1]]
    count = order.epoch_samples // share.parts

    @tf.autograph.experimental.do_not_convert  # plain Python, for which AutoGraph would warn
    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        key = tf.stack([tf.constant(order.seed, tf.int64), number])
        order_seed, sample_seed = tf.unstack(
            tf.random.stateless_uniform([2], key, tf.int64.min, tf.int64.max, tf.int64, alg="philox")
        )
        shuffle: Any = {"seed": order_seed, "shuffle_buffer": order.shuffle_buffer, "parallelism": parallelism}
        if by_place:
            records = shuffled_places(part, **shuffle, unread=skipped)
        else:
            records = serialized_records(part, **shuffle, damaged=damaged, fill=fill)
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(sample_seed).repeat(), records.take(count))

    first_epoch, first_number = divmod(start_step or 0, order.steps_per_epoch)
    skipped = first_number * (order.batch_size // share.parts)
    epochs = random_number(order.seed) if start_step is None else tf.data.Dataset.counter(first_epoch)
    records = epochs.flat_map(epoch)

    def read(seeds: np.ndarray, given: np.ndarray) -> Records:
        whole, found = split.whole_split, given.tolist()
        if by_place:
            return Records(whole.payloads(given), np.stack([seeds, given], -1), lambda row: whole.where(found[row]))
        return Records(found, seeds, lambda row: where_found(split, found[row]))

    return records.skip(skipped) if skipped else records, read


def _batch(
    samples: tf.data.Dataset, size: int, drop_remainder: bool, pad: float | None, alike: bool
) -> tf.data.Dataset:
    """`samples` in batches of `size`, padded with `pad` unless that is None, or those of a batch are `alike`."""
    if alike:
        return samples.batch(size, drop_remainder=drop_remainder)
    specs = tf.nest.flatten(samples.element_spec)
    if pad is None:
        for spec in specs:
            if not spec.shape.is_fully_defined():
                problem = f"got a component of shape {spec.shape}, expected one shape for all samples"
                raise UsageError("transform", problem, "give pad=..., or make the shape static with tf.ensure_shape")
        return samples.batch(size, drop_remainder=drop_remainder)
    values = [_padding(spec, pad) for spec in specs]
    return samples.padded_batch(
        size, padding_values=tf.nest.pack_sequence_as(samples.element_spec, values), drop_remainder=drop_remainder
    )


def _padding(spec: tf.TensorSpec, pad: float) -> tf.Tensor:
    """`pad` as a scalar of the component's dtype. A component that does not vary is not padded, whatever its dtype."""
    if spec.dtype == tf.string:
        return tf.constant("")
    if spec.shape.is_fully_defined():
        return tf.zeros([], spec.dtype)
    if spec.dtype.is_integer and not (float(pad).is_integer() and spec.dtype.min <= pad <= spec.dtype.max):
        raise UsageError("pad", f"got {pad!r}, which {spec.dtype.name} cannot hold", "cast it in the transform")
    return tf.cast(pad, spec.dtype)
