"""Pascal VOC: one XML file an image, as the devkit, LabelImg, CVAT and Roboflow write it."""

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from shardfeed.annotations import OBJECTS
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.gathering import (
    ClassNumbers,
    Ledger,
    Names,
    check_tasks,
    in_numbers,
    read_number,
    read_size,
    splits_of,
)
from shardfeed.converters.sources.annotations.object_table import ObjectTable
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.files.listing import Listing, is_hidden, names_image
from shardfeed.converters.sources.files.patterns import Choice
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.split_names import splits_by_folder, usual_split
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import some

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_FLAGS = ("difficult", "truncated", "occluded")  # 0 or 1: columns of the records where any object has them
_IMAGES = ("jpegimages", "images", "image", "imgs", "img")
_XMLS = ("annotations", "annotation", "xmls", "xml", "labels")
_HEAD = 4096  # bytes of an XML file that tell what it is
_SAID = f"{argument('images', typed='DIR')} says where they are"
_BEGINS = re.compile(rb"<annotation[\s>]")  # CVAT's own format begins with <annotations>
_MOST = 16_000_000  # bytes of an XML file; those of one image are far smaller
_LOOKED_AT = 2000  # names of a folder that tell what is in it
_MARK = re.compile(r"(.*\S)\s+-?[01]\Z")  # of a line `2008_000008 -1`: what stands before the mark


@dataclass(frozen=True)
class _Layout:
    """`found`: what a folder was recognised by, and `missing`: what it lacks; where it is whole, the folders of its XML
    files, of its images and of its lists of splits ("" where there are none).
    """

    found: str
    missing: str
    xmls: str = ""
    images: str = ""
    lists: str = ""


@dataclass(frozen=True)
class _Object:
    """One <object>; `number`: which one in its file, from 1. `flags`: those that are there."""

    number: int
    name: str
    box: tuple[float, float, float, float]
    flags: Mapping[str, int]


@dataclass
class _File:
    """What an XML file says. `bad`: its objects that cannot be used."""

    filename: str
    size: tuple[int, int] | None
    objects: list[_Object] = field(default_factory=list)
    bad: list[tuple[int, BadAnnotationError]] = field(default_factory=list)


class _OtherRootError(BadAnnotationError):
    """An XML file of something else."""


