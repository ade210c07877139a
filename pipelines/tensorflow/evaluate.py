"""Batches for evaluation: every sample exactly once, on one device and on several."""

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.declared import Count, Positive, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import Channels, Size, check_shared_batch, image_or_transform, images_and_labels
from shardfeed.pipelines.objects import SchemaTransform
from shardfeed.pipelines.orders.choose_order import order_samples
from shardfeed.pipelines.orders.order import StoredOrder
from shardfeed.pipelines.samples import SplitLike
from shardfeed.pipelines.tensorflow.assembly import Transform, assemble_batches
from shardfeed.pipelines.tensorflow.augment import resize_center_crop
from shardfeed.pipelines.tensorflow.batches import make_batches, threads
from shardfeed.pipelines.tensorflow.distribute import Distributed, pipeline_share
from shardfeed.pipelines.tensorflow.host_decoding import HostTransform
from shardfeed.pipelines.tensorflow.labels import labelled
from shardfeed.processes import WorkerCount
from shardfeed.readers.skip import Damaged, Skip
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, LABEL


@checked
def eval_batches(
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size,
    channels: Channels = 3,
    label: str | None = LABEL,
    replicas: Positive = 1,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> tf.data.Dataset:
    """Make batches for `model.evaluate` and `validation_data`: every sample exactly once, in stored order.

    Batches are (images uint8 [b, height, width, channels], labels int64 [b]). Each image is cropped by
    `resize_center_crop(image_size)`, and shown as it is: there is no `augment`. b is `batch_size`, or less in the last
    batch. For any other transform use `make_batches(split, transform, order="stored", drop_remainder=False, ...)`,
    whose draws are the same in each iteration.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        batch_size: samples per batch, over all replicas.
        image_size: size of the crops in pixels: one side, or (height, width).
        channels: as in `random_resized_crop`.
        label: key of a feature with one number per record, or of a "tags" feature, which becomes multi-hot. Samples
            whose number is missing (NaN) are left out, and a warning counts them. None: batches are the images alone,
            of all samples.
        replicas: `strategy.num_replicas_in_sync`, for a model created under a strategy. `evaluate` and `fit` then
            divide each batch among the replicas, and the sizes of the last two batches may differ so that no
            replica gets an empty part.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when there are too many; the
            cardinality is unknown with a `Skip`. None: the first damaged record raises.
        workers: as in `train_batches`.

    Raises:
        UsageError: if there are no samples or fewer samples than replicas, if the label is missing, if the batch size
            is not a multiple of `replicas`, or if a value is out of range.
        tf.errors.OpError: while iterating, for a damaged record or an image that cannot be decoded.

    Example:
        validation = eval_batches(data["validation"], batch_size=256, image_size=224)
        model.fit(batches, validation_data=validation, epochs=3)
        model.evaluate(validation)
    """
    split, keys = images_and_labels(split, label)
    return _every_sample(split, batch_size, image_size, channels, label, keys, replicas, damaged, workers)


@checked
def predict_batches(
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size,
    channels: Channels = 3,
    key: str | None = FILENAME,
    replicas: Positive = 1,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> tf.data.Dataset:
    """Batches for prediction: every sample exactly once, in stored order, with its file name. No label is needed.

    Batches are (images uint8 [b, height, width, 3], names string [b]), with the same images as in `eval_batches`.

    With several processes, give each process a part: `split[rank / ranks : (rank + 1) / ranks]`. Each sample is in
    exactly one part, and its name identifies its prediction, so the results can simply be concatenated.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        batch_size: samples per batch, over all replicas.
        image_size: size of the crops in pixels: one side, or (height, width).
        key: key of a feature with one value per record, or of a "tags" feature, to return instead of the file name.
            None: batches are the images alone, as `model.predict` takes them.
        replicas: as in `eval_batches`, for `model.predict(batches.map(lambda images, names: images))` with a model
            created under a strategy: the predictions are in the order of `split.column("image/filename")`.
        channels, damaged, workers: as in `eval_batches`.

    Raises:
        UsageError: as in `eval_batches`.
        tf.errors.OpError: while iterating, for a damaged record or an image that cannot be decoded.

    Example:
        rows = []
        for images, names in predict_batches(data["test"], batch_size=256, image_size=224):
            classes = model.predict_on_batch(images).argmax(1)
            rows += [(name.decode(), data.class_names[k]) for name, k in zip(names.numpy(), classes)]
    """
    split, keys = images_and_labels(split, key, texts=True)
    return _every_sample(split, batch_size, image_size, channels, key, keys, replicas, damaged, workers)


def _every_sample(
    split: Split,
    batch_size: Count,
    image_size: Size,
    channels: Channels,
    label: str | None,
    keys: list[str],
    replicas: int,
    damaged: Skip | None,
    workers: int | None,
) -> tf.data.Dataset:
    """Images, cropped at the centre, with the feature `label`; None: alone."""
    transform = labelled(resize_center_crop(image_size, channels=channels), label, split.schema)
    options: Any = {"order": "stored", "drop_remainder": False, "keys": keys, "damaged": damaged, "workers": workers}
    stored = partial(make_batches, transform=transform, **options)
    check_shared_batch(batch_size, replicas)
    if replicas == 1:
        return stored(split, batch_size=batch_size)
    if len(split) < replicas:
        problem = f"got {replicas}, expected at most {len(split)}, the samples of split {split.name}"
        raise UsageError("replicas", problem)
    sizes = last_batches(len(split), batch_size, replicas)
    start = len(split) - sum(sizes)
    parts = [stored(split[:start], batch_size=batch_size)] if start else []
    for size in sizes:
        parts.append(stored(split[start : start + size], batch_size=size))
        start += size
    return reduce(lambda batches, part: batches.concatenate(part), parts)


def last_batches(samples: int, batch_size: Count, replicas: int) -> list[int]:
    """The sizes of the batches that follow the full ones, so that `replicas` devices can share all of them.

    TensorFlow cuts a batch of b samples into pieces of ceil(b / replicas), so that the last replicas may get none; its
    convolution on the CPU fails for an empty batch. Keras fails if the first batch's pieces differ in size. So a full
    batch, or the first one, may pass samples to the next batch. If no sizes fit, a replica gets none in the last batch,
    which Keras counts correctly. `samples` is at least `replicas`, and `batch_size` a multiple.
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


@dataclass(frozen=True)
class _Masked:
    """The output of `sample`, with a mask of the samples that are in `first_pass`, by the first number of their seeds.

    `spread`: whether that output is a tuple, to which the mask is appended.
    """

    sample: Any
    first_pass: int
    spread: bool

    @property
    def image(self) -> Any:
        """The image transform of `sample`; None unless it is an `HostTransform`."""
        return self.sample.image if isinstance(self.sample, HostTransform) else None

    def __call__(self, features: dict[str, tf.Tensor], seed: tf.Tensor) -> tuple[Any, ...]:
        return self._with_mask(self.sample(features, seed), seed[0])

    def finish_batch(self, features: dict[str, Any], seeds: tf.Tensor, images: tf.Tensor) -> tuple[Any, ...]:
        """Return the outputs of a batch, with its mask."""
        return self._with_mask(self.sample.finish_batch(features, seeds, images), seeds[:, 0])

    def _with_mask(self, made: Any, passes: tf.Tensor) -> tuple[Any, ...]:
        mask = tf.equal(passes, self.first_pass)
        return (*made, mask) if self.spread else (made, mask)


@dataclass(frozen=True)
class EvalFeed:
    """Batches of an evaluation: one iteration over `batches` is one pass over the split, in `steps` steps.

    Example:
        feed = distribute_eval(strategy, data["validation"], batch_size=512, image_size=224)
        for images, labels, mask in feed.batches:
            right += strategy.reduce("SUM", strategy.run(count_right, (images, labels, mask)), axis=None)
    """

    batches: Distributed
    steps: int


@checked
def distribute_eval(
    strategy: tf.distribute.Strategy,
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    transform: Transform | None = None,
    label: str | None = LABEL,
    pad: float | None = None,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
) -> EvalFeed:
    """Batches for evaluation in your own loop, for all replicas of a strategy, on one machine or on several.

    With `image_size`, batches are (images uint8 [b, height, width, 3], labels int64 [b], mask bool [b]), each image
    cropped by `resize_center_crop(image_size)`; with `transform` instead, batches are (its outputs, mask). In every
    step each replica has b = `batch_size / replicas` samples, and all replicas have the same number of steps. Over all
    replicas and steps, `mask` is True exactly once for each sample of the split. It is False for repeated samples that
    fill the last step or replace damaged ones: such repeats are real samples, so any model can process them; leave them
    out of every sum. Keras's `evaluate` and `fit` cannot leave samples out of the loss: use `eval_batches` for them.

    Args:
        strategy: a strategy of `tf.distribute`; `tf.distribute.get_strategy()` for one device.
        split: a split of `shardfeed.open(...)`, or a part of one.
        batch_size: samples per step over all replicas, a multiple of the number of replicas.
        image_size: size of the crops in pixels: one side, or (height, width).
        transform: instead of `image_size`, as in `distribute`.
        label, pad: as in `distribute`; with `label=None` batches are (images, mask).
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises when there are too many. None: the
            first damaged record raises.
        workers: as in `train_batches`.

    Raises:
        UsageError: if there are no samples, if the label is missing, if the batch size is not a multiple of the number
            of replicas, if workers have different numbers of replicas, if a value is out of range, or if not exactly
            one of `image_size` and `transform` is given.

    Example:
        feed = distribute_eval(strategy, data["validation"], batch_size=512, image_size=224)
        for images, labels, mask in feed.batches:  # feed.steps of them
            right += strategy.reduce("SUM", strategy.run(count_right, (images, labels, mask)), axis=None)
    """
    split, keys, sample = image_or_transform(
        split, image_size, transform, lambda size: labelled(resize_center_crop(size), label, split.schema), label
    )
    if isinstance(sample, SchemaTransform):  # before wrapping
        keys, sample = sample.bind(split.schema)
    replicas = strategy.num_replicas_in_sync
    check_shared_batch(batch_size, replicas)
    _, stored = order_samples(split, batch_size=batch_size, order="stored", drop_remainder=False)
    assert isinstance(stored, StoredOrder)
    order = replace(stored, epoch_samples=stored.steps_per_epoch * stored.batch_size)
    # Samples that fill the last step are in their second pass or a later one, and the seed depends on the pass.
    first_pass = order.sample_seeds(np.zeros(1, np.int64), np.zeros(1, np.int64))[0, 0]
    at_once = threads(workers)

    def replica_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return assemble_batches(
            split,
            order,
            _Masked(sample, first_pass, spread=transform is None and label is not None),
            start_step=None,
            share=pipeline_share(context, replicas),
            pad=pad,
            keys=keys,
            damaged=damaged,
            evaluates=True,
            parallelism=at_once,
        )

    return EvalFeed(strategy.distribute_datasets_from_function(replica_batches), order.steps_per_epoch)
