"""Readings of a folder of images that may be meant, in the order in which they are tried.

Each comes from where folders stand: which level is named like splits, and which could be classes. None is right
because it stands here: `decision` offers those that hold when they are tried.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardfeed.converters.sources.files.listing import names_image, split_level, split_words_in
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.recognition.rules import folder_of_others
from shardfeed.errors import SOURCE, ShardfeedError

_LOOKED_AT = 100_000  # images whose folders are compared
_DEEPEST = 6  # levels of folders

Change = Mapping[str, Any]


def alternatives(look: Look) -> Iterator[Change]:
    """Yield changes of a request for the folder of `look`, likely ones first; nothing without an image in it."""
    paths = _folders_of_images(look)
    if not paths:
        return
    common = _common(paths)
    if common:
        yield {SOURCE: f"{look.path.rstrip('/')}/{'/'.join(common)}"}
    yield from ({"pattern": pattern} for pattern in _patterns(paths))
    yield {"unlabelled": True}
    others = sorted({folder for path in set(paths) if (folder := folder_of_others(path))})
    if others:
        yield {"unlabelled": True, "exclude": others[0] if len(others) == 1 else tuple(others)}


def _folders_of_images(look: Look) -> list[tuple[str, ...]]:
    """The folders of each of the first images below the path, from the top."""
    try:
        files = look.list_files()
    except ShardfeedError:
        return []
    keys = (files.key(i) for i in range(min(len(files), _LOOKED_AT)))
    return [tuple(key.decode("utf-8", "surrogateescape").split("/")[:-1]) for key in keys if names_image(key)]


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The folders that all images are in."""
    first, last = min(paths), max(paths)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def _patterns(paths: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Patterns that take the classes from a level of folders, and the splits from the level that is named so."""
    least = min(map(len, paths))
    at_splits = split_level(paths)
    is_even = least == max(map(len, paths))
    for level in range(min(least, _DEEPEST)):
        if level != at_splits and len({path[level] for path in paths}) > 1:
            yield _pattern(paths, level, at_splits)
    if at_splits is None and not is_even:
        yield "(?P<label>.+)/[^/]+"


def _names(paths: Sequence[tuple[str, ...]], level: int) -> set[str]:
    return {path[level] for path in paths}


def _pattern(paths: Sequence[tuple[str, ...]], level: int, at_splits: int | None) -> str:
    """The expression for the path of an image whose class is the folder at `level`."""
    parts = []
    for at in range(max(level, -1 if at_splits is None else at_splits) + 1):
        if at == level:
            parts.append("(?P<label>[^/]+)")
        elif at == at_splits:
            parts.append(_split_part(_names(paths, at)))
        else:
            parts.append("[^/]+")
    return "/".join([*parts, ".+"])


def _split_part(names: set[str]) -> str:
    """The part of an expression for folders that are named like splits: the word is the split."""
    said = "|".join(sorted({re.escape(word) for name in names for word in split_words_in(name)}, reverse=True))
    around = "" if all(split_words_in(name) == [name] for name in names) else "[^/]*"
    return f"{around}(?P<split>{said}){around}"
