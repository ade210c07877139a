"""Batches of a split, as tf.data: the general form, and the one for training a classifier.

The pipeline itself is `assembly.assemble_batches`; the orders are explained in `orders.choices`.
"""

from collections.abc import Iterable

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.machine.budget import cpu_budget
from shardfeed.pipelines.arguments import Size, at_least, check_transforms, images_and_labels
from shardfeed.pipelines.orders.choices import OrderLike
from shardfeed.pipelines.orders.choose_order import order_samples
from shardfeed.pipelines.orders.order import StoredOrder
from shardfeed.pipelines.samples import Samples
from shardfeed.pipelines.tensorflow.assembly import BatchTransform, Transform, assemble_batches
from shardfeed.pipelines.tensorflow.augment import random_resized_crop
from shardfeed.pipelines.tensorflow.labels import labelled
from shardfeed.readers.skip import Skip
from shardfeed.schema import LABEL


def train_batches(
    samples: Samples,
    *,
    batch_size: int,
    image_size: Size,
    seed: int = 0,
    order: OrderLike | None = None,
    label: str = LABEL,
    start_step: int | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Skip | None = None,
    workers: int | None = None,
) -> tf.data.Dataset:
    """Batches to train a classifier: (images uint8 [batch_size, height, width, 3], labels int64 [batch_size]).

    Of a feature of the kind "tags", a set of classes, labels are multi-hot: float32 [batch_size, classes].

    Each image is cut by `random_resized_crop(image_size)`. An epoch gives every sample once, or draws them by class
    where the order says so. The last, incomplete batch is dropped: `len(samples) % batch_size` samples, other ones in
    each epoch. The dataset's cardinality is set: the steps of an epoch, or infinite.

    With the same `seed`, order (any but "stream") and batch size, iteration i of a dataset that ends, an endless one
    from step i * steps_per_epoch on, and iteration i of `torch_loader` have the same samples and crops. Iterations are
    counted from 0, as they begin, by each dataset object: `fit(..., epochs=3)` trains on epochs 0, 1 and 2. Under a
    `tf.distribute` strategy `fit` begins one iteration more, to build the model, and trains on 1, 2 and 3; `distribute`
    counts steps, and begins with epoch 0. The "stream" order is TensorFlow's own: its epochs that end are numbered by
    a generator seeded with `seed`, so two such datasets agree with each other, not with an endless one.

    Where OpenCV is installed, the images of all other orders are made by threads of Python's, which takes less than
    TensorFlow's operations: the same windows, and pixels within one level (of 255).

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        batch_size: samples of a batch.
        image_size: of the crops, in pixels: one side, or (height, width).
        seed: 0 to 2^63 - 1; of the order and of the crops. `tf.random.set_seed` changes nothing.
        order: "stream", "global", "blocks" or "stored", or `Stream`, `Global`, `Blocks` or `Stored` with options. None:
            "stream"; for a dataset in a bucket `Blocks(block_bytes=8 << 20)`; "global" for a `mix` or a selection.
        label: key of a feature with one number a record, or of the kind "tags". Where it is NaN, samples are left out.
        start_step: None, and each iteration is one epoch. A number, and epochs 0, 1, 2... follow each other in one
            endless iteration, which starts each time with this batch, counted from the first of epoch 0. That costs
            nothing, but for "stream", where up to an epoch is read, not decoded, to get there.
        batch_transform: from a batch and its seed, int64 [2], a function of its first sample and the epoch, for
            `tf.random.stateless_*`, to another batch: MixUp, say. None: nothing is done.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when they are too many. In the
            stead of each, another sample of the same step comes twice, but with "stream" a neighbour in its shard.
            None: the first damaged record raises.
        workers: samples decoded, and shards or batches read, at once, 1 or more. None: the CPUs granted. Threads of
            Python that decode are never more than those.

    Raises:
        UsageError: for no samples, a batch that an epoch cannot fill, an unknown label or order, and values
            out of range.
        tf.errors.OpError: iterating, for a damaged record, or an image that does not decode.

    Example:
        data = shardfeed.open("flowers")
        batches = train_batches(data["train"], batch_size=256, image_size=224, seed=7)
        model.fit(batches, epochs=3)
    """
    samples, keys = images_and_labels(samples, label)
    return make_batches(
        samples,
        labelled(random_resized_crop(image_size), label, samples.schema),
        batch_size=batch_size,
        seed=seed,
        order=order,
        start_step=start_step,
        batch_transform=batch_transform,
        keys=keys,
        damaged=damaged,
        workers=workers,
    )


