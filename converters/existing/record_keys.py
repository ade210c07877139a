"""Records named by their keys: a list of them, and which records of a dataset they are."""

import os
from collections.abc import Collection, Iterable

import numpy as np

from shardfeed.converters.existing.dataset_source import Opened
from shardfeed.errors import UsageError, argument, escape, name_bytes
from shardfeed.text import number, some

Keys = Iterable[str | bytes] | str | os.PathLike[str]


def read_keys(keys: Keys) -> dict[bytes, None]:
    """The keys of an iterable, or of a file with one per line, in order and without repeats.

    Raises UsageError if there are none, or the file cannot be read, or is not text.
    """
    if isinstance(keys, str | os.PathLike):
        try:
            with open(keys, "rb") as file:
                content = file.read()
        except OSError as error:
            raise UsageError(os.fspath(keys), f"cannot read the list of keys: {error.strerror}", "check it") from None
        if b"\0" in content:  # which no file name has
            problem = "got binary data, expected a list of keys (image/filename), one per line"
            raise UsageError(os.fspath(keys), problem, "write the keys into a text file")
        lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
        found = dict.fromkeys(line for line in lines if line)
    else:
        found = dict.fromkeys(key if isinstance(key, bytes) else name_bytes(key) for key in keys)
    if not found:
        raise UsageError("keys", "the list of keys is empty", "give the file names in the dataset")
    return found


def places_of(opened: Opened, keys: Collection[bytes], *, missing_ok: bool) -> dict[str, np.ndarray]:
    """Whether each record of each split is named, bool [n]. Raises UsageError for keys that no record has."""
    left = set(keys)
    named: dict[str, np.ndarray] = {}
    for name, records in opened.splits.items():
        named[name] = np.fromiter((key in keys for key in records.keys), bool, len(records))
        left.difference_update(records.keys[np.flatnonzero(named[name])])
    if left and not missing_ok:
        problem = f"{number(len(left), 'key')} of {len(keys):,} {'is' if len(left) == 1 else 'are'} not in "
        example = next((key for records in opened.splits.values() for key in records.keys), b"")
        remedy = f"keys are file names such as {escape(example)}; {argument('missing_ok', True)} ignores them"
        raise UsageError("keys", f"{problem}{escape(opened.directory)}: {some(sorted(left))}", remedy)
    return named
