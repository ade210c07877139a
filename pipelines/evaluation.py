"""Batches for evaluation: every sample exactly once, on one device and on several."""

from functools import reduce

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines.augment import Size, resize_center_crop
from shardfeed.pipelines.batches import check_shared_batch, image_and_label_keys, labelled, make_batches
from shardfeed.readers.split import Split
from shardfeed.schema import LABEL


def eval_batches(
    split: Split,
    *,
    batch_size: int,
    image_size: Size,
    label: str = LABEL,
    replicas: int = 1,
    parallelism: int | None = None,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches for `model.evaluate` and `validation_data`: every sample exactly once, in stored order.

    (images uint8 [b, height, width, 3], labels int64 [b]); b is `batch_size`, less in the last batch. Each image
    is cut by `resize_center_crop(image_size)`; for any other transform use
    `make_batches(..., order="stored", drop_remainder=False)`. `parallelism` and `prefetch` as there.

    `replicas`: `strategy.num_replicas_in_sync`, for a model made under a strategy. `evaluate` and `fit` then share
    out each batch among the replicas, so `batch_size` is the global one, and the last two batches may be of other
    sizes (`last_batches`) where a replica would get an empty one.

    Raises UsageError for an empty split, a label that is not there, a batch size that is not a multiple of `replicas`,
    and a split with fewer samples than replicas.
    """
    transform = labelled(resize_center_crop(image_size), label)
    keys = image_and_label_keys(split.schema, label)

    def stored(part: Split, size: int) -> tf.data.Dataset:
        return make_batches(
            part,
            transform,
            batch_size=size,
            order="stored",
            drop_remainder=False,
            keys=keys,
            parallelism=parallelism,
            prefetch=prefetch,
        )

    check_shared_batch(batch_size, replicas)
    if replicas == 1:
        return stored(split, batch_size)
    if len(split) < replicas:
        raise UsageError(
            "replicas", f"got {replicas}, expected at most {len(split)}, the samples of split {split.name}"
        )
    sizes = last_batches(len(split), batch_size, replicas)
    start = len(split) - sum(sizes)
    parts = [stored(split[:start], batch_size)] if start else []
    for size in sizes:
        parts.append(stored(split[start : start + size], size))
        start += size
    return reduce(lambda batches, part: batches.concatenate(part), parts)


def last_batches(samples: int, batch_size: int, replicas: int) -> list[int]:
    """The sizes of the batches that follow the full ones, so that `replicas` devices can share all of them.

    TensorFlow cuts a batch of b samples into pieces of ceil(b / replicas), so that the last replicas may get none; its
    convolution on the CPU fails for an empty batch. Keras fails where the first batch's pieces differ in size. So a
    full batch, or the first one, may give samples to the one after it. Where no sizes suit, a replica gets
    none in the last batch, which Keras counts right. `samples` is at least `replicas`, and `batch_size` a multiple.
    """
    full, rest = divmod(samples, batch_size)
    if rest == 0:
        return []
    if rest % replicas == 0 or (full and _all_share(rest, replicas)):
        return [rest]
    both = rest + (batch_size if full else 0)
    for last in range(1, batch_size + 1):
        before = both - last
        even = _all_share(before, replicas) if full > 1 else before % replicas == 0
        if 0 < before <= batch_size and even and _all_share(last, replicas):
            return [before, last]
    return [rest] if full else [rest - rest % replicas, rest % replicas]


def _all_share(size: int, replicas: int) -> bool:
    """Whether no replica gets an empty piece of a batch."""
    piece = -(-size // replicas)
    return piece * (replicas - 1) < size
