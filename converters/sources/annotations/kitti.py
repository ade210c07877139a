"""KITTI: images in `image_2`, and in `label_2` one text file per image, with one line per object."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from shardfeed.annotations import IS_CROWD, OBJECTS
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError, RejectCode, RejectedError
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions, Task
from shardfeed.converters.sources.reading import read_lines
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.cells import read_number
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError, escape, name_text

_LABELS_OF = {"image_2": "label_2", "image_02": "label_02", "data": "labels", "images": "labels"}
_COLUMNS = (15, 16)  # type, truncated, occluded, alpha, box (4), sizes (3), place (3), angle; score
_SIDES = ("left", "top", "right", "bottom")
_LOOKED_AT = 200  # text files examined to recognise KITTI's labels
_IGNORED = b"DontCare"  # an unlabelled region: a crowd, which training and evaluation ignore


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Text files of KITTI's 15 columns in a folder next to a folder of images."""
    found = label_folders(look, _LABELS_OF, _is_label)
    return Evidence("kitti", f"{found[0]} and {found[1]} with 15 columns per line", sure=True) if found else None


def label_folders(
    look: Look, labels_of: Mapping[str, str], is_label: Callable[[bytes], bool]
) -> tuple[str, str] | None:
    """The names of a folder of images and of the folder of labels beside it.

    `labels_of`: the folder of labels, by that of images. `is_label`: whether a file that begins so has labels.
    """
    for name in islice(look.files((".txt",)), _LOOKED_AT):
        above, _, folder = os.path.dirname(name).rpartition("/")
        for images, labels in labels_of.items():
            if folder == labels and images in look.names(above)[0] and is_label(look.head(look.full(name))):
                return images, labels
    return None


def _is_label(head: bytes) -> bool:
    words = head.split(b"\n", 1)[0].split()
    try:
        return len(words) in _COLUMNS and words[0][:1].isalpha() and bool([float(word) for word in words[1:]])
    except ValueError:
        return False


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Boxes with classes, and whether each is truncated or occluded; `DontCare` is a crowd.

    Raises UsageError if there is no label file, or no image is selected.
    """
    folders = label_folders(look, _LABELS_OF, _is_label) if look.is_folder else None
    if folders is None:
        remedy = "give the folder that holds image_2 and label_2, or training"
        raise UsageError(look.path, "no text files of 15 columns in label_2 next to image_2", remedy)
    found = read_folders(look, options, folders, _object)
    found.note("KITTI columns that are ignored: alpha, dimensions, location, rotation_y, score")
    return found.source()


def read_folders(
    look: Look,
    options: AnnotationOptions,
    folders: tuple[str, str],
    parse: Callable[[bytes], dict[str, Any] | None],
    tasks: Sequence[Task] = ("boxes",),
) -> Annotations:
    """The images of `label_folders`, with an object for each line of their labels.

    `parse`: the values of a line by the names of `Annotations.object`; None for a line without an object. It may raise
    BadAnnotationError. `tasks`: what the lines have. Raises UsageError if no image is selected.
    """
    files, images = look.list_images()
    ours = [i for i, key in enumerate(images) if _label_of(key, folders) is not None]
    listed = images.take(np.array(ours, np.int64))
    found = Annotations(look.path, look, options, files=listed, what="line", tasks=tasks)
    named: set[int] = set()
    for index, key in enumerate(found.listing):
        number = files.find(_label_of(key, folders) or b"")
        if number >= 0:
            named.add(number)
            _add_lines(found, found.file(index), files, number, parse)
    found.take_rest("images without a label file, treated as images without objects")
    for number, key in enumerate(files):
        if number not in named and key.endswith(b".txt") and f"/{folders[1]}/".encode() in b"/" + key:
            with suppress(RejectedError):
                for n, _ in read_lines(files.file(number)):
                    found.leave_out(name_text(key), AnnotationCode.ORPHAN, f"line {n}: this label file has no image")
    return found


def _label_of(image: bytes, folders: tuple[str, str]) -> bytes | None:
    """The label file of an image; None in other folders, as `image_3`, the right camera's."""
    head, folder, name = (b"/" + image).rpartition(f"/{folders[0]}/".encode())
    return (head + f"/{folders[1]}/".encode() + os.path.splitext(name)[0] + b".txt")[1:] if folder else None


def _add_lines(
    found: Annotations, image: int, files: Listing, number: int, parse: Callable[[bytes], dict[str, Any] | None]
) -> None:
    try:
        lines = read_lines(files.file(number))
    except RejectedError as error:
        reason = f"its labels, {escape(files.key(number))}: {error.reason}"
        found.reject(image, RejectCode.NO_LABEL, reason)
        found.leave_out(name_text(files.key(number)), AnnotationCode.LINE, error.reason)
        return
    for n, line in lines:
        try:
            values = parse(line)
        except BadAnnotationError as error:
            found.leave_out(image, error.code, f"line {n}: {error.reason}")
            continue
        if values is not None:
            found.object(image, n, **values)


def _object(line: bytes) -> dict[str, Any]:
    """The box, the class and the flags of a line. Raises BadAnnotationError."""
    words = line.split()
    if len(words) not in _COLUMNS:
        raise BadAnnotationError(AnnotationCode.LINE, f"got {len(words)} columns, expected 15")
    texts = [word.decode("utf-8", "replace") for word in words]
    box = [read_number(text, side) for text, side in zip(texts[4:8], _SIDES, strict=True)]
    flags = {
        f"{OBJECTS}truncated": int(read_number(texts[1], "truncated") > 0),
        f"{OBJECTS}occluded": int(read_number(texts[2], "occluded") > 0),
        IS_CROWD: int(words[0] == _IGNORED),
    }
    return {"box": box, "label": texts[0], "flags": flags}
