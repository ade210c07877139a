"""Class folders in `images/` with official lists of splits beside them: Food-101's, DTD's, CUB-200's.

meta/train.txt, meta/test.txt                     apple_pie/1005649, a path without extension a line
labels/train1.txt, labels/val1.txt, ...           banded/banded_0002.jpg, of the first of ten folds
images.txt, train_test_split.txt                  `1 001.Albatross/a.jpg` and `1 0`: by number, 1 for training
"""

import os
from collections.abc import Iterator

from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.label_table import LabelTable
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError, escape

_IMAGES = "images"
_LISTS = ("meta/{}.txt", "labels/{}1.txt")
_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_SPLIT_OF = {form.format(word): split for form in _LISTS for word, split in _SPLITS.items()}
_NUMBERED = ("images.txt", "train_test_split.txt")


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Recognise a folder by the names of its lists, if the first line of the first one is an image in `images`."""
    del options
    names = list(_lists(look))
    if not names:
        return None
    first = look.head(os.path.join(look.path, names[0])).partition(b"\n")[0].strip().decode("utf-8", "replace")
    path = first.partition(" ")[2] if names[0] == _NUMBERED[0] else first
    folder, _, name = path.rpartition("/")
    there = look.names(f"{_IMAGES}/{folder}")[1] if folder and ".." not in folder else ()
    if not any(name in (file, os.path.splitext(file)[0]) for file in there):
        return None
    return Evidence("split-lists", f"class folders in {_IMAGES}, splits in {', '.join(names)}", sure=True)


def _lists(look: Look) -> Iterator[str]:
    """Return the names of the lists; empty if they do not belong to one layout."""
    folders, files = look.names()
    if _IMAGES not in folders:
        return
    if {*_NUMBERED} <= {*files}:
        yield from _NUMBERED
        return
    for form in _LISTS:
        found = [form.format(split) for split in _SPLITS]
        found = [name for name in found if os.path.isfile(os.path.join(look.path, name))]
        if len(found) > 1:
            yield from found
            return


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """The images named in the lists, each with the class of its folder and its split.

    Raises UsageError if there are no such lists, LabelFileError if an image is in two.
    """
    names = list(_lists(look))
    if not names:
        problem = "no lists of splits next to a folder `images`"
        raise UsageError(look.path, problem, "give the folder that contains both")
    found = Annotations(look.path, look, options, root=os.path.join(look.path, _IMAGES), tasks=("classes",))
    found.unnamed = "image files in no list, left out"
    folders = "--reader folder on `images` (in Python reader='folder')"
    found.note(f"splits from {', '.join(names)}; {folders} ignores these lists")
    by_path = ((where, path, _SPLIT_OF[name]) for name in names for where, path in _lines(look, name))
    for where, path, split in _by_number(look) if names[0] == _NUMBERED[0] else by_path:
        image = found.image(path, where=where, split=split)
        label = path.rpartition("/")[0].rpartition("/")[2]
        if not label:
            raise LabelFileError(f"{look.path}, {where}", f"'{escape(path)}' is not in a class folder", "correct it")
        found.label(image, label)
    if not len(found):
        raise LabelFileError(look.path, "the lists are empty", "check that they are complete")
    return found.source()


def _lines(look: Look, name: str) -> Iterator[tuple[str, str]]:
    """The place and the text of each line."""
    table = LabelTable(os.path.join(look.path, name), "text", None, paths_only=True)
    yield from ((f"{name}:{line}", text) for line, (text,) in table.texts())


def _by_number(look: Look) -> Iterator[tuple[str, str, str]]:
    """Place, path and split of each image of CUB's.

    Raises LabelFileError for a line that is not clear, and an image without a split.
    """
    of_train: dict[str, str] = {}
    for where, line in _lines(look, _NUMBERED[1]):
        number, _, flag = line.partition(" ")
        if flag not in ("0", "1") or of_train.setdefault(number, flag) != flag:
            raise LabelFileError(f"{look.path}, {where}", "expected an image number, and 0 or 1", "correct it")
    for where, line in _lines(look, _NUMBERED[0]):
        number, _, path = line.partition(" ")
        if number not in of_train or not path:
            problem = f"expected a number from {_NUMBERED[1]}, and a path"
            raise LabelFileError(f"{look.path}, {where}", problem, "correct one of the two")
        yield where, path, "train" if of_train[number] == "1" else "test"
