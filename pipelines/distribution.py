"""Batches for the replicas of a `tf.distribute` strategy, counted so that Keras has nothing to guess."""

from dataclasses import dataclass

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import Size, random_resized_crop
from shardfeed.pipelines.batches import (
    Order,
    Transform,
    check_shared_batch,
    epoch_size,
    image_and_label_keys,
    labelled,
    make_batches,
)
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL


@dataclass(frozen=True)
class Feed:
    """What `fit` needs: `model.fit(feed.batches, steps_per_epoch=feed.steps_per_epoch, epochs=n)`.

    `batches` does not end: step s of epoch e is its batch number `e * steps_per_epoch + s`. Each iteration of it
    starts with epoch 0. An epoch is `steps_per_epoch * batch_size` different samples.
    """

    batches: "tf.data.Dataset | tf.distribute.DistributedDataset"
    steps_per_epoch: int


def distribute(
    strategy: tf.distribute.Strategy,
    split: Split,
    *,
    batch_size: int,
    image_size: Size | None = None,
    transform: Transform | None = None,
    seed: int = 0,
    order: Order = "stream",
    label: str = LABEL,
    pad: float | None = None,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> Feed:
    """Training batches of `split` for all replicas of `strategy`, on one machine (MirroredStrategy).

    `batch_size` is the global one: each replica gets `batch_size / strategy.num_replicas_in_sync` samples a step.
    With `image_size` the batches are those of `train_batches`, (images uint8, labels int64); with `transform`
    instead they are what that gives, as in `make_batches`, where the other arguments are explained. `prefetch` counts
    per-replica batches. The same seed and global batch give the same samples in each step for any number of replicas.

    Raises UsageError as `make_batches` does, when the replicas cannot share a batch evenly, unless exactly one of
    `image_size` and `transform` is given, and for a strategy with several input pipelines (several workers).
    """
    if image_size is not None and transform is None:
        keys = image_and_label_keys(split.schema, label)
        transform = labelled(random_resized_crop(image_size), label)
    elif transform is not None and image_size is None:
        keys = None
    else:
        raise UsageError("image_size, transform", "expected exactly one of them")
    replicas = strategy.num_replicas_in_sync
    check_shared_batch(batch_size, replicas)
    steps, samples = epoch_size(split, batch_size, None, drop_remainder=True)

    def replica_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        if context.num_input_pipelines > 1:
            raise UsageError(
                "strategy",
                f"got {context.num_input_pipelines} input pipelines, expected one: several workers are not supported",
                "use a strategy of one machine, such as MirroredStrategy",
            )
        return make_batches(
            split,
            transform,
            batch_size=batch_size // replicas,
            epoch_samples=samples,
            order=order,
            seed=seed,
            repeat=True,
            pad=pad,
            keys=keys,
            shuffle_buffer=shuffle_buffer,
            parallelism=parallelism,
            prefetch=prefetch,
        )

    return Feed(strategy.distribute_datasets_from_function(replica_batches), steps)
