"""LabelMe: a JSON file an image, beside it, with rectangles, polygons and circles; the image may be inside."""

import base64
import binascii
import os
import posixpath
from collections.abc import Iterable
from dataclasses import replace

from shardfeed.converters.sources.annotations.tools.documents import TASKS, add_shape, all_of, load
from shardfeed.converters.sources.archives.unpack import Unpacked
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.errors import LabelFileError


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the files name in "imagePath", or that are called like them; else those that they hold."""
    files = list(all_of(look, "labelme"))
    held = Unpacked()
    root = None if look.image or options.images is not None else _unpacked((path for path, _ in files), held)
    found = Annotations(look.path, look, options, root=root, tasks=TASKS)
    for path, folder in files:
        document = load(path)  # one at a time: each may hold its image
        if not isinstance(document, dict) or not isinstance(document.get("shapes"), list):
            raise LabelFileError(path, "no list of shapes in it", "see that LabelMe saved it")
        name = os.path.basename(str(document.get("imagePath") or "").replace("\\", "/"))
        stem = os.path.splitext(os.path.basename(path))[0]
        if root is not None:
            name = f"{stem}{_ending(document)}"
        elif not name or not names_image(name.encode("utf-8", "surrogateescape")):
            name = f"{stem}.jpg"
        size = document.get("imageWidth"), document.get("imageHeight")
        image = found.image(name, folder="" if root else folder, where=os.path.basename(path), size=size, once=True)
        for number, shape in enumerate(document["shapes"]):
            if isinstance(shape, dict):
                label, kind = shape.get("label"), str(shape.get("shape_type") or "polygon")
                add_shape(found, image, number, "" if label is None else label, shape.get("points"), kind)
            else:
                found.leave_out(image, AnnotationCode.LINE, f"object {number}: it is no shape")
    return replace(found.source(), kept=held)


def _ending(document: dict[str, object]) -> str:
    return posixpath.splitext(str(document.get("imagePath") or ""))[1] or ".jpg"


def _unpacked(paths: Iterable[str], into: Unpacked) -> str | None:
    """The folder into which the images were written that the files hold; None where one holds none."""
    for path in paths:
        document = load(path)
        if not isinstance(document, dict):
            return None
        try:
            data = base64.b64decode(str(document.get("imageData") or ""), validate=True)
        except binascii.Error:
            data = b""
        if not data:
            return None
        with into.new(path, os.path.splitext(os.path.basename(path))[0] + _ending(document)) as file:
            file.write(data)
    return into.folder
