"""Names of classes as other programs leave them: lists, numbered lists, TFDS's label files, label maps.

daisy                     one a line, the first is label 0's
0:daisy                   TF-Slim's labels.txt
item { id: 1 name: 'cat' display_name: "Cat" }       the Object Detection API's label_map.pbtxt
"""

import os
import re
from collections.abc import Mapping, Sequence

from shardfeed.converters.sources.classes import read_class_list
from shardfeed.converters.sources.rows.label_map import parse_label_map
from shardfeed.errors import LabelFileError, StorageError, argument
from shardfeed.naming import LABEL_NAMES_SUFFIX, label_names_file
from shardfeed.schema import is_plain

NamedClasses = Mapping[int, str]

_NUMBERED = re.compile(r"\s*(\d{1,9})\s*:\s*(.+?)\s*\Z")
_MOST_BYTES = 64 << 20  # of a file of names
_LABELS = "labels.txt"


def read_named_classes(path: str | os.PathLike[str]) -> dict[int, str]:
    """Label -> name, of a file in one of the forms above. Raises LabelFileError where it is in none of them."""
    return _numbered(os.fspath(path)) or dict(enumerate(read_class_list(path)))


def read_label_map(path: str | os.PathLike[str]) -> dict[int, str]:
    """Number -> name, of a label map or of numbered lines. Raises LabelFileError for others, a plain list too."""
    place = os.fspath(path)
    if names := _numbered(place):
        return names
    read_class_list(path)  # says what is wrong with a file that is not even that
    problem = "is a list of names, expected the number of each: `item { id: 1 name: 'cat' }` in a .pbtxt, or `1:cat`"
    remedy = f"give it as {argument('class_names', typed='FILE')}, and where the first is number 1 "
    raise LabelFileError(place, problem, remedy + argument("label_offset", 1))


def _numbered(place: str) -> dict[int, str] | None:
    """What a file says of numbers and names; None where it says no numbers."""
    text = _text(place)
    if text is not None and place.endswith(".pbtxt"):
        return parse_label_map(text, place)
    if text is not None and (lines := [_NUMBERED.match(line) for line in text.splitlines() if line.strip()]):
        found = {int(line[1]): line[2] for line in lines if line}
        if len(found) == len(lines):
            return found
    return None


def names_beside(directory: str, files: Sequence[str], key: str, *, images: bool) -> tuple[str, dict[int, str]] | None:
    """The file among `files` of a directory that names the classes of a feature, and its names; None where none does.

    TFDS's file of that feature, or `labels.txt` or a label map: those two belong to labels of images where `images`
    is true, which means that nothing else has more right to them. A file that cannot be read names nothing.
    """
    usual = [label_names_file(key), key.replace("/", "-") + LABEL_NAMES_SUFFIX]
    if images:
        usual += [_LABELS, *(file for file in files if file.endswith(".pbtxt") and "label" in file)]
    for file in usual:
        if file in files:
            try:
                return file, read_named_classes(os.path.join(directory, file))
            except (LabelFileError, StorageError):
                continue
    return None


def in_label_order(names: NamedClasses, least: int = 0) -> tuple[str, ...]:
    """The names by label, of `least` labels at least; one without a name has its number. Numbers unless distinct."""
    count = max(least, max(names, default=-1) + 1)
    numbers = [str(label) for label in range(count)]
    named = [names.get(label, number) for label, number in enumerate(numbers)]
    return tuple(named if len(set(named)) == count and all(map(is_plain, named)) else numbers)


def _text(path: str) -> str | None:
    """The file's text; None where it cannot be read, or is no UTF-8, which who reads it as a list says."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        return data.removeprefix(b"\xef\xbb\xbf").decode() if len(data) <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
