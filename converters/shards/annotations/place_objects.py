"""The objects of one image as its record has them: moved to where they are in the stored image, clipped, checked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import (
    BOX,
    KEYPOINT_VISIBILITY,
    KEYPOINT_X,
    KEYPOINT_Y,
    KEYPOINTS,
    OBJECT_AREA,
    OBJECT_LABEL,
    OBJECT_MASK,
    OBJECT_TEXT,
)
from shardfeed.converters.images.fit import Placement
from shardfeed.converters.images.store import StoredImage
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.shards.annotations.frame import is_upright
from shardfeed.converters.shards.annotations.masks import draw_mask, encode_mask
from shardfeed.converters.sources.account import Account, AnnotationCode, BadAnnotationError, LeftOut
from shardfeed.converters.sources.objects import Objects
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.schema import Schema, Value

_PIXELS, _SHARE = 1.0, 0.01  # how far a box or key point may leave the image, the larger of the two, to be clipped


class Placed(NamedTuple):
    """`values`: of the columns of objects, by key. `account`: of the annotations."""

    values: dict[str, Value]
    account: Account


def left_out_with_image(key: bytes, objects: Objects | None) -> Account:
    """Of an image that is not stored."""
    names = objects.names if objects is not None else ()
    left_out = tuple(LeftOut(key, AnnotationCode.IMAGE.value, f"{name}: its image was left out") for name in names)
    return Account(read=len(left_out), left_out=left_out)


def place_objects(key: bytes, objects: Objects | None, image: StoredImage, schema: Schema) -> Placed:
    """The columns of `schema.object_keys`, of those objects that are in the image, in their order.

    Raises RejectedError, E_FRAME, where nothing tells of which image the boxes are: the one in the file, or the one
    that its EXIF turns upright. Raises UsageError for columns that are not as long as there are boxes.
    """
    objects = objects if objects is not None else Objects(np.zeros((0, 4)))
    _check_lengths(key, objects, schema)
    upright = _of_upright(objects, image.placement)
    width, height = image.placement.size(upright=upright)
    sides = np.array([width, height], np.float64)
    corners = np.asarray(objects.boxes, np.float64).reshape(-1, 2, 2)
    corners = corners if objects.fractions else corners / sides
    points = objects.keypoints
    if points is not None:
        points = np.array(points, np.float64)
        points[..., :2] = points[..., :2] if objects.fractions else points[..., :2] / sides
        points[points[..., 2] == 0] = 0

    inside = image.placement.moved(np.clip(corners, 0, 1), upright=upright)
    moved = np.clip(inside, 0, 1).astype(np.float32)
    low, high = moved.min(axis=1), moved.max(axis=1)
    kept: list[int] = []
    drawn: list[np.ndarray] = []
    left_out: list[LeftOut] = []
    beyond = [0.0]
    for i, name in enumerate(objects.names):
        try:
            out_by = _checked(corners[i], None if points is None else points[i], sides)
            if not (low[i] < high[i]).all():
                raise _nothing_left(image.placement)
            if OBJECT_MASK in schema.features:
                drawn.append(draw_mask(objects.outlines[i] if objects.outlines else None, (height, width), objects))
        except BadAnnotationError as error:
            left, top, right, bottom = objects.boxes[i]
            reason = f"{name}, {left:g}, {top:g} to {right:g}, {bottom:g}: {error.reason}"
            left_out.append(LeftOut(key, error.code.value, reason))
            continue
        kept.append(i)
        beyond.append(out_by)

    sides_of = low[kept, 0], low[kept, 1], high[kept, 0], high[kept, 1]
    values: dict[str, Value] = {side: of_all.tolist() for side, of_all in zip(BOX, sides_of, strict=True)}
    for column, cells in objects.columns.items():
        values[column] = [cells[i] for i in kept]
    if OBJECT_TEXT in schema.features:
        names = schema.class_names[OBJECT_LABEL]
        values[OBJECT_TEXT] = [names[objects.columns[OBJECT_LABEL][i]].encode() for i in kept]
    if OBJECT_AREA in schema.features:
        areas = np.prod(corners[:, 1] - corners[:, 0], axis=-1) * width * height
        if objects.areas is not None:
            areas = objects.areas
        elif drawn:
            areas[kept] = [mask.sum() for mask in drawn]
        values[OBJECT_AREA] = _floats((areas * _share_left(inside) * image.placement.scale)[kept])
    if OBJECT_MASK in schema.features:
        values[OBJECT_MASK] = [encode_mask(mask, image, upright=upright) for mask in drawn]
    if schema.keypoints is not None:
        points = np.zeros((len(objects), len(schema.keypoints.names), 3)) if points is None else points
        values.update(_keypoint_values(points[kept], image.placement, upright=upright))
    account = Account(len(objects), len(kept), sum(out > 0 for out in beyond), max(beyond), tuple(left_out))
    account.check(name_text(key))
    return Placed(values, account)


def _check_lengths(key: bytes, objects: Objects, schema: Schema) -> None:
    """Raises UsageError where a column has not one value for each object, or a column of the schema is not there."""
    count = len(objects)
    lists: dict[str, Sequence[Any] | np.ndarray | None] = {"names": objects.names, **objects.columns}
    lists |= {"keypoints": objects.keypoints, "outlines": objects.outlines}
    for name, values in lists.items():
        if values is not None and len(values) != count:
            problem = f"got {len(values)} of {escape(name)} for {count} boxes"
            raise UsageError(f"sample {name_text(key)}, objects", problem, "give one for each box")
    made = {*BOX, *KEYPOINTS, OBJECT_AREA, OBJECT_TEXT, OBJECT_MASK}
    lacking = [name for name in schema.object_keys if name not in made and name not in objects.columns]
    if count and lacking:
        raise UsageError(f"sample {name_text(key)}, objects", f"no column {lacking[0]}, which is in source.schema")


def _of_upright(objects: Objects, placement: Placement) -> bool:
    """Whether places are of the upright image. Raises RejectedError where that is not to be known."""
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    size = objects.size
    if size is not None and size not in (stored, turned):
        what = "the image" if stored == turned else "the image, upright or as its file has it,"
        raise RejectedError(
            RejectCode.FRAME, f"annotated as {size[0]} x {size[1]} pixels, {what} has {stored[0]} x {stored[1]}"
        )
    unclear = "its EXIF turns it, and nothing tells whether the annotations are"
    return not len(objects) or is_upright(placement, size, objects.upright, unclear)


def _beyond(corners: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """By how many pixels points [..., 2] leave the image on either axis, 0 inside: float64 [2]."""
    out = np.maximum(np.maximum(-corners, corners - 1), 0) * sides
    return out.reshape(-1, 2).max(axis=0)


def _checked(corners: np.ndarray, points: np.ndarray | None, sides: np.ndarray) -> float:
    """By how many pixels the box of an object leaves its image, which is not too many. Raises BadAnnotationError."""
    allowed = np.maximum(_PIXELS, _SHARE * sides)
    if not np.isfinite(corners).all() or not (corners[0] < corners[1]).all():
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "expected left < right and top < bottom")
    beyond = _beyond(corners, sides)
    if (beyond > allowed).any():
        reason = f"{beyond.max():.1f} pixels outside of {sides[0]:.0f} x {sides[1]:.0f}"
        raise BadAnnotationError(AnnotationCode.BOX_OUTSIDE, reason)
    if points is not None:
        if not np.isfinite(points).all() or not np.isin(points[:, 2], (0, 1, 2)).all():
            raise BadAnnotationError(AnnotationCode.KEYPOINTS, "its key points are not x, y and 0, 1 or 2")
        seen = points[points[:, 2] > 0, :2]
        if len(seen) and (_beyond(seen, sides) > allowed).any():
            reason = f"a key point is {_beyond(seen, sides).max():.1f} pixels outside"
            raise BadAnnotationError(AnnotationCode.KEYPOINTS, reason)
    return float(beyond.max())


def _nothing_left(placement: Placement) -> BadAnnotationError:
    """Of an object that is in the image, and has no area in what is stored of it."""
    if placement.fit is None:
        return BadAnnotationError(AnnotationCode.BOX_EMPTY, "smaller than a number of 32 bits can say")
    return BadAnnotationError(AnnotationCode.CUT_OFF, "in the part of the image that is cut off")


def _share_left(boxes: np.ndarray) -> np.ndarray:
    """Of boxes [n, 2, 2], fractions of an image, some outside: which share of each is inside, float64 [n]."""
    left = np.clip(boxes, 0, 1)
    whole, inside = (np.abs(of_all[:, 1] - of_all[:, 0]).prod(axis=-1) for of_all in (boxes, left))
    return inside / np.where(whole > 0, whole, 1)


def _keypoint_values(points: np.ndarray, placement: Placement, *, upright: bool) -> dict[str, Value]:
    """The columns of key points [n, K, 3]: those that are cut off are not there."""
    moved = placement.moved(np.clip(points[..., :2], 0, 1), upright=upright)
    there = (points[..., 2] > 0) & ((moved >= 0) & (moved <= 1)).all(axis=-1)
    x, y = (_floats(np.where(there, moved[..., axis], 0).ravel()) for axis in (0, 1))
    return {
        KEYPOINT_X: x,
        KEYPOINT_Y: y,
        KEYPOINT_VISIBILITY: np.where(there, points[..., 2], 0).astype(int).ravel().tolist(),
    }


def _floats(values: np.ndarray) -> list[float]:
    return values.astype(np.float32).tolist()