class _Listed(NamedTuple):
    """What a file in ImageSets/Main says of an image: its split, or None, and where."""

    split: str | None
    place: str


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """A folder with XML files whose root is <annotation>, with the images beside them, in a folder, or named."""
    layout = _layout(path, options)
    return None if layout is None else Evidence("voc", layout.found, layout.missing)


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images of a folder and the objects that XML files say of them.

    An image and its XML file have the same path but for the extension, below the folders of the images and of the XML
    files. An XML file that no image is called like is of the image that its <filename> names, where that has none.
    In a devkit the files train.txt, val.txt and test.txt of ImageSets/Main say which images there are, and trainval.txt
    where neither of the first two is there. Images without an XML file have no objects; a note counts them.

    An XML file that cannot be read counts as one annotation that is left out, E_LINE, under the name of the file; its
    image is rejected, E_NO_LABEL. So does one with a DOCTYPE, which is not even parsed.

    Raises UsageError and LabelFileError for what is no Pascal VOC, or where two images would do for one XML file.
    """
    layout = _layout(path, options)
    if layout is None:
        raise UsageError(path, "no XML file of Pascal VOC in it, which begins with <annotation>", "check the path")
    if layout.missing:
        raise UsageError(path, f"{layout.found}; {layout.missing}")
    check_tasks("tasks", options, ["boxes"])
    return _Reading(layout, options).source()


def _layout(path: str, options: AnnotationOptions) -> _Layout | None:
    """Where images and XML files are in a folder; None where it has no XML file of Pascal VOC."""
    folders, _ = _names(path)
    by_name = {name.casefold(): name for name in reversed(folders)}
    images = next((by_name[name] for name in _IMAGES if name in by_name), None)
    for name in _XMLS:
        inside = os.path.join(path, by_name[name]) if name in by_name else ""
        xml = _some_xml(inside) if inside else None
        if xml is None:
            continue
        deeper = [inner for inner in _names(inside)[0] if inner.casefold() in _XMLS]
        if os.path.dirname(xml) != inside and deeper:  # annotations/xmls
            inside = os.path.join(inside, deeper[0])
        found = f"{escape(os.path.relpath(inside, path))} with XML files that begin with <annotation>"
        if options.images is None and images is None:
            if _image_beside(xml):
                break
            return _Layout(found, f"no folder JPEGImages or images beside it; {_SAID}")
        lists = os.path.join(path, by_name["imagesets"], "Main") if "imagesets" in by_name else ""
        lists = lists if lists and _names(lists)[1] else ""
        found += f", images in {escape(options.images or images)}" + (", splits in ImageSets/Main" if lists else "")
        return _Layout(found, "", inside, options.images or os.path.join(path, images or ""), lists)
    for name in folders:
        within = {inner.casefold() for inner in _names(os.path.join(path, name))[0]}
        if {"annotations", "jpegimages"} <= within:
            of_years = [inner for inner in folders if inner.upper().startswith("VOC")] or [name]
            return _Layout("a folder with devkits of Pascal VOC", f"give one of the folders in it: {some(of_years)}")
    xml = _some_xml(path, paired=options.images is None)
    paired = xml is not None
    xml = xml or _some_xml(path)
    if xml is None:
        return None
    found = f"{escape(os.path.relpath(xml, path))} begins with <annotation>"
    if not paired:
        return _Layout(found, f"no image of the same name beside it; {_SAID}")
    return _Layout(found, "", path, options.images or path)


def _names(folder: str) -> tuple[list[str], list[str]]:
    """The names of visible folders, and of files, in a folder: of its first ones, sorted. None where it is none."""
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
    folders, files = _names(folder)
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
    _, files = _names(os.path.dirname(xml))
    stems = {name[:-4] for name in files if name.lower().endswith(".xml")}
    stems.add(os.path.basename(xml)[:-4])
    return any(names_image(os.fsencode(name)) and os.path.splitext(name)[0] in stems for name in files)


class _Reading:
    """Reads XML files and pairs them with images; `source` gives what comes of it."""

    def __init__(self, layout: _Layout, options: AnnotationOptions) -> None:
        self.layout, self.options, self.ledger = layout, options, Ledger()
        # Patterns are of images: an XML file stays whatever they say, and is passed over with its image.
        self.files = list_files(layout.images, follow_links=options.follow_links)
        if not len(self.files):
            raise nothing_listed(self.files)
        same = os.path.realpath(layout.images) == os.path.realpath(layout.xmls)
        self.xmls = self.files if same else list_files(layout.xmls, follow_links=options.follow_links)
        self.ledger.notes += [*self.files.notes, *([] if same else self.xmls.notes)]
        self.choice = Choice.of(options.include, options.exclude)
        self.by_stem: dict[bytes, list[int]] = {}
        for i, key in enumerate(self.files):
            if names_image(key):
                self.by_stem.setdefault(_stem(key), []).append(i)
        self.lists = _read_lists(layout.lists, self.by_stem, options) if layout.lists else None
        self.found: dict[int, _File] = {}  # by the number of the image

    def source(self) -> AnnotatedSource:
        """Everything read."""
        self._read_xmls()
        images = self._images()
        if not images:
            problem = f"no image for any of {len(self.xmls):,} files" if not self.choice else "no image is wanted"
            for skipped in self.ledger.rejected.values():
                problem = f"no image can be used, the first, {escape(skipped.key)}: {skipped.reason}"
                break
            raise UsageError(self.files.root, problem, f"give the folder of the images as {argument('images')}")
        taken = self.files.take(np.array(images, np.int64))
        table = self._table(images)
        for skipped in self.files.skipped:
            if names_image(skipped.key) and self.choice.wants(skipped.key):
                self.ledger.reject(skipped.key, RejectCode(skipped.code), skipped.reason)
        splits = splits_of(self._splits(taken), self.options)
        findings = self.ledger.findings(self.files.root)
        return AnnotatedSource(taken, table, splits=splits, findings=findings, described=in_numbers(len(taken), table))

    def _read_xmls(self) -> None:
        """Reads every XML file whose image is wanted, and finds that image."""
        unpaired: list[tuple[bytes, _File]] = []
        others, unlisted = Names("XML files that are no annotations of an image"), Names("images in no list of a split")
        for i, key in enumerate(self.xmls):
            if not key.lower().endswith(b".xml"):
                continue
            stem = _stem(key)
            image = self._of_stem(stem, key)
            if self.lists is not None and stem not in self.lists:
                unlisted.add(key if image is None else self.files.key(image))
                continue
            if image is not None and not self.choice.wants(self.files.key(image)):
                continue
            name = self.files.key(image) if image is not None else stem
            try:
                file = _parsed(_read(self.xmls, i))
            except BadAnnotationError as error:
                if image is None and isinstance(error, _OtherRootError):
                    others.add(key)
                    continue
                self.ledger.leave_out(key, AnnotationCode.LINE, error.reason)
                self.ledger.reject(name, RejectCode.NO_LABEL, f"{escape(key)} cannot be used: {error.reason}")
                continue
            if image is None:
                unpaired.append((key, file))
            else:
                self.found[image] = file
        self._pair_by_filename(unpaired)
        self.ledger.notes += [*others.note, *unlisted.note]

    def _of_stem(self, stem: bytes, key: bytes) -> int | None:
        """The image of the XML file `key`; None without."""
        images = self.by_stem.get(stem, [])
        images = [i for i in images if self.choice.wants(self.files.key(i))] or images[:1]
        if len(images) > 1:
            problem = f"it may be of {some(self.files.key(i) for i in images)}"
            raise UsageError(self.xmls.file(self.xmls.find(key)).path, problem, "rename or remove one of the images")
        return images[0] if images else None

    def _pair_by_filename(self, unpaired: Iterable[tuple[bytes, _File]]) -> None:
        """Of XML files that no image is called like: the image that <filename> names, in the folder of that name."""
        paired = Names("XML files of images that are called otherwise, as their <filename> says")
        for key, file in unpaired:
            folder, _, last = _stem(key).rpartition(b"/")
            base = re.split(r"[/\\]", file.filename)[-1].encode("utf-8", "replace")
            named = folder + b"/" + base if folder else base
            image = self.files.find(named) if base and names_image(base) else -1
            if image >= 0 and image not in self.found and self.choice.wants(named):
                self.found[image] = file
                paired.add(key)
                continue
            stem, extension = os.path.splitext(base)
            missing = _stem(key) + (extension if stem == last else b"")
            if not self.choice.wants(missing):
                continue
            self.ledger.reject(missing, RejectCode.MISSING, f"{escape(key)}: no image is called like it")
            for number in (*(one.number for one in file.objects), *(number for number, _ in file.bad)):
                reason = f"object {number} of {escape(key)}: its image is not there"
                self.ledger.leave_out(missing, AnnotationCode.IMAGE, reason)
        self.ledger.notes += paired.note

    def _images(self) -> list[int]:
        """The numbers of the images to take, in order: all that are wanted, and in the lists where there are any."""
        without = Names("images without an XML file, taken for images without objects")
        unlisted = Names("images in no list of a split and without an XML file")
        unwanted = Names("images left out by include and exclude")
        images: list[int] = []
        for i, key in enumerate(self.files):
            if not names_image(key) or key in self.ledger.rejected:
                continue
            if not self.choice.wants(key):
                unwanted.add(key)
                continue
            if i not in self.found and self.lists is not None and _stem(key) not in self.lists:
                unlisted.add(key)
                continue
            if i not in self.found:
                without.add(key)
            images.append(i)
        known = {*self.by_stem, *map(_stem, self.ledger.rejected), *(_stem(self.files.key(i)) for i in self.found)}
        known.update(_stem(skipped.key) for skipped in self.files.skipped)
        for stem, said in (self.lists or {}).items():
            if stem not in known and self.choice.wants(stem):
                self.ledger.reject(stem, RejectCode.MISSING, f"{said.place}: no image is called so")
        self.ledger.notes += [*without.note, *unlisted.note, *unwanted.note, *self.choice.unused()]
        return images

    def _table(self, images: Sequence[int]) -> ObjectTable:
        """The objects of the images to take."""
        files = self.found
        classes = ClassNumbers({one.name for file in files.values() for one in file.objects}, self.options.class_names)
        self.ledger.notes += classes.notes
        flags = [flag for flag in _FLAGS if any(flag in one.flags for file in files.values() for one in file.objects)]
        columns = [f"{OBJECTS}{flag}" for flag in flags]
        table = ObjectTable(
            classes.names, class_ids=classes.ids, what="object", upright=self.options.upright, columns=columns
        )
        first = self.options.voc_origin
        for place, image in enumerate(images):
            file = files.get(image)
            if file is None:
                continue
            if file.size is not None:
                table.set_size(place, *file.size)
            key, seen = self.files.key(image), set()
            for one in file.objects:
                same = (one.name, one.box, tuple(one.flags.items()))
                try:
                    if same in seen:
                        raise BadAnnotationError(AnnotationCode.TWICE, "it is there already, the same in everything")
                    label = classes.label(one.name)
                except BadAnnotationError as error:
                    self.ledger.leave_out(key, error.code, f"object {one.number}: {error.reason}")
                    continue
                seen.add(same)
                left, top, right, bottom = one.box
                box = (left - first, top - first, right, bottom)
                said = {f"{OBJECTS}{flag}": value for flag, value in one.flags.items()}
                table.add(place, one.number, box, label, columns=said)
            for number, error in file.bad:
                self.ledger.leave_out(key, error.code, f"object {number}: {error.reason}")
        self.ledger.notes += _origin_notes(files.values(), first)
        return table

    def _splits(self, taken: Listing) -> list[str | None]:
        """The split of each image: from the lists, else from folders that are called like splits."""
        if self.lists is not None:
            return [said.split if (said := self.lists.get(_stem(key))) else None for key in taken]
        return splits_by_folder(self.files, taken)


def _stem(key: bytes) -> bytes:
    return os.path.splitext(key)[0]


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


def _parsed(data: bytes) -> _File:
    """What an XML file says. Raises BadAnnotationError, E_LINE."""
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
        raise _OtherRootError(AnnotationCode.LINE, f"its root is <{escape(root.tag)}>, expected <annotation>")
    file = _File(
        (root.findtext("filename") or "").strip(), read_size(root.findtext("size/width"), root.findtext("size/height"))
    )
    for number, element in enumerate(root.findall("object"), 1):
        try:
            file.objects.append(_object(number, element))
        except BadAnnotationError as error:
            file.bad.append((number, error))
    return file


def _object(number: int, element: ET.Element) -> _Object:
    """One object, by its direct children: a <part> has a name and a box of its own. Raises BadAnnotationError."""
    boxes = element.findall("bndbox")
    if len(boxes) != 1:
        code = AnnotationCode.LINE if boxes else AnnotationCode.BOX_EMPTY
        raise BadAnnotationError(code, f"got {len(boxes) or 'no'} <bndbox>, expected one")
    left, top, right, bottom = (read_number(_text(boxes[0], side), f"<{side}>") for side in _SIDES)
    flags = {}
    for flag in _FLAGS:
        if text := _text(element, flag):
            flags[flag] = int(read_number(text, f"<{flag}>") > 0)  # some tools write the share that is not seen
    return _Object(number, _text(element, "name"), (left, top, right, bottom), flags)


def _text(element: ET.Element, child: str) -> str:
    return (element.findtext(child) or "").strip()


def _read_lists(folder: str, by_stem: Mapping[bytes, object], options: AnnotationOptions) -> dict[bytes, _Listed]:
    """What the files of ImageSets/Main say, by the path of an image without its extension.

    Raises LabelFileError where an image is in two splits.
    """
    found: dict[bytes, _Listed] = {}
    names = [name for name in _names(folder)[1] if name.lower().endswith(".txt")]
    splits = {name: usual_split(name[:-4]) for name in names}
    splits = {name: split for name, split in splits.items() if split or name[:-4].casefold() == "default"}
    if not {"train", "validation"} & {*splits.values()}:
        splits |= {name: "train" for name in names if name[:-4].casefold() == "trainval"}
    for name, split in splits.items():
        table = LabelTable(os.path.join(folder, name), "text", None, options.encoding, paths_only=True)
        for line, stem in _stems(table, by_stem):
            said = _Listed(split, f"{escape(name)}:{line}")
            before = found.setdefault(stem, said)
            if before.split != split:
                problem = f"'{escape(stem)}' is in the split {before.split} already ({before.place})"
                raise LabelFileError(table.place(line), problem, "leave one of the two lines out")
    return found


def _stems(table: LabelTable, by_stem: Mapping[bytes, object]) -> Iterator[tuple[int, bytes]]:
    """Line and image, without its extension, of each line: `2008_000008`, `2008_000008 -1` or `2008_000008.jpg`."""
    for record in table:
        text = str(record.cells[0]).strip()  # type: ignore[index]  # a list: the table has no keys
        stem = text.encode("utf-8", "surrogateescape")
        marked = _MARK.match(text)
        if stem not in by_stem and marked:
            stem = marked[1].encode("utf-8", "surrogateescape")
        if stem not in by_stem and names_image(stem):
            stem = _stem(stem)
        yield record.line, stem


def _origin_notes(files: Iterable[_File], first: int) -> list[str]:
    """Whether the data speak against the number of the first pixel that is taken for granted."""
    zeros, ends, least = 0, 0, float("inf")
    for file in files:
        for one in file.objects:
            low = min(one.box[:2])
            least = min(least, low)
            zeros += low <= 0
            ends += file.size is not None and (one.box[2] == file.size[0] or one.box[3] == file.size[1])
    if first == 1 and zeros:
        asked = "--voc-origin 1, in Python voc_origin=1, was asked"
        return [f"{asked}; boxes that begin at 0, as where pixels count from 0: {zeros:,}"]
    if first == 0 and ends and least >= 1:
        remedy = "if pixels count from 1, as in the devkit, give --voc-origin 1, in Python voc_origin=1"
        return [f"no box begins at 0, and boxes that end at the width or height of their image: {ends:,}; {remedy}"]
    return []
