"""Which mask is of which image: by the folders they lie in and by their names.

images/1.jpg, masks/1.png          images/train/1.jpg, masks/train/1_mask.png      train/1.jpg, train_masks/1.png
train/images/1.jpg, train/masks/1.png             1.jpg, 1_mask.png
"""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Choice
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError, argument, escape

_MOST_FOLDERS, _MOST_NAMES, _DEPTH = 100, 300, 3  # that `may_have_masks` looks at
Role = Literal["image", "mask"]
Wanted = Callable[[bytes], bool]

IMAGE_FOLDERS = frozenset(
    b"images image imgs img jpegimages leftimg8bit original originals photos pictures rgb input inputs".split()
)
_MASK_FOLDERS = frozenset(
    b"masks mask labels label labelids labeltrainids annotations annotation annots segmentation segmentations "
    b"segmentationclass segmentationclassaug seg segs gt gtfine gtcoarse groundtruth ground_truth ground-truth target "
    b"targets trimaps mattes".split()
)
_MASK_WORDS = rb"masks?|labels?|labelids|labeltrainids|annot|annotations?|gt|groundtruth|seg|segmentation|matte|trimap"
_MASK_FOLDER = re.compile(rb"(.+?)[_.-]?(?:%s)" % _MASK_WORDS, re.IGNORECASE)  # train_masks, trainannot
_IMAGE_FOLDER = re.compile(rb"(.+?)[_.-]?(?:images?|imgs?)", re.IGNORECASE)
# What people add to a mask's name, and to an image's. Only the first can tell a mask without a folder of its own.
_MASK_END = re.compile(rb"(.+?)(?:[_.-](?:%s))+" % _MASK_WORDS, re.IGNORECASE)
_MASK_NAME = re.compile(
    rb"(?:(?:masks?|labels?|gt|seg)[_.-])?(.+?)(?:[_.-](?:%s|gtfine|gtcoarse|l|color))*" % _MASK_WORDS, re.IGNORECASE
)
_IMAGE_NAME = re.compile(
    rb"(?:(?:images?|img|im)[_.-])?(.+?)(?:[_.-](?:images?|img|sat|rgb|leftimg8bit))*", re.IGNORECASE
)


class _Folder(NamedTuple):
    """What a folder's path says: the role of its files, if any, and the path without the words that say it."""

    role: Role | None
    kept: bytes


class Pair(NamedTuple):
    """`image`, `mask`: numbers in their listings. `folder`: what their paths share, "" or with "/" at its end."""

    image: int
    mask: int
    folder: bytes


@dataclass
class Pairs:
    """`images`, `masks`: how many of each there are; `unwanted`: images that are not wanted. `beside`: other files."""

    found: list[Pair] = field(default_factory=list)
    rejected: list[Skipped] = field(default_factory=list)
    images: int = 0
    masks: int = 0
    unwanted: int = 0
    beside: list[bytes] = field(default_factory=list)


def _folders(paths: Iterable[bytes]) -> dict[bytes, _Folder]:
    """Of all folders of a listing, by their paths; the root is empty."""
    inside: dict[bytes, set[bytes]] = {}
    for path in set(paths):
        while path:
            parent, _, name = path.rpartition(b"/")
            inside.setdefault(parent, set()).add(name)
            path = parent
    known: dict[bytes, _Folder] = {b"": _Folder(None, b"")}
    for parent in sorted(inside):  # those above come first
        for name in inside[parent]:
            path = parent + b"/" + name if parent else name
            known[path] = _below(known[parent], name, {other.lower() for other in inside[parent] - {name}})
    return known


def _below(above: _Folder, name: bytes, others: set[bytes]) -> _Folder:
    lower = name.lower()
    if lower in _MASK_FOLDERS and above.role != "image":
        return _Folder("mask", above.kept)
    if lower in IMAGE_FOLDERS and above.role is None:
        return _Folder("image", above.kept)
    if above.role is None:
        added = _MASK_FOLDER.fullmatch(name)
        if added and any(_stands_for(other, added[1].lower()) for other in others):
            return _Folder("mask", above.kept + added[1] + b"/")
        added = _IMAGE_FOLDER.fullmatch(name)
        if added and any((mask := _MASK_FOLDER.fullmatch(other)) and mask[1] == added[1].lower() for other in others):
            return _Folder("image", above.kept + added[1] + b"/")
    return _Folder(above.role, above.kept + name + b"/")


def _stands_for(folder: bytes, word: bytes) -> bool:
    """Whether a folder of images is called `word`, or `word_images`."""
    images = _IMAGE_FOLDER.fullmatch(folder)
    return folder == word or bool(images and images[1] == word)


def _stem(key: bytes) -> bytes:
    return os.path.splitext(key.rpartition(b"/")[2])[0]


def _bare(pattern: re.Pattern[bytes], stem: bytes) -> bytes:
    """A name without what people add to it."""
    found = pattern.fullmatch(stem)
    return found[1] if found else stem


@dataclass
class _Side:
    """Files of one role: (number in its listing, what their paths share, stem)."""

    listing: Listing
    files: list[tuple[int, bytes, bytes]] = field(default_factory=list)


