"""Pascal VOC: one XML file an image, as the devkit, LabelImg, CVAT and Roboflow write it."""

import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from shardfeed.annotations import OBJECTS
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.gathering import (
    Ledger,
    Names,
    check_tasks,
    in_numbers,
    splits_of,
)
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.annotations.voc.layout import Layout, find_layout
from shardfeed.converters.sources.annotations.voc.lists import read_lists, stem_of
from shardfeed.converters.sources.annotations.voc.xml_file import FLAGS, OtherRootError, XmlFile, read_xml
from shardfeed.converters.sources.files.folder_splits import splits_by_folder
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Choice
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.rows.object_classes import ObjectClasses
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """A folder with XML files whose root is <annotation>, with the images beside them, in a folder, or named."""
    layout = find_layout(path, options)
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
    layout = find_layout(path, options)
    if layout is None:
        raise UsageError(path, "no XML file of Pascal VOC in it, which begins with <annotation>", "check the path")
    if layout.missing:
        raise UsageError(path, f"{layout.found}; {layout.missing}")
    check_tasks("tasks", options, ["boxes"])
    return _Reading(layout, options).source()


class _Reading:
    """Reads XML files and pairs them with images; `source` gives what comes of it."""

    def __init__(self, layout: Layout, options: AnnotationOptions) -> None:
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
                self.by_stem.setdefault(stem_of(key), []).append(i)
        self.lists = read_lists(layout.lists, self.by_stem, options) if layout.lists else None
        self.found: dict[int, XmlFile] = {}  # by the number of the image

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
        findings, described = self.ledger.findings(self.files.root), in_numbers(len(taken), table)
        return AnnotatedSource(taken, objects=table, splits=splits, findings=findings, described=described)

    def _read_xmls(self) -> None:
        """Reads every XML file whose image is wanted, and finds that image."""
        unpaired: list[tuple[bytes, XmlFile]] = []
        others, unlisted = Names("XML files that are no annotations of an image"), Names("images in no list of a split")
        for i, key in enumerate(self.xmls):
            if not key.lower().endswith(b".xml"):
                continue
            stem = stem_of(key)
            image = self._of_stem(stem, key)
            if self.lists is not None and stem not in self.lists:
                unlisted.add(key if image is None else self.files.key(image))
                continue
            if image is not None and not self.choice.wants(self.files.key(image)):
                continue
            name = self.files.key(image) if image is not None else stem
            try:
                file = read_xml(self.xmls, i)
            except BadAnnotationError as error:
                if image is None and isinstance(error, OtherRootError):
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

    def _pair_by_filename(self, unpaired: Iterable[tuple[bytes, XmlFile]]) -> None:
        """Of XML files that no image is called like: the image that <filename> names, in the folder of that name."""
        paired = Names("XML files of images that are called otherwise, as their <filename> says")
        for key, file in unpaired:
            folder, _, last = stem_of(key).rpartition(b"/")
            base = re.split(r"[/\\]", file.filename)[-1].encode("utf-8", "replace")
            named = folder + b"/" + base if folder else base
            image = self.files.find(named) if base and names_image(base) else -1
            if image >= 0 and image not in self.found and self.choice.wants(named):
                self.found[image] = file
                paired.add(key)
                continue
            stem, extension = os.path.splitext(base)
            missing = stem_of(key) + (extension if stem == last else b"")
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
            if i not in self.found and self.lists is not None and stem_of(key) not in self.lists:
                unlisted.add(key)
                continue
            if i not in self.found:
                without.add(key)
            images.append(i)
        known = {*self.by_stem, *map(stem_of, self.ledger.rejected), *(stem_of(self.files.key(i)) for i in self.found)}
        known.update(stem_of(skipped.key) for skipped in self.files.skipped)
        for stem, said in (self.lists or {}).items():
            if stem not in known and self.choice.wants(stem):
                self.ledger.reject(stem, RejectCode.MISSING, f"{said.place}: no image is called so")
        self.ledger.notes += [*without.note, *unlisted.note, *unwanted.note, *self.choice.unused()]
        return images

    def _table(self, images: Sequence[int]) -> ObjectTable:
        """The objects of the images to take."""
        files = self.found
        classes = ObjectClasses({one.name for file in files.values() for one in file.objects}, self.options.class_names)
        self.ledger.notes += classes.notes
        flags = [flag for flag in FLAGS if any(flag in one.flags for file in files.values() for one in file.objects)]
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
            return [said.split if (said := self.lists.get(stem_of(key))) else None for key in taken]
        return splits_by_folder(self.files, taken)


def _origin_notes(files: Iterable[XmlFile], first: int) -> list[str]:
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
