"""Images and masks with a class for each pixel: pairs of files by name, and datasets with a known layout.

Known layouts are Pascal VOC, Cityscapes, ADE20K, DRIVE and HRF.

Masks are matched with images by their folders and their names:

images/1.jpg, masks/1.png          images/train/1.jpg, masks/train/1_mask.png      train/1.jpg, train_masks/1.png
train/images/1.jpg, train/masks/1.png             1.jpg, 1_mask.png
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.masks_meaning import (
    ClassRow,
    Colour,
    Masks,
    Seen,
    is_class_table,
    meaning_of,
    read_class_table,
)
from shardfeed.converters.sources.files.listing import (
    IMAGE_FOLDERS,
    MASK_FOLDERS,
    MASK_WORD,
    Choice,
    Listing,
    names_image,
    split_named,
)
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import read_whole
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.rows import ColumnarSource, Ledger, ListedFiles, ListedSource, Rows
from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_text
from shardfeed.split_words import usual_split
from shardfeed.text import counted, number

_MOST_FOLDERS, _MOST_NAMES, _DEPTH = 100, 300, 4  # that `may_have_masks` looks at
_ANY = re.compile(b"")
Role = Literal["image", "mask"]

_MASK_FOLDER = re.compile(rb"(.+?)[_.-]?(?:%s)" % MASK_WORD, re.IGNORECASE)  # train_masks, trainannot
_IMAGE_FOLDER = re.compile(rb"(.+?)[_.-]?(?:images?|imgs?)", re.IGNORECASE)
# Usual words in the names of masks, and of images. Only the first mark a mask without its own folder.
_MASK_END = re.compile(rb"(.+?)(?:[_.-](?:%s))+" % MASK_WORD, re.IGNORECASE)
_MASK_NAME = re.compile(
    rb"(?:(?:masks?|labels?|gt|seg)[_.-])?(.+?)(?:[_.-](?:%s|l|color|manual\d?))*" % MASK_WORD,
    re.IGNORECASE,
)
_IMAGE_NAME = re.compile(
    rb"(?:(?:images?|img|im)[_.-])?(.+?)(?:[_.-](?:images?|img|sat|rgb|leftimg8bit|training|test))*", re.IGNORECASE
)
_MOST_TABLES = 100  # files with headers checked for a table of classes
_VOC_NAMES = """
background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant
sheep sofa train tvmonitor
"""
_VOC_STEM = re.compile(rb"(\d{4}_)?\d{6}")  # other datasets use this layout with their own classes
_VOC_BORDER = (224, 224, 192)  # the colour of index 255 in VOC's palette: borders, of no class
# Cityscapes: the number of a class in labelIds, its number in labelTrainIds (255: not trained on), its name.
_CITYSCAPES = """
0 255 unlabeled;1 255 ego vehicle;2 255 rectification border;3 255 out of roi;4 255 static;5 255 dynamic;6 255 ground;
7 0 road;8 1 sidewalk;9 255 parking;10 255 rail track;11 2 building;12 3 wall;13 4 fence;14 255 guard rail;
15 255 bridge;16 255 tunnel;17 5 pole;18 255 polegroup;19 6 traffic light;20 7 traffic sign;21 8 vegetation;
22 9 terrain;23 10 sky;24 11 person;25 12 rider;26 13 car;27 14 truck;28 15 bus;29 255 caravan;30 255 trailer;
31 16 train;32 17 motorcycle;33 18 bicycle
"""
_ADE_STEM = re.compile(rb"ADE_(train|val)_\d{8}")
_ADE_CLASSES = 150


class _RoleFolder(NamedTuple):
    """A folder: the role of its files, if its path names one, and the path without these words."""

    role: Role | None
    kept: bytes


class _RoleFile(NamedTuple):
    """A file of one role: its number in its listing, `kept` of its folder, its name without extension."""

    number: int
    folder: bytes
    stem: bytes


class Pair(NamedTuple):
    """`image`, `mask`: numbers in their listings. `folder`: their paths' common part, "" or with "/" at its end."""

    image: int
    mask: int
    folder: bytes


@dataclass
class Pairs:
    """`images`, `masks`: number of each; `unwanted`: number of images not selected. `beside`: other files."""

    found: list[Pair] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    images: int = 0
    masks: int = 0
    unwanted: int = 0
    beside: list[bytes] = field(default_factory=list)


def stem(key: bytes) -> bytes:
    """The name of a file without its extension."""
    return os.path.splitext(key.rpartition(b"/")[2])[0]


