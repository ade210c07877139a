"""Folders that are not classes: datasets of another task, pairs of images, a folder for each sample, shards, groups.

Files of class folders seldom have equal names, except for numbers. So equal names mean pairs only if they are more than
numbers, or if the folders are named like pairs.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from shardfeed.converters.sources.files.annotation_files import LABEL_FORMATS, AnnotationFile, recognise_annotations
from shardfeed.converters.sources.files.listing import (
    COPY_FOLDERS,
    IMAGE_FOLDERS,
    MASK_FOLDERS,
    MASK_WORD,
    Listing,
    names_image,
    split_words_in,
)
from shardfeed.converters.sources.files.walk import head_of
from shardfeed.errors import UsageError, argument, as_source, escape
from shardfeed.split_words import usual_split
from shardfeed.text import number, some

_LOOKED_AT = 1000  # files of a folder that are examined to recognise it
_PAIRS = 200  # images for which a mask or a text is searched
_PARTNERS = 100_000  # files among which it is searched
_FOLDERS, _FILES = 100, 9  # folders, and files in each, that are examined for a folder for each sample
_YAML = (b"data.yaml", b"data.yml", b"dataset.yaml", b"dataset.yml")
_OF_COCO = re.compile(rb"(images|train|val|valid|validation|test|unlabeled|minival)(_?\d{4})?(_images)?")
_IN_COCO = re.compile(rb'"(?:images|annotations|categories|licenses)"')
_MASKS = MASK_FOLDERS | {b"output", b"outputs"}  # of image-to-image tasks
# Additions to a name: `train_masks` to `train`, `0001_mask.png` to `0001.jpg`.
_ADDED = rb"leftimg8bit|" + MASK_WORD
_OF_FOLDER = re.compile(rb"(.+?)[_.-]?(?:%s)" % _ADDED)
_OF_FILE = re.compile(rb"(?:(?:image|img|mask|label|gt|seg)[_.-])?(.+?)(?:[_.-](?:%s|image|img|sat|color|l))*" % _ADDED)
_TOKEN = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Sizes and versions in names of folders, which are no words: `lr_x4`, `LRx2`, `hr512x512`, `gt_v2`.
_SIZE = re.compile(rb"(?<![a-z])(?:\d*x\d+|\d+[xp]|v\d+)(?![a-z])|(?<=[hlrq])x\d+", re.IGNORECASE)
# Words of folders that hold images of all classes, or no images: whatever is in them, they are no classes.
_GENERIC = (
    IMAGE_FOLDERS
    | _MASKS
    | COPY_FOLDERS
    | frozenset(
        b"anchor bicubic bounding box conditioning control data database dataset datasets depth disparity files "
        b"flow frame frames gallery hr imagesets index ir jpeg jpg lq lr minival nir obj output outputs png probe "
        b"query segmentationobject set source sources extra misc backup archive tr ts unlabeled unlabelled xml "
        b"xmls".split()
    )
)
# Words of two folders with the two pictures of each sample; each of them may be the name of a class as well.
_PAIRED = frozenset(
    b"A B left right raw hdr ldr over under clean noise noisy noised denoised clear haze hazy dehazed rain rainy "
    b"derained norain blur blurry blurred sharp deblurred before after low high degraded enhanced expert compressed "
    b"distorted edited sketch sketches edge edges color colour gray grey thermal infrared visible vis normals "
    b"reference ref result results full original originals orig resized cropped".split()
)
_CAMERAS = frozenset(b"dsc dscn dscf pxl mvi screenshot scan pic picture".split())
_UNIT = re.compile(
    r"(?:patient|video|vid|clip|scene|seq|sequence|camera|cam|session|batch|part|chunk|shard|folder|dir|page|document|doc|"
    r"sample|case|study|series|visit|tiles?|fold|split|group|run|trial|subset)(?:[ _.-]?\d+|[ _.-][a-z])|"
    r"(?:19|20)\d\d[-_.]?(?:0\d|1[0-2])[-_.]?[0-3]\d|"  # a day
    r"(?=.*\d)(?=.*[a-f])(?:[0-9a-f]{8,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",  # a hash
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{4,}")
_MANY = 10  # classes of which one image each is shown: in samples of datasets up to ten; numbers count half
_MOST_PICTURES = 4  # of a sample, each in its folder
_SHARD = 3  # digits of a folder, at least
_TIMESTAMP = 10  # digits, of names that no one counts


class _Layout(NamedTuple):
    """The dataset that a folder looks like: its name and the evidence; `images`: the remedy where nothing reads it."""

    name: str
    evidence: str
    images: str = ""


def refuse_other_layouts(files: Listing) -> None:
    """Raise UsageError if `files`, the listing of all files, has the folders of a dataset of another task."""
    tops, _ = files.children()
    splits = [top for top in tops if usual_split(top)]
    places = [b""] if len(splits) < len(tops) or not tops else [b"", *(top + b"/" for top in tops)]
    for place in places:
        if found := _layout(files, place, within_splits=len(places) > 1):
            problem = f"looks like {found.name} ({found.evidence}): its folder names are not classes"
            reader = f"choose a reader with {argument('reader', typed='NAME')}, "
            reader += "write a source class (docs/your-own-source.md), "
            way = found.images or f"{reader}{without_labels()}"
            raise UsageError(files.root, problem, f"{_deeper(files)}{way}{keep_classes()}")


def keep_classes() -> str:
    """Return the clause of a remedy for folders that are classes."""
    names = argument("class_names", python="class_names=[...]", typed="FILE")
    return f"or list the folders in {names} to use them as classes"


def without_labels(**chosen: str) -> str:
    """Return the clause of a remedy for images without labels; `chosen`: include or exclude, and its pattern."""
    alone = argument("unlabelled", python="unlabelled=True")
    only = "".join(f" with {argument(name, pattern)}" for name, pattern in chosen.items() if pattern)
    return f"{alone}{only} converts the images without labels, "


def read_otherwise(labels: Mapping[bytes, AnnotationFile]) -> str:
    """Return the clause of a remedy for annotations beside images, which a reader may know that was not asked."""
    export = next((f"else {one.remedy}; " for one in labels.values() if one.remedy), "")
    return f"choose a reader with {argument('reader', typed='NAME')}, if one fits; {export}"


def label_table(root: bytes, labels: Mapping[bytes, AnnotationFile]) -> str:
    """Return the path of the first table or list among files that may label images; "" if there is none."""
    if not labels:
        return ""
    tables = (os.fsdecode(key) for key, one in labels.items() if one.kind in ("table", "document"))  # JSON Lines
    names = [name for name in tables if name.lower().endswith(tuple(LABEL_FORMATS))]
    of_train = [name for name in names if "train" in map(usual_split, split_words_in(os.path.splitext(name)[0]))]
    return os.path.join(os.fsdecode(root), (of_train or names)[0]) if names else ""


def with_labels(root: bytes, labels: Mapping[bytes, AnnotationFile]) -> str:
    """Return the clause of a remedy for labels in a file, if possible one of `labels`."""
    table = label_table(root, labels)
    if not table:
        return argument("labels", python="LabelFile", typed="FILE")
    column = argument("label_columns", python="label_columns=[...]", typed="COLUMN")
    return f"{argument('labels', table)}, with {column} unless it is called label"


def is_generic(name: str, common: Collection[bytes] = ()) -> bool:
    """Whether a folder of this name holds images of all classes, as `images`, `obj_train_data` and `trainA` do.

    `common`: words that do not tell it from the folders beside it.
    """
    tokens = _tokens(os.fsencode(name))
    plain = {token for token in tokens if usual_split(token) is None} - set(common)
    side = len(plain) < len(tokens) and plain <= {b"A", b"B"}  # trainA, testB: of CycleGAN
    known = os.fsencode(name.casefold()).rstrip(b"0123456789_-") in _GENERIC
    known = known or (not tokens and _SIZE.search(os.fsencode(name)) is not None)  # X4
    return known or (bool(tokens) and (plain <= _GENERIC or side))


def generic_names(names: Sequence[str]) -> list[str]:
    """Return the names that are generic, or become so without the words that all of them have: `x_HR`, `x_LR`."""
    tokens = [_tokens(os.fsencode(name)) for name in names]
    common = set.intersection(*tokens) if len(names) > 1 else set()
    rest = [own != common for own in tokens]
    return [name for name, other in zip(names, rest, strict=True) if is_generic(name, common if other else ())]


def _tokens(name: bytes) -> set[bytes]:
    """Return the words of a name in lower case; single letters stay as they are: `A`, but not `a`, is a side."""
    words = _TOKEN.findall(_SIZE.sub(b" ", name))
    return {word if len(word) == 1 else word.lower() for word in words}


def is_part(name: str) -> bool:
    """Whether a word in file names is for a part of a sample, or a camera's: `1_left.jpg`, `DSC_1.jpg`."""
    return is_generic(name) or os.fsencode(name.casefold()) in _PAIRED | _CAMERAS


