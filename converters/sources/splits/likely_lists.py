"""Files that look like lists of a split, found before anybody asks for them, for notes and refusals."""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress

from shardfeed.converters.sources.files.listing import names_image, split_words_in
from shardfeed.converters.sources.guard import guarded
from shardfeed.converters.sources.look import HEAD, Look
from shardfeed.converters.sources.splits.image_names import ImageNames
from shardfeed.converters.sources.splits.list_file import LIST_ENDS, parts_of
from shardfeed.converters.sources.splits.matching import is_heading, match
from shardfeed.errors import ShardfeedError, argument, escape, name_bytes

_DEPTH = 3  # folders deep, in which lists are looked for
_MOST = 40  # files whose names have a word for a split, that are opened
_LARGEST = 4 << 20  # bytes of a file that is read whole, such as JSON; of other files only the first rows
_ROWS = 200
_NEARLY_ALL = 0.95  # of the first names, for a list in which some images are missing


def looks_like_split_list(look: Look) -> list[tuple[str, str]]:
    """The files in a folder that look like lists of a split: the name of the split, and the path in the folder.

    A file is one if a word of its name means a split, and all or nearly all of its first names are those of images.
    The name is "" for a table of names and splits.
    """
    found = []
    names: ImageNames | None = None
    for name in _candidates(look):
        names = names or _images_of(look)
        with suppress(ShardfeedError), guarded(look.full(name)):
            if _is_list(look.full(name), names):
                found.append((_split_named_by(name), name))
    return found


def likely_lists_note(look: Look) -> str:
    """The sentence on the files that look like lists of a split, with what to give; "" without such a file."""
    lists = looks_like_split_list(look)
    if not lists:
        return ""
    one = len(lists) == 1
    shown = ", ".join(escape(path) for _, path in lists)
    what = "looks like a list of a split" if one else "look like lists of splits"
    return f"{shown} {what}: {_options(lists)}"


def _options(lists: list[tuple[str, str]]) -> str:
    """The options that give these lists, each split once."""
    of_split = {split: path for split, path in reversed(lists)}
    tables = of_split.pop("", None)
    if not of_split and tables is not None:
        return argument("split_list", tables)
    typed = [f"{split}={shlex.quote(path)}" for split, path in reversed(of_split.items())]
    python = ", ".join(f"{split!r}: {path!r}" for split, path in reversed(of_split.items()))
    return argument("split_list", python=f"split_list={{{python}}}", typed=" --split-list ".join(typed))


def _candidates(look: Look) -> Iterator[str]:
    """Names of files that may be lists: by their extensions, and a word for a split in their names."""
    count = 0
    for name in look.files(LIST_ENDS, _DEPTH) if look.is_folder else ():
        if count < _MOST and split_words_in(_stem(name)):
            count += 1
            yield name


def _images_of(look: Look) -> ImageNames:
    """The images in a folder, as far as a look shows them."""
    return ImageNames(name_bytes(name) for name in look.files(depth=_DEPTH + 1) if names_image(os.fsencode(name)))


def _is_list(path: str, names: ImageNames) -> bool:
    """Whether nearly all of the first names in a file are those of images. Raises ShardfeedError."""
    whole = os.path.getsize(path) <= _LARGEST
    if not whole and not path.lower().endswith((".txt", ".lst", ".list", ".csv", ".tsv")):
        return False
    for part in parts_of(path, most_rows=_ROWS):
        part = part._replace(rows=part.rows[:_ROWS])
        rule = match(part, names, path)
        if rule is None or rule.by_number:
            continue
        rows = part.rows[1:] if is_heading(part, rule) else part.rows
        if rows and sum(bool(rule.found(row)) for row in rows) >= _NEARLY_ALL * len(rows):
            return True
    return False


def names_images(path: str, look: Look, folder: str) -> bool:
    """Whether the first names in a list are those of images in a folder of the look. Raises LabelFileError."""
    part = parts_of(path, most_rows=_ROWS)[0]
    part = part._replace(rows=part.rows[:1])
    files = look.files(folder=folder)
    names = ImageNames(name_bytes(name) for name in files if names_image(os.fsencode(name)))
    rule = match(part, names)
    return rule is not None and not rule.by_number


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


def _split_named_by(name: str) -> str:
    """The split that the name of a file has one word for; "" for several, as in `train_test_split.txt`."""
    words = split_words_in(_stem(name))
    return words[0].casefold() if len(words) == 1 else ""
