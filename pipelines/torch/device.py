"""Copies of batches to a device, ahead of their use: from pinned memory, on a separate stream, normalised there.

On a GPU everything is queued, and nothing waits: the copy and the arithmetic of batch n + 1 run at the same time as the
step on batch n, on another stream. This needs no thread: while this process waits for the next batch of the loader, the
device runs the step that was queued before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from shardfeed.errors import UsageError, at_least
from shardfeed.pipelines.nests import map_leaves
from shardfeed.pipelines.torch.collate import writable
from shardfeed.pipelines.torch.loading import TorchLoader
from shardfeed.pipelines.torch.targets import pinned


class DeviceFeed:
    """The batches of a loader on a device, with the loader's length and state, if any. Made by `to_device`."""

    def __init__(
        self, loader: Iterable[Any], device: torch.device, ahead: int, normalise: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        self.loader, self.device = loader, device
        self._ahead, self._normalise = ahead, normalise
        self._step: int | None = None  # of the last batch handed out
        self._drawn: int | None = None  # of the last batch taken from the loader

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # as the loader's own: TypeError where it has none

    def __iter__(self) -> Iterator[Any]:
        loader = self.loader
        if isinstance(loader, TorchLoader) and loader.endless and self._step is not None and loader.step == self._drawn:
            # Batches that were ahead when the last iteration was left come again, unless the loader was moved since.
            loader.load_state_dict(loader.state_dict(self._step))
        batches = self._on_device(iter(loader))
        waiting: deque[tuple[Any, torch.cuda.Event | None, int | None]] = deque()
        for made in batches:
            waiting.append(made)
            if len(waiting) > self._ahead:
                yield self._ready(*waiting.popleft())
        while waiting:
            yield self._ready(*waiting.popleft())

    def _on_device(self, batches: Iterator[Any]) -> Iterator[tuple[Any, torch.cuda.Event | None, int | None]]:
        """Yield each batch, the event when its copy is done, and its step of the loader."""
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        for batch in batches:
            step = self._drawn = getattr(self.loader, "step", None)
            with nullcontext() if stream is None else torch.cuda.stream(stream):
                moved = map_leaves(batch, _on_tensors(self._moved))
                event = None if stream is None else torch.cuda.Event()
                if event is not None:
                    event.record(stream)
            yield moved, event, step

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
            tensor = pinned(tensor)  # a copy from pageable memory would block
        return self._normalise(tensor.to(self.device, non_blocking=True))

    def _ready(self, batch: Any, event: torch.cuda.Event | None, step: int | None) -> Any:
        if event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            # Its memory must not be reused by the next copy while this stream still reads it.
            map_leaves(batch, _on_tensors(lambda tensor: tensor.record_stream(current)))
        self._step = step
        return batch

    def state_dict(self) -> dict[str, str]:
        """The loader's state at the last batch handed out, not made ahead. Raises UsageError if it has none."""
        return self._resumable().state_dict(self._step)

    def load_state_dict(self, state: dict[str, str]) -> None:
        """The loader's own."""
        self._resumable().load_state_dict(state)
        self._step = None

    def set_epoch(self, epoch: int) -> None:
        """The loader's own."""
        self._resumable().set_epoch(epoch)
        self._step = None

    def _resumable(self) -> TorchLoader:
        if not isinstance(self.loader, TorchLoader):
            problem = f"a {type(self.loader).__name__} has no state to save"
            raise UsageError("loader", problem, "use a loader from torch_loader")
        return self.loader


def to_device(
    loader: Iterable[Any],
    device: torch.device | str,
    *,
    ahead: int = 2,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    dtype: torch.dtype | None = None,
) -> DeviceFeed:
    """Iterate over any loader, copying its tensors to a device ahead of their use.

    Images (4-D uint8 tensors [b, channels, height, width]) become (image / 255 - mean) / std on the device, in their
    own memory format: channels-last from `torch_loader`. Without `mean`, `std` and `dtype`, images stay uint8, and
    nothing is computed. Other tensors are copied unchanged, and NumPy arrays become tensors. Copies are made from
    pinned memory; tensors that the loader has not pinned are pinned here. On the CPU, and on devices other than CUDA,
    batches are moved and normalised without a stream.

    Args:
        loader: a PyTorch loader, or any iterable of batches: tensors, arrays, or a nest of them.
        device: for example "cuda:0".
        ahead: number of batches copied in advance, 1 or more.
        mean: one number for each channel, such as torchvision's (0.485, 0.456, 0.406); with `std`. None: 0.
        std: one number for each channel; with `mean`. None: 1.
        dtype: a floating-point dtype. None: float32 if there is a `mean`.

    Raises:
        UsageError: if only one of `mean` and `std` is given, if their lengths differ, or if the dtype is not
            floating-point; during iteration, if the number of channels of an image is not the length of `mean`.

    Example:
        loader = torch_loader(data["train"], batch_size=256, image_size=224, seed=7)
        for images, labels in to_device(loader, "cuda", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
            loss = criterion(model(images), labels)
    """
    if (mean is None) != (std is None) or (mean is not None and std is not None and len(mean) != len(std)):
        raise UsageError("mean, std", "expected both, with the same number of values, or neither")
    if dtype is not None and not dtype.is_floating_point:
        raise UsageError("dtype", f"got {dtype}, expected a floating-point dtype")
    target = torch.device(device)
    if mean is None and dtype is None:
        return DeviceFeed(loader, target, at_least("ahead", ahead, 1), lambda tensor: tensor)
    # As one product and one sum: image * scale + shift.
    scale = 1 / (255 * torch.tensor(std if std is not None else [1.0], dtype=torch.float64))
    shift = -255 * scale * torch.tensor(mean if mean is not None else [0.0], dtype=torch.float64)
    kind = dtype or torch.float32
    factors = [values.to(torch.float32).reshape(1, -1, 1, 1).to(target) for values in (scale, shift)]

    def normalise(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.uint8 or tensor.ndim != 4:
            return tensor
        if mean is not None and tensor.shape[1] != len(mean):
            shown = f"got images {list(tensor.shape)} and {len(mean)} values"
            raise UsageError("mean, std", f"{shown}, expected [b, channels, height, width] and one per channel")
        return torch.addcmul(factors[1], tensor, factors[0]).to(kind)

    return DeviceFeed(loader, target, at_least("ahead", ahead, 1), normalise)


def _on_tensors(function: Callable[[torch.Tensor], Any]) -> Callable[[Any], Any]:
    """Apply `function` to the leaves of a batch that are tensors, or arrays of numbers, which become tensors."""

    def on_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return function(leaf)
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
            return function(torch.from_numpy(writable(leaf)))
        return leaf

    return on_leaf
