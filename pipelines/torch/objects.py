"""Samples for detection and segmentation networks: an image and its annotations, in one view that is drawn once.

Boxes, masks, keypoints and rasters are computed by NumPy's `pipelines.geometry` itself, in the worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch

from shardfeed.annotations import IS_CROWD, OBJECT_AREA, RASTER, Keypoints
from shardfeed.declared import Fraction, Natural, checked
from shardfeed.errors import MissingExtraError, UsageError
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.geometry import MIN_VISIBLE, see_raster, to_source
from shardfeed.pipelines.objects import BoxFormat, LabelOffset, decoded_mask, object_keys, raster_keys, see_objects
from shardfeed.pipelines.torch.collate import Target
from shardfeed.pipelines.torch.images import GeometricTransform
from shardfeed.pipelines.torch.samples import ViewTransform
from shardfeed.schema import SOURCE_ID, Schema
from shardfeed.text import typed_number

Crowd = Literal["keep", "drop"]

_TORCHVISION = {"xyxy": "XYXY", "xywh": "XYWH", "center_xywh": "CXCYWH"}  # its name for these boxes


Windowed = Annotated[
    GeometricTransform,
    "random_resized_crop(512), resize_center_crop(512) or letterbox(512) of shardfeed.pipelines.torch",
]


@checked
def detection(
    image: Windowed,
    *,
    boxes: BoxFormat = "xyxy",
    min_visible: Fraction = MIN_VISIBLE,
    label_offset: LabelOffset = 0,
    crowd: Crowd = "keep",
    masks: bool = False,
    keypoints: bool = False,
    tv: bool = False,
) -> "Detection":
    """A transform that returns (image, target), as torchvision's detectors expect them.

    Loaders then return (images, list of targets): images are uint8 [b, 3, height, width]. A target is a dict of
    tensors, for the k objects in the image's window, in stored order:

    - boxes, float32 [k, 4], clipped to the window; an object whose box then has no area is dropped. labels, int64 [k].
      iscrowd, int64 [k]. A box that an augmentation turns is the box around what of the turned one is in the image.
    - area, float32 [k]: area of the object's region in the output of `image`, in pixels squared. If the window cuts an
      object, or an augmentation erases a part, its area shrinks in proportion to its box, which is an estimate. If the
      dataset has no areas, the area of the box is used.
    - orig_size, int64 [2]: height and width of the stored image.
    - image_id, int64 []: the id in `image/source_id`, as COCO's evaluation needs it.
    - scale, offset, unless the image's transform flips or moves pixels by an augmentation: float32 [2] each, x and y,
      which map pixel coordinates back to the stored image; see `boxes_to_source` and `masks_to_source`.
    - masks, keypoints, if requested.

    An image without objects has tensors of length 0.

    Args:
        image: `random_resized_crop(size)`, `resize_center_crop(size)` or `letterbox(size)`, of this package. Its random
            draw applies to the whole sample.
        boxes: "xyxy", "yxyx", "xywh", "center_xywh" and "center_yxhw" in pixels of the output of `image`; "rel_xyxy",
            "rel_yxyx", "rel_xywh" and "rel_center_xywh" as fractions of it. "xyxyxyxy" gives rotated boxes, float32
            [k, 8]: x and y of four corners, in pixels, which may be outside of the window.
        min_visible: the fraction of an object's box, 0..1, that must be inside the window, and after augmentations
            inside the image and not erased; else the object is dropped, with its label, mask, keypoints, crowd flag
            and area.
        label_offset: added to the labels, 0 or more: 1 for torchvision's R-CNNs, which use 0 as the background.
        crowd: treatment of objects that stand for a group: "keep" treats them like any other object, with iscrowd 1;
            "drop" leaves them out, for training detectors that cannot ignore them.
        masks: adds masks, uint8 [k, height, width], 1 inside of the object, else 0.
        keypoints: adds keypoints, float32 [k, K, 3]: x and y, in pixels, and visibility. All three are 0 for points
            that are missing, erased or outside of the window. Flipping swaps left and right keypoints, as the dataset
            defines; so do augmentations that mirror.
        tv: whether boxes are a `tv_tensors.BoundingBoxes` and masks a `tv_tensors.Mask` of torchvision, for its
            transforms.

    Raises:
        UsageError: for values out of range; and when a loader is made, if the dataset has no objects or lacks a
            requested feature, or if keypoints cannot be flipped.
        MissingExtraError: with `tv`, if torchvision is not installed.

    Example:
        crop = random_resized_crop(512, area=(0.3, 1.0))
        loader = torch_loader(data["train"], batch_size=16, transform=detection(crop, label_offset=1))
        for images, targets in loader:
            losses = model(list(images.to(device) / 255), [{k: v.to(device) for k, v in t.items()} for t in targets])

        # Inside your own transform:
        keys, detect = detection(crop).bind(data["train"].schema)
    """
    if tv and boxes not in _TORCHVISION:
        raise UsageError("boxes", f"got {boxes!r}, expected one of {', '.join(_TORCHVISION)} with tv=True")
    if tv:
        _tv_tensors()
    return Detection(image, boxes, float(min_visible), label_offset, crowd, masks, keypoints, tv)


@checked
def segmentation(image: Windowed, *, void: Natural | None = None, dtype: torch.dtype = torch.int64) -> "Segmentation":
    """A transform that returns (image, mask), where the mask has a class for each pixel.

    Loaders then return (images, masks): images are uint8 [b, 3, height, width], masks [b, height, width]: resized with
    nearest-neighbour interpolation, so that no new class values appear. The value of pixels without a class,
    `split.schema.raster.void`, is kept: pass it to the loss as `ignore_index`.

    Args:
        image: `random_resized_crop(size)`, `resize_center_crop(size)` or `letterbox(size)`, of this package.
            The padding of a letterbox is void, and so are pixels that an augmentation erases or takes from outside of
            the image. Without a void value, erased pixels keep their class.
        void: the value of pixels without a class. None: the dataset's void value.
        dtype: dtype of the masks. `torch.uint8` takes an eighth of the memory, if no value exceeds 255.

    Raises:
        UsageError: for values out of range; and when a loader is made, if the dataset has no segmentation masks, or if
            a letterbox or an augmentation needs a void value that the dataset does not have.

    Example:
        loader = torch_loader(data["train"], batch_size=8, transform=segmentation(random_resized_crop(512)))
        void = data["train"].schema.raster.void
        for images, masks in loader:
            loss = F.cross_entropy(model(images / 255), masks, ignore_index=-100 if void is None else void)
    """
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        raise UsageError("dtype", f"got {dtype}, expected an integer dtype")
    if void is not None and void > torch.iinfo(dtype).max:
        raise UsageError("void", f"got {void!r}, expected a value that a raster of {dtype} can have")
    return Segmentation(image, void, dtype)


@dataclass(frozen=True)
class Detection(ViewTransform[tuple[torch.Tensor, Target]]):
    """See `detection`. `meaning`: that of the keypoints, once the dataset is known. Pickles."""

    image: GeometricTransform
    boxes: BoxFormat
    min_visible: float
    label_offset: int
    crowd: Crowd
    masks: bool
    keypoints: bool
    tv: bool
    meaning: Keypoints | None = None

    @checked
    def bind(self, schema: Schema) -> tuple[list[str], "Detection"]:
        """See `SchemaTransform`. Raises UsageError if the dataset lacks something it needs."""
        mirrors, optional = self.image.crop.swaps_sides, (SOURCE_ID, OBJECT_AREA, IS_CROWD)
        keys, meaning = object_keys(
            schema, *optional, form=self.boxes, masks=self.masks, keypoints=self.keypoints, mirrors=mirrors
        )
        return keys, replace(self, meaning=meaning)

    def follow(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> tuple[torch.Tensor, Target]:
        """The image, and the record's objects as the view shows them."""
        if self.keypoints and self.meaning is None:
            raise UsageError("detection", "it was called before it was bound to a schema", "call what `bind` returns")
        found = see_objects(
            record,
            view,
            self.boxes,
            self.min_visible,
            drop_crowd=self.crowd == "drop",
            masks=self.masks,
            keypoints=self.meaning,
        )
        target = Target((key, torch.from_numpy(values)) for key, values in found.items())
        target["labels"] += self.label_offset
        target["orig_size"] = torch.tensor(view.size)
        if (number := typed_number(record.get(SOURCE_ID, b""))) is not None:
            target["image_id"] = torch.tensor(number)
        if self.image.crop.goes_back:
            target["scale"], target["offset"] = map(torch.from_numpy, to_source(view))
        return image, self._for_torchvision(target, view) if self.tv else target

    def _for_torchvision(self, target: Target, view: View) -> Target:
        tv_tensors = _tv_tensors()
        form = _TORCHVISION[self.boxes]
        target["boxes"] = tv_tensors.BoundingBoxes(target["boxes"], format=form, canvas_size=view.target)
        if self.masks:
            target["masks"] = tv_tensors.Mask(target["masks"])
        return target


@dataclass(frozen=True)
class Segmentation(ViewTransform[tuple[torch.Tensor, torch.Tensor]]):
    """See `segmentation`. Pickles."""

    image: GeometricTransform
    void: int | None
    dtype: torch.dtype

    @checked
    def bind(self, schema: Schema) -> tuple[list[str], "Segmentation"]:
        """See `SchemaTransform`. Raises UsageError if the dataset lacks something it needs."""
        keys, void = raster_keys(schema, self.void, self.image.crop)
        return keys, replace(self, void=void)

    def follow(self, record: Mapping[str, Any], image: torch.Tensor, view: View) -> tuple[torch.Tensor, torch.Tensor]:
        """The image, and the record's raster as the view shows it."""
        raster = see_raster(decoded_mask(record[RASTER], view), view, self.void)
        return image, torch.from_numpy(raster.astype(np.int64)).to(self.dtype)


def _tv_tensors() -> Any:
    """torchvision's module. Raises MissingExtraError."""
    try:
        from torchvision import tv_tensors  # type: ignore[import-not-found]  # no extra of this project
    except ModuleNotFoundError as error:
        raise MissingExtraError("tv=True", "torchvision is not installed", "pip install torchvision") from error
    return tv_tensors
