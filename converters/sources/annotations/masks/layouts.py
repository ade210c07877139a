"""Datasets with masks whose layout, values and class names are known: Pascal VOC, Cityscapes, ADE20K."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from shardfeed.converters.sources.annotations.masks.pairs import Wanted
from shardfeed.converters.sources.annotations.masks.tables import ClassRow
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.errors import LabelFileError

_VOC_NAMES = """
background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant
sheep sofa train tvmonitor
"""
_VOC_STEM = re.compile(rb"(\d{4}_)?\d{6}")  # others use the layout, too, for classes of their own
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
_CITY_IMAGE = b"_leftImg8bit"
_CITY_KINDS = (b"_labelTrainIds", b"_labelIds")


@dataclass(frozen=True)
class Layout:
    """What is known of a dataset before any mask is read.

    name: as a sentence says it. found: what it was recognised by. rows: its classes; None where a table or the user
    must say. chosen: those of `rows` that are classes, the others are void; None for all that are not called void.
    is_image, is_mask: which files are. lists: keys of files that list the stems of splits. border: a colour that is
    void, whatever a table says. notes: for the report.
    """

    name: str = "images and their masks"
    found: str = ""
    rows: tuple[ClassRow, ...] | None = None
    chosen: tuple[str, ...] | None = None
    is_image: Wanted | None = None
    is_mask: Wanted | None = None
    lists: tuple[bytes, ...] = ()
    border: tuple[int, int, int] | None = None
    notes: tuple[str, ...] = ()


def known_layout(files: Listing) -> Layout:
    """The layout of a folder of images and masks; that of pairs by name where it is no other."""
    folders = {part for key in files for part in key.split(b"/")[:-1]}
    if b"SegmentationClass" in folders and b"JPEGImages" in folders:
        return _voc(files)
    if b"leftImg8bit" in folders and folders & {b"gtFine", b"gtCoarse"}:
        return _cityscapes(files, b"gtFine" if b"gtFine" in folders else b"gtCoarse")
    of_ade = {b"annotations", b"images"} <= folders and folders & {b"training", b"validation"}
    if of_ade and any(_ADE_STEM.fullmatch(stem(key)) for key in _first_images(files)):
        return _ade(files)
    return Layout()


def stem(key: bytes) -> bytes:
    """The name of a file without its end."""
    return os.path.splitext(key.rpartition(b"/")[2])[0]


def _first_images(files: Listing) -> Iterable[bytes]:
    return [key for key, _ in zip(filter(names_image, files), range(100), strict=False)]


@dataclass(frozen=True)
class _Inside:
    """Whether a key lies in a folder of that name."""

    folder: bytes

    def __call__(self, key: bytes) -> bool:
        return self.folder in key.split(b"/")[:-1]


@dataclass(frozen=True)
class _Ends:
    """Whether the name of a file ends so, before its extension."""

    end: bytes

    def __call__(self, key: bytes) -> bool:
        return stem(key).endswith(self.end)


def _voc(files: Listing) -> Layout:
    lists = {key for key in files if b"ImageSets/Segmentation/" in key and key.endswith(b".txt")}
    for folder in {key.rpartition(b"/")[0] for key in lists}:  # of each year
        if {folder + b"/train.txt", folder + b"/val.txt"} <= lists:
            lists.discard(folder + b"/trainval.txt")  # the two together
    own = any(_VOC_STEM.fullmatch(stem(key)) is None for key in _first_images(files))
    return Layout(
        "Pascal VOC's masks",
        "JPEGImages, SegmentationClass",
        None if own else tuple(ClassRow(name, None, value) for value, name in enumerate(_VOC_NAMES.split())),
        is_image=_Inside(b"JPEGImages"),
        is_mask=_Inside(b"SegmentationClass"),
        lists=tuple(sorted(lists)),
        border=_VOC_BORDER,
    )


def _cityscapes(files: Listing, masks: bytes) -> Layout:
    entries = [entry.split(" ", 2) for entry in _CITYSCAPES.replace("\n", "").split(";")]
    trained = {int(number): name for _, number, name in entries if number != "255"}
    counts = {kind: sum(map(_Ends(kind), files)) for kind in _CITY_KINDS}
    train_ids = counts[_CITY_KINDS[0]] >= max(1, counts[_CITY_KINDS[1]])
    if train_ids:
        rows = tuple(ClassRow(name, None, number) for number, name in sorted(trained.items()))
        note = "masks: labelTrainIds, 19 classes, 255 is void"
    else:
        rows = tuple(ClassRow(name, None, int(number)) for number, _, name in entries)
        note = "masks: labelIds, of which the 19 classes that are trained on become 0 to 18 and all others void"
    kind = _CITY_KINDS[0 if train_ids else 1]
    names = tuple(name for _, name in sorted(trained.items()))
    found = f"leftImg8bit, {masks.decode()}, *{kind.decode()}.png"
    return Layout("Cityscapes", found, rows, names, _Ends(_CITY_IMAGE), _Ends(kind), notes=(note,))


def _ade(files: Listing) -> Layout:
    names, note = _ade_names(files)
    rows = [ClassRow("void", None, 0), *(ClassRow(name, None, value) for value, name in enumerate(names, 1))]
    shift = "masks: 1 to 150 become the classes 0 to 149, and 0 void"
    return Layout("ADE20K", "images, annotations, ADE_*", tuple(rows), notes=(shift, *note))


def _ade_names(files: Listing) -> tuple[list[str], list[str]]:
    """The names of the classes, and a note where they are numbers."""
    key = next((key for key in files if key.rpartition(b"/")[2] == b"objectInfo150.txt"), None)
    if key is not None:
        path = files.root.rstrip(b"/") + b"/" + key
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                rows = [line.rstrip("\n").split("\t") for line in file]
        except OSError as error:
            raise LabelFileError(path, f"cannot be read: {error.strerror}", "check the file") from None
        found = {row[0].strip(): row[-1].strip() for row in rows if len(row) > 1}
        names = [found.get(str(number), "") for number in range(1, _ADE_CLASSES + 1)]
        if all(names) and len(set(names)) == len(names):
            return names, []
    note = "class names: the numbers 1 to 150, as there is no objectInfo150.txt with their names"
    return [str(number) for number in range(1, _ADE_CLASSES + 1)], [note]
