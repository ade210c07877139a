"""Files that look like lists of a split, found before anybody asks for them, for notes and refusals."""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from shardfeed.converters.sources.files.listing import names_image, split_named, split_words_in
from shardfeed.converters.sources.guard import guarded
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.converters.sources.source import Source
from shardfeed.converters.sources.splits.image_names import ImageNames
from shardfeed.converters.sources.splits.list_file import LIST_ENDS, ListPart, parts_of, split_of_key
from shardfeed.converters.sources.splits.matching import match, without_heading
from shardfeed.converters.sources.splits.row_splits import splits_by_column
from shardfeed.converters.sources.splits.split_list import folders_of
from shardfeed.errors import ShardfeedError, UsageError, argument, escape, name_bytes
from shardfeed.text import in_usual_order

_DEPTH = 4  # folders deep, in which lists are looked for
_MOST = 40  # files whose names have a word for a split, that are opened
_LARGEST = 4 << 20  # bytes of a file that is read whole, such as JSON; of other files only the first rows
_ROWS = 200
_IN_LINES = (".txt", ".lst", ".list", ".csv", ".tsv")  # ends of files of which the first rows are enough
_OF_LISTS = ("train", "validation", "test", "trainval")  # splits in names of files of one split
_OF_TABLES = ("split", "partition", "setid", "imdb")  # in names of tables of all splits
_NEARLY_ALL = 0.95  # of the first names, for a list in which some images are missing


def looks_like_split_list(look: Look) -> list[tuple[str, str]]:
    """The files in a folder that look like lists of a split: the name of the split, and the path in the folder.

    A file is one if a word of its name means a split, and all or nearly all of its first names are those of images.
    The name is "" for a table of names and splits. Of several lists of one split, as for each kind of label, the one
    with the shortest path is returned; none of "trainval" if there is one of "train".
    """
    found: dict[str, str] = {}
    names: ImageNames | None = None
    for name in sorted(_candidates(look), key=lambda name: (len(name), name)):
        names = names or _images_of(look)
        with suppress(ShardfeedError), guarded(look.full(name)):
            split = _split_of_list(look.full(name), names)
            if split is not None:
                found.setdefault(split, name)
    if "train" in found:
        found.pop("trainval", None)
        found.pop("", None)
    return [(split, found[split]) for split in in_usual_order(found)]


def with_likely_lists(source: Source, look: Look) -> Source:
    """The source, with a note on files that look like lists of a split if it has no splits."""
    if not isinstance(source, ColumnarSource) or source.splits is not None:
        return source
    folder = next(folders_of(source), "") if look.is_file else ""
    sentence = likely_lists(Look(folder) if folder else look)
    if not sentence:
        return source
    return source.changed(findings=replace(source.findings, notes=[*source.findings.notes, sentence]))


def naming_likely_lists(error: UsageError, look: Look) -> UsageError:
    """The error, with the files in the folder that look like lists of a split if it is about the folder.

    A list does not say what the classes are, so the option alone would lead to the same error: it is named, not given.
    """
    place, problem, remedy = error.args
    if os.path.abspath(place) != os.path.abspath(look.path):
        return error
    lists = looks_like_split_list(look)
    if not lists:
        return error
    sentence = f"{_seen(lists)}, for {argument('split_list')}"
    return type(error)(place, f"{problem}; {sentence}", remedy)


def likely_lists(look: Look) -> str:
    """The sentence on the files that look like lists of a split, with what to give; "" without such a file."""
    lists = looks_like_split_list(look)
    return f"{_seen(lists)}: {_options(lists)}" if lists else ""


def _seen(lists: list[tuple[str, str]]) -> str:
    shown = ", ".join(escape(path) for _, path in lists)
    return f"{shown} {'looks like a list of a split' if len(lists) == 1 else 'look like lists of splits'}"


def _options(lists: list[tuple[str, str]]) -> str:
    """The options that give these lists; one table of names and splits says it alone."""
    table = dict(lists).get("")
    if table is not None:
        return argument("split_list", table)
    typed = [f"{split}={shlex.quote(path)}" for split, path in lists]
    python = ", ".join(f"{split!r}: {path!r}" for split, path in lists)
    return argument("split_list", python=f"split_list={{{python}}}", typed=typed)


def _candidates(look: Look) -> Iterator[str]:
    """Names of files that may be lists: by their extensions, and a word for a split in their names."""
    count = 0
    for name in look.files(LIST_ENDS, _DEPTH) if look.is_folder and not look.holds_only_images else ():
        words = _stem(name).casefold()
        if count < _MOST and (split_words_in(_stem(name)) or any(word in words for word in _OF_TABLES)):
            count += 1
            yield name


def _images_of(look: Look) -> ImageNames:
    """The images in a folder, as far as a look shows them."""
    return ImageNames(name_bytes(name) for name in look.files(depth=_DEPTH + 1) if names_image(os.fsencode(name)))


def _split_of_list(path: str, names: ImageNames) -> str | None:
    """The split of a list, "" if it is a table that says it; None for a file that is no list. Raises ShardfeedError."""
    if os.path.getsize(path) > _LARGEST and not path.lower().endswith(_IN_LINES):
        return None
    parts = parts_of(path, most_rows=_ROWS)
    said = [_is_table(path, part._replace(rows=part.rows[:_ROWS]), names) for part in parts]
    tables = [is_table for is_table in said if is_table is not None]
    split = _split_of_name(path)
    plain = not parts[0].key and not parts[0].header
    if not tables or (plain and split in _OF_LISTS):  # where a column of 0, 1 and 2 is one of labels
        return split if tables else None
    return "" if all(tables) else split


def _split_of_name(path: str) -> str | None:
    """The split that one word in the name of a file means; None without such a word, or with several."""
    words = split_words_in(_stem(path))
    return split_named(words[0].casefold()) if len(words) == 1 else None


def _is_table(path: str, part: ListPart, names: ImageNames) -> bool | None:
    """Whether the first rows of a part say splits, too; None if they are not nearly all names of images."""
    rule = match(part, names, path)
    if rule is None:
        return None
    heading, part = without_heading(part, rule)
    if not part.rows or sum(bool(rule.found(row)) for row in part.rows) < _NEARLY_ALL * len(part.rows):
        return None
    is_table = bool(split_of_key(part.key) or splits_by_column(path, part, rule, heading))
    return None if rule.doubtful and not is_table else is_table


def names_images(path: str, look: Look, folder: str) -> bool:
    """Whether the first names in a list are those of images in a folder of the look. Raises LabelFileError."""
    part = parts_of(path, most_rows=_ROWS)[0]
    part = part._replace(rows=part.rows[:1])
    files = look.files(folder=folder)
    names = ImageNames(name_bytes(name) for name in files if names_image(os.fsencode(name)))
    rule = match(part, names)
    return rule is not None and not rule.numbers


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]
