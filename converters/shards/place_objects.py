"""The objects of one image as stored in its record: moved to their position in the stored image, clipped, checked."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import BOX, IS_CROWD, OBJECT_AREA, OBJECT_LABEL, OBJECT_MASK, OBJECT_TEXT
from shardfeed.converters.images.pixels import Placement, is_upright
from shardfeed.converters.images.store import StoredImage
from shardfeed.converters.rejects import Account, AnnotationCode, BadAnnotationError, LeftOut, RejectCode, RejectedError
from shardfeed.converters.shards.object_masks import draw_mask, encode_mask
from shardfeed.converters.sources.source import Objects
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.kinds import OF_OBJECTS, POINTS, RecordKind, polygon_areas
from shardfeed.schema import Schema, Value
from shardfeed.text import number

# Columns of which `Objects` need not have a value.
_MADE = {key for kind in OF_OBJECTS for key in kind.features} - {OBJECT_LABEL, IS_CROWD}
_PIXELS, _SHARE = 1.0, 0.01  # how far a box or keypoint may leave the image, the larger of the two, to be clipped


class Placed(NamedTuple):
    """`values`: of the columns of objects, by key. `account`: of the annotations."""

    values: dict[str, Value]
    account: Account


def left_out_with_image(key: bytes, objects: Objects | None) -> Account:
    """Account of the objects of an image that is not stored: all are left out with it."""
    names = objects.names if objects is not None else ()
    left_out = tuple(LeftOut(key, AnnotationCode.IMAGE.value, f"{name}: its image was left out") for name in names)
    return Account(read=len(left_out), left_out=left_out)


def place_objects(key: bytes, objects: Objects | None, image: StoredImage, schema: Schema) -> Placed:
    """The columns of `schema.object_keys` for the objects inside the image, in order.

    Raises RejectedError, E_FRAME, if it is unknown whether boxes refer to the stored or the upright image. Raises
    UsageError for columns whose length is not the number of boxes.
    """
    objects = objects if objects is not None else Objects(np.zeros((0, 4)))
    _check_lengths(key, objects, schema)
    upright = _of_upright(objects, image.placement)
    width, height = image.placement.size(upright=upright)
    sides = np.array([width, height], np.float64)
    corners = np.asarray(objects.boxes, np.float64).reshape(-1, 2, 2)
    corners = corners if objects.fractions else corners / sides
    points: dict[RecordKind, np.ndarray] = {}
    for kind in POINTS if objects.points else ():
        if kind.word not in objects.points:
            continue
        points[kind] = found = np.array(objects.points[kind.word], np.float64)
        if not objects.fractions:
            found[..., :2] /= sides
        if kind.visible:
            found[found[..., 2] == 0] = 0

    outlined = any(kind.outline for kind in points)
    moved = image.placement.moved(corners if outlined else corners.clip(0, 1), upright=upright)
    shown = moved.clip(0, 1)
    stored = shown.astype(np.float32)
    low, high = stored.min(axis=1), stored.max(axis=1)
    kept: list[int] = []
    drawn: list[np.ndarray] = []
    left_out: list[LeftOut] = []
    beyond = np.zeros((len(objects), 2)) if outlined else _beyond(corners, sides)
    sound = _is_near(beyond, sides) & ((corners[:, 0] < corners[:, 1]) & (low < high)).all(axis=1)
    faults = _value_faults(objects)
    sound[list(faults)] = False
    for kind, found in points.items():
        sound &= _are_points(kind, found) & (kind.outline | _is_near(_distance_if_visible(kind, found, sides), sides))
    for i, (name, is_sound) in enumerate(zip(objects.names, sound.tolist(), strict=True)):
        try:
            if not is_sound:
                raise faults.get(i) or _fault(
                    corners[i], {kind: found[i] for kind, found in points.items()}, sides, image.placement
                )
            if OBJECT_MASK in schema.features:
                drawn.append(draw_mask(objects.outlines[i] if objects.outlines else None, (height, width), objects))
        except BadAnnotationError as error:
            left, top, right, bottom = objects.boxes[i]
            reason = f"{name}, {left:g}, {top:g} to {right:g}, {bottom:g}: {error.reason}"
            left_out.append(LeftOut(key, error.code.value, reason))
            continue
        kept.append(i)
    out_by = beyond[kept].max(axis=1)

    sides_of = low[kept, 0], low[kept, 1], high[kept, 0], high[kept, 1]
    values: dict[str, Value] = {side: of_all.tolist() for side, of_all in zip(BOX, sides_of, strict=True)}
    for column, cells in objects.columns.items():
        values[column] = [cells[i] for i in kept]
    if OBJECT_TEXT in schema.features:
        names = schema.class_names[OBJECT_LABEL]
        values[OBJECT_TEXT] = [names[objects.columns[OBJECT_LABEL][i]].encode() for i in kept]
    if OBJECT_AREA in schema.features:
        areas = (corners[:, 1] - corners[:, 0]).prod(axis=-1) * width * height
        if objects.areas is not None:
            areas = objects.areas
        elif drawn:
            areas[kept] = [mask.sum() for mask in drawn]
        elif outlined:
            areas = next(polygon_areas(found) for kind, found in points.items() if kind.outline) * width * height
        whole, inside = (np.abs(of_all[:, 1] - of_all[:, 0]).prod(axis=-1) for of_all in (moved, shown))
        share = inside / np.where(whole > 0, whole, 1)  # of each box that the stored image shows
        values[OBJECT_AREA] = _floats((areas * share * image.placement.scale)[kept])
    if OBJECT_MASK in schema.features:
        values[OBJECT_MASK] = [encode_mask(mask, image, upright=upright) for mask in drawn]
    for kind in POINTS:
        if kind.is_in(schema) and (each := kind.each(schema.keypoints)):
            found = points[kind] if kind in points else np.zeros((len(objects), each, len(kind.features)))
            values.update(_point_values(kind, found[kept], image.placement, upright=upright))
    clipped, farthest = int(np.count_nonzero(out_by)), float(out_by.max(initial=0))
    why = f"{clipped} of {len(kept)} annotations, by at most {farthest:.3g} pixels"
    clips = (LeftOut(key, "clipped", why),) if clipped else ()
    account = Account(len(objects), len(kept), clipped, farthest, tuple(left_out), clips)
    account.check(name_text(key))
    return Placed(values, account)


def _value_faults(objects: Objects) -> dict[int, BadAnnotationError]:
    """Faults of objects with an invalid area or crowd flag, by place."""
    faults: dict[int, BadAnnotationError] = {}
    if objects.areas is not None:
        areas = np.asarray(objects.areas, np.float64)
        for i in np.flatnonzero(~((areas >= 0) & np.isfinite(areas.astype(np.float32)))).tolist():
            reason = f"its area is {areas[i]:g}, expected 0 or more"
            faults[i] = BadAnnotationError(AnnotationCode.VALUE, reason)
    for i, crowd in enumerate(objects.columns.get(IS_CROWD, ())):
        if crowd not in (0, 1):
            faults[i] = BadAnnotationError(AnnotationCode.VALUE, f"its is_crowd is {crowd}, expected 0 or 1")
    return faults


def _check_lengths(key: bytes, objects: Objects, schema: Schema) -> None:
    """Raise UsageError if a column does not have one value per object, or if a column of the schema is missing."""
    count = len(objects)
    lists: dict[str, Sequence[Any] | np.ndarray | None] = {"names": objects.names, **objects.columns}
    lists |= {**objects.points, "outlines": objects.outlines}
    for name, values in lists.items():
        if values is not None and len(values) != count:
            problem = f"got {len(values)} of {escape(name)} for {number(count, 'box', 'boxes')}"
            raise UsageError(f"sample {name_text(key)}, objects", problem, "give one for each box")
    there = _MADE | objects.columns.keys()
    lacking = [name for name in schema.object_keys if name not in there] if count else []
    if lacking:
        raise UsageError(f"sample {name_text(key)}, objects", f"no column {lacking[0]}, which source.schema declares")


def _of_upright(objects: Objects, placement: Placement) -> bool:
    """Whether places are of the upright image. Raises RejectedError where that is not to be known."""
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    size = objects.size
    if size is not None and size not in (stored, turned):
        what = "the image" if stored == turned else "the image, upright or as its file has it,"
        problem = f"annotated as {size[0]} x {size[1]} pixels, {what} has {stored[0]} x {stored[1]}"
        raise RejectedError(RejectCode.FRAME, problem)
    unclear = "EXIF rotates the image, and it is unknown whether the annotations are rotated"
    return not len(objects) or is_upright(placement, size, objects.upright, unclear)


def _beyond(places: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Number of pixels by which points [..., k, 2] leave the image on either axis, 0 inside: float64 [..., 2]."""
    return (np.abs(places - places.clip(0, 1)) * sides).max(axis=-2, initial=0)


