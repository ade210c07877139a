"""CVAT for images 1.1: one XML file, `annotations.xml`, of all images."""

import os

from shardfeed.converters.sources.annotations.tools.documents import TASKS, Element, add_shape, find, load_xml
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.objects import AnnotationCode
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.source import ColumnarSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import escape

_OCCLUDED = "image/object/occluded"


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the file names, with their boxes, polygons and tags; subsets are splits.

    Masks, polylines, points and cuboids are listed as left out. Classes are the classes of the project.
    """
    path = find(look, "cvat")
    root = load_xml(path)
    images = os.path.join(os.path.dirname(path), "images")
    place = images if os.path.isdir(images) else os.path.dirname(path)
    found = Annotations(path, look, options, root=place or ".", tasks=(*TASKS, "classes"))
    found.boxed = root.find("image/box") is not None or root.find("image/polygon") is not None
    for element in root.iter("image"):
        subset = element.get("subset") or ""
        image = found.image(
            element.get("name", ""),
            where=f"image {element.get('id')}",
            split=usual_split(subset) or (subset if subset not in ("", "default") else None),
            size=(_number(element.get("width")), _number(element.get("height"))),
            once=True,
            fields=element.attrib,
        )
        _objects(found, image, element)
    return found.source()


def _objects(found: Annotations, image: int, element: Element) -> None:
    """Read the tags and the objects of one image into `found`."""
    tags = [tag.get("label", "") for tag in element.findall("tag")]
    if tags:
        found.sets = True
        found.label(image, *tags)
    for number, one in enumerate(one for one in element if one.tag != "tag"):
        label, flags = one.get("label", ""), {_OCCLUDED: int(one.get("occluded") == "1")}
        if one.tag == "box":
            corners = [_number(one.get(side)) for side in ("xtl", "ytl", "xbr", "ybr")]
            if one.get("rotation") not in (None, "0", "0.0", "0.00"):
                found.leave_out(
                    image, AnnotationCode.OUTLINE, f"object {number}: a rotated box, which is not supported"
                )
                continue
            add_shape(found, image, number, label, [corners[:2], corners[2:]], "rectangle", flags=flags)
        elif one.tag == "polygon":
            points = [[_number(side) for side in point.split(",")] for point in one.get("points", "").split(";")]
            add_shape(found, image, number, label, points, flags=flags)
        else:
            problem = f"object {number}: a {escape(one.tag)}, expected a box or a polygon"
            found.leave_out(image, AnnotationCode.OUTLINE, problem)


def _number(text: str | None) -> float | None:
    """Parse a number; None if `text` is no number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return int(value) if value.is_integer() else value
