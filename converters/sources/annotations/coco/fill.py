"""COCO's annotations into a table of objects or a column of captions; those that cannot be are listed."""

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfeed.annotations import IS_CROWD
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError, LeftOut
from shardfeed.converters.sources.annotations.coco.stream import JsonStream
from shardfeed.converters.sources.annotations.coco.survey import Id, Survey, file_name, said
from shardfeed.converters.sources.objects import Outline
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError

_LARGEST_AREA = 1e15  # pixels: no image is larger, and a float32 can say it


@dataclass
class Fill:
    """Takes the annotations of one file after the other.

    `places`: the number of each image by its id, or why it is no sample. `labels`: by category id. `table`: of objects,
    None where captions are taken. `captions`: (image, text) of each. `left_out`: those that were not taken.
    """

    labels: Mapping[int, int]
    table: ObjectTable | None
    masks: bool = False
    keypoints: int = 0
    areas: bool = False
    images: "array[int]" = field(default_factory=lambda: array("q"))
    texts: list[bytes] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def take(self, survey: Survey, places: Mapping[Id, int | Skipped]) -> None:
        """All annotations of a file. Raises LabelFileError where two of one id say different things."""
        first: dict[int, str] = {}  # of ids that are there more than once
        stream = JsonStream(survey.path, survey.offset)
        of_file = file_name(survey.path).encode("utf-8", "surrogateescape")
        try:
            for i, entry in enumerate(stream.elements()):
                own = entry.get("id") if isinstance(entry, dict) else None
                number = own if survey.own_ids and type(own) is int else i
                key = of_file
                try:
                    if not isinstance(entry, dict):
                        raise BadAnnotationError(AnnotationCode.LINE, f"got {said(entry)}, expected an object")
                    if type(own) is int and own in survey.twice:
                        _check_twice(survey, own, entry, first)
                    place = place_of(entry, places)
                    if isinstance(place, Skipped):
                        key = place.key
                        reason = f"its image was left out: {place.reason}"
                        raise BadAnnotationError(AnnotationCode.IMAGE, reason)
                    if self.table is None:
                        self._caption(entry, place)
                    else:
                        self._object(self.table, entry, place, number)
                except BadAnnotationError as error:
                    what = "annotation" if survey.own_ids else "entry"
                    self.left_out.append(LeftOut(key, error.code.value, f"{what} {number}: {error.reason}"))
        finally:
            stream.close()

    def _caption(self, entry: Mapping[str, Any], place: int) -> None:
        text = entry.get("caption")
        if not isinstance(text, str) or not text.strip():
            raise BadAnnotationError(AnnotationCode.VALUE, f"its caption is {said(text)}, expected a text")
        try:
            self.texts.append(text.strip().encode())
        except UnicodeEncodeError:
            raise BadAnnotationError(AnnotationCode.VALUE, f"its caption is {said(text)}, no text") from None
        self.images.append(place)

    def _object(self, table: ObjectTable, entry: Mapping[str, Any], place: int, number: int) -> None:
        category = entry.get("category_id")
        label = self.labels.get(category) if type(category) is int else None
        if label is None:
            reason = f"its category_id is {said(category)}, which no category has"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        left, top, width, height = box_of(entry.get("bbox"))
        table.add(
            place,
            number,
            (left, top, left + width, top + height),
            label,
            columns={IS_CROWD: crowd_of(entry)},
            area=area_of(entry.get("area"), width * height) if self.areas else 0.0,
            keypoints=_keypoints(entry, self.keypoints) if self.keypoints else (),
            outline=_outline(entry.get("segmentation")) if self.masks else None,
        )


def place_of(entry: Mapping[str, Any], places: Mapping[Id, int | Skipped]) -> int | Skipped:
    """The number of the image of an annotation, or why it is no sample. Raises BadAnnotationError."""
    image = entry.get("image_id")
    place = places.get(image) if type(image) is int or isinstance(image, str) else None
    if place is None:
        raise BadAnnotationError(AnnotationCode.ORPHAN, f"its image_id is {said(image)}, which no image has")
    return place


