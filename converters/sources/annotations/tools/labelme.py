"""LabelMe: a JSON file beside each image, with rectangles, polygons and circles; the image may be inside."""

import base64
import binascii
import os
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from shardfeed.converters.sources.annotations.tools.documents import TASKS, add_shape, all_of, load, objects_in, part
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import name_bytes


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Read images named in "imagePath", or with the same name as the JSON file; else images inside the JSON."""
    files = list(all_of(look, "labelme"))
    held = Unpacked()
    root = None if look.image or options.images is not None else _unpacked(files, held)
    found = Annotations(look.path, look, options, root=root, tasks=TASKS)
    for path, folder in files:
        document = load(path)  # one at a time: each may hold its image
        shapes = part(document, "shapes", list, path)
        name = os.path.basename(str(document.get("imagePath") or "").replace("\\", "/"))
        stem = os.path.splitext(os.path.basename(path))[0]
        if root is not None:
            name = f"{stem}{_ending(document)}"
        elif not name or not names_image(name_bytes(name)):
            name = f"{stem}.jpg"
        size = document.get("imageWidth"), document.get("imageHeight")
        image = found.image(name, folder=folder, where=os.path.basename(path), size=size, once=True)
        for number, shape in objects_in(found, image, shapes):
            label, kind = shape.get("label"), str(shape.get("shape_type") or "polygon")
            add_shape(found, image, number, "" if label is None else label, shape.get("points"), kind)
    return replace(found.source(), kept=held)


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
