"""Batches of a split, as tf.data: a general function, and one for training a classifier.

The pipeline itself is `assembly.assemble_batches`; the orders are explained in `orders.choices`.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from shardfeed.budget import cpu_budget
from shardfeed.declared import Count, Seed, Step, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import (
    Augment,
    Channels,
    Size,
    Views,
    check_transforms,
    images_and_labels,
    views_crop,
    with_augment,
)
from shardfeed.pipelines.batch_transforms import BatchTransform, bound_batch_transform
from shardfeed.pipelines.orders.choices import OrderLike
from shardfeed.pipelines.orders.choose_order import order_samples
from shardfeed.pipelines.orders.order import StoredOrder
from shardfeed.pipelines.samples import SamplesLike
from shardfeed.pipelines.tensorflow.assembly import Transform, assemble_batches
from shardfeed.pipelines.tensorflow.augment import GraphTransform, usual_crop
from shardfeed.pipelines.tensorflow.labels import labelled
from shardfeed.processes import WorkerCount
from shardfeed.readers.skip import Damaged
from shardfeed.schema import LABEL


@checked
def train_batches(
    samples: SamplesLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    channels: Channels = 3,
    augment: Augment = (),
    views: Views = None,
    seed: Seed = 0,
    order: OrderLike | None = None,
    label: str | None = LABEL,
    start_step: Step | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> tf.data.Dataset:
    """Batches to train a classifier: (images uint8 [batch_size, height, width, channels], labels int64 [batch_size]).

    Images stored with 16 bits are uint16.

    For a "tags" feature (a set of classes), labels are multi-hot: float32 [batch_size, classes].

    Each image is cropped by `random_resized_crop(image_size)`. An epoch has every sample once, or samples drawn by
    class if `order` requires this. The last, incomplete batch is dropped: `len(samples) % batch_size` samples,
    different ones in each epoch. The dataset's cardinality is the number of steps of an epoch, or infinite.

    With the same `seed`, order (except "stream") and batch size, the following give the same samples and crops:
    iteration i of a finite dataset; an endless dataset from step i * steps_per_epoch on; and iteration i of
    `torch_loader`. Each dataset object counts its iterations from 0: `fit(..., epochs=3)` trains on epochs 0, 1 and 2.
    Under a `tf.distribute` strategy `fit` starts one extra iteration to build the model, and trains on epochs 1, 2 and
    3; `distribute` counts steps, and starts with epoch 0. The "stream" order exists only in TensorFlow. With it, each
    iteration of a finite dataset draws its epoch's seed from a generator seeded with `seed`, so two finite datasets
    agree with each other, but not with an endless one.

    If OpenCV is installed, Python threads decode and crop the images, which takes less CPU time than TensorFlow's
    operations. The crop windows are the same, and pixels differ by at most one level of 255.

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        batch_size: samples per batch.
        image_size: size of the crops in pixels: one side, or (height, width). With `order=Global(shapes=...)`, which
            gives each batch its own size, leave it out: crops are then centred, and as large as its aspect ratio
            allows.
        channels: as in `random_resized_crop`.
        augment: what changes the images after the crop, in turn: values of `shardfeed.pipelines.augment`, or one of its
            `recipes`. The draws are the same in every framework.
        views: instead of all three: of `shardfeed.pipelines.crop`. Images are then a tuple with a batch for each view.
        seed: 0 to 2^63 - 1; for the order and for the crops. `tf.random.set_seed` changes nothing.
        order: "stream", "global", "blocks" or "stored", or `Stream`, `Global`, `Blocks` or `Stored` with options. None:
            "stream"; for a dataset in a bucket `Blocks(block_bytes=8 << 20)`; "global" for a `mix` or a selection.
        label: key of a feature with one number per record, or of a "tags" feature. Records with NaN are left out. None:
            batches are the images alone, of all samples.
        start_step: None: each iteration is one epoch. A number: one endless iteration over epochs 0, 1, 2..., which
            always starts at this batch, counted from the start of epoch 0. Starting late costs nothing, except for
            "stream", which draws (or with your own transform reads) up to an epoch of samples to get there.
        batch_transform: `mixup()` or `cutmix()` of `shardfeed.pipelines.augment`, or a function of a batch and its seed
            that returns a new batch. The seed, int64 [2], for `tf.random.stateless_*`, depends on the epoch and the
            batch's first sample. None: no change.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when there are too many. Each
            damaged record is replaced by another sample of the same step, or with "stream" by a nearby record of its
            shard. None: the first damaged record raises.
        workers: number of samples decoded, and of shards or batches read, in parallel, 1 or more. None: the number of
            available CPUs. There are never more Python decoding threads than available CPUs.

    Raises:
        UsageError: if there are no samples or too few for a batch, if the label or the order is unknown, or if a value
            is out of range.
        tf.errors.OpError: while iterating, for a damaged record or an image that cannot be decoded.

    Example:
        data = shardfeed.open("flowers")
        batches = train_batches(data["train"], batch_size=256, image_size=224, seed=7)
        model.fit(batches, epochs=3)
    """
    image = training_crop(image_size, channels, augment, views)
    samples, keys = images_and_labels(samples, label)
    return make_batches(
        samples,
        labelled(image, label, samples.schema),
        batch_size=batch_size,
        seed=seed,
        order=order,
        start_step=start_step,
        batch_transform=bound_batch_transform(batch_transform, samples.schema, label, views=views is not None),
        keys=keys,
        damaged=damaged,
        workers=workers,
    )


@checked
def make_batches(
    samples: SamplesLike,
    transform: Transform,
    *,
    batch_size: Count,
    augment: Augment = (),
    seed: Seed = 0,
    order: OrderLike | None = None,
    start_step: Step | None = None,
    drop_remainder: bool = True,
    pad: float | None = None,
    keys: Iterable[str] | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> tf.data.Dataset:
    """Make batches of the outputs of `transform(features, seed)`, which may return any nest of tensors.

    With the same `seed`, order (except "stream") and batch size, the following give the same samples with the same
    seeds: iteration i of a finite dataset; an endless dataset from step i * steps_per_epoch on; and iteration i of
    `torch_loader`. Each dataset object counts its iterations from 0. Under a `tf.distribute` strategy `fit` starts one
    extra iteration to build the model, so it trains on epochs 1, 2... With "stream", each iteration of a finite dataset
    draws its epoch's seed from a generator seeded with `seed`. Use "stored" with `drop_remainder=False` for evaluation:
    each iteration is epoch 0 again.

    The transforms of this package, if passed directly, create images in the same way as `train_batches`; your own
    transform runs as a graph. With order "stream" and your own transform, the whole pipeline is a graph without Python.

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        transform: a function of a sample's features and its seed that returns tensors of one shape for all samples, or
            of varying shapes with `pad`. Features: a dict from key to scalar, or to 1-D tensor [n] if ragged;
            `image/format` is a constant if all images have the same format. Seed: int64 [2], different for each sample
            and epoch, for `tf.random.stateless_*`. The transform is traced once, like a function for `Dataset.map`.
        batch_size: samples per batch.
        augment: as in `train_batches`, for a crop, `detection` or `segmentation` of this package, whose targets follow.
            In your own transform give it to the crop that it calls.
        seed: 0 to 2^63 - 1; for the order and for the samples' seeds. `tf.random.set_seed` changes nothing.
        order, start_step, batch_transform: as in `train_batches`.
        drop_remainder: True: samples that would not fill an epoch's last batch are left out. False: the last batch is
            smaller; only for finite epochs, and not if samples are drawn by class or by part.
        pad: the value used to pad components of varying shape, at their end, to the longest one in the batch; strings
            are padded with "". None: shapes do not vary.
        keys: the features to parse. None: all features of the schema.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when there are too many. Each
            damaged record is replaced by another sample of the same step, or with "stream" by a nearby record of its
            shard; with `drop_remainder=False` it is not replaced: batches may be smaller, and the cardinality is
            unknown. None: the first damaged record raises.
        workers: number of samples transformed, and of shards or batches read, in parallel, 1 or more. None: the number
            of available CPUs. There are never more Python decoding threads than available CPUs.

    Raises:
        UsageError: if there are no samples or too few for a batch, if a key or the order is unknown, if shapes vary
            without `pad`, or if a value is out of range.
        tf.errors.OpError: while iterating, for a damaged record or an image that cannot be decoded.

    Example:
        def image_and_tags(features, seed):
            return letterbox(512)(features, seed), features["image/class/label"]

        batches = make_batches(data["train"], image_and_tags, batch_size=16, pad=-1, order="global")
        batches = make_batches(data["train"], detection(letterbox(512)), batch_size=16)  # images and their objects
    """
    arranged, chosen = order_samples(
        samples, batch_size=batch_size, seed=seed, order=order, drop_remainder=drop_remainder
    )
    check_transforms(transform, batch_transform)
    transform = with_augment("transform", transform, augment)
    if start_step is not None and not drop_remainder:
        problem = f"got {start_step} with drop_remainder=False: epochs end within a batch"
        raise UsageError("start_step", problem, "use one of them")
    return assemble_batches(
        arranged,
        chosen,
        transform,
        start_step=start_step,
        pad=pad,
        keys=keys,
        damaged=damaged,
        fill=drop_remainder,
        evaluates=isinstance(chosen, StoredOrder) and not drop_remainder,
        parallelism=threads(workers),
        batch_transform=batch_transform,
    )


def training_crop(
    size: Size | None, channels: Channels, augment: Augment, views: Views, **others: Any
) -> GraphTransform:
    """The usual crop, or that to several views. Raises UsageError if these are given with one of the `others`."""
    if views is None:
        return usual_crop(size, channels, augment)
    return GraphTransform(views_crop(views, augment, image_size=size, channels=channels == 1, **others), None)


def threads(workers: int | None) -> int:
    """`workers`, or the number of available CPUs."""
    return cpu_budget() if workers is None else workers
