"""Words for splits: `val`, `valid` and `validation` mean the same one.

The table for everything that reads the name of a split: a folder, a file or a cell of a source, and the word by which a
user asks a dataset for one. A dataset keeps the name that its files have, as shards are named after their split.
"""

import os
from collections.abc import Collection, Mapping

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


def usual_split(name: bytes | str) -> str | None:
    """`train`, `validation` or `test` when `name` is a usual word for it, in any case; else None."""
    return _USUAL.get(os.fsdecode(name).casefold())


def split_words(name: str) -> list[str]:
    """The other usual words for the split that `name` is a usual word for; nothing for another name."""
    split = usual_split(name)
    return [word for word, meant in _USUAL.items() if meant == split and word != name]


def split_called(name: str, splits: Collection[str]) -> str | None:
    """The one of `splits` that `name` means: that of this name, else the only one with another word for it as its name.

    None if there is none, or several.
    """
    names = [*splits]  # as a dataset also contains other words
    if name in names:
        return name
    meaning = usual_split(name)
    same = [split for split in names if meaning is not None and usual_split(split) == meaning]
    return same[0] if len(same) == 1 else None


def renamed_splits(names: Collection[str], splits: Collection[str]) -> Mapping[str, str]:
    """The name among `splits` for each of `names` that means it, where two sets of splits become one.

    Two of `names` are never joined: beside a split `validation`, `val` is a split of its own.
    """
    called = {name: split_called(name, splits) for name in names}
    return {name: split if split and split_called(split, names) == name else name for name, split in called.items()}
