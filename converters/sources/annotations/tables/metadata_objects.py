"""The objects of a row of Hugging Face's metadata: lists of equal length, or a list with an object each."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.annotations import IS_CROWD
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.errors import escape

_CLASSES = ("categories", "category", "labels", "label", "classes", "class")


class BadRowError(Exception):
    """The objects of a row cannot be told apart: `count`, how many there seem to be, and why."""

    def __init__(self, count: int, reason: str) -> None:
        super().__init__(count, reason)
        self.count, self.reason = count, reason


@dataclass(frozen=True)
class RowObject:
    """One entry of a row's objects, as it stands there; `has`: which of "class", "area", "iscrowd" it has."""

    box: Any
    category: Any
    area: Any
    crowd: Any
    has: frozenset[str]


def has_objects(row: Mapping[str, Any]) -> bool:
    """Whether a row has them as JSON, which a CSV file cannot."""
    return isinstance(row.get("objects"), dict | list)


def objects_of(row: Mapping[str, Any]) -> list[RowObject]:
    """The objects of a row, from lists of equal length or a list of objects. Raises BadRowError."""
    said = row.get("objects")
    if said is None or said == [] or said == {} or isinstance(said, str):  # text: of a CSV file, which has no objects
        return []
    if isinstance(said, list):
        if not all(isinstance(one, dict) for one in said):
            raise BadRowError(len(said), "objects is a list of other things than objects")
        return [_object(one) for one in said]
    if not isinstance(said, dict):
        raise BadRowError(1, f"got {type(said).__name__} in objects")
    boxes = said.get("bbox")
    if not isinstance(boxes, list):
        raise BadRowError(1, "objects has no list bbox")
    columns = {key: value for key, value in said.items() if key in ("bbox", *_CLASSES, "area", "iscrowd")}
    for key, value in columns.items():
        if not isinstance(value, list) or len(value) != len(boxes):
            got = f"{len(value)} of {key}" if isinstance(value, list) else f"no list {key}"
            raise BadRowError(max(len(boxes), 1), f"objects has {got} for {len(boxes)} of bbox")
    return [_object(dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def _object(said: Mapping[str, Any]) -> RowObject:
    named = next((key for key in _CLASSES if key in said), None)
    has = {"class"} if named is not None else set()
    has |= {key for key in ("area", "iscrowd") if said.get(key) is not None}
    return RowObject(
        said.get("bbox"), said[named] if named else None, said.get("area"), said.get("iscrowd"), frozenset(has)
    )


def category_of(value: Any) -> str | None:
    """A category as text; None for what is neither a name nor an integer."""
    if type(value) is int:
        return str(value) if abs(value) < 2**63 else None
    return value.strip() if isinstance(value, str) else None


def add_object(
    table: ObjectTable, place: int, number: int, one: RowObject, classes: ObjectClasses | None, seen: set[str]
) -> None:
    """One object into the table. Raises BadAnnotationError."""
    sides = one.box
    if sides in ([], None):
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, "no bbox")
    if not isinstance(sides, list) or len(sides) != 4 or not all(map(_is_number, sides)):
        reason = f"got the bbox {escape(json.dumps(sides)[:60])}, expected [left, top, width, height]"
        raise BadAnnotationError(AnnotationCode.LINE, reason)
    left, top, width, height = map(float, sides)
    label = 0
    if classes is not None:
        category = category_of(one.category)
        if category is None and one.category is not None:
            reason = f"got {escape(json.dumps(one.category)[:60])}, expected a name or an integer"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        label = classes.label(category or "")
    if one.crowd not in (None, 0, 1):
        reason = f"got iscrowd {escape(json.dumps(one.crowd)[:60])}, expected 0 or 1"
        raise BadAnnotationError(AnnotationCode.VALUE, reason)
    area = width * height if one.area is None else one.area
    if not _is_number(area) or (one.area is not None and not 0 <= area < math.inf):
        reason = f"got area {escape(json.dumps(one.area)[:60])}, expected a number from 0 on"
        raise BadAnnotationError(AnnotationCode.VALUE, reason)
    same = repr((one.box, one.category, one.area, one.crowd))
    if same in seen:
        raise BadAnnotationError(AnnotationCode.TWICE, "it is there already, the same in everything")
    seen.add(same)
    columns = {IS_CROWD: int(one.crowd or 0)}
    table.add(place, number, (left, top, left + width, top + height), label, columns=columns, area=float(area))


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number that a float holds; NaN and infinity are for the caller to judge."""
    return type(value) is float or (type(value) is int and abs(value) < 2**63)
