"""CVAT for images 1.1 and for video 1.1: one XML file, `annotations.xml`, of all images or frames."""

import math
import os
from functools import partial

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import Element, load_xml
from shardfeed.converters.sources.annotations.tool_shapes import TASKS, add_pixels, add_shape, ellipse, find, of_counts
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import escape
from shardfeed.split_words import usual_split

_SHAPES = ("box", "polygon", "ellipse", "mask")
_OCCLUDED = "image/object/occluded"


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images that the file names, with their boxes, polygons, ellipses, masks and tags; subsets are splits.

    The frames of a video are images called `frame_000000` and so on; a track has an object in each of its frames.
    Polylines, points and cuboids are listed as left out.
    """
    path = find(look, "cvat")
    root = load_xml(path)
    images = os.path.join(os.path.dirname(path), "images")
    place = images if os.path.isdir(images) else os.path.dirname(path)
    found = Annotations(path, look, options, root=place or ".", tasks=(*TASKS, "classes"))
    found.tells_unannotated = False
    found.boxed = any(root.find(f"{of}/{kind}") is not None for of in ("image", "track") for kind in _SHAPES)
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
        tags = [tag.get("label", "") for tag in element.findall("tag")]
        if tags:
            found.sets = True
            found.label(image, *tags)
        for tag in element.findall("tag"):
            _count_attributes(found, "tags", tag)
        for number, one in enumerate(one for one in element if one.tag != "tag"):
            _add(found, image, number, one, one.get("label", ""))
    for element in root.iter("track"):
        for one in element:
            if one.get("outside") != "1":  # the object is not in this frame
                where = f"track {element.get('id')}, frame {one.get('frame')}"
                frame = one.get("frame", "")
                image = found.image(f"frame_{frame:0>6}", where=where)
                _add(found, image, _whole(element.get("id")), one, element.get("label", ""))
    return found.source()


def _add(found: Annotations, image: int, number: int, one: Element, label: str) -> None:
    """One shape of an image, or of a track in a frame."""
    flags = {_OCCLUDED: int(one.get("occluded") == "1")}
    _count_attributes(found, "shapes", one)
    if one.tag == "box" and one.get("rotation") not in (None, "0", "0.0", "0.00"):
        found.leave_out(image, AnnotationCode.OUTLINE, f"object {number}: a rotated box, which is not supported")
    elif one.tag == "box":
        corners = [_number(one.get(side)) for side in ("xtl", "ytl", "xbr", "ybr")]
        add_shape(found, image, number, label, [corners[:2], corners[2:]], "rectangle", flags=flags)
    elif one.tag == "polygon":
        points = [[_number(side) for side in point.split(",")] for point in one.get("points", "").split(";")]
        add_shape(found, image, number, label, points, flags=flags)
    elif one.tag == "ellipse":
        sides = (_number(one.get(side)) for side in ("cx", "cy", "rx", "ry"))
        points = ellipse(sides, math.radians(_number(one.get("rotation")) or 0))
        add_shape(found, image, number, label, points, flags=flags)
    elif one.tag == "mask":
        left, top, width, height = (_whole(one.get(side)) for side in ("left", "top", "width", "height"))
        decode = partial(of_counts, map(int, one.get("rle", "").split(",")), width, height)
        add_pixels(found, image, number, label, decode, (left, top), flags=flags)
    else:
        problem = f"object {number}: a {escape(one.tag)}, expected a box, a polygon, an ellipse or a mask"
        found.leave_out(image, AnnotationCode.OUTLINE, problem)


def _count_attributes(found: Annotations, what: str, one: Element) -> None:
    """Count the attributes of a shape or a tag as not read, but for boxes that are not checked."""
    texts = {of.get("name", ""): (of.text or "").strip() for of in one.findall("attribute")}
    found.unread(what, {name: text for name, text in texts.items() if text != "false"}, frozenset())


def _number(text: str | None) -> float | None:
    """Parse a number; None if `text` is no number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def _whole(text: str | None) -> int:
    """Parse an integer; 0 if `text` is no integer."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else 0
