"""Image transforms from other libraries, torchvision and albumentations, used unchanged."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from shardfeed.errors import UsageError
from shardfeed.pipelines.arguments import takes
from shardfeed.pipelines.torch.collate import seeded, writable
from shardfeed.pipelines.torch.images import decode_image
from shardfeed.pipelines.torch.labels import Label

_REMEDY = "expected an image: a tensor [channels, height, width], an array [height, width, channels], or Pillow's"
_WITH_BOXES = "for boxes, masks and key points, call it in your own transform (docs/transforms.md)"


@dataclass(frozen=True)
class ImageTransformed:
    """A function from a record and its seed to (image, label), for an image transform; pickles if the transform does.

    `image_transform`: called with an RGB Pillow image, as by torchvision's `ImageFolder`; one of albumentations with
    `image=`, a uint8 array [height, width, 3]. Its draws from the generators of PyTorch, `random`, NumPy and
    albumentations depend only on the seed.
    """

    image_transform: Callable[..., Any]
    label: Label

    def __call__(self, record: Mapping[str, Any], seed: int) -> tuple[torch.Tensor, Any]:
        pixels = decode_image(record).permute(1, 2, 0).numpy()
        transform: Any = self.image_transform
        with seeded(seed):
            if written_in(transform, "albumentations"):
                # Its own generators, which all steps share, as in `Compose`. With `set_random_seed`, each step has one
                # of that seed, so that two flips always happen together; newer versions also add the worker's seed.
                transform.set_random_state(np.random.default_rng(seed), random.Random(seed))
                made = transform(image=pixels)["image"]
            else:
                made = transform(Image.fromarray(pixels))
        if isinstance(made, Image.Image) and written_in(transform, "torchvision"):
            # Some steps of v2 leave a Pillow image as it is: it might have to be float32. DataLoaders refuse it, too.
            remedy = "put v2.ToImage() into it, before v2.ToDtype() and other steps for tensors"
            raise UsageError("image_transform", "it returned a Pillow image, expected a tensor", remedy)
        return _tensor(made), self.label(record)


def _tensor(image: Any) -> torch.Tensor:
    """Convert an image to a plain tensor, [channels, height, width] for arrays and Pillow images."""
    if isinstance(image, torch.Tensor):
        return image.as_subclass(torch.Tensor)
    if isinstance(image, Image.Image):
        image = np.array(image)
    if isinstance(image, np.ndarray) and image.ndim in (2, 3):
        tensor = torch.from_numpy(writable(image))
        return tensor[None] if image.ndim == 2 else tensor.permute(2, 0, 1)
    raise UsageError("image_transform", f"it returned {type(image).__name__}", _REMEDY)


def written_in(transform: object, *packages: str) -> bool:
    """Whether its class, or a base of it, is defined in one of `packages`, by dotted name."""
    modules = [f"{base.__module__}." for base in type(transform).__mro__]
    return any(module.startswith(f"{package}.") for module in modules for package in packages)


def _takes_boxes(transform: Any) -> bool:
    """Whether it is a transform of albumentations with `bbox_params` or `keypoint_params`."""
    return written_in(transform, "albumentations") and bool(getattr(transform, "processors", None))


def check_image_transform(transform: Any) -> None:
    """Raise UsageError unless `transform` can be called with an image alone."""
    if not callable(transform) or isinstance(transform, type):
        raise UsageError("image_transform", f"got {transform!r}, expected a function of an image", "pass an instance")
    if written_in(transform, "albumentations") and not hasattr(transform, "set_random_state"):
        problem = "this version of albumentations cannot be seeded for each sample"
        raise UsageError("image_transform", problem, "install albumentations 2.0 or newer")
    if _takes_boxes(transform):
        problem = "it has bbox_params or keypoint_params, but image_transform= passes only the image"
        raise UsageError("image_transform", problem, _WITH_BOXES)
    if not written_in(transform, "albumentations") and not takes(transform, 1):
        problem = f"got {transform!r}, which cannot be called with only an image"
        raise UsageError("image_transform", problem, "pass a function of a record and a seed as transform=")


def check_transform(transform: Any) -> None:
    """Raise UsageError unless `transform` can be called with a record and a seed."""
    if written_in(transform, "torchvision", "albumentations"):
        problem = (
            f"got {type(transform).__name__} of {type(transform).__module__.partition('.')[0]}, which takes images"
        )
        remedy = _WITH_BOXES if _takes_boxes(transform) else f"pass it as image_transform=; {_WITH_BOXES}"
        raise UsageError("transform", problem, remedy)
    if not callable(transform) or isinstance(transform, type) or not takes(transform, 2):
        problem = f"got {transform!r}, expected a function of a record and a seed: transform(record, seed)"
        raise UsageError("transform", problem, "pass a function of an image as image_transform=")
