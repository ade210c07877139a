"""Batches for PyTorch, in one process or in many: the same samples at the same step as for TensorFlow.

`torch_loader` gives a DataLoader: its batch sampler is a shardfeed order, its dataset reads a whole batch and decodes
it in a worker, and its state is the order and a step. Nothing here imports TensorFlow.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from shardfeed.declared import Count, Seed, Step, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import (
    WHOLE,
    Augment,
    S,
    Size,
    Views,
    check_shared_batch,
    check_size,
    check_transforms,
    images_and_labels,
    views_crop,
    with_augment,
)
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.batch_transforms import BatchTransform, bound_batch_transform
from shardfeed.pipelines.caching.client import read_ahead_in_order
from shardfeed.pipelines.decoding.batch import UINT8, Decode
from shardfeed.pipelines.engine import DrawnReader
from shardfeed.pipelines.objects import SchemaTransform
from shardfeed.pipelines.orders.choices import Global, IndexedOrderLike, OrderLike, gives_sizes
from shardfeed.pipelines.orders.choose_order import default_order, order_samples
from shardfeed.pipelines.orders.order import IndexedOrder, StoredOrder
from shardfeed.pipelines.orders.shapes import ShapeOrder
from shardfeed.pipelines.ranks import Ranks, RanksLike
from shardfeed.pipelines.samples import Samples, SamplesLike, SplitLike, pixel_dtype
from shardfeed.pipelines.torch.collate import Collate, CollateFunction, TransformedBatches
from shardfeed.pipelines.torch.encoded import check_decode
from shardfeed.pipelines.torch.images import (
    GeometricTransform,
    ImageAndLabel,
    ImageFunction,
    ImageTransformed,
    check_image_transform,
    check_transform,
    random_resized_crop,
    resize_center_crop,
    written_in,
)
from shardfeed.pipelines.torch.labels import Label
from shardfeed.pipelines.torch.loading import SampleLoader, TorchLoader
from shardfeed.pipelines.torch.samples import TorchSamples, Transform, ViewTransform, runs_no_python
from shardfeed.pipelines.torch.steps import EvenSteps, Steps, this_process
from shardfeed.pipelines.torch.workers import LoaderWorkers, WorkerPlan, Workers, plan_workers
from shardfeed.readers.skip import Damaged, Skip
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, LABEL


@checked
def torch_loader(
    samples: SamplesLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    transform: Transform | None = None,
    image_transform: ImageFunction | None = None,
    augment: Augment = (),
    views: Views = None,
    seed: Seed = 0,
    order: IndexedOrderLike | None = None,
    label: str | None = LABEL,
    start_step: Step | None = None,
    pad: float | None = None,
    collate_fn: CollateFunction | None = None,
    batch_transform: BatchTransform | None = None,
    damaged: Damaged = None,
    workers: LoaderWorkers | Workers | None = None,
    ranks: RanksLike = None,
    decode: Decode = "cpu",
) -> TorchLoader:
    """Create a DataLoader of training batches. Each iteration is the next epoch.

    With `image_size`, batches are (images uint8 [b, 3, height, width] in the channels-last memory format, labels int64
    [b]), each image cropped by `random_resized_crop(image_size)`. With `image_transform`, they are also (images,
    labels); the images come from a crop with options, or from a transform of torchvision or albumentations. With
    `transform`, batches hold its outputs. b is `batch_size / ranks`.

    With the same `seed`, order and global batch size, iteration i has the same samples and crop windows on any number
    of ranks. TensorFlow's `train_batches` gives the same samples and crop windows in iteration i. An endless iteration
    starts epoch i at step i * steps_per_epoch. Pixels differ from TensorFlow's, where crops are not antialiased by
    default. For saving and resuming, see `TorchLoader`.

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        batch_size: samples per step on all ranks together, a multiple of the number of ranks.
        image_size: size of the crops in pixels: one side, or (height, width). With `order=Global(shapes=...)`, which
            gives each batch its own size, leave it out: crops are then centred, and as large as its aspect ratio
            allows.
        transform: instead of `image_size`, called in a worker as `transform(record, seed)`. `record` is a dict like
            `split[i]`, `seed` is the sample's own seed in this epoch, an int from 0 to 2^63 - 1, for any generator.
            `transform` must be picklable if workers are spawned. `detection(...)` and `segmentation(...)` are such
            transforms.
        image_transform: instead of `image_size`: `random_resized_crop(...)` with options, or an image transform of
            torchvision or albumentations. It gets its usual input: an RGB Pillow image, as from torchvision's
            `ImageFolder`; for albumentations `image=` with a uint8 array [height, width, 3]. Its random draws depend
            only on the sample's own seed, so that a resumed run is exact. It must be picklable if workers are spawned.
        augment: what changes the images after the crop, in turn: values of `shardfeed.pipelines.augment`, or one of its
            `recipes`. With `image_size`, or with a crop, `detection` or `segmentation` of this package, whose targets
            follow; other transforms have their own. The draws are the same in every framework.
        views: instead of `image_size`: of `shardfeed.pipelines.crop`. Images are then a list with a batch for each
            view.
        seed: 0 to 2^63 - 1; for the order and for the crops.
        order: "global", "blocks" or "stored", or `Global`, `Blocks` or `Stored` with options. None: "global"; for a
            dataset in a bucket `Blocks(block_bytes=8 << 20)`. "stream" is not supported.
        label: with `image_size` and `image_transform`: key of a feature with one number per record, or of a "tags"
            feature (a set of classes), which becomes multi-hot: float32 [b, classes]. Samples whose number is missing
            (NaN) are left out, and a warning counts them. None: batches are the images alone, of all samples.
        start_step: None: each iteration is one epoch. A number: one endless iteration over all epochs, without a pause
            between them, which starts at this step, counted from the start of epoch 0.
        pad: the value used to pad tensors of varying shape, at their end, to the longest one in the batch. None: shapes
            do not vary.
        collate_fn: a function that makes a batch, instead of `Collate(pad)`; called in a worker with the list of
            transformed samples. Its draws from PyTorch's generator, `random` or NumPy (for example in MixUp) depend
            only on the batch's first sample and the epoch.
        batch_transform: `mixup()` or `cutmix()` of `shardfeed.pipelines.augment`, or a function of a batch and its seed
            that returns a new batch, and may change the tensors of the batch. It is called where the batch is made: in
            threads, of two batches at once, unless another function of yours needs processes. The seed, an int from 0
            to 2^63 - 1, for example for `torch.Generator().manual_seed(seed)`, depends on the epoch and the batch's
            first sample. With decode="cuda" give it to `to_device`. None: no change.
        damaged: a `Skip`, which leaves out damaged records, counts them over all workers, and raises if there are too
            many; each damaged record is replaced by another sample of the batch. None: the first damaged record raises.
        workers: number of threads that decode, or of processes if a function of yours runs for each sample or batch; 0
            for none; or `Workers` with options. None: the number of available CPUs, divided among the ranks of this
            machine.
        ranks: the rank of this process among the processes that share the batches. None: from torch.distributed if it
            is initialised, else from torchrun's environment variables, else rank 0 of 1.
        decode: where images become pixels. "cpu": here. "cuda": on the GPU that a batch goes to, for which batches hold
            `EncodedImages` instead of images; `to_device` decodes them ahead. That is for `image_size`, our antialiased
            crops, `detection` and `segmentation`, and needs the packages of `shardfeed[gpu]`. "like_cuda": the same
            pixels here; they differ slightly from those of "cpu" (docs/gpu-decoding.md).

    Raises:
        UsageError: if there are no samples or too few for a batch, if the batch size is not a multiple of the number of
            ranks, if the label or the order is unknown, if a value is out of range, or if not exactly one of
            `image_size`, `transform` and `image_transform` is given. While iterating: if a later iteration has started
            meanwhile, or if the rank of this process has changed.
        MissingExtraError: with `decode="cuda"`, if TorchCodec or Triton cannot be imported.
        RecordError: while iterating, for a damaged record.
        StorageError: while iterating, if /dev/shm has no room for the prefetched batches, before they are written.

    Example:
        data = shardfeed.open("flowers")
        loader = torch_loader(data["train"], batch_size=256, image_size=224, seed=7)
        for epoch in range(3):
            for images, labels in loader:
                loss = criterion(model(images.cuda() / 255), labels.cuda())
    """
    chosen_order: OrderLike = default_order(samples, Global()) if order is None else order
    if views is not None:
        given = {"image_size": image_size, "transform": transform, "image_transform": image_transform}
        image_transform = GeometricTransform(views_crop(views, augment, **given))
    elif gives_sizes(chosen_order) and [image_size, transform, image_transform].count(None) == 3:
        image_transform = random_resized_crop(**WHOLE, augment=augment)
    else:
        transform = with_augment("transform", transform, augment)
        image_transform = with_augment("image_transform", image_transform, augment)
    usual_crop = partial(random_resized_crop, augment=augment)
    samples, keys, made = _prepared(samples, image_size, transform, image_transform, usual_crop, label)
    dtype = _pixels(decode, samples, made, collate_fn)
    if keys is not None and transform is None:
        batch_transform = bound_batch_transform(batch_transform, samples.schema, label, views=views is not None)
    batches = _batches(batch_transform, collate_fn, pad, decode)
    process = this_process(ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    arranged, chosen = order_samples(samples, batch_size=batch_size, seed=seed, order=chosen_order)
    assert isinstance(chosen, IndexedOrder)
    _check_size(chosen, made, decode, dtype)
    plan = _plan(workers, dtype, chosen, made, collate_fn, decode, process)
    share: Any = {"part": process.rank, "parts": process.ranks, "threads": not plan.count}
    read = DrawnReader(read_ahead_in_order(arranged, chosen, **share), chosen)
    options: Any = {"dtype": dtype, "keys": keys, "threads": plan.threads, "decode": decode, "batches": batches}
    return TorchLoader(
        TorchSamples(read, made, again=True, skip=damaged is not None, **options),
        Steps(chosen, rank=process.rank, ranks=process.ranks, start_step=start_step),
        pad=pad,
        collate_fn=collate_fn,
        damaged=damaged,
        workers=plan,
        process=process,
        given_ranks=ranks is not None,
    )


@checked
def torch_eval_loader(
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    transform: Transform | None = None,
    image_transform: ImageFunction | None = None,
    label: str | None = LABEL,
    pad: float | None = None,
    collate_fn: CollateFunction | None = None,
    damaged: Damaged = None,
    workers: LoaderWorkers | Workers | None = None,
    ranks: RanksLike = None,
    decode: Decode = "cpu",
) -> SampleLoader:
    """Create a DataLoader for evaluation: every sample exactly once, in stored order, over all ranks.

    With `image_size`, batches are (images uint8 [b, 3, height, width] in the channels-last memory format, labels int64
    [b]), each image cropped by `resize_center_crop(image_size)`. With `image_transform`, they are also (images,
    labels); the images come from a crop with options, or from a transform of torchvision or albumentations. With
    `transform`, batches hold its outputs.

    A single rank gets batches of `batch_size`, and a smaller last batch. With several ranks, each gets a consecutive
    part of the split, in batches of about `batch_size / ranks` samples. No batch is empty. All ranks have the same
    number of steps: a model under DDP would wait for a rank with fewer steps. Add up sums and counts over the ranks,
    not means.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        batch_size: samples per step on all ranks together, a multiple of the number of ranks.
        image_size: size of the crops in pixels: one side, or (height, width).
        transform: as in `torch_loader`; a sample's seed is the same in each iteration.
        image_transform: instead of `image_size`: `resize_center_crop(...)` or `letterbox(...)` with options, or an
            image transform of torchvision or albumentations, called as in `torch_loader`. There is no `augment`, as
            evaluation shows images as they are; a crop that has some draws the same ones in each iteration.
        damaged: a `Skip`, which leaves out damaged records, counts them over all workers, and raises if there are too
            many. A batch without any intact record is left out too; with several ranks, which must have the same number
            of steps, such a batch raises IntegrityError. None: the first damaged record raises.
        label, pad, collate_fn, workers, ranks, decode: as in `torch_loader`.

    Raises:
        UsageError: if there are no samples or fewer samples than ranks, if the batch size is not a multiple of the
            number of ranks, if the label is unknown, if a value is out of range, or if not exactly one of `image_size`,
            `transform` and `image_transform` is given. While iterating: if a later iteration has started meanwhile, or
            if the rank of this process has changed.
        RecordError, StorageError: as in `torch_loader`.

    Example:
        right = 0
        for images, labels in torch_eval_loader(data["validation"], batch_size=256, image_size=224):
            right += (model(images.cuda() / 255).argmax(1) == labels.cuda()).sum().item()
    """
    split, keys, made = _prepared(split, image_size, transform, image_transform, resize_center_crop, label)
    return _every_sample(split, keys, made, batch_size, pad, collate_fn, damaged, workers, ranks, decode)


@checked
def torch_predict_loader(
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    image_transform: ImageFunction | None = None,
    key: str | None = FILENAME,
    damaged: Damaged = None,
    workers: LoaderWorkers | Workers | None = None,
    ranks: RanksLike = None,
    decode: Decode = "cpu",
) -> SampleLoader:
    """Batches for prediction: every sample exactly once, in stored order, with its file name. No label is needed.

    Batches are (images uint8 [b, 3, height, width], names). Images, batches and the shares of the ranks are the same as
    in `torch_eval_loader`; names are a list of bytes. Each sample is on exactly one rank, and its name identifies its
    prediction: gather the rows of all ranks with `torch.distributed.all_gather_object`, or write one file per rank.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        batch_size: samples per step on all ranks together, a multiple of the number of ranks.
        image_size: size of the crops in pixels: one side, or (height, width).
        image_transform: instead of `image_size`, as in `torch_eval_loader`.
        key: key of a feature with one value per record, or of a "tags" feature, to return instead of the file name.
            None: batches are the images alone.
        damaged: as in `torch_eval_loader`.
        workers, ranks, decode: as in `torch_loader`.

    Raises:
        UsageError: as in `torch_eval_loader`.
        RecordError, StorageError: as in `torch_loader`.

    Example:
        rows = []
        for images, names in torch_predict_loader(data["test"], batch_size=256, image_size=224):
            classes = model(images.cuda() / 255).argmax(1).tolist()
            rows += [(name.decode(), data.class_names[k]) for name, k in zip(names, classes)]
    """
    split, keys, made = _prepared(split, image_size, None, image_transform, resize_center_crop, key, texts=True)
    return _every_sample(split, keys, made, batch_size, None, None, damaged, workers, ranks, decode)


def _every_sample(
    split: Split,
    keys: list[str] | None,
    made: Transform,
    batch_size: Count,
    pad: float | None,
    collate_fn: CollateFunction | None,
    damaged: Skip | None,
    workers: int | Workers | None,
    ranks: Ranks | None,
    decode: Decode,
) -> SampleLoader:
    """A loader of the samples after the transform `made`."""
    dtype = _pixels(decode, split, made, collate_fn)
    process = this_process(ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    _, stored = order_samples(split, batch_size=batch_size, order="stored", drop_remainder=False)
    assert isinstance(stored, StoredOrder)
    _check_size(stored, made, decode, dtype)
    plan = _plan(workers, dtype, stored, made, collate_fn, decode, process)
    alone = process.ranks == 1
    samples = read_ahead_in_order(split, stored, threads=alone and not plan.count)
    read = DrawnReader(samples, stored, fill=False, may_be_empty=alone)
    options: Any = {"dtype": dtype, "keys": keys, "threads": plan.threads, "decode": decode}
    return SampleLoader(
        TorchSamples(read, made, again=False, skip=damaged is not None, **options),
        EvenSteps(stored, rank=process.rank, ranks=process.ranks),
        pad=pad,
        collate_fn=collate_fn,
        damaged=damaged,
        workers=plan,
        process=process,
        given_ranks=ranks is not None,
    )


def _prepared(
    samples: S,
    size: Size | None,
    transform: Transform | None,
    image_transform: ImageFunction | None,
    crop: Callable[[Size], GeometricTransform],
    label: str | None,
    *,
    texts: bool = False,
) -> tuple[S, list[str] | None, Transform]:
    """Return the samples, the features to parse (None: all) and the transform: the only one of three that is given.

    `label`: None for images alone. With `texts`, it may be bytes, and samples without a number are kept.
    """
    if [size, transform, image_transform].count(None) != 2:
        expected = "image_size, image_transform" if texts else "image_size, transform, image_transform"
        raise UsageError(expected, "expected exactly one of them")
    schema = samples.schema
    if transform is not None:
        check_transform(transform)
        keys, transform = transform.bind(schema) if isinstance(transform, SchemaTransform) else (None, transform)
        return samples, keys, transform
    if image_transform is not None and not isinstance(image_transform, GeometricTransform):
        check_image_transform(image_transform)  # first: one with boxes tells more than that there is no label
    samples, keys = images_and_labels(samples, label, texts=texts)
    number = None if label is None else Label.of(schema, label)
    return samples, keys, _with_label(image_transform or crop(size), number)  # type: ignore[arg-type]  # one is given


def _with_label(image: GeometricTransform | Callable[..., Any], label: Label | None) -> Transform:
    """Make the transform to (image, label), or to the image alone.

    Raises UsageError for a crop of ours with a call of its own, which the engine would not make.
    """
    if not isinstance(image, GeometricTransform):
        return ImageTransformed(image, label)
    if not runs_no_python(image):
        problem = f"got {type(image).__name__}, which has a call of its own"
        raise UsageError("image_transform", problem, "call it in a function of a record and a seed: transform=")
    return image if label is None else ImageAndLabel(image, label)


def _pixels(decode: Decode, samples: Samples, transform: Transform, collate_fn: Any) -> np.dtype:
    """Return the dtype of the images' pixels; uint8 if the transform decodes them itself.

    Raises UsageError unless the engine alone makes the images where `decode` says, or if they cannot be one batch.
    """
    check_decode(decode)
    ours = transform if isinstance(transform, ViewTransform) and runs_no_python(transform) else None
    dtype = pixel_dtype(samples) if ours is not None or isinstance(transform, ImageTransformed) else UINT8
    _check_foreign_pixels(transform, dtype)
    obstacle = None if decode == "cpu" else _obstacle(ours, dtype, collate_fn)
    if obstacle is not None:
        raise UsageError("decode", f"got {decode!r} and {obstacle.got}", obstacle.remedy)
    return dtype


def _check_foreign_pixels(transform: Transform, dtype: np.dtype) -> None:
    """Raise UsageError if images of 16 bits go to a transform that gets them from Pillow."""
    foreign = isinstance(transform, ImageTransformed) and transform.image_transform
    if dtype == np.uint16 and foreign and not written_in(foreign, "albumentations"):
        problem = "it gets images of Pillow, which has no colours of 16 bits"
        remedy = "give one of our crops, or call it in a function of a record and a seed: transform="
        raise UsageError("image_transform", problem, remedy)


class _Obstacle(NamedTuple):
    """A reason why a GPU cannot decode for a loader, and how to do without."""

    got: str
    remedy: str


def _obstacle(transform: ViewTransform[Any] | None, dtype: np.dtype, collate_fn: Any) -> _Obstacle | None:
    """The first reason why images are not those of a GPU. `transform`: None for one that is not ours alone."""
    remedy = "call functions of yours with the batch on the GPU (docs/gpu-decoding.md)"
    if collate_fn is not None:
        return _Obstacle("a collate_fn, which gets decoded images", remedy)
    if transform is None:
        ours = f"give image_size=, or our crop, detection or segmentation, and {remedy}"
        return _Obstacle("a transform of yours, which gets decoded images", ours)
    if transform.image.shrink is None:
        return _Obstacle("antialias=False", "leave it out: the GPU resizes with antialiasing")
    if dtype == np.uint16 or transform.image.crop.channels == 1 or transform.image.crop.several:
        return _Obstacle("images of 16 bits, channels=1 or views", "leave decode out: the GPU makes RGB of 8 bits")
    return None


def _batches(
    batch_transform: BatchTransform | None,
    collate_fn: Any,
    pad: float | None,
    decode: Decode,
) -> TransformedBatches | None:
    """The maker of batches with a batch transform; None without one.

    Raises UsageError together with a `collate_fn`, or where images are not decoded yet.
    """
    check_transforms(None, batch_transform)
    if batch_transform is None:
        return None
    if collate_fn is not None:
        raise UsageError("batch_transform", "got a collate_fn, too, which makes the batch", "call it in the collate_fn")
    if decode == "cuda":
        remedy = "give it to to_device(loader, device, batch_transform=...)"
        raise UsageError("batch_transform", 'got decode="cuda", with which images are decoded later', remedy)
    return TransformedBatches(Collate(pad), batch_transform)


def _check_size(order: IndexedOrder, transform: Transform, decode: Decode, dtype: np.dtype) -> None:
    """Raise UsageError unless exactly one, the order or the transform's crop, says how large images become.

    Also if its augmentations are not defined for pixels of this dtype.
    """
    if isinstance(transform, ViewTransform) and isinstance(transform.image, GeometricTransform):
        check_size(order, transform.image.crop)
        transform.image.crop.check_pixels(dtype)
    if isinstance(order, ShapeOrder):
        shown = "and order=Global(shapes=...), which gives each batch its own size"
        if isinstance(transform, ImageTransformed):
            remedy = "call it in a function of a record and a seed, transform=, which finds the size in seed.shape"
            raise UsageError("image_transform", f"got {type(transform.image_transform).__name__} {shown}", remedy)
        if decode != "cpu":
            raise UsageError("decode", f"got {decode!r} {shown}", "leave it out")


def _plan(
    workers: int | Workers | None,
    dtype: np.dtype,
    order: IndexedOrder,
    transform: Transform,
    collate_fn: Any,
    decode: Decode,
    process: Ranks,
) -> WorkerPlan:
    """Plan the workers for this rank's part of a batch of images, if their size is known."""
    ours, size = runs_no_python(transform), 0
    if isinstance(transform, ViewTransform) and ours and decode != "cuda":  # whose batches hold encoded images
        images = -(-min(order.batch_size, order.samples) // process.ranks)
        size = images * _image_bytes(transform.image.crop, order, dtype)
    return plan_workers(workers, size, process.ranks_on_this_machine, threads=ours and collate_fn is None)


def _image_bytes(crop: Crop, order: IndexedOrder, dtype: np.dtype) -> int:
    """Bytes that all views of an image take in a batch, of the order's largest shape if it has shapes."""
    shapes = order.used() if isinstance(order, ShapeOrder) else [None]
    sizes = (sum(part.channels * math.prod(part.target) for part in crop.at(shape).parts) for shape in shapes)
    return max(sizes) * dtype.itemsize