def _check_twice(survey: Survey, own: int, entry: Any, first: dict[int, str]) -> None:
    """Raises BadAnnotationError for one that is there already, LabelFileError where that one says other things."""
    text = json.dumps(entry, sort_keys=True)
    before = first.setdefault(own, "")
    if not before:
        first[own] = text
    elif before == text:
        raise BadAnnotationError(AnnotationCode.TWICE, "there already, the same in everything")
    else:
        keys = sorted({*json.loads(before), *entry})
        other = [key for key in keys if json.loads(before).get(key) != entry.get(key)]
        problem = f"two annotations have the id {own}, and differ in {', '.join(map(said, other[:3]))}"
        raise LabelFileError(survey.path, problem, "give each annotation an id of its own")


def _number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if type(value) is not int and type(value) is not float:
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def box_of(box: Any) -> tuple[float, float, float, float]:
    """Left, top, width, height. Raises BadAnnotationError."""
    if box is None or (isinstance(box, list) and len(box) < 4):
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"its bbox is {said(box)}, expected 4 numbers")
    if not isinstance(box, list) or len(box) != 4:
        raise BadAnnotationError(AnnotationCode.VALUE, f"its bbox is {said(box)}, expected 4 numbers")
    left, top, width, height = map(_number, box)
    if left is None or top is None or width is None or height is None:
        raise BadAnnotationError(AnnotationCode.VALUE, f"its bbox is {said(box)}, expected 4 numbers")
    if width <= 0 or height <= 0:
        raise BadAnnotationError(AnnotationCode.BOX_EMPTY, f"its bbox is {said(box)}, without an area")
    return left, top, width, height


def crowd_of(entry: Mapping[str, Any]) -> int:
    """0 or 1. Raises BadAnnotationError."""
    crowd = entry.get("iscrowd")
    if crowd not in (None, 0, 1):  # False and True are equal to those
        raise BadAnnotationError(AnnotationCode.VALUE, f"its iscrowd is {said(crowd)}, expected 0 or 1")
    return int(crowd or 0)


def area_of(value: Any, of_box: float) -> float:
    """Pixels squared; that of the box where the annotation does not say. Raises BadAnnotationError."""
    found = of_box if value is None else _number(value)
    if found is None or not 0 <= found < _LARGEST_AREA:
        raise BadAnnotationError(AnnotationCode.VALUE, f"its area is {said(value)}, expected 0 or more")
    return found


def _keypoints(entry: Mapping[str, Any], count: int) -> Sequence[float]:
    """x, y and visibility of each; none is there where the annotation has none."""
    found = entry.get("keypoints")
    if found is None or (found == [] and not entry.get("num_keypoints")):
        return [0.0] * (3 * count)
    values = [_number(value) for value in found] if isinstance(found, list) else []
    if len(values) != 3 * count:
        reason = f"its keypoints are {said(found)}, expected {3 * count} numbers: x, y and 0, 1 or 2 of each"
        raise BadAnnotationError(AnnotationCode.KEYPOINTS, reason)
    known = [value for value in values if value is not None]
    if len(known) < len(values) or any(seen not in (0, 1, 2) for seen in known[2::3]):
        raise BadAnnotationError(AnnotationCode.KEYPOINTS, "its keypoints are not x, y and 0, 1 or 2 of each")
    return known


def _all_numbers(values: list[Any]) -> bool:
    """Whether all are finite numbers, quickly: their sum is one."""
    try:
        return set(map(type, values)) <= {int, float} and math.isfinite(sum(values))
    except OverflowError:  # an integer beyond all floats
        return False


def _outline(found: Any) -> Outline:
    """A region as pycocotools takes it."""
    if isinstance(found, list) and found:
        if not all(isinstance(part, list) and _all_numbers(part) for part in found):
            raise BadAnnotationError(AnnotationCode.OUTLINE, f"{said(found)}, expected lists of x, y, x, y, ...")
        return found
    if isinstance(found, dict):
        size, counts = found.get("size"), found.get("counts")
        pair = isinstance(size, list) and len(size) == 2 and all(type(side) is int for side in size)
        if pair and ((isinstance(counts, str) and counts.isascii()) or isinstance(counts, list)):
            return {"size": size, "counts": counts}
        raise BadAnnotationError(AnnotationCode.OUTLINE, f"{said(found)}, expected a run-length code")
    raise BadAnnotationError(AnnotationCode.OUTLINE, "it has no region: segmentation is empty or not there")