def may_have_masks(look: Look) -> bool:
    """Whether a name in a folder, or a few levels below, is as of masks; looks at some folders and names alone."""
    level, seen = [""], 0
    for _ in range(_DEPTH):
        deeper: list[str] = []
        for folder in level[: _MOST_FOLDERS - seen]:
            folders, files = look.names(folder)
            if any(name.lower() in MASK_FOLDERS or _MASK_FOLDER.fullmatch(name) for name in map(os.fsencode, folders)):
                return True
            names = map(os.fsencode, islice(files, _MOST_NAMES))
            if any(_MASK_END.fullmatch(stem(name)) and names_image(name) for name in names):
                return True
            deeper += [os.path.join(folder, name) for name in folders]
        seen, level = seen + len(level), deeper
        if seen >= _MOST_FOLDERS:
            break
    return False


def pair_files(
    images: Listing,
    masks: Listing | None,
    choice: Choice,
    of_image: re.Pattern[bytes] = _ANY,
    of_mask: re.Pattern[bytes] = _ANY,
) -> Pairs:
    """The pairs of a folder, in the order of the images' keys; `masks`: the folder of the masks, if different.

    `choice`: the selected images; masks of other images are left out silently, and so are excluded masks. `of_image`,
    `of_mask`: parts of the paths in a known layout. Raises UsageError if an image has two masks.
    """
    pairs = Pairs()
    photos: list[_RoleFile] = []
    drawn: list[_RoleFile] = []
    mask_files = images if masks is None else masks
    for listing, only in ((images, None if masks is None else "image"), (masks, "mask")):
        if listing is None:
            continue
        folders = _folders(key.rpartition(b"/")[0] for key in listing)
        for place, key in enumerate(listing):
            folder, name = folders[key.rpartition(b"/")[0]], stem(key)
            role = only or folder.role or ("mask" if _MASK_END.fullmatch(name) else "image")
            as_mask = only != "mask" or folder.role != "image"  # photos, beside annotations of another kind
            if not (names_image(key) and as_mask) or not (of_image if role == "image" else of_mask).search(key):
                pairs.beside.append(key)
            elif role == "image":
                photos.append(_RoleFile(place, folder.kept, name))
            elif not choice.leaves_out(key):
                drawn.append(_RoleFile(place, folder.kept, name))
    pairs.images, pairs.masks = len(photos), len(drawn)
    mask_of = _matched(photos, drawn)
    _check_single(images, mask_files, drawn, mask_of)
    shared: dict[int, list[int]] = {}  # by mask, its images
    for image, mask in mask_of.items():
        shared.setdefault(mask, []).append(image)
    for image, folder, name in photos:
        key = images.key(image)
        if not choice.wants(key):
            pairs.unwanted += 1
        elif image not in mask_of:
            reason = f"an image without a mask: expected {escape(name)}, or the same name with _mask"
            pairs.ledger.reject(key, RejectCode.PAIR, reason)
        elif len(twins := shared[mask_of[image]]) > 1:
            other = images.key(next(twin for twin in twins if twin != image))
            reason = f"{escape(mask_files.key(mask_of[image]))} may also be the mask of {escape(other)}"
            pairs.ledger.reject(key, RejectCode.PAIR, reason)
        else:
            pairs.found.append(Pair(image, mask_of[image], folder))
    for mask, _, _ in drawn:
        if mask not in shared and choice.wants(key := mask_files.key(mask)):
            pairs.ledger.reject(key, RejectCode.PAIR, "a mask without an image of that name")
    return pairs


def _folders(paths: Iterable[bytes]) -> dict[bytes, _RoleFolder]:
    """Describe every folder of a listing, by path; the path of the root is empty."""
    inside: dict[bytes, set[bytes]] = {}
    for path in set(paths):
        while path:
            parent, _, name = path.rpartition(b"/")
            inside.setdefault(parent, set()).add(name)
            path = parent
    known: dict[bytes, _RoleFolder] = {b"": _RoleFolder(None, b"")}
    for parent in sorted(inside):  # parent folders first
        for name in inside[parent]:
            path = parent + b"/" + name if parent else name
            known[path] = _below(known[parent], name, {other.lower() for other in inside[parent] - {name}})
    return known


