"""Common names of splits, and the one name that shardfeed uses for each; splits by the names of folders."""

import os
import re
from collections.abc import Iterable

from shardfeed.converters.sources.files.listing import Listing
from shardfeed.errors import UsageError, escape
from shardfeed.naming import check_split_name

_USUAL = {
    "train": "train",
    "training": "train",
    "trainset": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "valset": "validation",
    "test": "test",
    "testing": "test",
    "testset": "test",
}
_OWN = ("dev", "eval", "evaluation", "holdout", "trainval", "minival")  # words for a split that keeps this name
_BETWEEN = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")  # around the words of a name
# A fold's number, as spreadsheets write a column of whole numbers that has gaps elsewhere, too: 3.0.
_FOLD = re.compile(r"0*([0-9]{1,9})(\.0*)?\Z")


def usual_split(name: bytes | str) -> str | None:
    """`train`, `validation` or `test` when `name` is a usual word for it, in any case; else None."""
    return _USUAL.get(os.fsdecode(name).casefold())


def split_in_name(name: str) -> str | None:
    """The split that a word in the name of a file or folder means (`cats_train_v1`, `Split-eval`); None without one.

    Raises UsageError for words of two splits.
    """
    found = sorted({usual_split(word) or word.casefold() for word in split_words_in(name)})
    if len(found) > 1:
        raise UsageError(name, f"the name {escape(name)} contains two splits, {' and '.join(found)}", "rename it")
    return found[0] if found else None


def split_in_path(path: str) -> str | None:
    """The split in the name of a file, or else in that of its nearest folder; None if there is none."""
    return next(filter(None, map(split_in_name, reversed(path.split("/")))), None)


def split_words_in(name: str) -> list[str]:
    """The words in a name that mean a split, as they are written."""
    return [word for word in _BETWEEN.split(name) if usual_split(word) or word.casefold() in _OWN]


def split_words(name: str) -> list[str]:
    """The other usual words for the split that `name` is a usual word for; nothing for another name."""
    split = usual_split(name)
    return [word for word, meant in _USUAL.items() if meant == split and word != name]


def split_in_cell(text: str) -> str:
    """The split in a cell of a label file: `fold_3` for the number 3, else the result of `split_named`.

    Raises UsageError when it cannot name a split's files.
    """
    fold = _FOLD.match(text)
    return f"fold_{fold[1]}" if fold else split_named(text)


def split_named(name: str) -> str:
    """The split that a cell or a file name asks for: a usual word's one name, any other as it stands.

    Raises UsageError when it cannot name a split's files.
    """
    return usual_split(name) or check_split_name(name)


def top_folders(listing: Listing, inside: bytes = b"") -> list[bytes]:
    """The visible folders in the root, or in the folder `inside` ("/" at its end), sorted, empty ones too."""
    tops = {bare.removeprefix(inside).partition(b"/")[0] for bare in listing.bare if bare.startswith(inside)}
    tops.update(listing.children(inside)[0])
    return sorted(tops)


def folder_splits(listing: Listing, inside: bytes = b"") -> dict[bytes, str]:
    """The split by folder where every folder in the root, or in `inside`, has a split's name; else nothing.

    One of them must be usual: `train` and `holdout`. Raises UsageError when two folders mean the same split.
    """
    splits: dict[bytes, str] = {}
    tops = top_folders(listing, inside)
    if not any(map(usual_split, tops)):
        return {}
    for top in tops:
        split = usual_split(top) or os.fsdecode(top).casefold()
        if not usual_split(top) and split not in _OWN:
            return {}
        if split in splits.values():
            raise UsageError(listing.root, f"more than one folder is the split {split!r}", "rename or merge them")
        splits[top] = split
    return splits


def splits_by_folder(listing: Listing, keys: Iterable[bytes]) -> list[str | None]:
    """Return, for each key, the split named by its folder in the root, by the rules of `folder_splits`."""
    folders = folder_splits(listing)
    return [folders.get(key.partition(b"/")[0]) if b"/" in key else None for key in keys]
