"""Class folders in `images/` with official lists of splits beside them: Food-101's, DTD's, CUB-200's.

meta/train.txt, meta/test.txt                     apple_pie/1005649, a path without extension a line
meta/train.json, meta/test.json                   the same by class
labels/train1.txt, labels/val1.txt, ...           banded/banded_0002.jpg, of the first of ten folds
images.txt, train_test_split.txt                  `1 001.Albatross/a.jpg` and `1 0`: by number, 1 for training

What they name is found by `splits/`, as for lists that the user gives.
"""

import os
from contextlib import suppress

from shardfeed.converters.sources.image_folder import ImageFolder
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.rows import ColumnarSource, noted
from shardfeed.converters.sources.splits.likely_lists import names_images
from shardfeed.converters.sources.splits.split_list import with_split_lists
from shardfeed.errors import LabelFileError, UsageError

_IMAGES = "images"
_LISTS = ("meta/{}.txt", "meta/{}.json", "labels/{}1.txt")
_SPLITS = ("train", "val", "test")
_NUMBERED = ("images.txt", "train_test_split.txt")


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Recognise a folder by the names of its lists, if the first names in the first one are images in `images`."""
    del options
    lists = _lists(look)
    if not lists:
        return None
    with suppress(LabelFileError):
        first = os.path.join(look.path, _NUMBERED[0]) if "" in lists else next(iter(lists.values()))
        if names_images(first, look, _IMAGES):
            return Evidence("split-lists", f"class folders in {_IMAGES}, splits in {_said(lists)}", sure=True)
    return None


def _lists(look: Look) -> dict[str, str]:
    """The path of the list of each split, "" for a table of all; empty if they do not belong to one layout."""
    folders, files = look.names()
    if _IMAGES not in folders:
        return {}
    if {*_NUMBERED} <= {*files}:
        return {"": os.path.join(look.path, _NUMBERED[1])}
    for form in _LISTS:
        paths = {split: os.path.join(look.path, form.format(split)) for split in _SPLITS}
        found = {split: path for split, path in paths.items() if os.path.isfile(path)}
        if len(found) > 1 and "train" in found:
            return found
    return {}


def _said(lists: dict[str, str]) -> str:
    if "" in lists:
        return ", ".join(_NUMBERED)
    return ", ".join("/".join(path.split(os.sep)[-2:]) for path in lists.values())


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images named in the lists, each with the class of its folder and its split.

    Raises UsageError if there are no such lists, LabelFileError if an image is in two.
    """
    lists = _lists(look)
    if not lists:
        problem = "no lists of splits next to a folder `images`"
        raise UsageError(look.path, problem, "give the folder that contains both")
    wanted = {"include": look.include, "exclude": look.exclude, "follow_links": look.follow_links}
    images = ImageFolder(os.path.join(look.path, _IMAGES), class_names=options.class_names, **wanted)
    folders = "--reader folder on `images` (in Python reader='folder')"
    note = f"splits from {_said(lists)}; {folders} ignores these lists"
    return noted(with_split_lists(images, lists.get("", lists)), note)
