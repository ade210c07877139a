"""COCO's JSON files: boxes, masks and keypoints of objects, captions, or the segments of whole images."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shardfeed.annotations import IS_CROWD, Keypoints
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.coco_files import (
    Category,
    CocoFile,
    CocoLayout,
    agreed,
    coco_files,
    file_name,
    keypoints_of,
    plain_id,
    read_categories,
    recognise_coco,
)
from shardfeed.converters.sources.annotations.coco_panoptic import Segments, folder_of, object_categories
from shardfeed.converters.sources.annotations.json_stream import JsonStream, elements_of
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.walk import list_files
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.objects import box_of, class_text, shown_value
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import counted, some

_LARGEST = 2**63
_LISTS = ("images", "annotations", "categories")
# Keys that are read, or say what the images or other keys say, too.
_OF_IMAGES = frozenset(("id", "file_name", "width", "height", "coco_url", "flickr_url", "license", "date_captured"))
_OF_ANNOTATIONS = frozenset(("id", "image_id", "category_id", "bbox", "area", "iscrowd", "segmentation", "keypoints"))
_OF_ANNOTATIONS |= {"num_keypoints", "ignore", "caption", "segments_info", "file_name"}
_PNGS = re.compile(rb"(^|/)panoptic_[^/]+/[^/]+\.png$", re.IGNORECASE)
_TASKS: dict[str, tuple[Task, ...]] = {
    "instances": ("boxes", "masks", "keypoints"),
    "captions": ("captions",),
    "panoptic": ("boxes", "rasters"),
    "classes": ("classes",),
}
_FOUND = {
    "instances": '"images" and "annotations" of objects, as in COCO',
    "captions": '"images" and "annotations" with a "caption", as in COCO',
    "panoptic": '"images" and "annotations" with "segments_info", as in panoptic COCO files',
    "classes": '"images" and "annotations" with classes of images, as in iNaturalist',
}
_NOT_TAKEN = {
    "results": (
        'COCO results (a list of entries with "image_id")',
        "these are predictions: give the annotations (instances_*.json)",
    ),
    "images": ('"images", as in COCO', 'it has no "annotations", like a test set'),
}


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Whether the path is a COCO file, or a folder with COCO files in one of the usual places."""
    if not look.is_folder:
        what = recognise_coco(look.path) if look.path.lower().endswith(".json") else None
        return _evidence(what, file_name(look.path)) if what else None
    try:
        layout = coco_files(look, options)
    except UsageError as error:  # other sources may do with the folder
        return Evidence("coco", "it has files named as in COCO", f"{error.place}: {error.args[1]}")
    if layout is None:
        return None
    names = [os.path.relpath(file.path, look.path) for file in layout.files]
    return _evidence(layout.files[0].what, ", ".join(names[:4]))


