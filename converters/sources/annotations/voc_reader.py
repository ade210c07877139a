"""Pascal VOC: one XML file an image, as the devkit, LabelImg, CVAT and Roboflow write it."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardfeed.annotations import OBJECTS
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode
from shardfeed.converters.sources.annotations.documents import Element, load_xml, reason_of
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.cells import read_number, read_size
from shardfeed.converters.sources.rows.label_table import LabelTable, check_options
from shardfeed.converters.sources.rows.rows import ColumnarSource, Names
from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_bytes, name_text
from shardfeed.split_words import usual_split
from shardfeed.text import some

_IMAGES = ("jpegimages", "images", "image", "imgs", "img")
_XMLS = ("annotations", "annotation", "xmls", "xml", "labels")
_BEGINS = re.compile(rb"<annotation[\s>]")  # CVAT's own format begins with <annotations>
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_FLAGS = ("difficult", "truncated", "occluded")  # 0 or 1: columns of the records where any object has them
# Elements that are read, or are of no use to training.
_DOCUMENT = frozenset(("folder", "filename", "path", "source", "owner", "size", "segmented", "object"))
_OBJECT = frozenset(("name", "bndbox", "pose", *_FLAGS))
_LOOKED_AT = 5  # XML files of a folder
_MOST = 16_000_000  # bytes of an XML file; a file for one image is far smaller
_MARK = re.compile(r"(.*\S)\s+-?[01]\Z")  # a line of a list, `2008_000008 -1`: the text before the mark


@dataclass(frozen=True)
class _VocFolders:
    """Absolute folders of XML files, of images, and of lists of splits ("" without)."""

    xmls: str
    images: str
    lists: str = ""


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """A folder with XML files with the root <annotation>, and images next to them, in a folder, or named."""
    found = _find_folders(look, options)
    return None if found is None else Evidence("voc", found[0], found[1])


def _find_folders(look: Look, options: AnnotationOptions) -> tuple[str, str, list[_VocFolders]] | None:
    """Return the evidence for Pascal VOC, missing files, and the folders to read; None without an XML file of VOC."""
    if not look.is_folder:
        return None
    found = _folders_in(look, "", options)
    if found is not None:
        return found
    inner = {name: {one.casefold() for one in look.names(name)[0]} for name in look.names()[0]}
    years = [name for name, folders in inner.items() if {"annotations", "jpegimages"} <= folders]
    if any((of_year := _folders_in(look, year, options)) and of_year[2] for year in years):
        found_of = [_folders_in(look, year, options, sure=True) for year in years]
        kits = [kit for of_year in found_of if of_year for kit in of_year[2]]
        return f"devkits of Pascal VOC in {some(years)}", "", kits
    xml = _some_xml(look, paired=options.images is None)
    if xml is not None:
        found = f"{escape(xml)} begins with <annotation>"
        return found, "", [_VocFolders(look.path, os.fsdecode(options.images or look.path))]
    xml = _some_xml(look)
    missing = f"no image of the same name next to it; {argument('images', typed='DIR')} gives their folder"
    return None if xml is None else (f"{escape(xml)} begins with <annotation>", missing, [])


def _folders_in(
    look: Look, base: str, options: AnnotationOptions, *, sure: bool = False
) -> tuple[str, str, list[_VocFolders]] | None:
    """Like `_find_folders`, for XML files in a separate folder in `base`; if `sure`, without checking them."""
    by_name = {name.casefold(): name for name in reversed(look.names(base)[0])}
    images = next((by_name[name] for name in _IMAGES if name in by_name), None)
    for name in (name for name in _XMLS if name in by_name):
        inside = os.path.join(base, by_name[name])
        xml = _some_xml(look, inside)
        if xml is None and not sure:
            continue
        deeper = [inner for inner in look.names(inside)[0] if inner.casefold() in _XMLS]
        if xml and os.path.dirname(xml) != inside and deeper:  # annotations/xmls
            inside = os.path.join(inside, deeper[0])
        found = f"{escape(inside)} with XML files that begin with <annotation>"
        if options.images is None and images is None:
            if xml and _image_beside(look, xml):
                return None
            missing = f"no folder JPEGImages or images next to it; {argument('images', typed='DIR')} gives their folder"
            return found, missing, []
        lists = os.path.join(base, by_name["imagesets"], "Main") if "imagesets" in by_name else ""
        lists = look.full(lists) if lists and look.names(lists)[1] else ""
        found += f", images in {escape(options.images or images)}" + (", splits in ImageSets/Main" if lists else "")
        folder = os.fsdecode(options.images or look.full(os.path.join(base, images or "")))
        return found, "", [_VocFolders(look.full(inside), folder, lists)]
    return None


def _some_xml(look: Look, folder: str = "", *, paired: bool = False) -> str | None:
    """An XML file of Pascal VOC in a folder, or in folders in it; None without.

    `paired`: only one in a folder where images are called like XML files.
    """
    seen: Counter[str] = Counter()
    for path in look.files((".xml",), folder=folder):
        seen[os.path.dirname(path)] += 1
        if seen[os.path.dirname(path)] > _LOOKED_AT:
            continue
        begins = _BEGINS.search(look.head(look.full(path)).replace(b"\0", b""))
        if begins and (not paired or _image_beside(look, path)):
            return path
    return None


def _image_beside(look: Look, xml: str) -> bool:
    """Whether a folder of XML files contains an image with the same name as an XML file."""
    _, files = look.names(os.path.dirname(xml))
    stems = {name[:-4] for name in files if name.lower().endswith(".xml")}
    return any(names_image(os.fsencode(name)) and os.path.splitext(name)[0] in stems for name in files)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Boxes with classes, and the flags that any object has; an image without an XML file has no objects.

    Raises UsageError if there is no XML file or no image, LabelFileError if a list is ambiguous.
    """
    where = _find_folders(look, options)
    if where is None:
        raise UsageError(look.path, "no XML file of Pascal VOC in it, which begins with <annotation>", "check the path")
    if where[1]:
        raise UsageError(look.path, f"{where[0]}; {where[1]}")
    kits = where[2]
    check_options(options, look.path, ["text"] if any(kit.lists for kit in kits) else [])
    files, images = look.list_images(kits[0].images if len(kits) == 1 else look.path)
    reading = [_VocFiles(kit, look, options, files) for kit in kits]
    ours = sorted({index for one in reading for index in one.wanted(images)})
    skipped = [one for one in images.skipped if any(of.wants(_stem(one.key)) for of in reading)]
    images = replace(images.take(np.array(ours, np.int64)), skipped=tuple(skipped))
    found = Annotations(look.path, look, options, files=images, what="object")
    for one in reading:
        one.add_to(found)
    found.take_rest("images without an XML file, treated as images without objects")
    for one in reading:
        one.finish(found)
    return found.source()


