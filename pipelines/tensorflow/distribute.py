"""Batches for the replicas of a `tf.distribute` strategy, with known counts, which Keras need not guess."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import tensorflow as tf

from shardfeed.declared import Count, Seed, Step, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import (
    Augment,
    Channels,
    Size,
    Views,
    check_shared_batch,
    check_transforms,
    image_or_transform,
    with_augment,
)
from shardfeed.pipelines.batch_transforms import BatchTransform, bound_batch_transform
from shardfeed.pipelines.orders.choices import OrderLike, gives_sizes
from shardfeed.pipelines.orders.choose_order import order_samples
from shardfeed.pipelines.orders.order import Order, StreamOrder
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.samples import SamplesLike
from shardfeed.pipelines.tensorflow.assembly import Share, Transform, assemble_batches
from shardfeed.pipelines.tensorflow.batches import threads, training_crop
from shardfeed.pipelines.tensorflow.labels import labelled
from shardfeed.processes import WorkerCount
from shardfeed.readers.skip import Damaged
from shardfeed.schema import LABEL

Distributed = tf.data.Dataset | tf.distribute.DistributedDataset


@checked
@dataclass(frozen=True)
class Feed:
    """Batches of a training run: `model.fit(feed.batches, steps_per_epoch=feed.steps_per_epoch, epochs=n)`.

    `order` determines the samples of each step. `start_step`: the step, counted from the start of epoch 0, at which
    each iteration of `batches` starts. `build(step)` creates the batches from `step` on; users call `at`.

    Example:
        feed = distribute(strategy, data["train"], batch_size=512, image_size=224)
        saved = feed.position(1000)  # beside the weights after 1,000 steps
        model.fit(feed.at(saved).batches, steps_per_epoch=feed.steps_per_epoch)
    """

    order: Order
    start_step: Step
    build: Callable[[int], Distributed]

    @property
    def steps_per_epoch(self) -> int:
        """Number of global batches per epoch."""
        return self.order.steps_per_epoch

    @cached_property
    def batches(self) -> Distributed:
        """Endless batches: batch i of an iteration belongs to step `start_step + i`, with a part for each replica."""
        return self.build(self.start_step)

    @checked
    def at(self, start: Step | str | bytes) -> "Feed":
        """Return a feed of the same batches that starts at `start`: a step number, or the result of `position`.

        Raises OrderMismatchError for a position from a feed with different data, seed or global batch size,
        IntegrityError for text that is not a position, UsageError for a number below 0.
        """
        if isinstance(start, str | bytes):
            position = Position.from_json(start)
            position.check(self.order)
            start = position.step
        return Feed(self.order, start, self.build)

    @checked
    def position(self, step: Step) -> str:
        """Return one line of JSON to save with the model after `step` steps; `at` accepts it and checks the order."""
        return Position(step, self.order).to_json()


@checked
def distribute(
    strategy: tf.distribute.Strategy,
    samples: SamplesLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    channels: Channels = 3,
    augment: Augment = (),
    views: Views = None,
    transform: Transform | None = None,
    seed: Seed = 0,
    order: OrderLike | None = None,
    label: str | None = LABEL,
    pad: float | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> Feed:
    """Endless training batches for all replicas of a strategy, on one machine or on several workers.

    With `image_size`, batches are (images uint8 [b, height, width, channels], labels int64 [b]), each image cropped by
    `random_resized_crop(image_size)`; with `transform`, batches hold its outputs. b is `batch_size / replicas`.

    The same seed, order and global batch size give the same samples in each step for any number of replicas and
    workers: epoch i is the same as in `train_batches(start_step=0)` and, except for "stream", in `torch_loader`. With
    "stream" each worker (of a MultiWorkerMirroredStrategy) streams its own part of the split, so the samples of a step
    depend on the number of workers. `feed.at(step)` starts at `step`; save `feed.position(step)` with the model.

    Args:
        strategy: a strategy of `tf.distribute`; `tf.distribute.get_strategy()` for one device.
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        batch_size: samples per step over all replicas, a multiple of the number of replicas.
        image_size, channels, augment, views: as in `train_batches`; `augment` also with `transform`, as in
            `make_batches`.
        transform: instead of `image_size`: a function of a sample's features and its seed, as in `make_batches`.
        seed: 0 to 2^63 - 1; for the order and for the crops. `tf.random.set_seed` changes nothing.
        label: with `image_size`: key of a feature with one number per record, or of a "tags" feature, which becomes
            multi-hot. Samples whose number is missing (NaN) are left out, and a warning counts them. None:
            batches are the images alone.
        pad: as in `make_batches`, for each replica's batch.
        batch_transform: as in `train_batches`, of each replica's batch.
        order, damaged, workers: as in `train_batches`.

    Raises:
        UsageError: if there are no samples or too few for a batch, if the batch size is not a multiple of the number of
            replicas, if workers have different numbers of replicas, if the label or the order is unknown, if a value is
            out of range, or if not exactly one of `image_size`, `views` and `transform` is given.

    Example:
        strategy = tf.distribute.MirroredStrategy()
        feed = distribute(strategy, data["train"], batch_size=512, image_size=224, seed=7)
        model.fit(feed.batches, steps_per_epoch=feed.steps_per_epoch, epochs=3)
    """
    check_transforms(transform, batch_transform)
    image = training_crop(image_size, channels, augment, views, transform=transform)
    transform = with_augment("transform", transform, augment)
    if transform is not None and channels != 3:
        raise UsageError("channels", "got 1 and a transform, which makes the images itself", "leave one of the two out")
    samples, keys, transform = image_or_transform(
        samples,
        image_size,
        transform,
        lambda _: labelled(image, label, samples.schema),
        label,
        sized=views is not None or gives_sizes(order),
    )
    replicas = strategy.num_replicas_in_sync
    check_shared_batch(batch_size, replicas)
    arranged, chosen = order_samples(samples, batch_size=batch_size, seed=seed, order=order)
    pipelines = input_pipelines(strategy)
    if isinstance(chosen, StreamOrder):
        chosen = replace(chosen, parts=pipelines)
    at_once = threads(workers)
    on_batches = batch_transform
    if keys is not None:
        on_batches = bound_batch_transform(batch_transform, samples.schema, label, views=views is not None)

    def build(start: int) -> Distributed:
        def replica_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
            if isinstance(chosen, StreamOrder) and context.num_input_pipelines != pipelines:
                problem = (
                    f"got {context.num_input_pipelines} input pipelines, expected {pipelines}, its cluster's workers"
                )
                raise UsageError("strategy", problem, 'use order="global"')
            return assemble_batches(
                arranged,
                chosen,
                transform,
                start_step=start,
                share=pipeline_share(context, replicas),
                pad=pad,
                keys=keys,
                damaged=damaged,
                parallelism=at_once,
                batch_transform=on_batches,
            )

        return strategy.distribute_datasets_from_function(replica_batches)

    return Feed(chosen, 0, build)


def input_pipelines(strategy: tf.distribute.Strategy) -> int:
    """Number of workers that share the input: those of the strategy's cluster, or 1 without a cluster."""
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict() if resolver is not None else {}
    return max(1, len(cluster.get("chief", [])) + len(cluster.get("worker", [])))


def pipeline_share(context: tf.distribute.InputContext, replicas: int) -> Share:
    """The share of one input pipeline. Raises UsageError where pipelines feed different numbers of replicas."""
    pipelines = context.num_input_pipelines
    if replicas % pipelines:
        problem = f"got {replicas} replicas on {pipelines} workers"
        raise UsageError("strategy", problem, "give each worker the same number of replicas")
    return Share(replicas, context.input_pipeline_id, pipelines)
