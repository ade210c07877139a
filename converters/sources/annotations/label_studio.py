"""Label Studio: its JSON export, JSON-MIN, and its CSV with JSON in a cell. Places are percent of the image."""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import entries_of, objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import (
    TASKS,
    add_pixels,
    add_shape,
    choose_class,
    ellipse,
    find,
    of_brush,
)
from shardfeed.converters.sources.files.image_lookup import path_of
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.evidence import column_meaning
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.objects import MOST, corners_of, is_number, shown_value
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, escape

_UPLOAD = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the name of an upload
_OWN = frozenset(("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "image", "img", "data"))
_ELLIPSE = ("x", "y", "radiusX", "radiusY")
_PLACE = frozenset(("x", "points", "rle"))  # a value with one of these is a region, or says something of one
_REGION = frozenset(
    ("x", "y", "width", "height", "points", "radiusX", "radiusY", "rle", "format", "closed", "rotation", "type")
)
_REGION |= {"original_width", "original_height"}


class _Task(NamedTuple):
    """One annotation: the address of its image, its regions, and the answers for the whole image, by question.

    `texts`: values that are answers or the task's own data. `later`: keys that follow "id", where that tells answers
    from data: exports write the data first.
    """

    where: str
    image: str
    regions: Sequence[Any]
    answers: Mapping[str, Sequence[Any]]
    texts: Mapping[str, str] = {}
    later: Collection[str] = ()
    others: Mapping[str, Any] = {}  # results that are neither regions nor classes
    open: str = ""  # why the task counts as not annotated: it has no annotation, or only cancelled ones


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the tasks name, by their own names or as they were uploaded; the first annotation of each.

    The classes of an image are the answers to one question; those for a region are not read.
    """
    path = find(look, "label-studio")
    tasks = list(_rows(path) if path.lower().endswith(".csv") else _tasks(path))
    found = Annotations(path, look, options, unit="fractions", tasks=(*TASKS, "classes"))
    found.boxed = any(task.regions for task in tasks)
    repeated, first = Names("repeated annotations of an image, left out"), dict[int, _Task]()
    question = _question(path, tasks, options) or ""
    for task in sorted(tasks, key=lambda task: task.open != ""):  # an image is open if all tasks with it are
        image = found.image(_name(found, task.image), where=task.where)
        if task.open:
            found.unread("tasks", task.others, frozenset())
            if image not in first:
                found.unannotated(image, task.open)
            continue
        if first.setdefault(image, task) is not task:
            repeated.add(task.where)
            continue
        found.unread("tasks", {**task.others, **task.texts, **task.answers}, frozenset((question,)))
        for i, region in objects_in(found, image, task.regions):
            _region(found, image, i, region)
        classes = task.answers.get(question, [task.texts[question]] if question in task.texts else [])
        if classes:
            found.label(image, *classes)
    found.ledger.notes += repeated.note
    return found.source()


def _question(path: str, tasks: Sequence[_Task], options: AnnotationOptions) -> str | None:
    """The question that is answered with the classes of images. Raises UsageError if several may be."""
    choices = [name for task in tasks for name in task.answers]
    texts: dict[str, Counter[str]] = {}
    for task in tasks:
        for name, text in task.texts.items():
            texts.setdefault(name, Counter())[text] += 1
    if options.label_columns:
        return choose_class(path, options, "question", [*choices, *texts])
    meanings = {name: column_meaning(name, counts) for name, counts in texts.items() if name not in choices}
    likely = [name for name, meaning in meanings.items() if not meaning.why.startswith("its ")]  # name, values
    later = {name for task in tasks for name in task.later}
    if later:
        likely = [name for name in likely if name in later]
    elif choices or any(task.regions for task in tasks):
        likely = []
    elif len(repeating := [name for name in likely if len(texts[name]) < texts[name].total()]) == 1:
        likely = repeating
    return choose_class(path, options, "question", [*choices, *likely])


def _tasks(path: str) -> Iterator[_Task]:
    for place, where, task in entries_of(load(path), path):
        if not isinstance(task, dict):
            raise LabelFileError(place, f"got {shown_value(task)}, expected a task", "export it again, as JSON")
        if "annotations" not in task:  # JSON-MIN
            yield _small(place, where, task)
            continue
        image = _image(place, part(task, "data", dict, place))
        others: dict[str, Any] = {key: task.get(key) for key in ("predictions", "drafts")}
        every = part(task, "annotations", list, place, [])
        made = [one for one in every if not isinstance(one, dict) or not one.get("was_cancelled")]
        if not made:
            yield _Task(where, image, [], {}, others=others, open="skipped" if every else "not labelled")
        for one in made:
            yield _annotation(place, where, image, part(one, "result", list, place, []), others)


def _annotation(place: str, where: str, image: str, results: Sequence[Any], others: Mapping[str, Any]) -> _Task:
    """One annotation of a task, by its results. `others`: what is not read of the task."""
    regions, answers = _Regions(), dict[str, list[Any]]()
    unread = {**others}
    for entry in results:
        kind, value = (entry.get("type"), entry.get("value")) if isinstance(entry, dict) else ("", entry)
        if not isinstance(value, dict):
            regions.all.append(value)
        elif _PLACE & value.keys() or any(key.endswith("labels") for key in value):
            regions.add(entry, str(kind), value)
        elif kind == "choices":
            answers.setdefault(str(entry.get("from_name")), []).extend(part(value, "choices", list, place))
        else:
            unread[str(entry.get("from_name") or kind)] = True
    return _Task(where, image, regions.all, answers, others=unread)


class _Regions:
    """The regions of an annotation: results with the same id, of different controls, are of one region."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._of_id: dict[str, dict[str, Any]] = {}
        self._known: set[tuple[str, str]] = set()

    def add(self, entry: Mapping[str, Any], kind: str, value: Mapping[str, Any]) -> None:
        """Add what a control of this kind says of a region."""
        own = str(entry.get("id"))
        if own not in self._of_id or own == "None" or (own, kind) in self._known:
            sizes = {key: entry.get(key) for key in ("original_width", "original_height")}
            self._of_id[own] = {"type": entry.get("type"), **sizes}
            self.all.append(self._of_id[own])
        self._of_id[own].update(value)
        self._known.add((own, kind))


def _small(place: str, where: str, values: Mapping[str, Any]) -> _Task:
    """A task of JSON-MIN or a row of the CSV: each answer under the name of its question, beside the task's data."""
    regions, answers, texts, others = list[Any](), dict[str, Sequence[Any]](), dict[str, str](), dict[str, Any]()
    image = _image(place, values)
    for key, value in values.items():
        if key in _OWN or not value or value == image:
            continue
        if isinstance(value, str):
            texts[key] = value
        elif (choices := _choices(value)) is not None:
            answers[key] = choices
        elif isinstance(value, list):
            regions += value if any(isinstance(one, dict) for one in value) else []
            others |= {} if any(isinstance(one, dict) for one in value) else {key: True}
        else:
            others[key] = True
    nobody = not (regions or answers) and _is_open(values)
    return _Task(where, image, regions, answers, texts, _later(values), others, "not labelled" if nobody else "")


def _choices(value: Any) -> Sequence[Any] | None:
    """The classes in an answer: a list of texts, or the choices of an object; None for any other value."""
    found = value.get("choices") if isinstance(value, dict) else value
    if not isinstance(found, list) or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        return None
    return found


def _later(values: Mapping[str, Any]) -> Sequence[str]:
    """The keys behind "id", where that is not the first."""
    keys = list(values)
    return keys[keys.index("id") + 1 :] if "id" in keys[1:] else ()


def _is_open(values: Mapping[str, Any]) -> bool:
    """Whether a task of JSON-MIN or CSV has no annotation: those that have one name it, or who made it."""
    stated = [values[key] for key in ("annotation_id", "annotator") if key in values]
    return bool(stated) and all(value in (None, "") for value in stated)


def _rows(path: str) -> Iterator[_Task]:
    table = LabelTable(path, "csv", ",")
    for line, row in table.named():
        try:
            answers = {key: json.loads(cell) if cell.startswith(("[", "{")) else cell for key, cell in row.items()}
        except (ValueError, RecursionError):
            raise LabelFileError(table.place(line), "a cell is not valid JSON", "export it again") from None
        yield _small(table.place(line), f"line {line}", answers)


def _image(place: str, data: Mapping[str, Any]) -> str:
    """The address of the image: under a usual name, else the only text that looks like one. Raises LabelFileError."""
    texts = [value for value in data.values() if isinstance(value, str) and "/" in value]
    usual = [data[key] for key in ("image", "img", "image_url", "url", "ocr") if isinstance(data.get(key), str)]
    usual = [*filter(None, usual)]
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
    """One region: a rectangle, an ellipse or a polygon, in percent; or brushed pixels."""
    key = next((key for key, value in region.items() if key.endswith("labels") and isinstance(value, list)), "")
    label = (region.get(key) or [""])[0]
    found.unread("regions", region, _REGION.union((key,)))
    points = region.get("points")
    given: Iterable[Any] = map(region.get, ("original_width", "original_height"))
    width, height = (int(side) if is_number(side) and 1 <= side < MOST else 0 for side in given)
    sides = {side: _share(region.get(side)) for side in ("x", "y", "width", "height", "radiusX", "radiusY")}
    turned = _times(region.get("rotation") or 0, math.pi / 180)
    if isinstance(region.get("rle"), list) and width and height:
        decode = partial(of_brush, region["rle"], width, height)
        add_pixels(found, image, number, label, decode, size=(width, height))
    elif isinstance(points, list):
        points = [list(map(_share, point)) if isinstance(point, list) else point for point in points]
        add_shape(found, image, number, label, points)
    elif "radiusX" in region and (not turned or (width and height)):
        # Percent of the two sides: only in pixels does a rotation keep the form.
        wide, high = (width, height) if turned else (1, 1)
        scaled = [_times(sides[side], of) for side, of in zip(_ELLIPSE, (wide, high) * 2, strict=True)]
        outline = ellipse(scaled, turned)
        add_shape(found, image, number, label, [[_times(x, 1 / wide), _times(y, 1 / high)] for x, y in outline])
    elif key.startswith("rectangle") or ("height" in region and "x" in region):
        if turned:
            found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: a rotated box, which is not supported")
            return
        box = corners_of([sides[side] for side in ("x", "y", "width", "height")])
        add_shape(found, image, number, label, [box[:2], box[2:]], "rectangle")
    else:
        kind = "a rotated ellipse" if "radiusX" in region else str(region.get("type") or key)
        kind = "brushed pixels without the size of the image" if "rle" in region else escape(kind)[:40]
        found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: {kind}, which is not supported")


def _times(side: Any, factor: float) -> Any:
    """The product; anything but a number unchanged, to be refused later."""
    return side * factor if is_number(side) and abs(side) < MOST else side


def _share(side: Any) -> Any:
    """A percentage as a fraction; anything else unchanged, to be refused later."""
    return side / 100 if is_number(side) and abs(side) < MOST else side
