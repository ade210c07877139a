"""FiftyOne's own exports: `samples.json`, or `labels.json` with "classes" and "labels", beside `data/`."""

import os
from collections.abc import Mapping
from typing import Any

from shardfeed.converters.sources.annotations.tools.documents import find, load
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import corners_of
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images in `data` with their detections or classifications; boxes are fractions of the image."""
    path = find(look, "fiftyone")
    document: Any = load(path)
    found = Annotations(path, look, options, root=os.path.dirname(path), unit="fractions", tasks=("boxes", "classes"))
    if not isinstance(document, dict):
        raise LabelFileError(path, "no samples in it", "export the dataset again")
    found.boxed = False
    if "samples" in document:
        for number, sample in enumerate(document["samples"]):
            _sample(found, path, number, sample)
    else:
        names = document.get("classes")
        names = [str(name) for name in names] if isinstance(names, list) else None
        for stem, labels in document["labels"].items():
            image = found.image(_file(found, stem), where=f"labels, {stem}", once=True)
            _take(found, image, labels, names)
    return found.source()


def _file(found: Annotations, stem: str) -> str:
    """The image in `data` that is called like a label, which may lack the ending."""
    key = f"data/{stem}".encode("utf-8", "surrogateescape")
    _, files = found.listing.children(key.rpartition(b"/")[0] + b"/")
    matching = [file for file in files if file == key or os.path.splitext(file)[0] == key]
    return os.fsdecode(matching[0]) if matching else f"data/{stem}"


def _sample(found: Annotations, path: str, number: int, sample: Any) -> None:
    """One sample of a FiftyOneDataset: the first field that holds labels is taken."""
    if not isinstance(sample, dict) or not isinstance(sample.get("filepath"), str):
        raise LabelFileError(f"{path}, sample {number}", "no filepath", "export the dataset again")
    tags = sample.get("tags")
    split = next(filter(None, map(usual_split, map(str, tags))), None) if isinstance(tags, list) else None
    image = found.image(sample["filepath"], where=f"sample {number}", split=split, once=True)
    for value in sample.values():
        if isinstance(value, Mapping) and value.get("_cls") == "Detections":
            found.boxed = True
            _take(found, image, value.get("detections"), None)
            return
        if isinstance(value, Mapping) and value.get("_cls") == "Classification":
            found.label(image, _name(value.get("label"), None))
            return


def _take(found: Annotations, image: int, labels: Any, names: list[str] | None) -> None:
    """The labels of an image: a list of detections, or one class."""
    if not isinstance(labels, list):
        if labels is not None:
            found.label(image, _name(labels, names))
        return
    found.boxed = True
    for i, one in enumerate(labels):
        if isinstance(one, Mapping):
            found.object(image, i, corners_of(one.get("bounding_box")), _name(one.get("label"), names))
        else:
            found.leave_out(image, AnnotationCode.LINE, f"object {i}: it is no detection")


def _name(label: Any, names: list[str] | None) -> str:
    """The class that a label says, by its number where there is a list."""
    if names is not None and isinstance(label, int) and 0 <= label < len(names):
        return names[label]
    return "" if label is None else str(label)
