"""Batches as NumPy arrays, from the core alone: for JAX, and for any loop without TensorFlow and PyTorch."""

import sys
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np

from shardfeed.annotations import IS_CROWD, OBJECT_AREA, RASTER
from shardfeed.budget import cpu_budget
from shardfeed.declared import Count, Seed, Step, checked
from shardfeed.errors import UsageError, shown
from shardfeed.pipelines.arguments import (
    WHOLE,
    Augment,
    Channels,
    S,
    Size,
    Views,
    check_crop,
    check_image_feature,
    check_shared_batch,
    check_transforms,
    images_and_labels,
    tag_count,
    views_crop,
)
from shardfeed.pipelines.arguments import image_size as checked_size
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import AREA, ASPECT_RATIO, RandomCrop, RandomWindow
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.batch_transforms import BatchTransform, bound_batch_transform, transformed_batch
from shardfeed.pipelines.caching.client import begin_reading, chunk_of, read_ahead_in_order, reads_in_turn
from shardfeed.pipelines.decoding.batch import ReusedMemory
from shardfeed.pipelines.engine import Ahead, BatchMaker, DrawnReader
from shardfeed.pipelines.geometry import see_raster, to_source
from shardfeed.pipelines.objects import decoded_mask, multi_hot, object_keys, raster_keys, see_objects
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.orders.choices import Global, IndexedOrderLike, OrderLike
from shardfeed.pipelines.orders.choose_order import default_order, order_samples
from shardfeed.pipelines.orders.order import DrawnSamples, IndexedOrder, progress
from shardfeed.pipelines.orders.position import Position
from shardfeed.pipelines.ranks import Ranks, RanksLike, even_cuts, ranks_of_environment, ranks_of_jax
from shardfeed.pipelines.samples import Samples, SamplesLike, SplitLike, pixel_dtype
from shardfeed.pipelines.windows import batch_seed
from shardfeed.processes import WorkerCount
from shardfeed.readers.skip import Damaged, Skip
from shardfeed.schema import ENCODED, LABEL, RESTARTS, Schema

_CROP_FRACTION = 0.875
_READY = 2  # batches that wait for their use
TargetName = Literal["boxes", "masks", "keypoints", "raster"]

_LISTS = {"boxes", "labels", "area", "iscrowd", "masks", "keypoints"}  # one array per image, of any length