def _below(above: _RoleFolder, name: bytes, others: set[bytes]) -> _RoleFolder:
    """Return the folder `name` in `above` with its role; `others`: the names beside it."""
    lower = name.lower()
    if lower in MASK_FOLDERS and above.role != "image":
        return _RoleFolder("mask", above.kept)
    if lower in IMAGE_FOLDERS and above.role is None:
        return _RoleFolder("image", above.kept)
    if above.role is None:
        added = _MASK_FOLDER.fullmatch(name)
        if added and any(added[1].lower() in (other, _bare(_IMAGE_FOLDER, other)) for other in others):
            return _RoleFolder("mask", above.kept + added[1] + b"/")
        added = _IMAGE_FOLDER.fullmatch(name)
        if added and any((mask := _MASK_FOLDER.fullmatch(other)) and mask[1] == added[1].lower() for other in others):
            return _RoleFolder("image", above.kept + added[1] + b"/")
    return _RoleFolder(above.role, above.kept + name + b"/")


def _bare(pattern: re.Pattern[bytes], name: bytes) -> bytes:
    """A name without the words that people add to it."""
    found = pattern.fullmatch(name)
    return found[1] if found else name


def _matched(images: list[_RoleFile], masks: list[_RoleFile]) -> dict[int, int]:
    """Match images with masks: the number of the mask by that of its image. The most similar name wins."""
    found: dict[int, int] = {}
    used: set[int] = set()
    whole = re.compile(b"(.*)", re.DOTALL)
    for of_image, of_mask in ((whole, whole), (whole, _MASK_NAME), (_IMAGE_NAME, whole), (_IMAGE_NAME, _MASK_NAME)):
        by_name: dict[tuple[bytes, bytes], int] = {}
        for place, folder, name in masks:
            if place not in used:
                by_name.setdefault((folder, _bare(of_mask, name)), place)
        for place, folder, name in images:
            mask = None if place in found else by_name.get((folder, _bare(of_image, name)))
            if mask is not None:
                found[place] = mask
        used.update(found.values())
        if len(found) == len(images):
            break
    return found


def _check_single(images: Listing, files: Listing, masks: list[_RoleFile], found: dict[int, int]) -> None:
    """Raise UsageError if an unused mask has the same name as one that was paired with an image."""
    names = {place: (folder, _bare(_MASK_NAME, name)) for place, folder, name in masks}
    of_name = {names[mask]: (image, mask) for image, mask in found.items()}
    used = set(found.values())
    for place in names:
        if place not in used and (pair := of_name.get(names[place])):
            image, mask, other = images.key(pair[0]), files.key(pair[1]), files.key(place)
            problem = f"{escape(image)} has two masks, {escape(mask)} and {escape(other)}"
            remedy = f"leave one kind out: {argument('exclude', typed='PATTERN')}"
            raise UsageError(files.root, problem, remedy)


