"""Objects of records as a view shows them, in NumPy; checks of the transforms' arguments, and of their dataset."""

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, RASTER, Keypoints
from shardfeed.declared import Range
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.kinds import BOXES, KEYPOINTS, MASKS, RASTERS, ROTATED, RecordKind
from shardfeed.pipelines.augment.augmentation import Effect, joined_effect
from shardfeed.pipelines.augment.crops import Crop
from shardfeed.pipelines.augment.view import View
from shardfeed.pipelines.decoding.pixels import PILLOW_ERRORS, undecodable
from shardfeed.pipelines.geometry import MIN_VISIBLE, check_flip, see_areas, see_boxes, see_points, see_raster
from shardfeed.schema import ENCODED, FORMAT, SOURCE_ID, Schema
from shardfeed.text import number

LabelOffset = Annotated[int, Range(0, 2**62)]  # so that the sum is one of int64, as labels are
BoxFormat = Literal[
    "xyxy",
    "yxyx",
    "xywh",
    "center_xywh",
    "center_yxhw",
    "rel_xyxy",
    "rel_yxyx",
    "rel_xywh",
    "rel_center_xywh",
    "xyxyxyxy",
]


@runtime_checkable
class SchemaTransform(Protocol):
    """A transform that looks at the schema first: `bind` returns the features that it needs, and a function to call."""

    def bind(self, schema: Schema) -> tuple[list[str], Callable[..., Any]]: ...


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
    schema: Schema,
    *optional: str,
    form: BoxFormat = "xyxy",
    masks: bool,
    keypoints: bool,
    mirrors: bool,
    image_id: bool = False,
    place: str = "transform",
) -> tuple[list[str], Keypoints | None]:
    """Return the features that a detection needs, with those of `optional` that exist, and the meaning of key points.

    `place`: the argument that asks for them.

    Raises UsageError for a dataset without objects with classes, without something else that is asked for, and for key
    points without names, or that cannot be mirrored.
    """
    keys = [ENCODED, *[key for key in (FORMAT, *optional) if schema.key(key) is not None]]
    keys += _needed(schema, BOXES, place, [*BOX, OBJECT_LABEL])
    if form == "xyxyxyxy":
        keys += _needed(schema, ROTATED, place)
    if masks:
        keys += _needed(schema, MASKS, place)
    if image_id and schema.key(SOURCE_ID) is None:
        problem = f"this dataset has no numeric image ids: no feature {SOURCE_ID}"
        raise UsageError(place, problem, "leave image_id out")
    keys += [SOURCE_ID] * image_id
    if not keypoints:
        return keys, None
    keys += _needed(schema, KEYPOINTS, place)
    if schema.keypoints is None:
        problem = "the dataset has no names of key points"
        raise UsageError("keypoints", problem, "give its schema `keypoints=Keypoints(names)`")
    if mirrors:
        check_flip(schema.keypoints.flip)
    return keys, schema.keypoints


def raster_keys(
    schema: Schema, void: int | None, crop: Crop, *, weighted: bool = False, place: str = "transform"
) -> tuple[list[str], int | None]:
    """Return the features that a segmentation needs, and the value of pixels without a class: `void`, or the dataset's.

    `crop`: of the images. `place`: the argument that asks for them: a transform, which takes `void`, or "targets",
    beside which none is.

    Raises UsageError for a dataset without rasters, and if it has no such value and one is needed.
    """
    keys = [ENCODED, *_needed(schema, RASTERS, place, [RASTER])]
    void = schema.raster.void if void is None and schema.raster is not None else void
    if void is None and (need := _need_of_void(crop, weighted)) is not None:
        in_transform = place == "transform"
        remedy = "give one, such as void=255" if in_transform else need.remedy
        raise UsageError("void" if in_transform else place, f"this dataset has no void value, and {need.why}", remedy)
    return keys + [FORMAT] * (schema.key(FORMAT) is not None), void


class _VoidNeed(NamedTuple):
    """A reason why rasters need a void value, and how to do without."""

    why: str
    remedy: str


def _need_of_void(crop: Crop, weighted: bool) -> _VoidNeed | None:
    """The first reason why the rasters that a crop shows need a void value."""
    if crop.letterboxes:
        return _VoidNeed("pixels around a letterbox become void", "leave letterbox out: crops have no padding")
    if uncovering := [each.name for each in crop.augment if Effect.UNCOVERS in joined_effect([each])]:
        names = ", ".join(dict.fromkeys(uncovering))
        return _VoidNeed(f"pixels from outside of the image, which {names} shows, become void", f"leave {names} out")
    return _VoidNeed("its pixels get the weight 0", "leave the weights out") if weighted else None


def _needed(schema: Schema, kind: RecordKind, place: str, keys: Collection[str] = ()) -> Collection[str]:
    """Return `keys`, by default all of a kind. Raises UsageError if the dataset lacks one."""
    for key in keys or kind.features:
        if schema.key(key) is None:
            in_python = kind.tasks.split(",")
            remedy = kind.remedy or f"convert it again with --tasks {kind.tasks} (in Python tasks={in_python})"
            raise UsageError(place, f"this dataset has no {kind.name}: no feature {key}", remedy)
    return keys or kind.features


