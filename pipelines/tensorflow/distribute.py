"""Batches for the replicas of a `tf.distribute` strategy, counted so that Keras has nothing to guess."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import Size, at_least, check_shared_batch, image_or_transform
from shardfeed.pipelines.caching.cache import CacheLike, cached
from shardfeed.pipelines.orders.choose_order import OrderName, Weights, order_samples
from shardfeed.pipelines.orders.order import Order, StreamOrder
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.samples import Samples
from shardfeed.pipelines.tensorflow.assembly import Damaged, Share, Transform, assemble_batches
from shardfeed.pipelines.tensorflow.augment import random_resized_crop
from shardfeed.pipelines.tensorflow.batches import labelled, threads
from shardfeed.readers.skip import Skip
from shardfeed.schema import LABEL

Distributed = tf.data.Dataset | tf.distribute.DistributedDataset


@dataclass(frozen=True)
class Feed:
    """What training needs: `model.fit(feed.batches, steps_per_epoch=feed.steps_per_epoch, epochs=n)`.

    `order` says which samples each step has. `start_step`: the step, counted from the first of epoch 0, at which each
    iteration of `batches` starts. `build(step)` makes the batches from `step` on; users call `at`.
    """

    order: Order
    start_step: int
    build: Callable[[int], Distributed]

    @property
    def steps_per_epoch(self) -> int:
        """Global batches of an epoch."""
        return self.order.steps_per_epoch

    @cached_property
    def batches(self) -> Distributed:
        """Without end: batch i of an iteration is that of step `start_step + i`, in parts for the replicas."""
        return self.build(self.start_step)

    def at(self, start: int | str | bytes) -> "Feed":
        """The same batches from another step on: a number, or what `position` gave.

        Raises OrderMismatchError for a position of a feed with other data, seed or global batch size.
        """
        if isinstance(start, str | bytes):
            position = Position.from_json(start)
            position.check(self.order)
            start = position.step
        return Feed(self.order, at_least("start", start, 0), self.build)

    def position(self, step: int) -> str:
        """One line of JSON to keep with the model after `step` steps; `at` takes it back and checks the order."""
        return Position(at_least("step", step, 0), self.order).to_json()


def distribute(
    strategy: tf.distribute.Strategy,
    samples: Samples,
    *,
    batch_size: int,
    image_size: Size | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    order: OrderName | None = None,
    label: str = LABEL,
    balance: str | None = None,
    weights: Weights | None = None,
    epoch_samples: int | None = None,
    start_step: int = 0,
    pad: float | None = None,
    cache: CacheLike | None = None,
    damaged: Skip | None = None,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> Feed:
    """Training batches of `samples` for all replicas of `strategy`, on one machine or on several workers.

    `batch_size` is the global one: each replica gets `batch_size / strategy.num_replicas_in_sync` samples a step.
    With `image_size` the batches are those of `train_batches`, (images uint8, labels int64); with `transform`
    instead they are what that gives, as in `make_batches`, where the other arguments are explained. `prefetch` counts
    per-replica batches. `tf.distribute.get_strategy()` is the strategy of one device.

    The same seed and global batch give the same samples in each step for any number of replicas. Under several input
    pipelines (workers of a MultiWorkerMirroredStrategy) each takes its part of each step, so that this
    holds for any number of workers too; but with the stream order each worker streams a part of the split of its own,
    and which samples meet in a step depends on the number of workers.

    Raises UsageError as `make_batches` does, when the replicas cannot share a batch evenly, and unless exactly one of
    `image_size` and `transform` is given.
    """
    keys, transform = image_or_transform(
        samples.schema, image_size, transform, lambda size: labelled(random_resized_crop(size), label), label
    )
    replicas = strategy.num_replicas_in_sync
    check_shared_batch(batch_size, replicas)
    arranged, chosen = order_samples(
        cached(samples, cache),
        batch_size=batch_size,
        order=order,
        seed=seed,
        balance=balance,
        weights=weights,
        epoch_samples=epoch_samples,
        shuffle_buffer=shuffle_buffer,
    )
    pipelines = input_pipelines(strategy)
    if isinstance(chosen, StreamOrder):
        chosen = replace(chosen, parts=pipelines)
    at_once, ahead = threads(parallelism), at_least("prefetch", prefetch, 1)

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
                repeat=True,
                start_step=start,
                share=pipeline_share(context, replicas),
                pad=pad,
                keys=keys,
                damaged=Damaged(damaged, fill=True) if damaged is not None else None,
                parallelism=at_once,
                prefetch=ahead,
            )

        return strategy.distribute_datasets_from_function(replica_batches)

    return Feed(chosen, at_least("start_step", start_step, 0), build)


def input_pipelines(strategy: tf.distribute.Strategy) -> int:
    """Workers among which the input is shared: those of the strategy's cluster, or 1 where there is none."""
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict() if resolver is not None else {}
    return max(1, len(cluster.get("chief", [])) + len(cluster.get("worker", [])))


def pipeline_share(context: tf.distribute.InputContext, replicas: int) -> Share:
    """The share of one input pipeline. Raises UsageError where pipelines feed different numbers of replicas."""
    pipelines = context.num_input_pipelines
    if replicas % pipelines:
        raise UsageError(
            "strategy", f"got {replicas} replicas on {pipelines} workers", "give each worker as many replicas"
        )
    return Share(replicas, context.input_pipeline_id, pipelines)