def pair_files(
    images: Listing,
    masks: Listing | None,
    choice: Choice,
    is_image: Wanted | None = None,
    is_mask: Wanted | None = None,
) -> Pairs:
    """The pairs of a folder, in the order of the images' keys; `masks`: where they lie in another folder.

    `choice`: the images that are wanted; a mask of another one is left out without a word. `is_image`, `is_mask`: which
    files are those of a layout that is known. Raises UsageError where an image has two masks.
    """
    pairs = Pairs()
    of_images, of_masks = _Side(images), _Side(masks or images)
    if masks is None:
        _sort_out(images, None, of_images, of_masks, pairs, is_image, is_mask)
    else:
        _sort_out(images, "image", of_images, of_masks, pairs, is_image, is_mask)
        _sort_out(masks, "mask", of_images, of_masks, pairs, is_image, is_mask)
    pairs.images, pairs.masks = len(of_images.files), len(of_masks.files)
    of_mask = _matched(of_images, of_masks)
    _check_single(of_images, of_masks, of_mask)
    shared: dict[int, list[int]] = {}  # by mask, its images
    for image, mask in of_mask.items():
        shared.setdefault(mask, []).append(image)
    folders = {number: folder for number, folder, _ in of_images.files}
    for number, _, stem in of_images.files:
        key = images.key(number)
        if not choice.wants(key):
            pairs.unwanted += 1
            continue
        if number not in of_mask:
            reason = f"an image without a mask: none is called {escape(stem)}, or that and _mask"
            pairs.rejected.append(Skipped(key, RejectCode.PAIR.value, reason))
        elif len(twins := shared[of_mask[number]]) > 1:
            other = images.key(next(twin for twin in twins if twin != number))
            reason = f"{escape(of_masks.listing.key(of_mask[number]))} may be the mask of {escape(other)}, too"
            pairs.rejected.append(Skipped(key, RejectCode.PAIR.value, reason))
        else:
            pairs.found.append(Pair(number, of_mask[number], folders[number]))
    for number, _, _ in of_masks.files:
        if number not in shared and choice.wants(key := of_masks.listing.key(number)):
            pairs.rejected.append(Skipped(key, RejectCode.PAIR.value, "a mask without an image of that name"))
    return pairs


def _sort_out(
    listing: Listing,
    only: Role | None,
    images: _Side,
    masks: _Side,
    pairs: Pairs,
    is_image: Wanted | None,
    is_mask: Wanted | None,
) -> None:
    """Each file of `listing` to its side; `only`: the role of all."""
    folders = _folders(key.rpartition(b"/")[0] for key in listing)
    for number, key in enumerate(listing):
        folder = folders[key.rpartition(b"/")[0]]
        stem = _stem(key)
        role = only or folder.role or ("mask" if _MASK_END.fullmatch(stem) else "image")
        of_layout = is_image if role == "image" else is_mask
        if not names_image(key) or (of_layout and not of_layout(key)):
            pairs.beside.append(key)
        else:
            (images if role == "image" else masks).files.append((number, folder.kept, stem))


def _matched(images: _Side, masks: _Side) -> dict[int, int]:
    """By the number of an image, that of its mask. An image has the mask that is called most like it."""
    found: dict[int, int] = {}
    used: set[int] = set()
    for of_image, of_mask in ((bytes, bytes), (bytes, _mask_name), (_image_name, bytes), (_image_name, _mask_name)):
        by_name: dict[tuple[bytes, bytes], int] = {}
        for number, folder, stem in masks.files:
            if number not in used:
                by_name.setdefault((folder, of_mask(stem)), number)
        more = {
            number: by_name[folder, of_image(stem)]
            for number, folder, stem in images.files
            if number not in found and (folder, of_image(stem)) in by_name
        }
        found |= more
        used |= set(more.values())
        if len(found) == len(images.files):
            break
    return found


def _mask_name(stem: bytes) -> bytes:
    return _bare(_MASK_NAME, stem)


def _image_name(stem: bytes) -> bytes:
    return _bare(_IMAGE_NAME, stem)


def _check_single(images: _Side, masks: _Side, found: dict[int, int]) -> None:
    """Raises UsageError where another mask has the name of one that was found."""
    used = set(found.values())
    names = {number: (folder, _mask_name(stem)) for number, folder, stem in masks.files}
    of_name = {names[mask]: (image, mask) for image, mask in found.items()}
    for number, _, _ in masks.files:
        if number not in used and (pair := of_name.get(names[number])):
            image, mask = (images.listing.key(pair[0]), masks.listing.key(pair[1]))
            other = masks.listing.key(number)
            problem = f"{escape(image)} has two masks, {escape(mask)} and {escape(other)}"
            remedy = f"leave one kind out: {argument('exclude', typed='PATTERN')}"
            raise UsageError(masks.listing.root, problem, remedy)


def may_have_masks(root: str) -> bool:
    """Whether a name in a folder, or a few levels below, is as of masks; looks at some folders and names alone.

    Cheap enough to be asked of every folder, a million images or not.
    """
    folders = [(root, 0)]
    for seen, (folder, depth) in enumerate(folders):
        if seen == _MOST_FOLDERS:
            break
        try:
            with os.scandir(os.fsencode(folder)) as entries:
                for entry in islice(entries, _MOST_NAMES):
                    if not entry.is_dir():
                        if _MASK_END.fullmatch(_stem(entry.name)) and names_image(entry.name):
                            return True
                    elif entry.name.lower() in _MASK_FOLDERS or _MASK_FOLDER.fullmatch(entry.name):
                        return True
                    elif depth < _DEPTH:
                        folders.append((os.path.join(folder, os.fsdecode(entry.name)), depth + 1))
        except OSError:
            continue
    return False


def split_of(folder: bytes) -> str | None:
    """The split that a folder's path says: the first name in it that is a usual word for one."""
    return next((split for name in folder.split(b"/") if (split := usual_split(name))), None)