def _evidence(what: str, where: str) -> Evidence:
    found, missing = _NOT_TAKEN.get(what, ("", ""))
    return Evidence("coco", f"{escape(where)} has {found or _FOUND[what]}", missing)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images named in COCO's files, with their annotations; each of several files in a folder is a split.

    A class is the rank of its category's id; the ids stay in the schema. `image/source_id` is the image's own id.

    Raises:
        UsageError: options that do not fit the files, or all named images are missing.
        LabelFileError: a file that is not COCO's, or contradicts itself or another.
        StorageError: a file or folder that cannot be read.
    """
    layout = coco_files(look, options)
    if layout is None:
        of = f" with {some(sorted(options.tasks))}" if options.tasks else ""
        remedy = "give the file itself, and the folder of its images as " + argument("images", typed="DIR")
        raise UsageError(look.path, f"no COCO file{of} in it, nor in annotations, train, valid or test", remedy)
    panoptic = [file for file in layout.files if file.what == "panoptic"]
    tasks: dict[Task, None] = dict.fromkeys(task for file in layout.files for task in _TASKS.get(file.what, ("boxes",)))
    things: Sequence[Category] = ()
    of_panoptic: Sequence[Category] = ()
    pngs: list[Listing] = []
    if panoptic:
        lists = {file.path: elements_of(file.path, "categories") for file in panoptic}
        of_panoptic = agreed({path: read_categories(entries, path) for path, entries in lists.items()})
        if options.tasks != {"boxes"}:
            pngs = [list_files(folder_of(file, options), follow_links=look.follow_links) for file in panoptic]
        things = object_categories(panoptic[0].path, of_panoptic, options)
        if not things:
            del tasks["boxes"]
        if "rasters" in tasks and not of_panoptic:
            raise LabelFileError(panoptic[0].path, '"categories" is missing or empty', "check the export")
    found = Annotations(
        look.path,
        look,
        options,
        what="segment" if panoptic else "annotation",
        tasks=list(tasks),
        files=_images(look, layout.root, pngs),
        flags=(IS_CROWD,),
    )
    found.objects.sized = not panoptic
    segments = Segments(found, of_panoptic, things, pngs) if panoptic else None
    files = [_AnnotationFile(file, found, segments if file.what == "panoptic" else None) for file in layout.files]
    for file in files:
        file.read()
    of_objects = {file.file.path: file.categories for file in files if file.file.what in ("instances", "classes")}
    categories = things if panoptic else agreed(of_objects) if of_objects else ()
    found.stated = [one.name for one in categories], [one.id for one in categories]
    if any(file.file.what == "classes" for file in files):
        _label_images(found, [label for file in files for label in file.labels], categories)
    found.objects.keypoints = None if panoptic else _keypoints(look.path, categories, options)
    found.ledger.notes += _notes(layout, files, found.objects.keypoints)
    rasters = None
    if segments is not None:
        pairs = segments.pair([list(file.images.values()) for file in files if file.file.what == "panoptic"])
        rasters = partial(segments.rasters, pairs) if pngs else None
    source = found.source(rasters=rasters)
    if source.objects is not None:
        none = [one for one, count in zip(categories, source.objects.class_counts(), strict=True) if not count]
        if len(none) == 1 and none[0].id == 0 and len(categories) > 1:
            first = f"category 0, '{escape(none[0].name)}', has no object"
            found.note(f"{first}: Roboflow adds such a supercategory")
    return replace(source, described=f"{some(file.name for file in layout.files)}: {source.described}")


def _images(look: Look, root: str, pngs: Sequence[Listing]) -> Listing:
    """The files below the root, less the PNGs of panoptic annotations."""
    listing = look.list_files(root)
    top = os.path.realpath(listing.root).rstrip(b"/") + b"/"
    folders = [os.path.realpath(one.root).rstrip(b"/") + b"/" for one in pngs]
    inside = tuple(folder.removeprefix(top) for folder in folders if folder.startswith(top) and folder != top)
    kept = [i for i, key in enumerate(listing) if not key.startswith(inside) and not _PNGS.search(key)]
    return listing.take(np.array(kept, np.int64))


class _AnnotationFile:
    """One file, read once: annotations that precede their images are kept until the images follow.

    `images`: the number of each image by its id. `categories`: by their ids, once all is read.
    """

    def __init__(self, file: CocoFile, found: Annotations, segments: Segments | None) -> None:
        self.file, self._found, self._segments = file, found, segments
        self.images: dict[int | str, int] = {}
        self._awaited: set[int | str] = set()
        self.categories: Sequence[Category] = ()
        self.numbered = True  # whether all images have a number that `image/source_id` can take
        self.ignored = self.from_addresses = self.outlined = 0
        self._points = not found.options.tasks or "keypoints" in found.options.tasks
        self.labels: list[tuple[int, int, Any]] = []  # image, number and category of each class of an image
        self._by_ids = True  # whether annotations are named by their ids, else by their positions

    def read(self) -> None:
        """Read the whole file. Raises LabelFileError if it is no COCO file, or contradicts itself."""
        path, found = self.file.path, self._found
        found.place, start = path, len(found.objects)
        if self._segments is not None:
            self._segments.begin()
        stream = JsonStream(path)
        seen: set[str] = set()
        try:
            if stream.peek() == "[":
                raise _not_annotations(path, "a list, as in COCO result files")
            for key in stream.members():
                if key in seen and key in _LISTS:
                    raise LabelFileError(path, f'"{key}" appears twice', "join the two lists into one")
                seen.add(key)
                if key in _LISTS and stream.peek() != "[":
                    raise LabelFileError(f"{path}, byte {stream.offset}", f'"{key}" is not a list')
                if key == "categories":
                    self.categories = read_categories(stream.elements(), path)
                elif key in _LISTS:
                    take = self._image if key == "images" else self._annotation
                    for i, entry in enumerate(stream.elements()):
                        take(i, entry)
            stream.end()
        finally:
            stream.close()
        for key in _LISTS[: 2 if self.file.what == "captions" else 3]:
            if key not in seen:
                lacking = "which name the classes" if key == "categories" else f"only {some(sorted(seen))}"
                raise _not_annotations(path, f'no "{key}" in it, {lacking}')
        if len(self.images) == len(self._awaited):
            raise LabelFileError(path, '"images" is empty', "check the export")
        if self._by_ids and self.file.what == "instances" and (problem := found.objects.contradiction(start)):
            raise LabelFileError(path, problem, "give each annotation a unique id")
        if self.file.what != "panoptic":
            self.images = {}  # no other field is needed

    def _image(self, i: int, entry: Any) -> None:
        place = f'{self.file.path}, "images", entry {i}'
        if not isinstance(entry, Mapping):
            raise LabelFileError(place, f"got {shown_value(entry)}, expected an object")
        own, name = plain_id(entry.get("id")), entry.get("file_name")
        self._found.unread("images", entry, _OF_IMAGES)
        if type(own) is not int and not isinstance(own, str):
            raise LabelFileError(place, f"its id is {shown_value(own)}, expected a number")
        if not name and isinstance(entry.get("coco_url"), str):
            # LVIS has no other name: folder and file are the end of the URL, which is not opened.
            name = "/".join(entry["coco_url"].split("/")[-2:])
            self.from_addresses += 1
        if not isinstance(name, str) or not name:
            raise LabelFileError(place, f"its file_name is {shown_value(name)}, expected a name")
        if own in self.images and own not in self._awaited:
            before = escape(self._found.key(self.images[own]))
            remedy = "give each image one entry"
            raise LabelFileError(place, f"the id {shown_value(own)} is already that of {before}", remedy)
        numbered = type(own) is int and 0 <= own < _LARGEST
        self.numbered = self.numbered and numbered
        self.images[own] = self._found.image(
            name,
            where=i,
            folder=self.file.folder,
            split=self.file.split,
            number=own if numbered and isinstance(own, int) else None,
            size=(entry.get("width"), entry.get("height")),
            once=self.file.what != "captions",  # files of objects may name the same images
            awaited=self.images.get(own),
            fields=entry,
        )
        self._awaited.discard(own)

    def _annotation(self, i: int, entry: Any) -> None:
        own = entry.get("id") if isinstance(entry, dict) else None
        has_id = type(own) is int and -_LARGEST <= own < _LARGEST
        if i == 0 and not has_id and self.file.what == "instances":
            self._found.objects.what = "entry"
        self._by_ids = self._by_ids and (has_id or not isinstance(entry, dict))
        number = own if isinstance(own, int) and self._by_ids else i
        image: int | str = self.file.name
        try:
            if not isinstance(entry, dict):
                raise BadAnnotationError(AnnotationCode.LINE, f"got {shown_value(entry)}, expected an object")
            image = self._image_of(entry)
            self._found.unread("annotations", entry, _OF_ANNOTATIONS)
            if self._segments is not None:
                self._segments.take(image, i, entry, self.file.path)
            elif self.file.what == "captions":
                self._found.caption(image, entry.get("caption"), f"caption {number}")
            elif self.file.what == "classes":
                self.labels.append((image, number, plain_id(entry.get("category_id"))))
            else:
                self._object(image, number, entry, own)
        except BadAnnotationError as error:
            self._found.leave_out(image, error.code, f"{self._found.objects.what} {number}: {error.reason}")

    def _image_of(self, entry: Mapping[str, Any]) -> int:
        """The number of the image of an annotation. Raises BadAnnotationError."""
        own = plain_id(entry.get("image_id"))
        reason = f"its image_id is {shown_value(entry.get('image_id'))}, which no image has"
        reason += ": it is text, not a number" if isinstance(own, str) else ""
        if type(own) is not int and not isinstance(own, str):
            raise BadAnnotationError(AnnotationCode.ORPHAN, reason)
        image = self.images.get(own)
        if image is None:
            image = self.images[own] = self._found.await_image(reason)
            self._awaited.add(own)
        return image

    def _object(self, image: int, number: int, entry: Mapping[str, Any], own: Any) -> None:
        category = plain_id(entry.get("category_id"))
        if isinstance(category, str):
            reason = f"its category_id is {shown_value(category)}, expected a number"
            raise BadAnnotationError(AnnotationCode.CATEGORY, reason)
        self.outlined += not entry.get("bbox") and bool(entry.get("segmentation"))
        self.ignored += entry.get("ignore") in (1, True)
        self._found.objects.add(
            image,
            number,
            box_of(entry),
            class_text(category),
            area=entry.get("area"),
            flags={IS_CROWD: entry.get("iscrowd")},
            points={"keypoints": entry.get("keypoints")} if self._points else None,
            outline=entry.get("segmentation"),
            own_id=own,
        )


def _not_annotations(path: str, got: str) -> LabelFileError:
    expected = "expected an object with the lists images, annotations and, unless they are captions, categories"
    return LabelFileError(path, f"got {got}; {expected}", "give the file of instances, key points or captions")


def _label_images(found: Annotations, labels: Sequence[tuple[int, int, Any]], categories: Sequence[Category]) -> None:
    """Give images their classes, by the ids of the categories."""
    names, of_image = {one.id: one.name for one in categories}, dict[int, list[str]]()
    for image, number, category in labels:
        if category in names:
            of_image.setdefault(image, []).append(names[category])
        else:
            reason = f"annotation {number}: its category_id is {shown_value(category)}, which no category has"
            found.leave_out(image, AnnotationCode.CATEGORY, reason)
    for image, classes in of_image.items():
        found.label(image, *classes)


def _keypoints(path: str, categories: Sequence[Category], options: AnnotationOptions) -> Keypoints | None:
    """The keypoints of each object: if requested, or if all categories have the same.

    Raises LabelFileError if they are requested but missing, or differ between categories.
    """
    having = [one for one in categories if one.keypoints]
    lists = {one.keypoints for one in having}
    if "keypoints" in options.tasks:
        if not lists:
            raise LabelFileError(path, 'no category names "keypoints"', "give the file of key points")
        if len(lists) > 1:
            problem = f"{some(one.name for one in having)} have different key points"
            remedy = "make one dataset per list: all objects of a dataset have the same key points"
            raise LabelFileError(path, problem, remedy)
    elif len(lists) != 1 or len(having) < len(categories) or options.tasks:
        return None
    return keypoints_of(having[0])


def _counts(files: Sequence[_AnnotationFile]) -> Iterator[str]:
    """Sentences on entries that lack something, or have something that is not used."""
    if ignored := sum(file.ignored for file in files):
        yield f'annotations with "ignore": {ignored:,}; they are converted like the others, as pycocotools does'
    if outlined := sum(file.outlined for file in files):
        yield f"annotations without a bbox: {outlined:,}; their box is the one around their segmentation"
    if taken := sum(file.from_addresses for file in files):
        yield f"images without a file_name: {taken:,}; their file name is the end of coco_url, nothing is downloaded"


def _notes(layout: CocoLayout, files: Sequence[_AnnotationFile], keypoints: Keypoints | None) -> Iterator[str]:
    for what, tasks in (("keypoints", "boxes,keypoints"), ("captions", "captions"), ("panoptic", "boxes,rasters")):
        names = [file.name for file in layout.others if what in (file.family, file.what)]
        if names:
            python = f"tasks={tasks.split(',')}"
            yield f"{counted('unused files', names, len(names))}; --tasks {tasks} (in Python {python}) converts them"
    rest = [file.name for file in layout.others if file.what == "instances" and file.family != "keypoints"]
    if rest:
        yield f"{counted('files that are not taken', rest, len(rest))}; give one of them as the source to convert it"
    if not all(file.numbered for file in files):
        yield "image ids are not integers from 0 on: image/source_id numbers the records instead"
    yield from _counts(files)
    if keypoints is not None and not keypoints.flip:
        yield "the key point names do not mark left and right: images cannot be flipped"