class _VocFiles:
    """Reader of the XML files and lists of one kit. Images are matched by path without extension."""

    def __init__(self, kit: _VocFolders, look: Look, options: AnnotationOptions, files: Listing) -> None:
        root = os.path.relpath(kit.images, name_text(files.root))
        self.prefix = b"" if root == "." else os.fsencode(root) + b"/"
        self.year = os.path.dirname(self.prefix[:-1]) + b"/" if root != "." else b""  # of several, for the report
        same = os.path.realpath(kit.images) == os.path.realpath(kit.xmls)
        self.xmls = files if same else look.list_files(kit.xmls, chosen=False)
        self.known = {_stem(key) for key in files if names_image(key) and key.startswith(self.prefix)}
        self.lists = _read_lists(kit.lists, self.prefix, self.known, options) if kit.lists else None
        self.unlisted = Names("images in no list of a split")
        self.first = options.voc_origin
        self.zeros, self.ends, self.least = 0, 0, float("inf")  # boxes that speak for or against the first pixel

    def wants(self, stem: bytes) -> bool:
        """Whether an image of the kit is in its lists, if there are any."""
        return stem.startswith(self.prefix) and (self.lists is None or stem in self.lists)

    def wanted(self, images: Listing) -> list[int]:
        """Return the numbers, in the listing, of the images to read; count images that are in no list."""
        found = []
        for index, key in enumerate(images):
            if self.wants(_stem(key)):
                found.append(index)
            elif key.startswith(self.prefix):
                self.unlisted.add(key)
        return found

    def add_to(self, found: Annotations) -> None:
        """Add the annotations in the XML files to their images."""
        by_stem: dict[bytes, list[int]] = {}
        for index, key in enumerate(found.listing):
            by_stem.setdefault(_stem(key), []).append(index)
        taken: set[int] = set()
        unpaired: list[tuple[bytes, str]] = []
        others = Names("XML files that are not annotations of an image")
        for number, key in enumerate(self.xmls):
            stem = self.prefix + _stem(key)
            if not key.lower().endswith(b".xml") or (stem in self.known and stem not in by_stem):
                continue  # its image is not wanted
            if not self.wants(stem):
                self.unlisted.add(key)
                continue
            candidates, path = by_stem.get(stem, []), name_text(self.xmls.file(number).path)
            if len(candidates) > 1:
                problem = f"it may belong to {some(found.listing.key(i) for i in candidates)}"
                raise UsageError(path, problem, "rename or remove one of the images")
            try:
                root = load_xml(path, _MOST)
                problem = "" if root.tag == "annotation" else f"its root is <{escape(root.tag)}>, expected <annotation>"
            except LabelFileError as error:
                root, problem = None, reason_of(error)
            if root is None or problem:
                if root is not None and not candidates:
                    others.add(key)
                    continue
                found.leave_out(name_text(self.year + key), AnnotationCode.LINE, problem)
                image = found.file(candidates[0]) if candidates else name_text(stem)
                found.reject(image, RejectCode.NO_LABEL, f"{escape(self.year + key)} cannot be used: {problem}")
            elif candidates:
                taken.add(candidates[0])
                self._add(found, candidates[0], root)
            else:
                unpaired.append((key, path))
        found.ledger.notes += [*self._pair_by_filename(found, unpaired, taken), *others.note]

    def _pair_by_filename(
        self, found: Annotations, unpaired: Sequence[tuple[bytes, str]], taken: set[int]
    ) -> list[str]:
        """Take XML files for the images that their <filename> names, in the folder of that name; list the others.

        `unpaired`: key and path of each; all of them together, parsed, may be more than fits into memory.
        """
        paired = Names("XML files whose image has another name, given by <filename>")
        for key, path in unpaired:
            root = load_xml(path, _MOST)
            stem = self.prefix + _stem(key)
            folder, slash, last = stem.rpartition(b"/")
            base = re.split(r"[/\\]", _text(root, "filename"))[-1].encode("utf-8", "replace")
            index = found.listing.find(folder + slash + base)
            if base and index >= 0 and index not in taken:
                taken.add(index)
                self._add(found, index, root)
                paired.add(key)
                continue
            name, extension = os.path.splitext(base)
            missing = found.listing.missing(stem + (extension if name == last else b""))
            if not found.listing.choice.wants(missing.key):
                continue
            found.reject(name_text(missing.key), RejectCode(missing.code), f"{escape(key)}: {missing.reason}")
            for number, _ in enumerate(root.iterfind("object"), 1):
                reason = f"object {number} of {escape(key)}: its image is missing"
                found.leave_out(name_text(missing.key), AnnotationCode.IMAGE, reason)
        return paired.note

    def _add(self, found: Annotations, index: int, root: Element) -> None:
        """The objects of an image, by their direct children: a <part> has its own name and box."""
        size = read_size(root.findtext("size/width"), root.findtext("size/height"))
        fields = {element.tag: element.text for element in root if not len(element)}
        image = found.file(index, size=size, fields=fields)
        found.unread("files", _contents(root), _DOCUMENT)
        for number, element in enumerate(root.iterfind("object"), 1):
            try:
                boxes = element.findall("bndbox")
                if len(boxes) != 1:
                    code = AnnotationCode.LINE if boxes else AnnotationCode.BOX_EMPTY
                    raise BadAnnotationError(code, f"got {len(boxes) or 'no'} <bndbox>, expected one")
                left, top, right, bottom = (read_number(_text(boxes[0], side), f"<{side}>") for side in _SIDES)
                texts = {flag: text for flag in _FLAGS if (text := _text(element, flag))}
                # Some tools write the share that is not seen.
                flags = {f"{OBJECTS}{flag}": int(read_number(text, f"<{flag}>") > 0) for flag, text in texts.items()}
            except BadAnnotationError as error:
                found.leave_out(image, error.code, f"object {number}: {error.reason}")
                continue
            box = left - self.first, top - self.first, right, bottom
            found.unread("objects", _contents(element), _OBJECT)
            found.object(image, number, box, _text(element, "name"), flags=flags)
            self.least = min(self.least, left, top)
            self.zeros += min(left, top) <= 0
            self.ends += size is not None and (right == size[0] or bottom == size[1])

    def finish(self, found: Annotations) -> None:
        """Add the splits, list the names without an image, and note contradictions to `voc_origin`."""
        images, notes = found.listing, found.ledger.notes
        if self.lists is not None:
            for index, key in enumerate(images):
                if self.wants(stem := _stem(key)):
                    found.file(index, split=self.lists[stem][0])
            known = self.known | {_stem(key) for key in (*found.ledger.rejected, *(s.key for s in images.skipped))}
            for stem, (_, place) in self.lists.items():
                if stem not in known and images.choice.wants(stem):
                    found.reject(name_text(stem), RejectCode.MISSING, f"{place}: no image has this name")
        notes += self.unlisted.note
        asked = "--voc-origin 1 (in Python voc_origin=1)"
        if self.first == 1 and self.zeros:
            notes.append(f"{asked} was given, but some boxes begin at 0, as if pixels counted from 0: {self.zeros:,}")
        if self.first == 0 and self.ends and self.least >= 1:
            ends = f"no box begins at 0, but some end at the width or height of their image: {self.ends:,}"
            notes.append(f"{ends}; if pixels count from 1, as in the devkit, give {asked}")


