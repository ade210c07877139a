"""LabelMe: a JSON file beside each image, with rectangles, polygons and circles; the image may be inside."""

import base64
import binascii
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shardfeed.converters.sources.annotations.documents import objects_in, part
from shardfeed.converters.sources.annotations.tool_shapes import TASKS, add_pixels, add_shape, all_of, of_png
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.unpack import Unpacked
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import load
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, escape, name_bytes, name_text

_DOCUMENT = frozenset(
    ("version", "flags", "shapes", "imagePath", "imageData", "imageHeight", "imageWidth", "lineColor", "fillColor")
)
_SHAPE = frozenset(("label", "points", "shape_type", "mask", "line_color", "fill_color"))


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Read images named in "imagePath", or with the same name as the JSON file; else images inside the JSON.

    The flags of an image that are set are its classes.
    """
    files = list(all_of(look, "labelme"))
    held = Unpacked()
    root = None if look.image or options.images is not None else _unpacked(files, held)
    found = Annotations(look.path, look, options, root=root, tasks=(*TASKS, "classes"))
    own = Names("JSON files whose image has their name, and not that of imagePath")
    flagged: dict[int, list[str]] = {}
    for path, folder in files:
        document = load(path)  # one at a time: each may hold its image
        shapes = part(document, "shapes", list, path)
        found.unread("files", document, _DOCUMENT)
        stem = os.path.splitext(os.path.basename(path))[0]
        name = f"{stem}{_ending(document)}" if root is not None else _image_name(found, document, path, folder, own)
        size = document.get("imageWidth"), document.get("imageHeight")
        image = found.image(name, folder=folder, where=os.path.basename(path), size=size, once=True)
        flags = document.get("flags")
        flagged[image] = [flag for flag, is_set in flags.items() if is_set is True] if isinstance(flags, dict) else []
        for number, shape in objects_in(found, image, shapes):
            found.unread("shapes", shape, _SHAPE)
            label, kind = shape.get("label"), str(shape.get("shape_type") or "polygon")
            label, points = "" if label is None else label, shape.get("points")
            if kind == "mask" and isinstance(points, list) and len(points) == 2:
                add_pixels(found, image, number, label, partial(of_png, shape.get("mask")), points[0])
            else:
                add_shape(found, image, number, label, points, kind)
    if any(flagged.values()):
        found.boxed = len(found.objects) > 0
        for image, classes in flagged.items():
            found.label(image, *classes)
    found.ledger.notes += own.note
    return replace(found.source(), kept=held)


def _image_name(found: Annotations, document: Mapping[str, Any], path: str, folder: str, own: Names) -> str:
    """The name of the image of a file: that of "imagePath", or the file's own. Raises LabelFileError if both exist."""
    name = os.path.basename(str(document.get("imagePath") or "").replace("\\", "/"))
    named = found.lookup.find(name, os.fsencode(folder)) if name and names_image(name_bytes(name)) else None
    stem = f"{folder}{os.path.splitext(os.path.basename(path))[0]}"
    beside = found.lookup.images_of(name_bytes(stem))
    if len(beside) != 1 or named == beside[0]:
        return name if named is not None else f"{os.path.basename(stem)}.jpg"
    other = name_text(found.listing.key(beside[0]))
    if isinstance(named, int):
        problem = f"its imagePath is '{escape(name)}', but '{escape(other)}' has its name, and both are there"
        raise LabelFileError(path, problem, "correct imagePath, or rename the file")
    if name:
        own.add(name_bytes(other))
    return other.removeprefix(folder)


def _ending(document: dict[str, object]) -> str:
    return posixpath.splitext(str(document.get("imagePath") or ""))[1] or ".jpg"


def _unpacked(files: Sequence[tuple[str, str]], into: Unpacked) -> str | None:
    """Write the images inside the JSON files to a folder and return it; None if a file has no image inside."""
    for path, folder in files:
        document = load(path)
        if not isinstance(document, dict):
            return None
        try:
            data = base64.b64decode(str(document.get("imageData") or ""), validate=True)
        except binascii.Error:
            data = b""
        if not data:
            return None
        with into.new(path, folder + os.path.splitext(os.path.basename(path))[0] + _ending(document)) as file:
            file.write(data)
    return into.folder
