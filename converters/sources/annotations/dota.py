"""DOTA: `images` and `labelTxt` with a text file an image; a line an object: four corners, its class, `difficult`."""

import codecs
from typing import Any

from shardfeed.annotations import OBJECTS
from shardfeed.converters.rejects import AnnotationCode, BadAnnotationError
from shardfeed.converters.sources.annotations.kitti import label_folders, read_folders
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.rows.cells import read_number
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import UsageError
from shardfeed.kinds import ROTATED

_LABELS_OF = {"images": "labelTxt"}
_HEADERS = (b"imagesource:", b"gsd:")  # lines at the top of a file: where the image is from, and metres per pixel
_COLUMNS = (9, 10)  # x and y of four corners, class; difficult, which evaluation leaves out
_DIFFICULT = f"{OBJECTS}difficult"


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Text files of four corners and a class in `labelTxt` next to `images`."""
    found = label_folders(look, _LABELS_OF, _is_label)
    return Evidence("dota", "images and labelTxt with four corners per line", sure=True) if found else None


def _is_label(head: bytes) -> bool:
    lines = [line for line in head.removeprefix(codecs.BOM_UTF8).splitlines() if line.strip() and not _is_header(line)]
    try:
        return bool(lines) and _object(lines[0]) is not None
    except BadAnnotationError:
        return False


def _is_header(line: bytes) -> bool:
    return line.lstrip().lower().startswith(_HEADERS)


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """Rotated boxes with classes, the upright box around each, and whether each is difficult.

    Raises UsageError if there is no label file, or no image is selected.
    """
    folders = label_folders(look, _LABELS_OF, _is_label) if look.is_folder else None
    if folders is None:
        problem = "no text files of four corners and a class in labelTxt next to images"
        raise UsageError(look.path, problem, "give the folder that holds images and labelTxt, or all splits")
    rotated = not options.tasks or ROTATED.word in options.tasks

    def parse(line: bytes) -> dict[str, Any] | None:
        found = _object(line)
        return found if rotated or found is None else {**found, "points": None}

    return read_folders(look, options, folders, parse, tasks=("boxes", "rotated")).source()


def _object(line: bytes) -> dict[str, Any] | None:
    """The values of a line by the names of `Annotations.object`; None for a header. Raises BadAnnotationError."""
    if _is_header(line):
        return None
    words = [word.decode("utf-8", "replace") for word in line.split()]
    if len(words) not in _COLUMNS:
        problem = f"got {len(words)} columns, expected x and y of four corners, class, difficult"
        raise BadAnnotationError(AnnotationCode.LINE, problem)
    corners = [read_number(word, "corner") for word in words[:8]]
    difficult = int(read_number(words[9], "difficult") > 0) if len(words) > 9 else 0
    box = min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])
    return {"box": box, "label": words[8], "flags": {_DIFFICULT: difficult}, "points": {ROTATED.word: corners}}