def are_units(names: Sequence[str]) -> bool:
    """Whether folders are named like groups of samples: `patient_001`, days, hashes."""
    return len(names) > 1 and all(map(_UNIT.fullmatch, names))


def _deeper(files: Listing) -> str:
    """Return the beginning of a remedy if a folder of images holds folders that may be classes after all, else ""."""
    for top in files.children()[0]:
        inner, _ = files.children(top + b"/")
        if top.lower() in IMAGE_FOLDERS and inner and not all(_OF_COCO.fullmatch(name.lower()) for name in inner):
            deeper = as_source(os.path.join(files.root, top), escape(top))
            return f"give {deeper} as the root if its folders ({some(inner)}) are classes, else "
    return ""


def _layout(files: Listing, place: bytes, *, within_splits: bool) -> _Layout | None:
    """Find the dataset that the folder `place` (the root, or ending in "/") looks like; None if it may be classes."""
    names, beside = files.children(place)
    called = {name.lower(): name for name in names}
    if place + b"_annotations.coco.json" in beside:
        return _Layout("a COCO dataset", escape(place + b"_annotations.coco.json"))
    if b"jpegimages" in called and ({b"annotations", b"imagesets"} & called.keys()):
        return _Layout("a Pascal VOC dataset", some(place + name for name in names))
    holding = [name for name in names if any(map(names_image, _first(files, place + name + b"/")))]
    if b"annotations" in called and called[b"annotations"] not in holding:
        inside = place + called[b"annotations"] + b"/"
        tables = [key for key in files.children(inside)[1] if key.lower().endswith(b".json")]
        if tables and holding and all(_OF_COCO.fullmatch(name.lower()) for name in holding):
            return _of_json(files, tables[0], place + holding[0])
    if holding and all(name.lower() in IMAGE_FOLDERS for name in holding):
        for name in names:
            ends = {os.path.splitext(key)[1].lower() for key in _first(files, place + name + b"/")}
            where = f"{escape(place + name)} has files named like the images, with the extension {some(sorted(ends))}"
            if name in holding or not _share(files, place + holding[0], place + name):
                continue
            if name.lower() == b"labels" and b".txt" in ends:
                return _Layout("a YOLO dataset", where)
            if name.lower() in _MASKS | {b"xml", b"xmls"} and b".xml" in ends:
                return _Layout("a dataset with Pascal VOC's annotations", where)
    yaml = [key for key in beside if key[len(place) :].lower() in _YAML]
    if yaml and holding and all(files.children(place + name + b"/")[0] == [b"images"] for name in holding):
        return _Layout("a YOLO dataset", f"{escape(yaml[0])}, and in each split a folder images")
    if masks := _masks(files, place, holding):
        return masks
    if (not place and within_splits) or not holding:
        return None
    return _samples(files, place, holding) or _pairs(files, place, holding) or _shards(files, place, holding)


