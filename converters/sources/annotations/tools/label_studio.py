"""Label Studio: its JSON export, JSON-MIN, and its CSV with JSON in a cell. Places are percent of the image."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from shardfeed.converters.sources.annotations.tools.documents import TASKS, add_shape, find, load
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of, is_number
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import LabelFileError, escape

_UPLOAD = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the name of an upload
_OWN = frozenset(("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "image", "img", "data"))


class _Task(NamedTuple):
    """One image: its address, and what was said of it: regions, and classes of the whole image."""

    image: str
    regions: Sequence[Mapping[str, Any]]
    classes: list[str]


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the tasks name, by their own names or as they were uploaded; the first annotation of each."""
    path = find(look, "label-studio") or look.path
    tasks = list(_rows(path) if path.lower().endswith(".csv") else _tasks(path))
    found = Annotations(path, look, options, unit="fractions", tasks=(*TASKS, "classes"))
    found.boxed = any(task.regions for task in tasks)
    single = all(len(task.classes) <= 1 for task in tasks)
    for number, task in enumerate(tasks):
        image = found.image(_name(found, task.image), where=f"task {number}")
        for i, region in enumerate(task.regions):
            _region(found, image, i, region)
        if task.classes and single:
            found.label(image, task.classes[0])
        elif task.classes:
            found.tags(image, task.classes)
    return found.source()


def _tasks(path: str) -> Iterator[_Task]:
    document = load(path)
    if not isinstance(document, list):
        raise LabelFileError(path, "no list of tasks", "export it again, as JSON")
    for number, task in enumerate(document):
        if not isinstance(task, dict):
            raise LabelFileError(f"{path}, task {number}", "no task", "export it again, as JSON")
        data = task.get("data")
        image = _image(data if isinstance(data, dict) else task)
        if not image:
            raise LabelFileError(f"{path}, task {number}", "it names no image", "export it again, as JSON")
        if not isinstance(data, dict):  # JSON-MIN
            yield _small(image, {key: value for key, value in task.items() if key not in _OWN})
            continue
        made = [one for one in task.get("annotations") or () if isinstance(one, dict) and not one.get("was_cancelled")]
        result = made[0].get("result") if made else []
        values = [(one.get("type"), one.get("value")) for one in result or () if isinstance(one, dict)]
        classes = [str(text) for kind, of in values if kind == "choices" for text in (of or {}).get("choices", ())]
        regions = [{**value, "type": kind} for kind, value in values if kind != "choices" and isinstance(value, dict)]
        yield _Task(image, regions, classes)


def _small(image: str, said: Mapping[str, Any]) -> _Task:
    """A task of JSON-MIN or a row of the CSV: each answer under the name of its question."""
    regions, classes = [], []
    for value in said.values():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            regions += value
        elif isinstance(value, dict) and isinstance(value.get("choices"), list):
            classes += map(str, value["choices"])
        elif isinstance(value, str) and value:
            classes.append(value)
    return _Task(image, regions, classes)


def _rows(path: str) -> Iterator[_Task]:
    table = LabelTable(path, "csv", ",")
    records = iter(table)
    first = next(records, None)
    heads = [str(cell) for cell in first.cells] if first is not None else []
    for record in records:
        row = dict(zip(heads, map(str, record.cells), strict=False))
        try:
            said = {key: json.loads(cell) if cell[:1] in "[{" else cell for key, cell in row.items() if cell}
        except (ValueError, RecursionError, csv.Error):
            raise LabelFileError(table.place(record.line), "a cell is no JSON", "export it again") from None
        yield _small(_image(row), {key: value for key, value in said.items() if key not in _OWN})


def _image(data: Mapping[str, Any]) -> str:
    """The address of the image: under a usual name, else the only text that looks like one."""
    for key in ("image", "img", "image_url", "url", "ocr"):
        if isinstance(data.get(key), str):
            return data[key]
    texts = [value for value in data.values() if isinstance(value, str) and "/" in value]
    return texts[0] if len(texts) == 1 else ""


def _name(found: Annotations, address: str) -> str:
    """The image that an address means: the name as it was uploaded, else without what was put before it."""
    parts = urlsplit(address)
    local = parse_qs(parts.query).get("d")  # /data/local-files/?d=photos/a.jpg
    path = local[0] if local else unquote(parts.path)
    name = path.rpartition("/")[2]
    for one in (path.lstrip("/"), name, _UPLOAD.sub("", name, count=1)):
        if isinstance(found.lookup.find(one), int):
            return one
    return name


def _region(found: Annotations, image: int, number: int, region: Mapping[str, Any]) -> None:
    """One region: a rectangle, polygon or ellipse, in percent."""
    kind = str(region.get("type") or next((key for key in region if key.endswith("labels")), ""))
    labels = region.get(kind) or next((value for key, value in region.items() if key.endswith("labels")), None)
    label = str(labels[0]) if isinstance(labels, list) and labels else ""
    points = region.get("points")
    if kind.startswith("rectangle"):
        sides: list[Any] = [region.get(side) for side in ("x", "y", "width", "height")]
        if region.get("rotation"):
            found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: a turned box, which is not read")
            return
        box = corners_of([side / 100 if is_number(side) else side for side in sides])
        add_shape(found, image, number, label, [box[:2], box[2:]], "rectangle")
    elif isinstance(points, list) and all(isinstance(p, list) and all(map(is_number, p)) for p in points):
        add_shape(found, image, number, label, [[side / 100 for side in point] for point in points])
    else:
        found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: {escape(kind)[:40]}, which is not read")
