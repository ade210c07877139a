"""Match masks with images by their folders and their names.

images/1.jpg, masks/1.png          images/train/1.jpg, masks/train/1_mask.png      train/1.jpg, train_masks/1.png
train/images/1.jpg, train/masks/1.png             1.jpg, 1_mask.png
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.files.listing import IMAGE_FOLDERS, MASK_FOLDERS, Choice, Listing, names_image
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.rows.source import Ledger
from shardfeed.errors import UsageError, argument, escape

_MOST_FOLDERS, _MOST_NAMES, _DEPTH = 100, 300, 4  # that `may_have_masks` looks at
_ANY = re.compile(b"")
Role = Literal["image", "mask"]

_MASK_WORDS = rb"masks?|labels?|labelids|labeltrainids|annot|annotations?|gt|groundtruth|seg|segmentation|matte|trimap"
_MASK_FOLDER = re.compile(rb"(.+?)[_.-]?(?:%s)" % _MASK_WORDS, re.IGNORECASE)  # train_masks, trainannot
_IMAGE_FOLDER = re.compile(rb"(.+?)[_.-]?(?:images?|imgs?)", re.IGNORECASE)
# Usual words in the names of masks, and of images. Only the first mark a mask without its own folder.
_MASK_END = re.compile(rb"(.+?)(?:[_.-](?:%s))+" % _MASK_WORDS, re.IGNORECASE)
_MASK_NAME = re.compile(
    rb"(?:(?:masks?|labels?|gt|seg)[_.-])?(.+?)(?:[_.-](?:%s|gtfine|gtcoarse|l|color|manual\d?))*" % _MASK_WORDS,
    re.IGNORECASE,
)
_IMAGE_NAME = re.compile(
    rb"(?:(?:images?|img|im)[_.-])?(.+?)(?:[_.-](?:images?|img|sat|rgb|leftimg8bit|training|test))*", re.IGNORECASE
)


class _Folder(NamedTuple):
    """A folder: the role of its files, if its path names one, and the path without these words."""

    role: Role | None
    kept: bytes


class _File(NamedTuple):
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
    photos: list[_File] = []
    drawn: list[_File] = []
    mask_files = images if masks is None else masks
    for listing, only in ((images, None if masks is None else "image"), (masks, "mask")):
        if listing is None:
            continue
        folders = _folders(key.rpartition(b"/")[0] for key in listing)
        for number, key in enumerate(listing):
            folder, name = folders[key.rpartition(b"/")[0]], stem(key)
            role = only or folder.role or ("mask" if _MASK_END.fullmatch(name) else "image")
            as_mask = only != "mask" or folder.role != "image"  # photos, beside annotations of another kind
            if not (names_image(key) and as_mask) or not (of_image if role == "image" else of_mask).search(key):
                pairs.beside.append(key)
            elif role == "image":
                photos.append(_File(number, folder.kept, name))
            elif not choice.leaves_out(key):
                drawn.append(_File(number, folder.kept, name))
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


def _folders(paths: Iterable[bytes]) -> dict[bytes, _Folder]:
    """Describe every folder of a listing, by path; the path of the root is empty."""
    inside: dict[bytes, set[bytes]] = {}
    for path in set(paths):
        while path:
            parent, _, name = path.rpartition(b"/")
            inside.setdefault(parent, set()).add(name)
            path = parent
    known: dict[bytes, _Folder] = {b"": _Folder(None, b"")}
    for parent in sorted(inside):  # parent folders first
        for name in inside[parent]:
            path = parent + b"/" + name if parent else name
            known[path] = _below(known[parent], name, {other.lower() for other in inside[parent] - {name}})
    return known


def _below(above: _Folder, name: bytes, others: set[bytes]) -> _Folder:
    """Return the folder `name` in `above` with its role; `others`: the names beside it."""
    lower = name.lower()
    if lower in MASK_FOLDERS and above.role != "image":
        return _Folder("mask", above.kept)
    if lower in IMAGE_FOLDERS and above.role is None:
        return _Folder("image", above.kept)
    if above.role is None:
        added = _MASK_FOLDER.fullmatch(name)
        if added and any(added[1].lower() in (other, _bare(_IMAGE_FOLDER, other)) for other in others):
            return _Folder("mask", above.kept + added[1] + b"/")
        added = _IMAGE_FOLDER.fullmatch(name)
        if added and any((mask := _MASK_FOLDER.fullmatch(other)) and mask[1] == added[1].lower() for other in others):
            return _Folder("image", above.kept + added[1] + b"/")
    return _Folder(above.role, above.kept + name + b"/")


def _bare(pattern: re.Pattern[bytes], name: bytes) -> bytes:
    """A name without the words that people add to it."""
    found = pattern.fullmatch(name)
    return found[1] if found else name


def _matched(images: list[_File], masks: list[_File]) -> dict[int, int]:
    """Match images with masks: the number of the mask by that of its image. The most similar name wins."""
    found: dict[int, int] = {}
    used: set[int] = set()
    whole = re.compile(b"(.*)", re.DOTALL)
    for of_image, of_mask in ((whole, whole), (whole, _MASK_NAME), (_IMAGE_NAME, whole), (_IMAGE_NAME, _MASK_NAME)):
        by_name: dict[tuple[bytes, bytes], int] = {}
        for number, folder, name in masks:
            if number not in used:
                by_name.setdefault((folder, _bare(of_mask, name)), number)
        for number, folder, name in images:
            mask = None if number in found else by_name.get((folder, _bare(of_image, name)))
            if mask is not None:
                found[number] = mask
        used.update(found.values())
        if len(found) == len(images):
            break
    return found


def _check_single(images: Listing, files: Listing, masks: list[_File], found: dict[int, int]) -> None:
    """Raise UsageError if an unused mask has the same name as one that was paired with an image."""
    names = {number: (folder, _bare(_MASK_NAME, name)) for number, folder, name in masks}
    of_name = {names[mask]: (image, mask) for image, mask in found.items()}
    used = set(found.values())
    for number in names:
        if number not in used and (pair := of_name.get(names[number])):
            image, mask, other = images.key(pair[0]), files.key(pair[1]), files.key(number)
            problem = f"{escape(image)} has two masks, {escape(mask)} and {escape(other)}"
            remedy = f"leave one kind out: {argument('exclude', typed='PATTERN')}"
            raise UsageError(files.root, problem, remedy)
