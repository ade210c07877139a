"""Where a folder has Pascal VOC's XML files, images and lists of splits."""

import os
import re
from dataclasses import dataclass
from itertools import islice

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.files.listing import is_hidden, names_image
from shardfeed.errors import argument, escape
from shardfeed.text import some

_IMAGES = ("jpegimages", "images", "image", "imgs", "img")
_XMLS = ("annotations", "annotation", "xmls", "xml", "labels")
_HEAD = 4096  # bytes of an XML file that tell what it is
_SAID = f"{argument('images', typed='DIR')} says where they are"
_BEGINS = re.compile(rb"<annotation[\s>]")  # CVAT's own format begins with <annotations>
_LOOKED_AT = 2000  # names of a folder that tell what is in it


@dataclass(frozen=True)
class Layout:
    """`found`: what a folder was recognised by, and `missing`: what it lacks; where it is whole, the folders of its XML
    files, of its images and of its lists of splits ("" where there are none).
    """

    found: str
    missing: str
    xmls: str = ""
    images: str = ""
    lists: str = ""


def find_layout(path: str, options: AnnotationOptions) -> Layout | None:
    """Where images and XML files are in a folder; None where it has no XML file of Pascal VOC."""
    folders, _ = first_names(path)
    by_name = {name.casefold(): name for name in reversed(folders)}
    images = next((by_name[name] for name in _IMAGES if name in by_name), None)
    for name in _XMLS:
        inside = os.path.join(path, by_name[name]) if name in by_name else ""
        xml = _some_xml(inside) if inside else None
        if xml is None:
            continue
        deeper = [inner for inner in first_names(inside)[0] if inner.casefold() in _XMLS]
        if os.path.dirname(xml) != inside and deeper:  # annotations/xmls
            inside = os.path.join(inside, deeper[0])
        found = f"{escape(os.path.relpath(inside, path))} with XML files that begin with <annotation>"
        if options.images is None and images is None:
            if _image_beside(xml):
                break
            return Layout(found, f"no folder JPEGImages or images beside it; {_SAID}")
        lists = os.path.join(path, by_name["imagesets"], "Main") if "imagesets" in by_name else ""
        lists = lists if lists and first_names(lists)[1] else ""
        found += f", images in {escape(options.images or images)}" + (", splits in ImageSets/Main" if lists else "")
        return Layout(found, "", inside, options.images or os.path.join(path, images or ""), lists)
    for name in folders:
        within = {inner.casefold() for inner in first_names(os.path.join(path, name))[0]}
        if {"annotations", "jpegimages"} <= within:
            of_years = [inner for inner in folders if inner.upper().startswith("VOC")] or [name]
            return Layout("a folder with devkits of Pascal VOC", f"give one of the folders in it: {some(of_years)}")
    xml = _some_xml(path, paired=options.images is None)
    paired = xml is not None
    xml = xml or _some_xml(path)
    if xml is None:
        return None
    found = f"{escape(os.path.relpath(xml, path))} begins with <annotation>"
    if not paired:
        return Layout(found, f"no image of the same name beside it; {_SAID}")
    return Layout(found, "", path, options.images or path)


def first_names(folder: str) -> tuple[list[str], list[str]]:
    """The names of visible folders, and of files, in a folder: of its first ones, sorted."""
    folders, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _LOOKED_AT):
                if not is_hidden(os.fsencode(entry.name)):
                    (folders if entry.is_dir() else files).append(entry.name)
    except (OSError, ValueError):
        return [], []
    return sorted(folders), sorted(files)


def _some_xml(folder: str, depth: int = 2, *, paired: bool = False) -> str | None:
    """The path of an XML file of Pascal VOC in a folder, or in folders in it, `depth` deep; None without.

    `paired`: only one in a folder where images are called like XML files.
    """
    folders, files = first_names(folder)
    for name in islice((name for name in files if name.lower().endswith(".xml")), 5):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and _BEGINS.search(_head(path).replace(b"\0", b"")):
            if not paired or _image_beside(path):
                return path
            break
    for name in folders[:50] if depth else ():
        path = _some_xml(os.path.join(folder, name), depth - 1, paired=paired)
        if path is not None:
            return path
    return None


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _image_beside(xml: str) -> bool:
    """Whether an image lies in the folder of an XML file that has the name of one of those."""
    _, files = first_names(os.path.dirname(xml))
    stems = {name[:-4] for name in files if name.lower().endswith(".xml")}
    stems.add(os.path.basename(xml)[:-4])
    return any(names_image(os.fsencode(name)) and os.path.splitext(name)[0] in stems for name in files)
