"""Checks of the arguments of transforms for detection and segmentation, and of the dataset that they need."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from shardfeed.annotations import BOX, KEYPOINTS, OBJECT_LABEL, OBJECT_MASK, RASTER, Keypoints
from shardfeed.errors import UsageError
from shardfeed.pipelines.geometry import check_flip
from shardfeed.schema import ENCODED, FORMAT, SOURCE_ID, Schema

BoxFormat = Literal[
    "xyxy", "yxyx", "xywh", "center_xywh", "center_yxhw", "rel_xyxy", "rel_yxyx", "rel_xywh", "rel_center_xywh"
]


@runtime_checkable
class SchemaTransform(Protocol):
    """A transform that looks at the schema first: `bind` returns the features that it needs, and a function to call."""

    def bind(self, schema: Schema) -> tuple[list[str], Callable[..., Any]]: ...


def check_image(image: Any, kind: type, package: str) -> None:
    """Raise UsageError unless `image` is of `kind`: a transform of `package` that reports the window it shows."""
    if not isinstance(image, kind):
        problem = f"got {image!r}, expected a transform that reports its crop window"
        remedy = f"random_resized_crop(512), resize_center_crop(512) or letterbox(512) of {package}"
        raise UsageError("image", problem, remedy)


def check_detection(boxes: str, crowd: str, crowds: Sequence[str], min_visible: float) -> None:
    """Raise UsageError for an unknown `boxes` or `crowd`, and for a `min_visible` that is not within 0 to 1."""
    for place, given, choices in (("boxes", boxes, get_args(BoxFormat)), ("crowd", crowd, crowds)):
        if given not in choices:
            raise UsageError(place, f"got {given!r}, expected one of {', '.join(choices)}")
    if not 0 <= min_visible <= 1:
        raise UsageError("min_visible", f"got {min_visible!r}, expected 0 to 1")


def box_columns(form: str, x0: Any, y0: Any, x1: Any, y1: Any) -> tuple[Any, Any, Any, Any]:
    """The four numbers of boxes of a `BoxFormat`, of which xmin, ymin, xmax, ymax are arrays or tensors [k] each."""
    x, y, wide, tall = (x0 + x1) / 2.0, (y0 + y1) / 2.0, x1 - x0, y1 - y0
    return {
        "xyxy": (x0, y0, x1, y1),
        "yxyx": (y0, x0, y1, x1),
        "xywh": (x0, y0, wide, tall),
        "center_xywh": (x, y, wide, tall),
        "center_yxhw": (y, x, tall, wide),
    }[form.removeprefix("rel_")]


def object_keys(
    schema: Schema, *optional: str, masks: bool, keypoints: bool, mirrors: bool, image_id: bool = False
) -> tuple[list[str], Keypoints | None]:
    """Return the features that a detection needs, with those of `optional` that exist, and the meaning of key points.

    Raises UsageError for a dataset without objects with classes, without something else that is asked for, and for key
    points without names, or that cannot be mirrored.
    """
    keys = [ENCODED, *[key for key in (FORMAT, *optional) if schema.key(key) is not None]]
    keys += _needed(
        schema, [*BOX, OBJECT_LABEL], "objects with classes", "convert annotations whose boxes have classes"
    )
    if masks:
        keys += _needed(schema, [OBJECT_MASK], "masks", "convert it again with --tasks boxes,masks")
    if image_id:
        keys += _needed(schema, [SOURCE_ID], "numeric image ids", "leave image_id out")
    if not keypoints:
        return keys, None
    keys += _needed(schema, KEYPOINTS, "key points", "convert it again with --tasks boxes,keypoints")
    if schema.keypoints is None:
        problem = "the dataset has no names of key points"
        raise UsageError("keypoints", problem, "give its schema `keypoints=Keypoints(names)`")
    if mirrors:
        check_flip(schema.keypoints.flip)
    return keys, schema.keypoints


def raster_keys(
    schema: Schema, void: int | None, *, letterboxes: bool, weighted: bool = False
) -> tuple[list[str], int | None]:
    """Return the features that a segmentation needs, and the value of pixels without a class: `void`, or the dataset's.

    Raises UsageError for a dataset without rasters, and if it has no such value and one is needed.
    """
    keys = [ENCODED, *_needed(schema, [RASTER], "rasters", "convert folders of images and masks")]
    void = schema.raster.void if void is None and schema.raster is not None else void
    if void is None and (weighted or letterboxes):
        why = "pixels around a letterbox become void" if letterboxes else "its pixels get the weight 0"
        raise UsageError("void", f"this dataset has no void value, and {why}", "give one, such as void=255")
    return keys + [FORMAT] * (schema.key(FORMAT) is not None), void


def _needed(schema: Schema, keys: Sequence[str], what: str, remedy: str) -> Sequence[str]:
    """Return the keys. Raises UsageError if the dataset lacks one."""
    for key in keys:
        if schema.key(key) is None:
            raise UsageError("transform", f"this dataset has no {what}: no feature {key}", remedy)
    return keys
