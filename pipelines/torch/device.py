"""Copies of batches to a device, ahead of their use: from pinned memory, on a separate stream, normalised there.

On a GPU everything is queued, and nothing waits: the copy and the arithmetic of batch n + 1 run at the same time as the
step on batch n, on another stream. This needs no thread: while this process waits for the next batch of the loader, the
device runs the step that was queued before. Batches of encoded images have one, since their decoder waits.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch

from shardfeed.declared import Epoch, Natural, Positive, checked
from shardfeed.errors import UsageError, shown
from shardfeed.foreign import noted
from shardfeed.pipelines.arguments import Augment, check_function, check_transforms
from shardfeed.pipelines.augment.augmentation import Augmentation, drawn_edits, joined_effect
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.batch_transforms import BatchTransform, bound_batch_transform, transformed_batch
from shardfeed.pipelines.decoding.packed import MOST_DECODED
from shardfeed.pipelines.nests import leaves, map_leaves
from shardfeed.pipelines.one_way import OneWay
from shardfeed.pipelines.orders.arithmetic import hashed
from shardfeed.pipelines.torch.collate import pinned, seeded, writable
from shardfeed.pipelines.torch.edits import edit_batch
from shardfeed.pipelines.torch.encoded import DECODED, EncodedImages, scaled
from shardfeed.pipelines.torch.images import GeometricTransform, ImageAndLabel, ImageTransformed
from shardfeed.pipelines.torch.loading import SampleLoader, TorchLoader
from shardfeed.pipelines.torch.samples import TorchSamples
from shardfeed.pipelines.torch.steps import Steps
from shardfeed.pipelines.windows import SampleSeed, batch_seed, sample_seeds, view_seeds


class DeviceFeed(OneWay):
    """The batches of a loader on a device, with the loader's length and state, if any. Made by `to_device`."""

    def __init__(
        self,
        loader: Iterable[Any],
        device: torch.device,
        ahead: int,
        normalise: "Normalise",
        image_transform: Callable[[torch.Tensor], Any] | None,
        batch_transform: BatchTransform | None,
        augment: "DeviceAugment | None",
    ) -> None:
        self.loader, self.device = loader, device
        self._ahead, self._normalise, self._transform = ahead, normalise, image_transform
        self._batch_transform, self._augment = batch_transform, augment
        self._late = image_transform is not None or batch_transform is not None  # whether functions come before that
        self._step: int | None = None  # of the last batch handed out
        self._drawn: int | None = None  # of the last batch taken from the loader
        self._stream: torch.cuda.Stream | None = None  # of all iterations: each stream keeps memory of its own

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # as the loader's own: TypeError where it has none

    def __iter__(self) -> Iterator[Any]:
        loader = self.loader
        if isinstance(loader, TorchLoader) and loader.endless and self._step is not None and loader.step == self._drawn:
            # Batches that were ahead when the last iteration was left come again, unless the loader was moved since.
            loader.load_state_dict(loader.state_dict(self._step))
        if self._stream is None and self.device.type == "cuda":
            self._stream = torch.cuda.Stream(self.device)
        waiting: deque[tuple[Future[Any], int | None, int]] = deque()
        # It begins with the first encoded images. A thread's current GPU is 0 at first, where it would take memory.
        begin = None if self._stream is None else partial(torch.cuda.set_device, self._stream.device)
        thread = ThreadPoolExecutor(1, "shardfeed-device", begin)
        try:
            for number, batch in enumerate(loader):
                self._drawn = getattr(loader, "step", None)
                made: Future[Any] = Future()
                if any(isinstance(leaf, EncodedImages) for _, leaf in leaves(batch)):
                    made = thread.submit(self._queued, batch, self._drawn, number)
                else:
                    made.set_result(self._queued(batch, self._drawn, number))
                waiting.append((made, self._drawn, number))
                if len(waiting) > self._ahead:
                    yield self._ready(*waiting.popleft())
            while waiting:
                yield self._ready(*waiting.popleft())
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _queued(self, batch: Any, step: int | None, number: int) -> tuple[Any, Any]:
        with torch.cuda.stream(self._stream):  # None: as without it
            moved = map_leaves(batch, _on_tensors(self._moved))
            if self._augment is not None:
                moved = self._augment(moved, number if step is None else step - 1)
                moved = moved if self._late else map_leaves(moved, _on_tensors(self._normalise))
            return moved, self._stream and self._stream.record_event()

    def _moved(self, tensor: torch.Tensor | EncodedImages) -> torch.Tensor:
        now = Normalise() if self._late or self._augment is not None else self._normalise
        if isinstance(tensor, EncodedImages):
            return tensor.made(self.device, now.dtype or torch.uint8, now.factors(tensor.shape))
        if self.device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
            tensor = pinned(tensor)  # a copy from pageable memory would block
        moved = now(tensor.to(self.device, non_blocking=True))
        if moved is tensor and self._late and not isinstance(self.loader, SampleLoader):
            return moved.clone()  # functions may change it, and the memory is the user's
        return moved

    def _ready(self, made: Future[Any], step: int | None, number: int) -> Any:
        batch, event = made.result()
        if event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            # Its memory must not be reused by the next copy while this stream still reads it.
            map_leaves(batch, _on_tensors(lambda tensor: tensor.record_stream(current)))
        self._step = step
        if not self._late:
            return batch
        made_at = number if step is None else step - 1
        if self._transform is not None:
            # In this thread: the generators that it draws from are those of the whole process.
            drawn = number if step is None else step
            naming = noted(self._transform, "image_transform", lambda: f"the batch of step {made_at}")
            with self._seeded(drawn), naming:
                batch = map_leaves(batch, _on_tensors(partial(self._transformed, self._transform)))
        if self._batch_transform is not None:
            seed = self._batch_seed(made_at)
            batch = transformed_batch(self._batch_transform, batch, seed, lambda: f"the batch of step {made_at}")
        return map_leaves(batch, _on_tensors(self._normalise))

    def _batch_seed(self, step: int) -> SampleSeed:
        """The seed of the batch of a step: of one of our loaders as it gives it to its own batch transform."""
        loader: Any = self.loader
        samples, steps = getattr(loader, "dataset", None), getattr(loader, "batch_sampler", None)
        if not (isinstance(samples, TorchSamples) and isinstance(steps, Steps)):
            return sample_seeds(np.array([[step, 0]], np.int64))[0]
        return batch_seed(samples.seeds(steps.keys(step)[:1]))

    @contextmanager
    def _seeded(self, step: int) -> Iterator[None]:
        """Seed the generators for a batch of one of our loaders; batches of others draw from them as they are."""
        loader: Any = self.loader if isinstance(self.loader, SampleLoader) else None
        if loader is None:
            yield
            return
        seed = int(hashed(loader.dataset.order.seed, step, loader.process.rank)) >> 1
        devices = [] if self._stream is None else [self._stream.device]
        with seeded(seed), torch.random.fork_rng(devices):
            for device in devices:
                torch.cuda.default_generators[device.index].manual_seed(seed)
            yield

    def _transformed(self, transform: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> Any:
        if not _are_images(tensor):
            return tensor
        made = transform(tensor)
        if self._normalise.dtype is not None and not _are_images(made):
            shown = f"it returned {list(made.shape)} of {made.dtype}, expected uint8 [b, channels, height, width]"
            raise UsageError("image_transform", shown, "have it convert nothing, or leave out mean, std and dtype")
        return made

    @property
    def device_bytes(self) -> int:
        """The most memory of PyTorch's that images take on the device at once, with `decode="cuda"`.

        It is known before the first batch: of batches that wait, are made or in use, and of decoded images. Labels,
        boxes, masks, what `image_transform` and augmentations take, and some memory of nvJPEG's come on
        top. Raises UsageError for other loaders.
        """
        loader: Any = self.loader
        if getattr(getattr(loader, "dataset", None), "decode", "") != "cuda":
            raise UsageError("loader", 'its batches may have any size, expected a loader with decode="cuda"')
        target, size = loader.dataset.transform.image.crop.target, (self._normalise.dtype or torch.uint8).itemsize
        images = -(-loader.dataset.order.batch_size // loader.process.ranks) * 3 * math.prod(target) * size
        return (self._ahead + 2) * images + DECODED + MOST_DECODED

    def state_dict(self) -> dict[str, str]:
        """The loader's state at the last batch handed out, not made ahead. Raises UsageError if it has none."""
        return self._resumable().state_dict(self._step)

    def load_state_dict(self, state: dict[str, str]) -> None:
        """The loader's own."""
        self._resumable().load_state_dict(state)
        self._step = None

    @checked
    def set_epoch(self, epoch: Epoch) -> None:
        """The loader's own."""
        self._resumable().set_epoch(epoch)
        self._step = None

    def _resumable(self) -> TorchLoader:
        if not isinstance(self.loader, TorchLoader):
            problem = f"a {type(self.loader).__name__} has no state to save"
            raise UsageError("loader", problem, "use a loader from torch_loader")
        return self.loader


@checked
def to_device(
    loader: Iterable[Any],
    device: torch.device | str | Natural,
    *,
    ahead: Positive = 2,
    augment: Augment = (),
    image_transform: Annotated[Callable[[torch.Tensor], Any] | None, "give a function of a batch of images"] = None,
    batch_transform: BatchTransform | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    dtype: torch.dtype | None = None,
) -> DeviceFeed:
    """Iterate over any loader, copying its tensors to a device ahead of their use.

    Images (4-D tensors [b, channels, height, width], uint8 or uint16) become (image / white - mean) / std on the
    device, where white is 255 or 65,535, in their own memory format: channels-last from `torch_loader`. Without `mean`,
    `std` and `dtype`, they stay as they are, and nothing is computed. Other tensors are copied unchanged, and NumPy
    arrays become tensors. Copies are made from pinned memory; tensors that the loader has not pinned are pinned here.
    On the CPU, and on devices other than CUDA, batches are moved and normalised without a stream. Images of a loader
    with `decode="cuda"` are decoded there, in a thread.

    Args:
        loader: a PyTorch loader, or any iterable of batches: tensors, arrays, or a nest of them.
        device: for example "cuda:0", or 0 for the same.
        ahead: number of batches copied in advance, 1 or more.
        augment: of `shardfeed.pipelines.augment`, what is done to the uint8 images of each batch on the device, each by
            itself, before `image_transform`. They go on where the `augment` of a loader of this package ends, with the
            draws that they would have there. Boxes and masks do not follow them: give the loader what moves pixels.
        image_transform: called with the images of each batch on the device, before they are normalised: for example one
            of torchvision's v2, which draws once for the whole batch. Its draws from PyTorch's generators, `random` and
            NumPy depend only on the step, the rank and the seed of a loader from this package, so that a resumed run is
            exact. With `mean`, `std` or `dtype` it must return uint8 images.
        batch_transform: called with each batch on the device and its seed, after `image_transform`, before images are
            normalised: `mixup()` or `cutmix()` of `shardfeed.pipelines.augment`, or a function of yours that returns a
            new batch. The seed is the one that `torch_loader` gives to its `batch_transform`; for other loaders it
            depends on the number of the batch.
        mean: one number for each channel, such as torchvision's (0.485, 0.456, 0.406); with `std`. None: 0.
        std: one number for each channel; with `mean`. None: 1.
        dtype: a floating-point dtype. None: float32 if there is a `mean`.

    Raises:
        UsageError: if only one of `mean` and `std` is given, if their lengths differ, or if the dtype is not
            floating-point; during iteration, if the number of channels of an image is not the length of `mean`, or if
            `image_transform` returns no uint8 images to normalise.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, seed=7)
        for images, labels in to_device(loader, "cuda", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
            loss = criterion(model(images), labels)
    """
    if (mean is None) != (std is None) or (mean is not None and std is not None and len(mean) != len(std)):
        raise UsageError("mean, std", "expected both, with the same number of values, or neither")
    if dtype is not None and not dtype.is_floating_point:
        raise UsageError("dtype", f"got {dtype}, expected a floating-point dtype")
    target = _device(device)
    check_transforms(None, batch_transform)
    check_function("image_transform", image_transform, "images")
    samples: Any = getattr(loader, "dataset", None)
    if isinstance(samples, TorchSamples):
        batch_transform = _bound_to(samples, batch_transform)
    edits = DeviceAugment(augment, loader) if augment else None
    normalise = _normalise(mean, std, dtype, target)
    return DeviceFeed(loader, target, ahead, normalise, image_transform, batch_transform, edits)


def _bound_to(samples: TorchSamples, batch_transform: BatchTransform | None) -> Any:
    """The function for the batches of a loader of ours. Raises UsageError if it mixes and these have nothing to mix."""
    made: Any = samples.transform
    if not isinstance(made, ImageAndLabel | ImageTransformed | GeometricTransform):
        return batch_transform
    image = getattr(made, "image", None)
    views = isinstance(image, GeometricTransform) and image.crop.several
    label = None if isinstance(made, GeometricTransform) else made.label
    return bound_batch_transform(batch_transform, samples.samples.schema, label and label.key, views=views)


class DeviceAugment:
    """Augmentations of the batches of a loader, on their device.

    `augment`: in turn, after those of the loader. Raises UsageError for images other than uint8 with three channels,
    and where pixels move and boxes or masks would not follow.
    """

    def __init__(self, augment: Sequence[Augmentation], loader: Iterable[Any]) -> None:
        self._augment, self._loader = augment, loader
        samples: Any = getattr(loader, "dataset", None)
        self._samples = samples if isinstance(loader, TorchLoader) and isinstance(samples, TorchSamples) else None
        image = getattr(getattr(self._samples, "transform", None), "image", None)
        self._crops: Sequence[Crop] = image.crop.parts if isinstance(image, GeometricTransform) else ()
        plain = ImageAndLabel | ImageTransformed | GeometricTransform
        has_targets = self._samples is not None and not isinstance(self._samples.transform, plain)
        if has_targets and joined_effect(augment):
            problem = "got one that moves or erases pixels, and the boxes or masks of the batch would not follow"
            raise UsageError("augment", problem, "give it to the crop: random_resized_crop(512, augment=[...])")

    def __call__(self, batch: Any, step: int) -> Any:
        """The batch of a step, edited."""
        views = itertools.count()

        def on_images(tensor: torch.Tensor) -> torch.Tensor:
            return self._edited(tensor, step, next(views)) if _are_images(tensor) else tensor

        return map_leaves(batch, _on_tensors(on_images))

    def _edited(self, images: torch.Tensor, step: int, view: int) -> torch.Tensor:
        if images.dtype != torch.uint8 or images.shape[1] != 3:
            problem = f"got images {list(images.shape)} of {images.dtype}, expected uint8 [b, 3, height, width]"
            raise UsageError("augment", problem, "give it to the loader instead")
        before = len(self._crops[view].augment) if view < len(self._crops) else 0
        seeds = view_seeds(self._seeds(step, len(images)), view)
        edits = drawn_edits(self._augment, seeds, (images.shape[2], images.shape[3]), before)
        return edit_batch(images, edits)

    def _seeds(self, step: int, count: int) -> np.ndarray:
        """The seeds of the samples of a batch, int64 [count, 2]: as its loader has them, if it is one of ours."""
        steps = getattr(self._loader, "batch_sampler", None)
        if self._samples is None or not isinstance(steps, Steps):
            return np.stack([np.full(count, step), np.arange(count)], 1).astype(np.int64)
        seeds = self._samples.seeds(steps.keys(step))
        if len(seeds) != count:
            problem = f"got {count} images in a batch of {len(seeds)} samples, and each draws by its sample's seed"
            raise UsageError("augment", problem, "augment in the loader, or in image_transform=")
        return seeds


def _device(device: torch.device | str | int) -> torch.device:
    """The device. Raises UsageError unless this PyTorch can put a tensor there."""
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        said = str(error).partition("\n")[0]
        raise UsageError("device", f"got {shown(device)}, expected a device such as 'cuda:0': {said}") from None
    return target


def _normalise(
    mean: Sequence[float] | None, std: Sequence[float] | None, dtype: torch.dtype | None, device: torch.device
) -> "Normalise":
    """The arithmetic of one product and one sum: image * scale + shift."""
    if mean is None and dtype is None:
        return Normalise()
    scale = 1 / (255 * torch.tensor(std if std is not None else 1.0, dtype=torch.float64))
    shift = -255 * scale * torch.tensor(mean if mean is not None else 0.0, dtype=torch.float64)
    return Normalise(dtype or torch.float32, scale.to(device, torch.float32), shift.to(device, torch.float32))


@dataclass(frozen=True)
class Normalise:
    """Makes images `dtype`: image * scale + shift, float32 [channels] or [], of 16 bits image / 257.

    Without a dtype they stay.
    """

    dtype: torch.dtype | None = None
    scale: torch.Tensor | None = None
    shift: torch.Tensor | None = None

    def factors(self, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Scale and shift of each channel, float32 [channels]. Raises UsageError for another number of values."""
        if self.scale is None or self.shift is None:
            return None
        if self.scale.ndim and len(self.scale) != shape[1]:
            shown = f"got images {list(shape)} and {len(self.scale)} values"
            raise UsageError("mean, std", f"{shown}, expected [b, channels, height, width] and one per channel")
        return self.scale.expand(shape[1]), self.shift.expand(shape[1])

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if not _are_images(tensor) or (factors := self.factors(tensor.shape)) is None:
            return tensor
        if tensor.dtype == torch.uint16:
            tensor, factors = tensor.float(), (factors[0] / 257, factors[1])
        return scaled(tensor, self.dtype or torch.float32, factors)


def _are_images(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.uint8, torch.uint16) and tensor.ndim == 4


def _on_tensors(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply `function` to the leaves of a batch that are tensors, encoded images, or arrays of numbers, as tensors."""

    def on_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor | EncodedImages):
            return function(leaf)
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
            return function(torch.from_numpy(writable(leaf)))
        return leaf

    return on_leaf
