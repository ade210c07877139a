"""Folders whose names are no classes: layouts of detection and segmentation datasets, refused as class folders.

Taken for classes, `images` and `masks` would convert without a word. `open_source` then asks the readers of
annotations, and reads what one of them recognises. The rules are narrow: names alone decide
nothing, what lies in the folders must fit, and no other folder of images may be beside them.
"""

import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice

from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.text import some

_LOOKED_AT = 1000  # files of a folder that tell what is in it
_PAIRS = 200  # images for which a mask or a text is looked for
_PARTNERS = 100_000  # files in which it is looked for
_YAML = (b"data.yaml", b"data.yml", b"dataset.yaml", b"dataset.yml")
_OF_COCO = re.compile(rb"(images|train|val|valid|validation|test|unlabeled|minival)(_?\d{4})?(_images)?")
_IMAGES = frozenset(
    b"images image imgs img jpegimages leftimg8bit original originals photos pictures rgb input inputs".split()
)
_MASKS = frozenset(
    b"masks mask labels label annotations annotation annots segmentation segmentations segmentationclass seg gt gtfine "
    b"gtcoarse groundtruth ground_truth ground-truth target targets trimaps output outputs matte mattes".split()
)
# What is added to a name: `train_masks` to `train`, `0001_mask.png` to `0001.jpg`.
_ADDED = rb"masks?|labels?|labelids|annot|annotations?|gt|gtfine|gtcoarse|leftimg8bit|seg|segmentation|matte|trimap"
_OF_FOLDER = re.compile(rb"(.+?)[_.-]?(?:%s)" % _ADDED)
_OF_FILE = re.compile(rb"(?:(?:image|img|mask|label|gt|seg)[_.-])?(.+?)(?:[_.-](?:%s|image|img|sat|color|l))*" % _ADDED)


def refuse_other_layouts(files: Listing) -> None:
    """Raises UsageError where the folders of `files`, all files that are there, are those of another task."""
    tops, _ = files.children()
    splits = [top for top in tops if usual_split(top)]
    places = [b""] if len(splits) < len(tops) or not tops else [b"", *(top + b"/" for top in tops)]
    for place in places:
        found = _layout(files, place)
        if found:
            name, evidence = found
            problem = f"looks like {name} ({evidence}): the names of its folders are no classes"
            names = argument("class_names", typed="FILE")
            remedy = f"{_deeper(files)}say what it is by {argument('reader', typed='NAME')}, "
            remedy += "read it by a source of your own (docs/your-own-source.md), "
            remedy += f"or name the folders in {names} to take them for classes all the same"
            raise UsageError(files.root, problem, remedy)


def _deeper(files: Listing) -> str:
    """What to do where a folder of images has folders that may be classes after all."""
    for top in files.children()[0]:
        inner, _ = files.children(top + b"/")
        if top.lower() in _IMAGES and inner and not all(_OF_COCO.fullmatch(name.lower()) for name in inner):
            return f"give {escape(top)} as the root if its folders ({some(inner)}) are classes, else "
    return ""


def _layout(files: Listing, place: bytes) -> tuple[str, str] | None:
    """What the folder `place`, which ends in "/" or is the root, looks like, and what says so; or None."""
    names, beside = files.children(place)
    called = {name.lower(): name for name in names}
    if place + b"_annotations.coco.json" in beside:
        return "a COCO dataset", escape(place + b"_annotations.coco.json")
    if b"jpegimages" in called and ({b"annotations", b"imagesets"} & called.keys()):
        return "a Pascal VOC dataset", some(place + name for name in names)
    holding = [name for name in names if any(map(names_image, _first(files, place + name + b"/")))]
    if b"annotations" in called and called[b"annotations"] not in holding:
        inside = place + called[b"annotations"] + b"/"
        tables = [key for key in files.children(inside)[1] if key.lower().endswith(b".json")]
        if tables and holding and all(_OF_COCO.fullmatch(name.lower()) for name in holding):
            return "a COCO dataset", f"{escape(tables[0])} beside {escape(place + holding[0])}"
    if holding and all(name.lower() in _IMAGES for name in holding):
        for name in names:
            ends = {os.path.splitext(key)[1].lower() for key in _first(files, place + name + b"/")}
            where = f"{escape(place + name)} has files named like the images, of the kind {some(sorted(ends))}"
            if name in holding or not _share(files, place + holding[0], place + name):
                continue
            if name.lower() == b"labels" and b".txt" in ends:
                return "a YOLO dataset", where
            if name.lower() in _MASKS | {b"xml", b"xmls"} and b".xml" in ends:
                return "a dataset with Pascal VOC's annotations", where
    yaml = [key for key in beside if key[len(place) :].lower() in _YAML]
    if yaml and holding and all(files.children(place + name + b"/")[0] == [b"images"] for name in holding):
        return "a YOLO dataset", f"{escape(yaml[0])}, and in each split a folder images"
    return _masks(files, place, holding)


def _masks(files: Listing, place: bytes, holding: Sequence[bytes]) -> tuple[str, str] | None:
    """Whether every folder of images has a folder of masks for them, or is one."""
    lower = {name.lower(): name for name in holding}
    pairs: list[tuple[bytes, bytes]] = []
    for name, mask in lower.items():
        added = _OF_FOLDER.fullmatch(name)
        if added and added[1] in lower:
            pairs.append((lower[added[1]], mask))
    if not pairs:
        pairs = [(lower[a], lower[b]) for a in lower if a in _IMAGES for b in lower if b in _MASKS]
    if not pairs or {name for pair in pairs for name in pair} != set(holding):
        return None
    images, masks = pairs[0]
    if _share(files, place + images, place + masks) < 0.5:
        return None
    where = f"{escape(place + images)} and {escape(place + masks)} have files of the same names"
    return "images and their masks", where


def _share(files: Listing, images: bytes, others: bytes) -> float:
    """How many of the first images in a folder, 0 to 1, have a file of the same name but its end in another folder."""
    stems = set(map(_stem, islice(files.inside(others + b"/"), _PARTNERS)))
    looked_at = list(islice(filter(names_image, files.inside(images + b"/")), _PAIRS))
    return sum(_stem(key) in stems for key in looked_at) / len(looked_at)


def _stem(key: bytes) -> bytes:
    stem = os.path.splitext(key.rpartition(b"/")[2])[0].lower()
    found = _OF_FILE.fullmatch(stem)
    return found[1] if found else stem


def _first(files: Listing, folder: bytes) -> Iterable[bytes]:
    return islice(files.inside(folder), _LOOKED_AT)
