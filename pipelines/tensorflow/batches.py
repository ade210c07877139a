"""Batches of a split, as tf.data: the general form, and the one for training a classifier.

The pipeline itself is `assembly.assemble_batches`; the orders are explained in `order`.
"""

from collections.abc import Iterable

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.machine.budget import cpu_budget
from shardfeed.pipelines.arguments import Size, at_least, image_and_label_keys
from shardfeed.pipelines.caching.cache import CacheLike, cached
from shardfeed.pipelines.orders.choose_order import OrderName, Weights, order_samples
from shardfeed.pipelines.samples import Samples
from shardfeed.pipelines.tensorflow.assembly import Damaged, Transform, assemble_batches
from shardfeed.pipelines.tensorflow.augment import ImageTransform, random_resized_crop
from shardfeed.readers.skip import Skip
from shardfeed.schema import LABEL


def train_batches(
    samples: Samples,
    *,
    batch_size: int,
    image_size: Size,
    seed: int = 0,
    order: OrderName | None = None,
    label: str = LABEL,
    balance: str | None = None,
    weights: Weights | None = None,
    repeat: bool = False,
    start_step: int = 0,
    cache: CacheLike | None = None,
    damaged: Skip | None = None,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches for `model.fit`: (images uint8 [batch_size, height, width, 3], labels int64 [batch_size]).

    Each image is cut by `random_resized_crop(image_size)`; for any other transform use `make_batches`, where the
    arguments are explained. `label` names a feature with one number a record.

    Each iteration is an epoch in another order: every sample once (unless they are drawn by weight), except the last
    `len(samples) % batch_size` of that order, which are left out, other ones each epoch. With `repeat` the epochs
    follow each other without end.
    """
    return make_batches(
        samples,
        labelled(random_resized_crop(image_size), label),
        batch_size=batch_size,
        order=order,
        seed=seed,
        balance=balance,
        weights=weights,
        repeat=repeat,
        start_step=start_step,
        keys=image_and_label_keys(samples.schema, label),
        cache=cache,
        damaged=damaged,
        shuffle_buffer=shuffle_buffer,
        parallelism=parallelism,
        prefetch=prefetch,
    )


def make_batches(
    samples: Samples,
    transform: Transform,
    *,
    batch_size: int,
    order: OrderName | None = None,
    seed: int = 0,
    balance: str | None = None,
    weights: Weights | None = None,
    repeat: bool = False,
    start_step: int = 0,
    drop_remainder: bool = True,
    pad: float | None = None,
    keys: Iterable[str] | None = None,
    epoch_samples: int | None = None,
    cache: CacheLike | None = None,
    damaged: Skip | None = None,
    shuffle_buffer: int | None = None,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches of what `transform(features, seed)` makes of each of `samples`, a split or a `mix`; cardinality asserted.

    `features` holds those named by `keys` (all of the schema, unless given): scalars, and 1-D tensors [n] for ragged
    ones; `image/format` is a constant where all images of the split have the same. `seed` is int64 [2], the sample's
    own in this epoch, for `tf.random.stateless_*`.

    Which sample comes when:

    `order`: "stream" shuffles shards, then `shuffle_buffer` records at a time, and reads in sequence. "global" is a
    permutation of all samples, read by position. "blocks" permutes blocks of about a megabyte, then `shuffle_buffer`
    records at a time. "stored" does not shuffle. Unless given, it is "stream", or "global" for what has no stream:
    weights, a mixture, a selection.
    `seed`: 0 to 2^63 - 1; iteration i of two datasets made with the same arguments gives the same batches, whatever
    `tf.random.set_seed` says.
    `balance`: "class", or a label feature's key: each class gets the same share of each batch, rounded down or up; a
    class is gone through to its end before any of its samples comes again. `weights`: the classes' shares, by name, or
    in their order; 0 leaves a class out.
    `repeat`: epochs 0, 1, 2... follow each other in one endless iteration, which starts each time with batch
    `start_step`, counted from the first of epoch 0: exactly that of the run without a start. That costs nothing, but
    for "stream", where up to an epoch is read, not decoded, to get there.
    `epoch_samples`: how many samples, from the start of its order, make an epoch; unless given, as many as there are.
    `drop_remainder`: those that would not fill an epoch's last batch are left out; otherwise that batch is smaller.

    `cache`: a directory on a faster disk or in /dev/shm, or a `Cache`: the shards are copied there once, as they are or
    decoded, and read there.

    `damaged`: a record whose CRC is wrong raises, unless a `Skip` is given: `damaged=Skip(10)` leaves out 10 records,
    says which, and raises at the next. Another sample of the same step comes twice in its stead, so that steps and
    positions stay what they are; with `drop_remainder=False` none does, and the cardinality is unknown.

    `pad`: None where all samples have one, static shape; else components whose shape varies are padded at their end to
    the batch's longest with this number, strings with "".
    `shuffle_buffer`: records; unless given, 16,384, fewer where that takes more than a quarter of the memory granted,
    and a quarter of that for "blocks", which take up to five times as much while one window is read and another used.
    It decides the order: give it to have the same order on a smaller machine.
    `parallelism`: samples transformed, and shards or batches read, at once; unless given, the CPUs granted.
    `prefetch`: batches made ahead.

    Raises UsageError for an empty split, a batch that the split cannot fill, and arguments that cannot be meant; for a
    cache, what `cached` raises.
    """
    arranged, chosen = order_samples(
        cached(samples, cache),
        batch_size=batch_size,
        order=order,
        seed=seed,
        balance=balance,
        weights=weights,
        epoch_samples=epoch_samples,
        drop_remainder=drop_remainder,
        shuffle_buffer=shuffle_buffer,
    )
    if repeat and not drop_remainder:
        raise UsageError("repeat", "got True with drop_remainder=False: epochs end within a batch", "use one of them")
    if at_least("start_step", start_step, 0) and not repeat:
        raise UsageError("start_step", f"got {start_step} without repeat: an epoch starts with its first batch")
    return assemble_batches(
        arranged,
        chosen,
        transform,
        repeat=repeat,
        start_step=start_step,
        pad=pad,
        keys=keys,
        damaged=Damaged(damaged, fill=drop_remainder) if damaged is not None else None,
        parallelism=threads(parallelism),
        prefetch=at_least("prefetch", prefetch, 1),
    )


def threads(parallelism: int | None) -> int:
    """`parallelism`, or the CPUs that this process is granted. Raises UsageError unless it is at least 1."""
    return cpu_budget() if parallelism is None else at_least("parallelism", parallelism, 1)


def labelled(transform: ImageTransform, label: str) -> Transform:
    """A transform to (image, label): `transform`'s image, and the feature `label`."""
    return lambda features, seed: (transform(features, seed), features[label])
