"""SageMaker Ground Truth: a manifest, JSON Lines with the address of an image, its labels, and metadata about them."""

import re
from collections.abc import Mapping
from typing import Any, cast

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import find
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.objects import is_number
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, escape
from shardfeed.text import counted, some

_ADDRESS = re.compile(r"[a-z0-9]+://[^/]*/")
_BOXES, _CLASS, _CLASSES = "object-detection", "image-classification", "image-classification-multilabel"


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the lines name, found by the ends of their addresses, with boxes or with classes.

    Labels of other kinds, such as masks in files of their own, are listed as left out. Raises LabelFileError for an
    invalid line, and for two labels of a kind: the manifest of an adjusted job has both.
    """
    path = find(look, "sagemaker")
    rows = list(LabelTable(path, "jsonl", None, options.encoding).named())
    known = {key for _, row in rows for name, _, _ in _labels(row) for key in (name, f"{name}-metadata")}
    unread = sorted({key for _, row in rows for key in row} - known - {"source-ref"})
    if not known:
        problem = f"got the keys {some(unread)}, expected labels with metadata, such as boxes and boxes-metadata"
        raise LabelFileError(path, problem, "export it again with its metadata")
    found = Annotations(path, look, options, what="annotation", tasks=("boxes", "classes"))
    found.ledger.notes += [counted("keys without metadata, not read", unread, len(unread))] if unread else []
    found.boxed = any(kind == _BOXES for _, row in rows for _, kind, _ in _labels(row))
    for line, row in rows:
        place, where = f"{path}:{line}", f"line {line}"
        image = found.image(_ADDRESS.sub("", part(row, "source-ref", str, place), count=1), where=where, once=True)
        if why := _unannotated(row):
            found.unannotated(image, why)
            continue
        before: dict[str, str] = {}
        for name, kind, about in _labels(row):
            if before.setdefault(kind, name) != name:
                problem = f"{escape(before[kind])} and {escape(name)} are both labels of the kind {escape(kind)}"
                raise LabelFileError(place, problem, "delete the one that is not meant from the file")
            _take(found, image, where, name, kind, row.get(name), about)
    return found.source()


def _take(
    found: Annotations, image: int, where: str, name: str, kind: str, value: Any, about: Mapping[str, Any]
) -> None:
    """One label of a line: boxes, a class or classes; any other is listed."""
    names = about.get("class-map") or {}
    if kind == _BOXES and isinstance(value, dict):
        for n, one in objects_in(found, image, value.get("annotations")):
            _add(found, image, n, one, names)
    elif kind == _CLASS and about.get("class-name") is not None:
        found.label(image, about["class-name"])
    elif kind == _CLASSES and isinstance(value, list):
        found.sets = True
        found.label(image, *(names.get(str(one), one) for one in value))
    else:
        what = f"{escape(name)} of the kind {escape(kind)} is not read"
        found.leave_out(image, AnnotationCode.LINE, f"{where}: {what}")


def _unannotated(row: Mapping[str, Any]) -> str:
    """Return why nobody has labelled the image of a line: it has no label, or each has failed; "" if it has one."""
    labels = _labels(row)
    if not labels:
        return "no label"
    return "failed" if all("failure-reason" in about for _, _, about in labels) else ""


def _labels(row: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the name, the kind and the metadata of each label of a line."""
    labels = []
    for key, about in row.items():
        kind = about.get("type") if isinstance(about, dict) and key.endswith("-metadata") else None
        if isinstance(kind, str):
            labels.append((key.removesuffix("-metadata"), kind.rpartition("/")[2], about))
    return labels


def _add(found: Annotations, image: int, n: int, one: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    """Add one box, in pixels; without a number for each side it is listed."""
    sides = [one.get(side) for side in ("left", "top", "width", "height")]
    if not all(map(is_number, sides)):
        found.leave_out(image, AnnotationCode.BOX_EMPTY, f"annotation {n}: it has no coordinates")
        return
    left, top, width, height = cast("list[float]", sides)
    number = one.get("class_id")
    found.object(image, n, (left, top, left + width, top + height), names.get(str(number), number))