@checked
def array_batches(
    samples: SamplesLike,
    *,
    batch_size: Count,
    image_size: Size | None = None,
    area: tuple[float, float] | None = None,
    aspect_ratio: tuple[float, float] | None = None,
    flip: bool = True,
    letterbox: bool = False,
    channels: Channels = 3,
    augment: Augment = (),
    views: Views = None,
    seed: Seed = 0,
    order: IndexedOrderLike | None = None,
    label: str | None = LABEL,
    features: Sequence[str] | None = None,
    targets: Collection[TargetName] = (),
    batch_transform: BatchTransform | None = None,
    start_step: Step | None = None,
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
    ranks: RanksLike = None,
) -> "TrainingArrays":
    """Make batches for training as NumPy arrays, by threads ahead of their use. Each iteration is the next epoch.

    Batches are (images uint8 [b, height, width, channels], labels int64 [b]), or a dict with `features` or `targets`. b
    is `batch_size / ranks`. Images stored with 16 bits are uint16. Neither TensorFlow nor PyTorch is needed.

    With the same seed, order and global batch size, each step has the same samples and crop windows on any number of
    ranks, as in `train_batches` and `torch_loader`. Images are not antialiased: pixels equal those of `train_batches`,
    and of `torch_loader` with `random_resized_crop(..., antialias=False)`. At most four batches are in memory besides
    those in use.

    Args:
        samples: a split of `shardfeed.open(...)`, a part of one, or a `mix`.
        batch_size: samples per step on all ranks together, a multiple of the number of ranks.
        image_size: size of the crops in pixels: one side, or (height, width). None: the shape of the batch, with
            `order=Global(shapes=...)`.
        area, aspect_ratio, flip: of the crops, as in `random_resized_crop`. None: as there; if the order has shapes,
            (1, 1), so that crops are centred, and as large as the shape's aspect ratio allows.
        letterbox: whether the whole image is resized to fit and padded with 0, instead of cropped.
        channels: 3, or 1 for gray images, of which then no copies are made; of colours it is their brightness.
        augment: what changes the images after the crop, in turn: values of `shardfeed.pipelines.augment`, or one of its
            `recipes`. The targets follow. The draws are the same in every framework.
        views: instead of the arguments of one crop: of `crop`. Images are then a list with a batch for each view.
        seed: 0 to 2^63 - 1; for the order and for the crops.
        order: "global", "blocks" or "stored", or `Global`, `Blocks` or `Stored` with options. None: "global"; for a
            dataset in a bucket `Blocks(block_bytes=8 << 20)`. "stream" is not supported.
        label: key of a feature with one number per record, or of a "tags" feature (a set of classes), which becomes
            multi-hot: float32 [b, classes]. Samples whose number is missing (NaN) are left out, and a warning counts
            them. None: batches are the images alone, of all samples.
        features: keys of features. Batches are then dicts of "images" and of each of them: an array [b, ...] for
            numbers of a fixed shape, a list of b bytes, or a list of b arrays (or lists of bytes) of any length.
        targets: annotations as the crop shows them, with `features` or without. "boxes" adds lists with an array for
            each image: boxes float32 [k, 4] as xmin, ymin, xmax, ymax in pixels of the crop, labels int64 [k], area
            float32 [k], iscrowd int64 [k], as in `shardfeed.pipelines.torch.detection`; "masks" masks uint8 [k, height,
            width] too, "keypoints" keypoints float32 [k, K, 3] too. With a letterbox, or in an evaluation, scale and
            offset, float32 [b, 2], are for `boxes_to_source`, unless an augmentation moves pixels. "raster" adds
            raster, int32 [b, height, width].
        batch_transform: `mixup()` or `cutmix()` of `shardfeed.pipelines.augment`, or a function of a batch and its seed
            that returns a new batch, and may change the arrays of the batch. It is called in threads, of two batches at
            once. The seed, an int from 0 to 2^63 - 1 for any generator, depends on the epoch and the batch's first
            sample. None: no change.
        start_step: None: each iteration is one epoch. A number: an endless iteration over all epochs, which starts at
            this step, counted from the start of epoch 0.
        damaged: a `Skip`, which leaves out damaged records, counts them, and raises if there are too many; each damaged
            record is replaced by another sample of the batch. None: the first damaged record raises.
        workers: number of threads that decode. None: the number of available CPUs, divided among the ranks of this
            machine.
        ranks: the rank of this process among the processes that share the batches. None: from `jax.distributed` if it
            is initialised, else from the environment variables RANK and WORLD_SIZE, else rank 0 of 1.

    Raises:
        UsageError: if there are no samples or too few for a batch, if the batch size is not a multiple of the number of
            ranks, if a feature, a target or the order is unknown, or if a value is out of range.
        RecordError: while iterating, for a damaged record or an image that cannot be decoded.
        MissingExtraError: while iterating, if OpenCV is not installed and an image is not a JPEG that the compiled
            module decodes.

    Example:
        batches = array_batches(data["train"], batch_size=256, image_size=224, seed=7)
        for epoch in range(3):
            for images, labels in batches:
                loss = model(images / 255, labels)
    """
    if views is None:
        shaped: Any = {"area": area, "aspect_ratio": aspect_ratio, "flip": flip, "letterbox": letterbox}
        crop = _training_crop(image_size, channels, augment, **shaped)
    else:
        shaped = {"image_size": image_size, "area": area, "aspect_ratio": aspect_ratio, "flip": not flip}
        shaped |= {"letterbox": letterbox, "channels": channels == 1, "targets": targets}
        crop = views_crop(views, augment, **shaped)
    chosen_order: OrderLike = default_order(samples, Global()) if order is None else order
    check_transforms(None, batch_transform)
    samples, parts = _parts(samples, crop, label, features, targets)
    others: Any = {"views": views is not None, "features": features is not None, "targets": targets}
    batch_transform = bound_batch_transform(batch_transform, samples.schema, label, **others)
    process = _this_process(ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    arranged, chosen = order_samples(samples, batch_size=batch_size, seed=seed, order=chosen_order)
    assert isinstance(chosen, IndexedOrder)
    check_crop(chosen, crop, samples)
    arranged = read_ahead_in_order(arranged, chosen, part=process.rank, parts=process.ranks, threads=True)
    options: Any = {"damaged": damaged, "workers": workers, "process": process, "start_step": start_step}
    return TrainingArrays(arranged, chosen, crop, parts, batch_transform=batch_transform, **options)


def _training_crop(
    size: Size | None,
    channels: Channels,
    augment: Augment,
    *,
    area: tuple[float, float] | None,
    aspect_ratio: tuple[float, float] | None,
    flip: bool,
    letterbox: bool,
) -> Crop:
    """The crop of one view. Raises UsageError for options of a crop beside a letterbox."""
    target = checked_size(size)
    if letterbox and (area, aspect_ratio, flip) != (None, None, True):
        raise UsageError("letterbox", "area, aspect_ratio and flip are of crops", "leave one of the two out")
    if letterbox:
        return Letterbox(target, 0, channels, tuple(augment))
    usual = WHOLE if size is None else {"area": AREA, "aspect_ratio": ASPECT_RATIO}
    window = RandomWindow(area or usual["area"], aspect_ratio or usual["aspect_ratio"])
    return RandomCrop(target, window, flip, channels, tuple(augment))


@checked
def crop(
    size: Size,
    *,
    area: tuple[float, float] = AREA,
    aspect_ratio: tuple[float, float] = ASPECT_RATIO,
    flip: bool = True,
    channels: Channels = 3,
    augment: Augment = (),
) -> RandomCrop:
    """Make one of the `views` of `array_batches`, `torch_loader` and `train_batches`.

    Arguments are as in `random_resized_crop`; each view draws its own augmentations. Raises UsageError as that does.

    Example:
        views = [crop(224, area=(0.4, 1.0)), crop(224, area=(0.4, 1.0)), crop(96, area=(0.05, 0.4))]
        for (first, second, small), labels in array_batches(data["train"], batch_size=256, views=views):
            loss = model(first / 255, second / 255, small / 255)
    """
    window = RandomWindow(area, aspect_ratio)
    return RandomCrop(checked_size(size), window, flip, channels, tuple(augment))


@checked
def eval_array_batches(
    split: SplitLike,
    *,
    batch_size: Count,
    image_size: Size,
    crop_fraction: float = _CROP_FRACTION,
    letterbox: bool = False,
    channels: Channels = 3,
    label: str | None = LABEL,
    features: Sequence[str] | None = None,
    targets: Collection[TargetName] = (),
    damaged: Damaged = None,
    workers: WorkerCount | None = None,
    ranks: RanksLike = None,
) -> "ArrayBatches":
    """Make batches for evaluation or prediction as NumPy arrays: every sample exactly once, in stored order.

    Batches are as in `array_batches`, each image cropped as by `resize_center_crop`, and shown as it is: there is no
    `augment`. Each iteration is the same. One rank gets batches of `batch_size`, and a smaller last one. Each of
    several ranks gets a consecutive part of the split, in the same number of batches; none is empty. Add up sums and
    counts over the ranks, not means.

    Args:
        split: a split of `shardfeed.open(...)`, or a part of one.
        crop_fraction: share of the shorter side that is cropped at the centre.
        damaged: a `Skip`, which leaves out damaged records; a batch without any intact record is left out too, or
            raises IntegrityError with several ranks, which must have the same number of steps.
        batch_size, image_size, letterbox, channels, label, features, targets, workers, ranks: as in `array_batches`.

    Raises:
        UsageError: as in `array_batches`, but for fewer samples than ranks instead of than a batch.
        RecordError, MissingExtraError: as in `array_batches`.

    Example:
        right = 0
        for images, labels in eval_array_batches(data["validation"], batch_size=256, image_size=224):
            right += (predict(images / 255).argmax(1) == labels).sum()

        # Without labels, each image with its file name:
        for batch in eval_array_batches(data["test"], batch_size=256, image_size=224, features=["image/filename"]):
            rows += zip(batch["image/filename"], predict(batch["images"] / 255).argmax(1))
    """
    size = checked_size(image_size)
    crop = Letterbox(size, 0, channels) if letterbox else CenterCrop(size, crop_fraction, channels)
    if letterbox and crop_fraction != _CROP_FRACTION:
        raise UsageError("letterbox", "crop_fraction is of a centre crop", "leave one of the two out")
    split, parts = _parts(split, crop, label, features, targets)
    process = _this_process(ranks)
    check_shared_batch(batch_size, process.ranks, "ranks")
    _, stored = order_samples(split, batch_size=batch_size, order="stored", drop_remainder=False)
    assert isinstance(stored, IndexedOrder)
    even_cuts(len(split), batch_size, process.rank, process.ranks)  # refuses fewer samples than ranks
    samples = read_ahead_in_order(split, stored, threads=process.ranks == 1)
    return ArrayBatches(samples, stored, crop, parts, damaged=damaged, workers=workers, process=process)


class ArrayBatches(OneWay, Iterable[Any]):
    """Batches of an evaluation; each iteration is the same. `len`: the batches of an iteration.

    An iteration's threads end after its last batch, when it is left, after an error, when another one begins, with
    `close`, and at the end of `with`. Created by `eval_array_batches`.

    Example:
        with eval_array_batches(data["validation"], batch_size=256, image_size=224) as batches:
            images, labels = next(iter(batches))
    """

    _fill = False  # whether damaged samples are replaced

    def __init__(
        self,
        samples: Samples,
        order: IndexedOrder,
        crop: Crop,
        parts: "_Parts",
        *,
        damaged: Skip | None,
        workers: int | None,
        process: Ranks,
        batch_transform: BatchTransform | None = None,
    ) -> None:
        threads = max(1, cpu_budget() // process.ranks_on_this_machine) if workers is None else workers
        empty = not self._fill and process.ranks == 1
        self.order = order
        self._read = DrawnReader(samples, order, fill=self._fill, may_be_empty=empty)
        self._note = None if damaged is None else damaged.note
        self._samples, self._parts, self._process = samples, parts, process
        self._transform = batch_transform
        # The memory is for all iterations: each would take some of its own.
        options: Any = {"threads": threads, "allocate": ReusedMemory(), "dtype": pixel_dtype(samples)}
        self._make_maker = partial(BatchMaker[Any], samples, crop, parts.needed, parts.finish, **options)
        self._running: weakref.ref[Ahead[Any]] | None = None

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def __iter__(self) -> Iterator[Any]:
        """Start an iteration. An earlier one can then no longer continue (UsageError)."""
        return self.rest_of_epoch(0)

    def __enter__(self) -> "ArrayBatches":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads of an iteration; batches already returned stay valid. A new iteration starts new ones."""
        if self._running is not None and (running := self._running()) is not None:
            running.close()

    @property
    def step(self) -> int:
        """The step at which the next iteration begins: 0."""
        return 0

    @checked
    def rest_of_epoch(self, step: Step) -> Iterator[Any]:
        """The batches from `step` to the end of its epoch, which do not count. It ends an earlier iteration."""
        return self._ahead(range(step, (step // len(self) + 1) * len(self)))

    @cached_property
    def _cuts(self) -> list[int]:
        return even_cuts(self.order.samples, self.order.batch_size, self._process.rank, self._process.ranks)

    def _drawn(self, step: int) -> tuple[DrawnSamples, int | None]:
        """The samples of a step, and the chunk of the order in which they are read."""
        place = step % len(self)  # all epochs are alike
        indices = np.arange(*self._cuts[place : place + 2])
        return DrawnSamples(indices, np.zeros_like(indices)), step if self._process.ranks == 1 else None

    def _ahead(self, steps: range) -> Ahead[Any]:
        self.close()
        maker = self._make_maker()
        if steps:
            begin_reading(self._samples, chunk_of(self.order, steps[0]))
        drawn, read, note = self._drawn, self._read, self._note
        collate, transform = self._parts.collate, self._transform

        def make(step: int) -> Any:
            records = read(*drawn(step), note)
            if not records.payloads:
                return None
            batch = collate(*maker(records))
            if transform is None:
                return batch
            return transformed_batch(transform, batch, batch_seed(records.seeds), lambda: f"the batch of step {step}")

        ahead = Ahead(make, steps, maker.close, _READY, in_turn=reads_in_turn(self._samples, self.order))
        self._running = weakref.ref(ahead)
        return ahead


class TrainingArrays(ArrayBatches):
    """Batches for training: each iteration is the next epoch, or has no end with a `start_step`.

    `order` determines the samples of each step. `step`: number of batches returned so far, over all epochs. If you
    leave an iteration early, after at least one batch, it counts as an epoch: the next iteration starts a new one.
    `len`: the batches of an epoch. Created by `array_batches`.

    Example:
        batches = array_batches(data["train"], batch_size=256, image_size=224)
        if (saved := Position.load("position.json")) is not None:
            batches.seek(saved)
        for images, labels in batches:
            batches.position.save("position.json")
    """

    _fill = True

    def __init__(self, *given: Any, start_step: int | None, **options: Any) -> None:
        super().__init__(*given, **options)
        self.endless = start_step is not None
        self._step = start_step or 0
        self._begun: int | None = None  # the epoch of the last batch, unless `seek` was called since

    def __repr__(self) -> str:
        return f"TrainingArrays({self._samples.name!r}, {progress(self.order, self.step, endless=self.endless)})"

    def __len__(self) -> int:
        return self.order.steps_per_epoch

    @property
    def step(self) -> int:
        """Number of batches returned so far, over all epochs; you may set it, as `seek` does.

        Setting it raises UsageError for anything but an integer from 0 to 2^63 - 1.
        """
        return self._step

    @step.setter
    @checked
    def step(self, step: Step) -> None:
        self._step = step

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return self.step // len(self)

    @property
    def position(self) -> Position:
        """The position after the last batch that was returned; the same on all ranks, and for any number of them."""
        return Position(self.step, self.order)

    @checked
    def seek(self, position: Position) -> None:
        """Continue after `position`: the next iteration gives the epoch's remaining batches.

        Raises OrderMismatchError for a position of a different dataset, seed, batch size or order.
        """
        position.check(self.order)
        self.close()
        self.step, self._begun = position.step, None

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. An earlier iteration can then no longer continue (UsageError)."""
        if self._begun == self.epoch and not self.endless:
            self.step = (self.epoch + 1) * len(self)
        end = sys.maxsize if self.endless else (self.epoch + 1) * len(self)
        # Not a generator, which would keep a batch while the next one is made.
        return map(partial(self._count, self.epoch), self._ahead(range(self.step, end)))

    def _count(self, epoch: int, batch: Any) -> Any:
        self._begun = epoch
        self._step += 1
        return batch

    def _drawn(self, step: int) -> tuple[DrawnSamples, int | None]:
        return self.order.drawn(step, self._process.rank, self._process.ranks), chunk_of(self.order, step)


class _Parts:
    """The parts of a batch beside its images: see `array_batches`.

    `features`: None for (images, labels), or if `label` is None the images alone; else batches are dicts.
    """

    def __init__(
        self,
        schema: Schema,
        crop: Crop,
        label: str | None,
        features: Sequence[str] | None,
        targets: Collection[TargetName],
    ) -> None:
        check_image_feature(schema)
        self._crop, self._label, self._targets = crop, label, frozenset(targets)
        self._dicts = features is not None
        self._classes = None if label is None else tag_count(schema, label)
        asked = features or [] if label is None else [label]
        self._keys = {key: schema.key(key) for key in asked}
        for key, known in self._keys.items():
            if known is None or known in (schema.key(ENCODED), RESTARTS):
                problem = f"got {shown(key)}, expected features beside the image"
                raise UsageError("features", problem, f"there is {', '.join(map(repr, sorted(schema.features)))}")
        self._schema = schema
        needed = [*self._keys.values(), *self._needed_by_targets(schema, crop)]
        self.needed = {known for key in needed if key is not None and (known := schema.key(key)) is not None}

    def _needed_by_targets(self, schema: Schema, crop: Crop) -> list[str]:
        """The features that the targets need. Raises UsageError for unknown targets, and for those it has none of."""
        if unknown := sorted(self._targets - set(get_args(TargetName))):
            raise UsageError("targets", f"got {unknown[0]!r}, expected some of {', '.join(get_args(TargetName))}")
        needed: list[str] = []
        self._keypoints, self._void = None, None
        if self._targets - {"raster"}:
            masks, keypoints = "masks" in self._targets, "keypoints" in self._targets
            asked: Any = {"masks": masks, "keypoints": keypoints, "mirrors": crop.swaps_sides, "place": "targets"}
            needed, self._keypoints = object_keys(schema, OBJECT_AREA, IS_CROWD, **asked)
        if "raster" in self._targets:
            more, self._void = raster_keys(schema, None, crop, place="targets")
            needed += more
        return needed

    def finish(self, record: dict[str, Any], _: np.ndarray, view: View) -> dict[str, Any]:
        """The parts of a record with what is `needed`."""
        found = {asked: record[key] for asked, key in self._keys.items() if key is not None}
        if self._label is not None and self._classes is not None:
            found[self._label] = multi_hot(found[self._label], self._classes)
        if self._targets - {"raster"}:
            found |= see_objects(record, view, masks="masks" in self._targets, keypoints=self._keypoints)
            if self._crop.goes_back:
                found["scale"], found["offset"] = to_source(view)
        if "raster" in self._targets:
            found["raster"] = see_raster(decoded_mask(record[RASTER], view), view, self._void).astype(np.int32)
        return found

    def collate(self, images: np.ndarray, records: list[dict[str, Any]]) -> Any:
        """The batch."""
        batch: dict[str, Any] = {}
        for name in records[0]:
            values = [record[name] for record in records]
            feature = self._schema.features.get(self._keys.get(name) or "")
            lists = name in _LISTS if feature is None else feature.ragged or feature.dtype == "bytes"
            if name == self._label:
                return images, np.array(values, np.float32 if self._classes or feature is None else feature.dtype)
            batch[name] = values if lists else np.array(values, None if feature is None else feature.dtype)
        return {"images": images} | batch if self._dicts else images


def _parts(
    samples: S, crop: Crop, label: str | None, features: Sequence[str] | None, targets: Collection[TargetName]
) -> tuple[S, _Parts]:
    """Return the samples, without those that have no label if labels are wanted, and the parts of a batch."""
    if features is not None or len(targets):
        if label not in (LABEL, None):
            remedy = f"add {label!r} to features, or leave features and targets out"
            raise UsageError("label", "is for batches of (images, labels), and these are dicts", remedy)
        return samples, _Parts(samples.schema, crop, None, features or (), targets)
    samples, _ = images_and_labels(samples, label)
    return samples, _Parts(samples.schema, crop, label, None, ())


def _this_process(ranks: Ranks | None) -> Ranks:
    return ranks or ranks_of_jax() or ranks_of_environment()