def see_objects(
    record: Mapping[str, Any],
    view: View,
    form: BoxFormat = "xyxy",
    min_visible: float = MIN_VISIBLE,
    *,
    drop_crowd: bool = False,
    masks: bool = False,
    keypoints: Keypoints | None = None,
) -> dict[str, np.ndarray]:
    """The k objects of a record that are in the view, in stored order.

    boxes float32 [k, 4], or [k, 8] of rotated ones, labels int64 [k], area float32 [k], iscrowd int64 [k]; if
    requested, masks uint8 [k, height, width] and keypoints float32 [k, K, 3]. `keypoints`: their meaning. Raises
    IntegrityError if columns do not match.
    """
    corners = np.stack(_columns(record, BOX), 1)
    seen = see_boxes(corners, view, min_visible)
    if drop_crowd and IS_CROWD in record:
        chosen = record[IS_CROWD][seen.kept] == 0
        seen = seen.chosen(chosen)
    kept, count = seen.kept, len(corners)

    def column(key: str) -> np.ndarray:
        if key not in record:
            return np.zeros(len(kept), np.int64)
        return _of_length(key, record[key], count)[kept]

    if OBJECT_AREA in record:
        areas = see_areas(_of_length(OBJECT_AREA, record[OBJECT_AREA], count), seen, view)
    else:
        areas = np.prod(seen.boxes[:, 2:] - seen.boxes[:, :2], axis=1)
    if form == "xyxyxyxy":
        boxes = _points(ROTATED, record, count, view, None)[kept].reshape(-1, 8)
    else:
        boxes = _formatted(seen.boxes, form, view.target)
    found = {"boxes": boxes, "labels": column(OBJECT_LABEL), "area": areas, "iscrowd": column(IS_CROWD)}
    if masks:
        encoded = _of_length(OBJECT_MASK, record[OBJECT_MASK], count)
        found["masks"] = _masks([encoded[i] for i in kept.tolist()], view)
    if keypoints is not None:
        found["keypoints"] = _points(KEYPOINTS, record, count, view, keypoints)[kept]
    return found


def _points(
    kind: RecordKind, record: Mapping[str, Any], count: int, view: View, keypoints: Keypoints | None
) -> np.ndarray:
    """The points of a kind of all objects of the record: float32 [n, K, 2 or 3]. `keypoints`: their meaning."""
    columns, each = _columns(record, [*kind.features]), kind.each(keypoints)
    if len(columns[0]) != count * each:
        (key, *_), found = kind.features, number(len(columns[0]), "value")
        raise IntegrityError("record", f"{key} has {found} for {number(count, 'object')} with {each} each")
    columns = [values.reshape(count, each) for values in columns]
    x, y, visibility = columns if kind.visible else (*columns, None)
    return see_points(x, y, visibility, view, kind.flip(keypoints))


def multi_hot(labels: Sequence[int] | np.ndarray, classes: int) -> np.ndarray:
    """A set of classes as a vector: float32 [classes], 1 for each class in `labels`, else 0.

    Raises IntegrityError for a label that is not 0 to `classes` - 1, UsageError for fewer than one class.
    """
    hot = np.zeros(classes, np.float32)
    numbers = np.asarray(labels, np.int64)
    if numbers.ndim != 1:
        raise UsageError("labels", f"got an array of shape {numbers.shape}, expected integers [n]")
    wrong = numbers[(numbers < 0) | (numbers >= classes)]
    if len(wrong):
        raise IntegrityError("multi_hot", f"got the label {wrong[0]}, expected 0 to {classes - 1}")
    hot[numbers] = 1
    return hot


def _of_length(key: str, values: Any, count: int) -> Any:
    """The values. Raises IntegrityError unless there is one for each object."""
    if len(values) != count:
        raise IntegrityError("record", f"{key} has {number(len(values), 'value')} for {number(count, 'object')}")
    return values


def _columns(record: Mapping[str, Any], keys: Sequence[str]) -> list[np.ndarray]:
    """Arrays of equal length. Raises IntegrityError if lengths differ."""
    first, *_ = found = [np.asarray(record[key]) for key in keys]
    return [_of_length(key, values, len(first)) for key, values in zip(keys, found, strict=True)]


def _formatted(boxes: np.ndarray, form: str, target: tuple[int, int]) -> np.ndarray:
    """Convert xmin, ymin, xmax, ymax in pixels to a box format: float32 [k, 4]."""
    if form.startswith("rel_"):
        boxes = boxes / np.array([target[1], target[0]] * 2, np.float32)
    return np.stack(box_columns(form, *boxes.T), 1)


def _masks(encoded: Sequence[bytes], view: View) -> np.ndarray:
    """uint8 [k, height, width] of 0 and 1."""
    masks = np.zeros((len(encoded), *view.target), np.uint8)
    for mask, data in zip(masks, encoded, strict=True):
        mask[:] = see_raster(decoded_mask(data, view), view) != 0
    return masks


def decoded_mask(encoded: bytes, view: View) -> np.ndarray:
    """The values of a PNG of one channel, as large as the image; for a palette the indices, not the colours.

    Raises IntegrityError for other PNGs.
    """
    try:
        pixels = np.asarray(Image.open(io.BytesIO(encoded)))
    except PILLOW_ERRORS as error:
        raise undecodable(encoded, error) from None
    if pixels.shape != view.size:
        problem = f"a mask or raster has the shape {list(pixels.shape)}, its image {list(view.size)}"
        raise IntegrityError("record", problem, "convert the dataset again")
    return pixels