def _of_json(files: Listing, table: bytes, images: bytes) -> _Layout:
    """The dataset of JSON in `annotations` beside folders named as COCO's: a tool's, COCO's, or another."""
    head = head_of(files, files.find(table)) or b""
    found = recognise_annotations(head)
    if found is not None and found.kind == "tool":
        return _Layout(f"a dataset with {found.what}", escape(table), f"{found.remedy}, {without_labels()}")
    other = b'":' in head and _IN_COCO.search(head) is None
    name = "a dataset with annotations in a folder of their own" if other else "a COCO dataset"
    return _Layout(name, f"{escape(table)} beside {escape(images)}")


def _masks(files: Listing, place: bytes, holding: Sequence[bytes]) -> _Layout | None:
    """Whether every folder of images has a folder of masks for them, or is one."""
    lower = {name.lower(): name for name in holding}
    pairs: list[tuple[bytes, bytes]] = []
    for name, mask in lower.items():
        added = _OF_FOLDER.fullmatch(name)
        if added and added[1] in lower:
            pairs.append((lower[added[1]], mask))
    if not pairs:
        pairs = [(lower[a], lower[b]) for a in lower if a in IMAGE_FOLDERS for b in lower if b in _MASKS]
    if not pairs or {name for pair in pairs for name in pair} != set(holding):
        return None
    images, masks = pairs[0]
    if _share(files, place + images, place + masks) < 0.5:
        return None
    where = f"{escape(place + images)} and {escape(place + masks)} have files of the same names"
    return _Layout("images and their masks", where)


