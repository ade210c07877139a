"""Label Studio: its JSON export, JSON-MIN, and its CSV with JSON in a cell. Places are percent of the image."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shardfeed.converters.sources.annotations.tools.documents import (
    TASKS,
    add_shape,
    entries_of,
    find,
    load,
    objects_in,
    part,
)
from shardfeed.converters.sources.files.image_lookup import path_of
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import MOST, corners_of, is_number, shown_value
from shardfeed.converters.sources.rows.source import ColumnarSource, Names
from shardfeed.errors import LabelFileError, escape

_UPLOAD = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the name of an upload
_OWN = frozenset(("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "image", "img", "data"))


class _Task(NamedTuple):
    """One annotation: the address of its image, its regions, and classes of the whole image."""

    where: str
    image: str
    regions: Sequence[Any]
    classes: Sequence[Any]
    others: Sequence[str] = ()  # questions with other answers


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the tasks name, by their own names or as they were uploaded; the first annotation of each."""
    path = find(look, "label-studio")
    tasks = list(_rows(path) if path.lower().endswith(".csv") else _tasks(path))
    found = Annotations(path, look, options, unit="fractions", tasks=(*TASKS, "classes"))
    found.boxed = any(task.regions for task in tasks)
    others, first = Names("repeated annotations of an image, left out"), dict[int, _Task]()
    unread = Names("results that are neither regions nor classes, ignored")
    for task in tasks:
        image = found.image(_name(found, task.image), where=task.where)
        if first.setdefault(image, task) is not task:
            others.add(task.where)
            continue
        for question in task.others:
            unread.add(f"{task.where}: {question}")
        for i, region in objects_in(found, image, task.regions):
            _region(found, image, i, region)
        if task.classes:
            found.label(image, *task.classes)
    found.ledger.notes += [*others.note, *unread.note]
    return found.source()


def _tasks(path: str) -> Iterator[_Task]:
    for place, where, task in entries_of(load(path), path):
        if not isinstance(task, dict):
            raise LabelFileError(place, f"got {shown_value(task)}, expected a task", "export it again, as JSON")
        if "annotations" not in task:  # JSON-MIN
            yield _small(place, where, task)
            continue
        image = _image(place, part(task, "data", dict, place))
        made = part(task, "annotations", list, place, [])
        made = [one for one in made if not isinstance(one, dict) or not one.get("was_cancelled")]
        for one in made or [{}]:
            regions, classes = [], []
            for entry in part(one, "result", list, place, []):
                kind, value = (entry.get("type"), entry.get("value")) if isinstance(entry, dict) else ("", entry)
                if kind == "choices":
                    classes += part(value, "choices", list, place)
                else:
                    regions.append({**value, "type": kind} if isinstance(value, dict) else value)
            yield _Task(where, image, regions, classes)


def _small(place: str, where: str, answers: Mapping[str, Any]) -> _Task:
    """A task of JSON-MIN or a row of the CSV: each answer under the name of its question."""
    regions, classes, others = [], [], []
    for key, value in answers.items():
        if key in _OWN or not value:
            continue
        if isinstance(value, list) and any(isinstance(one, dict) for one in value):
            regions += value
        elif isinstance(value, str):
            classes.append(value)
        elif isinstance(value, dict) and isinstance(value.get("choices"), list):
            classes += value["choices"]
        else:
            others.append(key)
    return _Task(where, _image(place, answers), regions, classes, others)


def _rows(path: str) -> Iterator[_Task]:
    table = LabelTable(path, "csv", ",")
    for line, row in table.named():
        try:
            answers = {key: json.loads(cell) if cell[:1] in "[{" else cell for key, cell in row.items() if cell}
        except (ValueError, RecursionError):
            raise LabelFileError(table.place(line), "a cell is not valid JSON", "export it again") from None
        yield _small(table.place(line), f"line {line}", answers)


def _image(place: str, data: Mapping[str, Any]) -> str:
    """The address of the image: under a usual name, else the only text that looks like one. Raises LabelFileError."""
    texts = [value for value in data.values() if isinstance(value, str) and "/" in value]
    usual = [data[key] for key in ("image", "img", "image_url", "url", "ocr") if isinstance(data.get(key), str)]
    if not usual and len(texts) != 1:
        raise LabelFileError(place, "it has no image", "export it again, as JSON")
    return (usual or texts)[0]


def _name(found: Annotations, address: str) -> str:
    """The image of a URL: by the name as uploaded, else without the prefix that was added."""
    path = path_of(address)
    name = path.rpartition("/")[2]
    for one in (path.lstrip("/"), name, _UPLOAD.sub("", name, count=1)):
        if isinstance(found.lookup.find(one), int):
            return one
    return name


def _region(found: Annotations, image: int, number: int, region: Mapping[str, Any]) -> None:
    """One region: a rectangle or a polygon, in percent."""
    kind = str(region.get("type") or next((key for key in region if key.endswith("labels")), ""))
    labels = region.get(kind) or next((value for key, value in region.items() if key.endswith("labels")), None)
    label = labels[0] if isinstance(labels, list) and labels else ""
    points = region.get("points")
    if kind.startswith("rectangle"):
        box = corners_of([_share(region.get(side)) for side in ("x", "y", "width", "height")])
        if region.get("rotation"):
            found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: a rotated box, which is not supported")
            return
        add_shape(found, image, number, label, [box[:2], box[2:]], "rectangle")
    elif isinstance(points, list):
        points = [list(map(_share, point)) if isinstance(point, list) else point for point in points]
        add_shape(found, image, number, label, points)
    else:
        found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: {escape(kind)[:40]}, which is not supported")


def _share(side: Any) -> Any:
    """A percentage as a fraction; anything else unchanged, to be refused later."""
    return side / 100 if is_number(side) and abs(side) < MOST else side