def _distance_if_visible(kind: RecordKind, points: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Like `_beyond`, of the points [..., K, 2 or 3] that are present."""
    return _beyond(np.where(points[..., 2:] > 0, points[..., :2], 0) if kind.visible else points, sides)


def _is_near(beyond: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Whether these numbers of pixels outside, [..., 2], are acceptable on both axes: bool [...]."""
    return np.all(beyond <= np.maximum(_PIXELS, _SHARE * sides), axis=-1)


def _are_points(kind: RecordKind, points: np.ndarray) -> np.ndarray:
    """Whether points [..., K, 2 or 3] have a visibility of 0, 1 or 2, or else go around an area: bool [...]."""
    if not kind.visible:
        before, after = points - np.roll(points, 1, axis=-2), np.roll(points, -1, axis=-2) - points
        turns = np.sign(before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]).sum(axis=-1)
        return np.all(np.isfinite(points), axis=(-2, -1)) & (turns != 0)  # two to each side where sides cross
    values = points[..., 2]
    return ((values == 0) | (values == 1) | (values == 2)).all(axis=-1)


def _fault(
    corners: np.ndarray, points: Mapping[RecordKind, np.ndarray], sides: np.ndarray, placement: Placement
) -> BadAnnotationError:
    """Explain why an object with its box [2, 2] and its points [K, 2 or 3] is not written."""
    if not np.isfinite(corners).all() or not (corners[0] < corners[1]).all():
        return BadAnnotationError(AnnotationCode.BOX_EMPTY, "expected left < right and top < bottom")
    beyond = _beyond(corners, sides)
    if not _is_near(beyond, sides):
        reason = f"{beyond.max():.1f} pixels outside of {sides[0]:.0f} x {sides[1]:.0f}"
        return BadAnnotationError(AnnotationCode.BOX_OUTSIDE, reason)
    for kind, found in points.items():
        if kind.outline and np.isfinite(found).all() and not _are_points(kind, found):
            reason = "its corners are on a line, or its sides cross: expected the corners in their order around it"
            return BadAnnotationError(AnnotationCode.OUTLINE, reason)
        if not np.isfinite(found).all() or not _are_points(kind, found):
            return BadAnnotationError(AnnotationCode.KEYPOINTS, "its key points are not x, y and 0, 1 or 2")
        beyond = _distance_if_visible(kind, found, sides)
        if not kind.outline and not _is_near(beyond, sides):
            return BadAnnotationError(AnnotationCode.KEYPOINTS, f"a key point is {beyond.max():.1f} pixels outside")
    if placement.fit is None:
        return BadAnnotationError(AnnotationCode.BOX_EMPTY, "too small for float32")
    return BadAnnotationError(AnnotationCode.CUT_OFF, "in the part of the image that is cropped")


def _point_values(kind: RecordKind, points: np.ndarray, placement: Placement, *, upright: bool) -> dict[str, Value]:
    """Columns of points [n, K, 2 or 3]; outside the image they count as absent, unless they are an outline."""
    if kind.outline:
        moved = placement.moved(points, upright=upright).reshape(-1, 2)
        return {key: _floats(moved[:, axis]) for axis, key in enumerate(kind.features)}
    moved = placement.moved(np.clip(points[..., :2], 0, 1), upright=upright)
    there = (points[..., 2] > 0) & ((moved >= 0) & (moved <= 1)).all(axis=-1)
    x, y = (_floats(np.where(there, moved[..., axis], 0).ravel()) for axis in (0, 1))
    visible = np.where(there, points[..., 2], 0).astype(int).ravel().tolist()
    return dict(zip(kind.features, (x, y, visible), strict=True))


def _floats(values: np.ndarray) -> list[float]:
    return values.astype(np.float32).tolist()