def _stem(key: bytes) -> bytes:
    """A path without its extension."""
    return os.path.splitext(key)[0]


def _text(element: Element, child: str) -> str:
    return (element.findtext(child) or "").strip()


def _contents(element: Element) -> dict[str, Any]:
    """The contents of an element by tag: text, or True for further elements."""
    return {one.tag: bool(len(one)) or (one.text or "").strip() for one in element}


def _read_lists(
    folder: str, prefix: bytes, known: set[bytes], options: AnnotationOptions
) -> dict[bytes, tuple[str | None, str]]:
    """The split of an image in the files of ImageSets/Main, or None, and its line.

    By the path of the image without its extension. Raises LabelFileError if an image is in two splits.
    """
    found: dict[bytes, tuple[str | None, str]] = {}
    names = sorted(name for name in os.listdir(folder) if name.lower().endswith(".txt"))
    splits = {name: usual_split(name[:-4]) for name in names}
    splits = {name: split for name, split in splits.items() if split or name[:-4].casefold() == "default"}
    if not {"train", "validation"} & {*splits.values()}:
        splits |= {name: "train" for name in names if name[:-4].casefold() == "trainval"}
    for name, split in splits.items():
        table = LabelTable(os.path.join(folder, name), "text", None, options.encoding, paths_only=True)
        for line, (text,) in table.texts():
            stem = prefix + name_bytes(text)
            if stem not in known and (marked := _MARK.match(text)):
                stem = prefix + name_bytes(marked[1])
            stem = _stem(stem) if stem not in known and names_image(stem) else stem
            before, place = found.setdefault(stem, (split, f"{escape(name)}:{line}"))
            if before != split:
                problem = f"'{escape(stem)}' is already in the split {before} ({place})"
                raise LabelFileError(table.place(line), problem, "remove one of the two lines")
    return found