def make_batches(
    samples: Samples,
    transform: Transform,
    *,
    batch_size: int,
    seed: int = 0,
    order: OrderLike | None = None,
    start_step: int | None = None,
    drop_remainder: bool = True,
    pad: float | None = None,
    keys: Iterable[str] | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Skip | None = None,
    workers: int | None = None,
) -> tf.data.Dataset:
    """Batches of the outputs of `transform(features, seed)`, one per sample: any features, any nest of tensors.

    With the same `seed`, order (any but "stream") and batch size, iteration i of a dataset that ends, an endless one
    from step i * steps_per_epoch on, and iteration i of `torch_loader` have the same samples, and the same seeds for
    them. Iterations are counted from 0, as they begin, by each dataset object. Under a `tf.distribute` strategy `fit`
    begins one more, to build the model, so that it trains on epochs 1, 2... Epochs of "stream" that end are numbered
    by a generator seeded with `seed`. "stored" with `drop_remainder=False` evaluates: each iteration is epoch 0 again.

    Our own transforms, given as they are, make images as `train_batches` does; a transform of yours runs as a graph.

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        transform: from a sample's features and its seed to tensors of one shape for all samples, or of varying shape
            with `pad`. Features: a dict by key of scalars, and of 1-D tensors [n] for ragged ones; `image/format` is a
            constant where all images have the same. Seed: int64 [2], the sample's own in this epoch, for
            `tf.random.stateless_*`. It is traced once, as a function for `Dataset.map`.
        batch_size: samples of a batch.
        seed: 0 to 2^63 - 1; of the order and of the samples' seeds. `tf.random.set_seed` changes nothing.
        order: "stream", "global", "blocks" or "stored", or `Stream`, `Global`, `Blocks` or `Stored` with options. None:
            "stream"; for a dataset in a bucket `Blocks(block_bytes=8 << 20)`; "global" for a `mix` or a selection.
        start_step: None, and each iteration is one epoch. A number, and epochs 0, 1, 2... follow each other in one
            endless iteration, which starts each time with this batch, counted from the first of epoch 0. That costs
            nothing, but for "stream", where up to an epoch is read, not decoded, to get there.
        drop_remainder: samples that would not fill an epoch's last batch are left out. False: that batch is smaller;
            only for epochs that end, and not where samples are drawn by class or by part.
        pad: a number that components whose shape varies are padded with, at their ends, to the longest of the batch;
            strings with "". None: shapes do not vary.
        keys: the features to parse. None: all of the schema.
        batch_transform: from a batch and its seed, int64 [2], a function of its first sample and the epoch, for
            `tf.random.stateless_*`, to another batch: MixUp, say. None: nothing is done.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when they are too many. In the
            stead of each, another sample of the same step comes twice, but with "stream" a neighbour in its shard; with
            `drop_remainder=False` none does, and the cardinality is unknown. None: the first damaged record raises.
        workers: samples transformed, and shards or batches read, at once, 1 or more. None: the CPUs granted.
            Threads of Python that decode are never more than those.

    Raises:
        UsageError: for no samples, a batch that an epoch cannot fill, an unknown key or order, shapes that
            vary without `pad`, and values out of range.
        tf.errors.OpError: iterating, for a damaged record, or an image that does not decode.

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
    if start_step is not None:
        start_step = at_least("start_step", start_step, 0)
        if not drop_remainder:
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


def threads(workers: int | None) -> int:
    """`workers`, or the CPUs that this process is granted. Raises UsageError unless it is at least 1."""
    return cpu_budget() if workers is None else at_least("workers", workers, 1)