@dataclass(frozen=True)
class _MaskLayout:
    """A dataset, as far as it is known before any mask is read.

    name: its name in sentences. found: the names that it was recognised by. rows: its classes; empty if a table or the
    user must define them. chosen: the `rows` that are classes, the rest is void; None for all rows not named void.
    image, mask: parts of the paths of images and masks. lists: keys of files that list the stems of splits. border: a
    colour that is always void. notes: for the report.
    """

    name: str = "images and their masks"
    found: str = ""
    rows: tuple[ClassRow, ...] = ()
    chosen: tuple[str, ...] | None = None
    image: re.Pattern[bytes] = _ANY
    mask: re.Pattern[bytes] = _ANY
    lists: tuple[bytes, ...] = ()
    border: Colour | None = None
    notes: tuple[str, ...] = ()


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Whether a folder holds images and masks of half of them or more, by names alone."""
    asked = look.is_folder and (not options.tasks or "rasters" in options.tasks)
    if not asked or not (options.images or may_have_masks(look)):
        return None
    try:
        found = _MaskFolder(look, options)
    except UsageError as error:
        _, problem, remedy = error.args  # their arguments are formatted later, for Python or the command line
        return Evidence("masks", f"images and their masks: {problem}", remedy)
    pairs, layout = found.pairs, found.layout
    if not pairs.found:
        return None
    paired = f"{number(len(pairs.found), 'image')} with a mask"
    if layout.found:
        return Evidence("masks", f"{layout.name} ({layout.found}): {paired}", parsed=found)
    others = max(pairs.images, pairs.masks) - len(pairs.found)
    missing = f"partners for {others:,} others" if others > len(pairs.found) else ""
    first = pairs.found[0]
    names = f"{escape(found.images.key(first.image))} and {escape(found.files.key(first.mask))}"
    return Evidence("masks", f"{layout.name}: {paired}, as {names}", missing, parsed=found)


def read(look: Look, options: AnnotationOptions, parsed: "_MaskFolder | None" = None) -> ColumnarSource:
    """Return the images of a folder and their masks; `options.images`: the folder of the images, if elsewhere.

    A table of colours or values is given by `options.colours`, or is beside the masks. Class names are
    `options.class_names`, for the values 0, 1, 2, ... without void; with a table, they select its classes. Some masks
    are read to learn their values. Raises UsageError if files do not form pairs, an image has two masks, or the values
    have no defined meaning; LabelFileError for an invalid table or list.
    """
    if options.tasks and options.tasks != {"rasters"}:
        problem = f"got the task '{min(set(options.tasks) - {'rasters'})}', expected rasters"
        raise UsageError("tasks", problem, "request these tasks, or none")
    found = parsed or _MaskFolder(look, options)
    images, files, layout, ledger = found.images, found.files, found.layout, found.pairs.ledger
    beside = [key for key in found.pairs.beside if key not in found.tables]
    ledger.notes += images.notes
    if beside:
        ledger.notes.append(counted("ignored files, neither images nor masks", beside, len(beside)))
    if found.pairs.unwanted:
        ledger.notes.append(f"{number(found.pairs.unwanted, 'image')} left out by include and exclude")
    ledger.notes += found.choice.unused()
    pairs, splits = _listed_pairs(found) if layout.lists else _by_folders(found)
    if not pairs:
        raise _no_pair(found)
    masks = [pair.mask for pair in pairs]

    def name(place: int) -> str:
        return escape(files.key(place).rpartition(b"/")[2])

    seen = Seen.of(ListedFiles(files), masks, name)
    raster, table, notes = meaning_of(
        files.root, seen, options, _table(found, options),
        known=layout.rows, chosen=layout.chosen, border=layout.border, notes=layout.notes,
    )  # fmt: skip
    ledger.notes += notes
    ledger.skip(images.skipped)
    rows = Rows(look.path, options, ledger)
    rows.splits = _splits(files.root, splits)
    return ListedSource(
        images.take(np.array([pair.image for pair in pairs], np.int64)),
        rows,
        folder=images.root,
        rasters=Masks(ListedFiles(files), raster, table, files, np.array(masks, np.int64), options.upright),
        described=f"{layout.name}{f' ({layout.found})' if layout.found else ''}",
    )


class _MaskFolder:
    """The files of a folder, its layout, and the pairs in it. Raises UsageError.

    `images`, `files`: where the images and the masks are numbered. `tables`: keys of files that name classes.
    """

    def __init__(self, look: Look, options: AnnotationOptions) -> None:
        self.files = self.images = look.list_files(look.path, chosen=False)
        self.choice = Choice.of(look.include, look.exclude)
        if options.images is not None:
            inside = os.path.relpath(os.path.realpath(options.images), os.path.realpath(look.path))
            if inside != ".":
                self.images = look.list_files(os.fsdecode(options.images), chosen=False)
                folder = os.fsencode(inside) + b"/"
                others = [i for i, key in enumerate(self.files) if not key.startswith(folder)]
                self.files = self.files.take(np.array(others, np.int64))
        self.layout = _layout_of(self.files)
        masks = None if self.files is self.images else self.files
        self.pairs = pair_files(self.images, masks, self.choice, self.layout.image, self.layout.mask)
        texts = islice((key for key in self.files if key.lower().endswith((b".csv", b".txt"))), _MOST_TABLES)
        tables = {key: os.path.join(os.fsdecode(self.files.root), os.fsdecode(key)) for key in texts}
        self.tables = {key: path for key, path in tables.items() if is_class_table(look, path)}


def _no_pair(found: _MaskFolder) -> UsageError:
    pairs = found.pairs
    problem = f"no image with a mask: {number(pairs.images, 'image')} and {number(pairs.masks, 'mask')} by their names"
    remedy = "put images into a folder images and masks of the same names into a folder masks, or name the mask of "
    remedy += f"1.jpg 1_mask.png; {argument('images', typed='DIR')} gives the folder of images elsewhere"
    return UsageError(found.files.root, problem, remedy)


def _table(found: _MaskFolder, options: AnnotationOptions) -> list[ClassRow] | None:
    """Return the classes of the given table, or of one among the files; None without."""
    if options.colours is not None:
        return read_class_table(os.fsdecode(options.colours))
    tables = {key: read_class_table(path) for key, path in found.tables.items()}
    first = next(iter(tables), b"")
    for key, rows in tables.items():
        if rows != tables[first]:
            problem = f"{escape(first)} and {escape(key)} list different classes"
            raise UsageError(found.files.root, problem, f"choose one: {argument('colours', typed='FILE')}")
    return tables.get(first)


# --- splits


def _by_folders(found: _MaskFolder) -> tuple[list[Pair], list[str | None]]:
    """The pairs, and of each the split that a folder is called like, the first that is."""
    extra = found.layout.name == "Cityscapes"

    def split(folder: bytes) -> str | None:
        names = folder.split(b"/")
        known = (usual_split(name) for name in names)
        return "train_extra" if extra and b"train_extra" in names else next(filter(None, known), None)

    return found.pairs.found, [split(pair.folder) for pair in found.pairs.found]


def _splits(root: bytes, names: list[str | None]) -> Splits | None:
    """Return the splits, or None if no pair has one. Raises UsageError if only some pairs have one."""
    known = sorted({name for name in names if name is not None})
    if not known:
        return None
    if None in names:
        problem = f"{number(names.count(None), 'image')} in no split, the others in {', '.join(known)}"
        raise UsageError(root, problem, f"move them, or leave them out with {argument('exclude', typed='PATTERN')}")
    return Splits.of(names)


def _listed_pairs(found: _MaskFolder) -> tuple[list[Pair], list[str | None]]:
    """Return the pairs of Pascal VOC that its lists name, and the split of each.

    An image without a mask is accepted if no list names it: most images of VOC have only boxes.
    """
    files, images, ledger, lists = found.files, found.images, found.pairs.ledger, found.layout.lists
    split_of = _listed_splits(found)

    def name(key: bytes) -> bytes:
        return _listed_name(found.layout, split_of, key)

    rejected = {key: one for key, one in ledger.rejected.items() if name(key) in split_of}
    pairs = [pair for pair in found.pairs.found if name(images.key(pair.image)) in split_of]
    if unlisted := len(ledger.rejected) - len(rejected) + len(found.pairs.found) - len(pairs):
        note = f"{number(unlisted, 'image or mask', 'images or masks')} left out, in no list"
        ledger.notes.append(note)
    ledger.rejected = rejected
    known = {name(key) for listing in (files, images) for key in listing if names_image(key)}
    for missing in sorted(split_of.keys() - known):
        why = f"listed in {escape(lists[0].rpartition(b'/')[0])}, but its image and mask are missing"
        ledger.reject(missing, RejectCode.MISSING, why)
    return pairs, [split_of[name(images.key(pair.image))] for pair in pairs]


def _listed_splits(found: _MaskFolder) -> dict[bytes, str | None]:
    """Read the split of each name in the lists. Raises LabelFileError for a name in two splits."""
    files, lists = found.files, found.layout.lists
    split_of: dict[bytes, str | None] = {}
    for key in lists:
        alone = len(lists) == 1 and not usual_split(stem(key))  # CVAT's default.txt names all, and no split
        split = None if alone else split_named(os.fsdecode(stem(key)))
        for line, text in enumerate(read_whole(name_text(files.file(files.find(key)).path)).splitlines(), 1):
            name = text.strip()
            if name and split_of.setdefault(name, split) != split:
                place = f"{os.fsdecode(files.root)}/{os.fsdecode(key)}:{line}"
                problem = f"{escape(name)} is also in the split {split_of[name]}"
                raise LabelFileError(place, problem, "keep it in one list")
    return split_of


def _listed_name(layout: _MaskLayout, split_of: Mapping[bytes, str | None], key: bytes) -> bytes:
    """Return what lists call an image or a mask: its path in JPEGImages without extension, or its last part."""
    folder = layout.image.search(key) or layout.mask.search(key)
    path = os.path.splitext(key[folder.end() :] if folder else key)[0]
    return path if path in split_of else stem(key)


# --- layouts that are known


def _layout_of(files: Listing) -> _MaskLayout:
    """Recognise the layout of a folder of images and masks; by default pairs by name."""
    folders = {part for key in files for part in key.split(b"/")[:-1]}
    first = [stem(key) for key in islice(filter(names_image, files), 100)]
    if b"SegmentationClass" in folders and b"JPEGImages" in folders:
        return _voc(files, all(map(_VOC_STEM.fullmatch, first)))
    if of_cityscapes := _masks_of_cityscapes(files, folders):
        return _cityscapes(files, of_cityscapes)
    drawn = next((name for name in (b"1st_manual", b"manual1") if name in folders), None)
    if drawn is not None and b"images" in folders:  # the folder `mask` beside it contains the camera's field of view
        image, mask = re.compile(rb"(^|/)images/"), re.compile(rb"(^|/)%s/" % drawn)
        return _MaskLayout("retinas and their vessels", f"images, {drawn.decode()}", image=image, mask=mask)
    of_ade = {b"annotations", b"images"} <= folders and folders & {b"training", b"validation"}
    return _ade(files) if of_ade and any(map(_ADE_STEM.fullmatch, first)) else _MaskLayout()


def _masks_of_cityscapes(files: Listing, folders: Collection[bytes]) -> bytes:
    """The folder of Cityscapes' masks, of its own numbers; b"" if there is none: others have these folders, too."""
    numbered = any(stem(key).endswith((b"_labelIds", b"_labelTrainIds")) for key in files)
    there = [name for name in (b"gtFine", b"gtCoarse") if name in folders]
    return there[0] if there and numbered and b"leftImg8bit" in folders else b""