def _samples(files: Listing, place: bytes, holding: Sequence[bytes]) -> _Layout | None:
    """Whether each folder has an image and its masks, files of the same few names, or a single image and an id."""
    folders = [place + name + b"/" for name in holding[:_FOLDERS]]
    deeper = folders if files.children(folders[0])[0] else folders[:1]  # if none is in the first, none is in all
    inner = [{name.lower(): name for name in files.children(folder)[0]} for folder in deeper]
    found, each = "a folder for each sample", f"each of {number(len(holding), 'folder')} has"
    shared = set.intersection(*map(set, inner))
    if len(shared) > 1 and all(is_part(os.fsdecode(name)) for name in shared):
        mask = next((os.fsdecode(inner[0][name]) for name in sorted(shared & _MASKS - IMAGE_FOLDERS)), "")
        return _Layout(found, f"{each} {some(sorted(inner[0].values()))}", without_labels(exclude=mask))
    images = [files.images_inside(folder, _FILES) for folder in folders]
    names, *others = ({key.rpartition(b"/")[2] for key in keys} for keys in images)
    words = {re.sub(rb"[^a-z]", b"", os.path.splitext(name)[0].lower()) for name in names}
    named = len(words) == len(names) == len(images[0]) < _FILES and min(map(len, words)) > 2
    if others and (len(others) > 1 or len(names) > 1) and named and all(other == names for other in others):
        image = next((os.fsdecode(name) for name in names if os.path.splitext(name)[0].lower() in IMAGE_FOLDERS), "")
        return _Layout(found, f"{each} {some(sorted(names))}", without_labels(include=image))
    single = [files.images_inside(place + name + b"/", 2) for name in holding]
    if others and all(len(keys) == 1 for keys in single):
        stems = [_stem(keys[0]) for keys in single]
        begin = all(stem.startswith(name.lower()) for name, stem in zip(holding, stems, strict=True))
        ends = {stem[len(name) :] for name, stem in zip(holding, stems, strict=True)}
        own = begin and len(ends) == 1 and all(re.search(rb"\d", name) for name in holding)  # not cat/cat.jpg
        ids = all(_NUMBER.fullmatch(name) or _UNIT.fullmatch(name) for name in map(os.fsdecode, holding))
        if own or ids or len(holding) > (2 * _MANY if b"".join(holding).isdigit() else _MANY):
            named = " with the folder's name" if own else ""
            return _Layout(found, f"{each} one image{named}", without_labels())
    return None


def _pairs(files: Listing, place: bytes, holding: Sequence[bytes]) -> _Layout | None:
    """Whether the folders hold the pictures of each sample: files of the same names, and telling names of either."""
    if not 2 <= len(holding) <= _MOST_PICTURES or any(map(usual_split, holding)):
        return None
    stems = [{_stem(key) for key in islice(files.inside(place + name + b"/"), _PARTNERS)} for name in holding]
    common = frozenset.intersection(*map(frozenset, stems))
    if len(common) < 2 or 10 * len(common) < 9 * max(map(len, stems)):
        return None
    tokens = list(map(_tokens, holding))
    roles = [frozenset(own - set.intersection(*tokens)) for own in tokens]
    paired = len(holding) == 2 and len({*roles}) == 2 and all(own and own <= _PAIRED | _GENERIC for own in roles)
    words = {re.sub(rb"[\W\d_]+", b"", stem) for stem in common}
    long = min(len(re.sub(rb"\D|^0+", b"", stem)) for stem in common) >= _TIMESTAMP
    telling = long or (2 * len(words) > len(common) and max(map(len, words)) > 2)
    if not (paired or telling or all(is_generic(os.fsdecode(name)) for name in holding)):
        return None
    where = f"{some(place + name for name in holding)} have files of the same names"
    return _Layout("several images of each sample", where, without_labels())


def _shards(files: Listing, place: bytes, holding: Sequence[bytes]) -> _Layout | None:
    """Whether folders are numbered, and so are their files, on from folder to folder: 00001/000010000.jpg."""
    if not all(name.isdigit() and len(name) >= _SHARD for name in holding):
        return None
    last = -1
    for name in holding:
        stems = list(map(_stem, files.images_inside(place + name + b"/", _FILES)))
        if not (all(stem.isdigit() for stem in stems) and int(stems[0]) > last):
            return None
        if len(holding) == 1 and not stems[0].startswith(name):
            return None
        last = max(map(int, stems))
    return _Layout("numbered shards of images", f"the files of {some(holding)} are numbered", without_labels())


def _share(files: Listing, images: bytes, others: bytes) -> float:
    """Fraction of the first images in a folder with a file of the same stem in another folder, 0 to 1."""
    stems = set(map(_stem, islice(files.inside(others + b"/"), _PARTNERS)))
    looked_at = files.images_inside(images + b"/", _PAIRS)
    return sum(_stem(key) in stems for key in looked_at) / len(looked_at)


def _stem(key: bytes) -> bytes:
    stem = os.path.splitext(key.rpartition(b"/")[2])[0].lower()
    found = _OF_FILE.fullmatch(stem)
    return found[1] if found else stem


def _first(files: Listing, folder: bytes) -> Iterable[bytes]:
    return islice(files.inside(folder), _LOOKED_AT)
