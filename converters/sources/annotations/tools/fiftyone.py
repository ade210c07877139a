"""FiftyOne's own exports: `samples.json`, or `labels.json` with "classes" and "labels", beside `data/`."""

import os
from collections.abc import Mapping
from typing import Any

from shardfeed.converters.sources.annotations.tools.documents import entries_of, find, load, objects_in, part
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images in `data` with their detections or classifications; boxes are fractions of the image.

    Names of images in `labels.json` may lack the extension.
    """
    path = find(look, "fiftyone")
    document: Any = load(path)
    found = Annotations(path, look, options, root=os.path.dirname(path), unit="fractions", tasks=("boxes", "classes"))
    found.boxed = False
    if isinstance(document, dict) and "samples" in document:
        for place, where, sample in entries_of(document["samples"], path):
            _sample(found, place, where, sample)
    else:
        labels = part(document, "labels", dict, path)
        names = part(document, "classes", list, path, [])
        for stem, of_image in labels.items():
            _take(found, found.image(f"data/{stem}", where=f"labels, {stem}", once=True), of_image, names)
    return found.source()


def _sample(found: Annotations, place: str, where: str, sample: Any) -> None:
    """One sample of a FiftyOneDataset: the first field that holds labels is taken."""
    tags = sample.get("tags") if isinstance(sample, Mapping) else None
    split = next(filter(None, map(usual_split, map(str, tags))), None) if isinstance(tags, list) else None
    image = found.image(part(sample, "filepath", str, place), where=where, split=split, once=True, fields=sample)
    for value in sample.values():
        if isinstance(value, Mapping) and value.get("_cls") == "Detections":
            _take(found, image, value.get("detections") or [], [])
            return
        if isinstance(value, Mapping) and value.get("_cls") == "Classification":
            _take(found, image, value.get("label"), [], single=True)
            return


def _take(found: Annotations, image: int, labels: Any, names: list[Any], *, single: bool = False) -> None:
    """The labels of an image: a list of detections, or one class."""
    if labels is None:
        return
    if single or not isinstance(labels, list | dict):
        found.label(image, _class(labels, names))
        return
    found.boxed = True
    for i, one in objects_in(found, image, labels):
        label = _class(one.get("label"), names)
        found.object(image, i, corners_of(one.get("bounding_box")), "" if label is None else label)


def _class(label: Any, names: list[Any]) -> Any:
    """The class of a label, by its number if there is a list."""
    if not names or type(label) is not int:
        return label
    return names[label] if 0 <= label < len(names) else None
