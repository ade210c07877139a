"""Mixing of PyTorch's tensors: pixels of the CPU in their own memory, others on their device."""

import numpy as np
import torch

from shardfeed.pipelines.augment.mixing import arithmetic
from shardfeed.pipelines.augment.mixing.arithmetic import BITS, WHOLE, Draw, Mixed, mixes


@mixes("torch")
def mixed_tensors(
    images: torch.Tensor, labels: torch.Tensor, seed: int, draw: Draw, classes: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch, mixed: images [b, channels, height, width]."""
    drawn = draw(seed, images.shape[2], images.shape[3])
    if images.device.type == "cpu" and not images.is_floating_point():
        arithmetic.mix_images(images.permute(0, 2, 3, 1).numpy(), drawn)
        return images, torch.from_numpy(arithmetic.mixed_labels(labels.numpy(), drawn, classes))
    return _mixed_images(images, drawn), _mixed_labels(labels, drawn, classes)


def _mixed_images(images: torch.Tensor, drawn: Mixed) -> torch.Tensor:
    if drawn.share == 1:
        return images
    others = images.roll(1, 0)
    if drawn.box is not None:
        top, left, height, width = drawn.box
        part = (slice(None), slice(None), slice(top, top + height), slice(left, left + width))
        made = images.clone()
        made[part] = others[part]
        return made
    if images.is_floating_point():
        return torch.lerp(others, images, drawn.share)
    wide = torch.int32 if images.dtype == torch.uint8 else torch.int64
    part = round(drawn.share * WHOLE)
    total = images.to(wide) * part + others.to(wide) * (WHOLE - part) + (WHOLE >> 1)
    return (total >> BITS).to(images.dtype)


def _mixed_labels(labels: torch.Tensor, drawn: Mixed, classes: int | None) -> torch.Tensor:
    soft = labels.float() if labels.is_floating_point() else _one_hot(labels, classes)
    share = float(np.float32(drawn.share))
    return soft * share + soft.roll(1, 0) * (1 - share)


def _one_hot(labels: torch.Tensor, classes: int | None) -> torch.Tensor:
    if classes is None:
        arithmetic.check_classes(np.zeros(0, np.int64), classes)
    return torch.nn.functional.one_hot(labels.long(), classes or 0).float()
