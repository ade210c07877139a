"""Image transforms for PyTorch: our crops, and those of torchvision and albumentations, used unchanged.

Transforms are called as `transform(record, seed)`, with a record as returned by `split[i]` and a `SampleSeed`. They
return a view [3, height, width] of pixels stored as [height, width, 3]; `collate` makes a batch of them in the
channels-last memory format, without moving a channel.

`decoding.pixels` decodes the window, scaled down by 2, 4 or 8 if the target fits into it that many times. PyTorch's
bilinear resize with antialiasing, as in torchvision, does the rest; without antialiasing it is `decoding.pixels.fit`,
which gives the same pixels as TensorFlow. All of it runs in a worker with one thread, one image at a time.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from PIL import Image

from shardfeed.declared import Range, checked
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.pipelines.arguments import Augment, Channels, ImageRecord, Size, check_function, image_size
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.host import edit_image
from shardfeed.pipelines.augment.operations.center_crop import CenterCrop
from shardfeed.pipelines.augment.operations.letterbox import Letterbox
from shardfeed.pipelines.augment.operations.random_resized_crop import AREA, ASPECT_RATIO, RandomCrop, RandomWindow
from shardfeed.pipelines.augment.view import ChooseView, View, cropped
from shardfeed.pipelines.decoding.pixels import Shrink, fit, has_opencv, plan_view
from shardfeed.pipelines.torch.collate import seeded, writable
from shardfeed.pipelines.torch.labels import Label
from shardfeed.pipelines.torch.samples import ViewTransform
from shardfeed.pipelines.windows import SampleSeed, Window, own_seed

# From an image, as Pillow or albumentations have it, to what a batch has of it.
ImageFunction = Annotated[Callable[..., Any], "give one function of an image, such as v2.Compose([...])"]

_REMEDY = "expected an image: a tensor [channels, height, width], an array [height, width, channels], or Pillow's"
_WITH_BOXES = "for boxes, masks and key points, call it in your own transform (docs/transforms.md)"


@checked
def random_resized_crop(
    size: Size | None = None,
    *,
    area: tuple[float, float] = AREA,
    aspect_ratio: tuple[float, float] = ASPECT_RATIO,
    flip: bool = True,
    antialias: bool = True,
    channels: Channels = 3,
    augment: Augment = (),
) -> "GeometricTransform":
    """Crop a random window of the image, resize it to `size`, and flip it half of the time: the usual training crop.

    The transform is picklable and returns uint8 [channels, height, width], of images of 16 bits uint16. The same
    seed gives the same window, here and with TensorFlow. Source: Szegedy et al. 2015, section 6, in the form of
    torchvision's RandomResizedCrop.

    Args:
        size: pixels, one side or (height, width). None: the shape of the batch, with `order=Global(shapes=...)`;
            `aspect_ratio` is then relative to it.
        area: the window's fraction of the image area, (min, max) within 0..1, drawn uniformly.
        aspect_ratio: the window's width over its height, (min, max), drawn uniformly on a logarithmic scale. If ten
            draws do not fit into the image (because it is very long), the window is centred and as large as possible
            with an aspect ratio in that range.
        flip: flip left and right, half of the time.
        antialias: shrink with the triangle filter that Pillow and torchvision use for bilinear resizing. False:
            OpenCV's bilinear resize, which takes less time and aliases; pixels are the same as with TensorFlow's crop.
        channels: 3, or 1 for gray images, of which then no copies are made; of colours it is their brightness.
        augment: what changes the image after the crop, in turn: values of `shardfeed.pipelines.augment`. `detection`
            and `segmentation` follow.

    Raises:
        UsageError: for a size that is not positive, or a range that is empty or out of bounds.
        MissingExtraError: without antialiasing, if OpenCV is not installed.

    Example:
        crop = random_resized_crop(224, area=(0.25, 1.0))
        loader = torch_loader(data["train"], batch_size=256, transform=crop, seed=7)
    """
    window = RandomWindow(area, aspect_ratio)
    return GeometricTransform(RandomCrop(image_size(size), window, flip, channels, tuple(augment)), antialias)


@checked
def resize_center_crop(
    size: Size | None = None,
    *,
    crop_fraction: float = 0.875,
    antialias: bool = True,
    channels: Channels = 3,
    augment: Augment = (),
) -> "GeometricTransform":
    """Crop the centre of the image and resize it to `size`: the usual evaluation crop. The crop does not use the seed.

    The transform is picklable and returns uint8 [channels, height, width], of images of 16 bits uint16. The window
    is centred and as large as possible with the aspect ratio of `size`, then scaled by `crop_fraction`: 0.875 is the
    same as resizing the image to cover 256 x 256 and cropping the centre 224 x 224. `size` None: the shape of the
    batch, with `order=Global(shapes=...)`.

    `antialias`, `channels`, `augment`: as in `random_resized_crop`. Evaluate with the first two as in training.

    Raises UsageError for a size that is not positive, or a fraction that is not within 0..1; MissingExtraError without
    antialiasing if OpenCV is not installed.

    Example:
        loader = torch_eval_loader(data["validation"], batch_size=256, transform=resize_center_crop(224))
    """
    return GeometricTransform(CenterCrop(image_size(size), crop_fraction, channels, tuple(augment)), antialias)


@checked
def letterbox(
    size: Size | None = None,
    *,
    fill: Annotated[int, Range(0, 255)] = 0,
    antialias: bool = True,
    channels: Channels = 3,
    augment: Augment = (),
) -> "GeometricTransform":
    """Resize the whole image to fit into `size`, keeping its aspect ratio; centre and pad it.

    The transform is picklable and returns uint8 [channels, height, width], of images of 16 bits uint16. An image of
    h x w is resized to h' x w' = round(h * s) x round(w * s) pixels with s = min(height / h, width / w), each at least
    1, with (height - h') // 2 rows of padding above and (width - w') // 2 columns to the left. `detection` returns the
    scale and offset.

    Args:
        size: pixels, one side or (height, width). None: the shape of the batch, with `order=Global(shapes=...)`.
        fill: the padding's value in all channels, 0 to 255; 257 times as much in images of 16 bits.
        antialias, channels, augment: as in `random_resized_crop`.

    Raises:
        UsageError: for a size that is not positive, or a fill that is not within 0..255.
        MissingExtraError: without antialiasing, if OpenCV is not installed.

    Example:
        loader = torch_eval_loader(data["validation"], batch_size=16, transform=detection(letterbox(512)))
    """
    return GeometricTransform(Letterbox(image_size(size), fill, channels, tuple(augment)), antialias)


# A class, because a nested function does not pickle, which spawned workers need.


@dataclass(frozen=True)
class GeometricTransform(ViewTransform[torch.Tensor]):
    """An image transform that also returns the view: the window of the image and its place. `crop` draws it."""

    crop: Crop
    antialias: bool = True

    def __post_init__(self) -> None:
        if not self.antialias and not has_opencv():
            remedy = "pip install opencv-python-headless"
            raise MissingExtraError("antialias=False", "OpenCV cannot be imported", remedy)

    def augmented(self, augment: Sequence[Augmentation]) -> "GeometricTransform":
        """The same with other augmentations."""
        return replace(self, crop=self.crop.augmented(augment))

    def draw(self, seed: int) -> ChooseView:
        """Make the function from a sample's seed to its view."""
        crop = self.crop.at(seed.shape if isinstance(seed, SampleSeed) else None)  # a number of NumPy has a shape, too
        if not crop.draws:
            return crop.choice(np.empty(0, np.float32))
        return crop.choice(own_seed(seed).uniform)

    @property
    def image(self) -> "GeometricTransform":  # type: ignore[override]  # it is never set
        """Itself, as the attribute of a `ViewTransform`."""
        return self

    def follow(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> torch.Tensor:
        del record, view
        return image

    @property
    def shrink(self) -> Shrink | None:
        """How images are made smaller: see `fit`."""
        return shrunk if self.antialias else None

    def see(self, record: Mapping[str, Any], seed: int) -> tuple[torch.Tensor, View]:
        """The image, and its view of the stored image. Raises IntegrityError if it cannot be decoded."""
        planned = plan_view(record, self.draw(seed), gray=self.crop.channels == 1)
        pixels = planned.pixels()
        image = np.empty((*planned.view.target, self.crop.channels), pixels.dtype)
        fit(pixels, planned.view, image, self.crop.fill, self.shrink)
        view = self._augmented(image, planned.view, seed) if self.crop.augment else planned.view
        return torch.from_numpy(image).permute(2, 0, 1), view

    def _augmented(self, image: np.ndarray, view: View, seed: int) -> View:
        """Carry out the augmentations in place, as for a batch; return the view after them."""
        self.crop.check_pixels(image.dtype)
        own = own_seed(seed)
        edits = self.crop.at(own.shape).edits(own.pair[None])
        assert edits is not None
        edit_image(image, edits, 0)
        return view._replace(moves=edits.moves(0))


@dataclass(frozen=True)
class ImageAndLabel(ViewTransform[tuple[torch.Tensor, Any]]):
    """A transform to (image, label), made by `image` and `label`."""

    image: GeometricTransform
    label: Label

    def follow(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> tuple[torch.Tensor, Any]:
        del view
        return image, self.label(record)


@checked
def decode_image(record: ImageRecord) -> torch.Tensor:
    """Decode the whole image: uint8 [3, height, width], gray as RGB; of 16 bits uint16.

    Raises UsageError for a record without an image, IntegrityError if it cannot be decoded.

    Example:
        image = decode_image(data["train"][0])
        print(image.shape)  # torch.Size([3, 480, 640])
    """
    whole = plan_view(record, lambda *size: cropped(size, Window(0, 0, *size), size)).pixels()
    return torch.from_numpy(whole.copy()).permute(2, 0, 1)


def shrunk(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize pixels [h, w, channels] to a (height, width), antialiased, as torchvision does; uint16 by float32."""
    # Contiguous: PyTorch uses vector instructions only for contiguous memory. The batch dimension is added before the
    # axes are permuted: otherwise the strides do not look like channels-last.
    window = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))[None].permute(0, 3, 1, 2)
    deep = pixels.dtype == np.uint16
    made = torch.nn.functional.interpolate(window.float() if deep else window, size, mode="bilinear", antialias=True)
    made = made[0].permute(1, 2, 0).numpy()
    return np.rint(made).clip(0, 65_535).astype(np.uint16) if deep else made


@dataclass(frozen=True)
class ImageTransformed:
    """A function from a record and its seed to (image, label), for an image transform; pickles if the transform does.

    `image_transform`: called with an RGB Pillow image, as by torchvision's `ImageFolder`; one of albumentations with
    `image=`, a uint8 array [height, width, 3]. Its draws from the generators of PyTorch, `random`, NumPy and
    albumentations depend only on the seed. `label`: None for the image alone.
    """

    image_transform: Callable[..., Any]
    label: Label | None

    def __call__(self, record: Mapping[str, Any], seed: int) -> Any:
        image = self._image(record, seed)
        return image if self.label is None else (image, self.label(record))

    def _image(self, record: Mapping[str, Any], seed: int) -> torch.Tensor:
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
        return _tensor(made)


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
    if written_in(transform, "albumentations") and not hasattr(transform, "set_random_state"):
        problem = "this version of albumentations cannot be seeded for each sample"
        raise UsageError("image_transform", problem, "install albumentations 2.0 or newer")
    if _takes_boxes(transform):
        problem = "it has bbox_params or keypoint_params, but image_transform= passes only the image"
        raise UsageError("image_transform", problem, _WITH_BOXES)
    if not written_in(transform, "albumentations"):
        remedy = "pass a function of a record and a seed as transform="
        check_function("image_transform", transform, "image", remedy=remedy)


def check_transform(transform: Any) -> None:
    """Raise UsageError unless `transform` can be called with a record and a seed."""
    if written_in(transform, "torchvision", "albumentations"):
        problem = (
            f"got {type(transform).__name__} of {type(transform).__module__.partition('.')[0]}, which takes images"
        )
        remedy = _WITH_BOXES if _takes_boxes(transform) else f"pass it as image_transform=; {_WITH_BOXES}"
        raise UsageError("transform", problem, remedy)
    check_function("transform", transform, "record", "seed", remedy="pass a function of an image as image_transform=")
