"""What an XML file of Pascal VOC says of its image."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.gathering import read_number, read_size
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.errors import escape

_SIDES = ("xmin", "ymin", "xmax", "ymax")
FLAGS = ("difficult", "truncated", "occluded")  # 0 or 1: columns of the records where any object has them
_MOST = 16_000_000  # bytes of an XML file; those of one image are far smaller


@dataclass(frozen=True)
class XmlObject:
    """One <object>; `number`: which one in its file, from 1. `flags`: those that are there."""

    number: int
    name: str
    box: tuple[float, float, float, float]
    flags: Mapping[str, int]


@dataclass
class XmlFile:
    """What an XML file says. `bad`: its objects that cannot be used."""

    filename: str
    size: tuple[int, int] | None
    objects: list[XmlObject] = field(default_factory=list)
    bad: list[tuple[int, BadAnnotationError]] = field(default_factory=list)


class OtherRootError(BadAnnotationError):
    """An XML file of something else."""


def _read(xmls: Listing, index: int) -> bytes:
    """The bytes of an XML file. Raises BadAnnotationError, E_LINE, where they cannot be had."""
    try:
        with open(xmls.file(index).path, "rb") as file:
            data = file.read(_MOST + 1)
    except OSError as error:
        raise _bad(f"it cannot be read: {error.strerror}") from None
    if len(data) > _MOST:
        raise _bad(f"more than {_MOST:,} bytes, which is no file of one image")
    return data


def _bad(reason: str) -> BadAnnotationError:
    return BadAnnotationError(AnnotationCode.LINE, reason)


def read_xml(xmls: Listing, index: int) -> XmlFile:
    """What the XML file of that number says. Raises BadAnnotationError, E_LINE."""
    data = _read(xmls, index)
    # Before it is parsed: entities may grow without bounds. Encodings in which these bytes have NULs between them are
    # seen through, and expat knows no encoding in which they would be others.
    plain = data.replace(b"\0", b"").upper()
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise _bad("it has a DOCTYPE or an ENTITY, which are refused: remove them")
    try:
        root = ET.fromstring(data)
    except (ET.ParseError, ValueError, LookupError) as error:  # the last two: encodings that are unknown
        raise _bad(f"no XML: {escape(error)}") from None
    if root.tag != "annotation":
        raise OtherRootError(AnnotationCode.LINE, f"its root is <{escape(root.tag)}>, expected <annotation>")
    file = XmlFile(
        (root.findtext("filename") or "").strip(), read_size(root.findtext("size/width"), root.findtext("size/height"))
    )
    for number, element in enumerate(root.findall("object"), 1):
        try:
            file.objects.append(_object(number, element))
        except BadAnnotationError as error:
            file.bad.append((number, error))
    return file


def _object(number: int, element: ET.Element) -> XmlObject:
    """One object, by its direct children: a <part> has a name and a box of its own. Raises BadAnnotationError."""
    boxes = element.findall("bndbox")
    if len(boxes) != 1:
        code = AnnotationCode.LINE if boxes else AnnotationCode.BOX_EMPTY
        raise BadAnnotationError(code, f"got {len(boxes) or 'no'} <bndbox>, expected one")
    left, top, right, bottom = (read_number(_text(boxes[0], side), f"<{side}>") for side in _SIDES)
    flags = {}
    for flag in FLAGS:
        if text := _text(element, flag):
            flags[flag] = int(read_number(text, f"<{flag}>") > 0)  # some tools write the share that is not seen
    return XmlObject(number, _text(element, "name"), (left, top, right, bottom), flags)


def _text(element: ET.Element, child: str) -> str:
    return (element.findtext(child) or "").strip()