def _voc(files: Listing, usual: bool) -> _MaskLayout:
    lists = {key for key in files if b"ImageSets/Segmentation/" in key and key.endswith(b".txt")}
    for folder in {key.rpartition(b"/")[0] for key in lists}:  # of each year
        if {folder + b"/train.txt", folder + b"/val.txt"} <= lists:
            lists.discard(folder + b"/trainval.txt")  # the two together
    return _MaskLayout(
        "Pascal VOC's masks",
        "JPEGImages, SegmentationClass",
        tuple(ClassRow(name, None, value) for value, name in enumerate(_VOC_NAMES.split())) if usual else (),
        image=re.compile(rb"(^|/)JPEGImages/"),
        mask=re.compile(rb"(^|/)SegmentationClass/"),
        lists=tuple(sorted(lists)),
        border=_VOC_BORDER,
    )


def _cityscapes(files: Listing, masks: bytes) -> _MaskLayout:
    entries = [entry.split(" ", 2) for entry in _CITYSCAPES.replace("\n", "").split(";")]
    trained = sorted((int(number), name) for _, number, name in entries if number != "255")
    ids, train_ids = (sum(stem(key).endswith(kind) for key in files) for kind in (b"_labelIds", b"_labelTrainIds"))
    if train_ids >= max(1, ids):
        kind, rows = "_labelTrainIds", tuple(ClassRow(name, None, number) for number, name in trained)
        note = "masks: labelTrainIds, 19 classes, 255 is void"
    else:
        kind, rows = "_labelIds", tuple(ClassRow(name, None, int(number)) for number, _, name in entries)
        note = "masks: labelIds; the 19 training classes become 0 to 18, all others void"
    return _MaskLayout(
        "Cityscapes",
        f"leftImg8bit, {masks.decode()}, *{kind}.png",
        rows,
        tuple(name for _, name in trained),
        re.compile(rb"_leftImg8bit\.[^./]+$"),
        re.compile(rb"%s\.[^./]+$" % kind.encode()),
        notes=(note,),
    )


def _ade(files: Listing) -> _MaskLayout:
    """ADE20K's challenge; classes are named by their numbers if there is no objectInfo150.txt."""
    numbers = [str(number) for number in range(1, _ADE_CLASSES + 1)]
    names, notes = numbers, ["masks: 1 to 150 become the classes 0 to 149, and 0 void"]
    key = next((key for key in files if key.rpartition(b"/")[2] == b"objectInfo150.txt"), None)
    text = b"" if key is None else read_whole(name_text(files.file(files.find(key)).path))
    lines = (line.split("\t") for line in text.decode("utf-8", "replace").splitlines())
    names_of = {row[0].strip(): row[-1].strip() for row in lines if len(row) > 1}
    if len({names_of.get(number) or "" for number in numbers} - {""}) == len(numbers):
        names = [names_of[number] for number in numbers]
    else:
        notes.append("class names: the numbers 1 to 150, as objectInfo150.txt is missing")
    rows = (ClassRow("void", None, 0), *(ClassRow(name, None, value) for value, name in enumerate(names, 1)))
    return _MaskLayout("ADE20K", "images, annotations, ADE_*", rows, notes=tuple(notes))
