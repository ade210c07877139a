"""FiftyOne's own exports: `samples.json`, or `labels.json` with "classes" and "labels", beside `data/`."""

import os
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import entries_of, objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import add_shape, choose_class, find
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.split_words import usual_split
from shardfeed.text import some

_OF_IMAGES, _OF_OBJECTS = ("Classification", "Classifications"), ("Detection", "Detections", "Polyline", "Polylines")
_KINDS = _OF_IMAGES, _OF_OBJECTS
_INSIDE = {"Classifications": "classifications", "Detections": "detections", "Polylines": "polylines"}
_SAMPLE = frozenset(("filepath", "tags", "metadata", "id", "created_at", "last_modified_at"))
_LABEL = frozenset(("id", "label", "bounding_box", "points", "closed", "filled", "classifications", "detections"))
_LABEL |= {"polylines", "holes"}


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images in `data` with their detections, polylines or classifications; places are fractions of the image.

    Names of images in `labels.json` may lack the extension. Of several fields with labels of one kind, the user names
    one.
    """
    path = find(look, "fiftyone")
    document: Any = load(path)
    tasks: tuple[Task, ...] = ("boxes", "masks", "classes")
    found = Annotations(path, look, options, root=os.path.dirname(path), unit="fractions", tasks=tasks)
    found.boxed = False
    if isinstance(document, dict) and "samples" in document:
        samples = list(entries_of(document["samples"], path))
        fields = [_fields_of(sample) for _, _, sample in samples]
        given = list(map(str, options.label_columns or ()))
        chosen = set[str | None]()
        named = {kinds: [n for of in fields for n, kind in of.items() if kind in kinds] for kinds in _KINDS}
        for names in named.values():
            chosen |= {*given} & {*names} if given else {choose_class(path, options, "label field", names)}
        if not {*given} <= chosen:
            choose_class(path, options, "label field", chain(*named.values()))
        for place, where, sample in samples:
            _sample(found, place, where, sample, chosen)
    else:
        labels = part(document, "labels", dict, path)
        names = part(document, "classes", list, path, [])
        for stem, of_image in labels.items():
            _take(found, found.image(f"data/{stem}", where=f"labels, {stem}", once=True), of_image, names)
    return found.source()


def _fields_of(sample: Any) -> dict[str, str]:
    """The fields of a sample that hold labels, and the kind of each."""
    fields = sample.items() if isinstance(sample, Mapping) else ()
    return {name: str(value.get("_cls")) for name, value in fields if isinstance(value, Mapping) and "_cls" in value}


def _sample(found: Annotations, place: str, where: str, sample: Any, chosen: Collection[str | None]) -> None:
    """One sample of a FiftyOneDataset, with the labels in the chosen fields; null in all: nobody has annotated it."""
    image = found.image(
        part(sample, "filepath", str, place), where=where, split=_split_of(sample), once=True, fields=sample
    )
    read = [name for name, kind in _fields_of(sample).items() if name in chosen and kind in chain(*_KINDS)]
    found.unread("samples", _own(sample), _SAMPLE.union(read))
    if not read and any(chosen):
        found.unannotated(image, f"no {some(filter(None, chosen))}")
        return
    classes = [one for name in read for one in _labels_in(found, image, sample[name])]
    if classes or found.sets:
        found.label(image, *classes)


def _split_of(sample: Any) -> str | None:
    """The split that a tag of a sample names."""
    tags = sample.get("tags") if isinstance(sample, Mapping) else None
    return next(filter(None, map(usual_split, map(str, tags))), None) if isinstance(tags, list) else None


def _labels_in(found: Annotations, image: int, field: Mapping[str, Any]) -> list[Any]:
    """The classes of an image in a field of labels; objects in it are added."""
    inside = _INSIDE.get(field["_cls"])
    labels = [field] if inside is None else field.get(inside)
    if field["_cls"] not in _OF_IMAGES:
        _take(found, image, labels or [], [])
        return []
    for label in labels if isinstance(labels, list) else ():
        found.unread("labels", _own(label), _LABEL)
    found.sets |= inside is not None
    return [label.get("label") for label in labels or () if isinstance(label, Mapping)]


def _own(label: Any) -> dict[str, Any]:
    """The keys of a label that FiftyOne does not add itself."""
    return {key: value for key, value in label.items() if key[:1] != "_"} if isinstance(label, Mapping) else {}


def _take(found: Annotations, image: int, labels: Any, names: list[Any]) -> None:
    """The labels of an image: a list of detections or polylines, or one class."""
    if labels is None:
        found.unannotated(image, "no label")
        return
    if not isinstance(labels, list | dict):
        found.label(image, _class(labels, names))
        return
    found.boxed = True
    for i, one in objects_in(found, image, labels):
        label = _class(one.get("label"), names)
        label = "" if label is None else label
        found.unread("labels", _own(one), _LABEL)
        if "points" not in one:
            found.object(image, i, corners_of(one.get("bounding_box")), label)
            continue
        parts = one["points"]
        if not isinstance(parts, list) or len(parts) != 1 or not (one.get("closed") or one.get("filled")):
            reason = f"object {i}: a polyline, which is not one closed outline"
            found.leave_out(image, AnnotationCode.OUTLINE, reason)
            continue
        add_shape(found, image, i, label, parts[0])


def _class(label: Any, names: list[Any]) -> Any:
    """The class of a label, by its number if there is a list."""
    if not names or type(label) is not int:
        return label
    return names[label] if 0 <= label < len(names) else None
