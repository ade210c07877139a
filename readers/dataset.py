"""A dataset directory, opened through its manifest, with its splits by name."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import UnsupportedOperation
from typing import Any

from shardfeed.declared import checked
from shardfeed.errors import IntegrityError, SplitError, escape, shown
from shardfeed.manifest import Manifest, read_manifest
from shardfeed.naming import is_index, is_shard
from shardfeed.readers.notebook import dataset_html
from shardfeed.readers.shards import is_local
from shardfeed.readers.split import Split
from shardfeed.split_words import split_called
from shardfeed.storage.address import located
from shardfeed.storage.storage import LOCAL, Storage, not_a_file, sizes_by_name
from shardfeed.text import in_usual_order, listing

_REMEDY = "restore it; `shardfeed rebuild DIR` restores indexes, `shardfeed salvage DIR OUT` keeps intact records"
_MOST_LISTED = 1000  # files of a remote dataset: one request lists this many names
_SHOWN = 5  # files named in an error before "and n more"


class Dataset(Mapping[str, Split]):
    """A mapping from split names to `Split`, created by `shardfeed.open`. Pickling it stores no records.

    Usual words for a split are understood: `data["val"]` and `data["validation"]` are the same split, unless there are
    splits of both names. Iteration gives the names that the splits have.

    Example:
        data = shardfeed.open("flowers")
        print(list(data), data.class_names)
        train = data["train"]
    """

    def __init__(self, directory: str, manifest: Manifest, storage: Storage = LOCAL) -> None:
        self.directory = directory
        self.manifest = manifest
        options = manifest.options
        # Datasets adopted by versions that did not inspect images have unverified formats.
        believed = not options.get("adopted") or "image_key" in options
        known: dict[str, Any] = {} if believed else {"formats": {}}
        known["checked"] = not options.get("adopted") and options.get("check") == "decode"
        self._splits = {
            name: Split(directory, manifest.schema, replace(info, **known), storage)
            for name, info in manifest.splits.items()
        }

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in label order; empty if there are no classes.

        The names are those of the images, or, if images have no classes, of the objects, pixels or tags.

        Raises UsageError if images have no classes and several other features have different class lists; the message
        says where each list is stored.
        """
        return self.manifest.schema.main_class_names

    def __getitem__(self, name: str) -> Split:
        known = split_called(name, self._splits) if isinstance(name, str) else None
        if known is None:
            names = ", ".join(map(repr, in_usual_order(self)))
            raise SplitError(self.directory, f"no split {shown(name)}", f"it has {names}")
        return self._splits[known]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __contains__(self, name: object) -> bool:  # Mapping's default catches KeyError from a formatted message
        return isinstance(name, str) and split_called(name, self._splits) is not None

    _repr_html_ = dataset_html

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}: {len(self[name])}" for name in in_usual_order(self))
        return f"Dataset({self.directory!r}, {splits})"


@checked
def open(path: str | os.PathLike[str], *, storage: Storage = LOCAL) -> Dataset:
    """Open a dataset directory on the local disk, at a URL (s3, gs, az, hf, https), or through your own `storage`.

    No shard is read: file names and sizes are compared with the manifest. On a web server, and in a bucket with more
    than 1,000 files, each file is compared when it is first read: opening takes at most three requests.

    Raises UsageError when `path` is not a dataset, IntegrityError when its manifest is damaged or of a newer format, or
    when shards or indexes are missing, have a different size, or do not belong to the dataset (up to five are named).

    Example:
        data = shardfeed.open("flowers")
        print(data["train"][0]["image/filename"])
    """
    storage, directory = located(path, storage)
    manifest = read_manifest(directory, storage)
    many = sum(2 * len(split.shards) for split in manifest.splits.values()) > _MOST_LISTED and not is_local(storage)
    problems = [] if many else file_problems(directory, manifest, storage)
    if problems:
        raise IntegrityError(directory, f"differs from its manifest: {listing(problems, _SHOWN, '; ')}", _REMEDY)
    return Dataset(directory, manifest, storage)


def file_problems(directory: str, manifest: Manifest, storage: Storage = LOCAL) -> list[str]:
    """List problems by names and sizes of shards and indexes: missing, of another size, or foreign. Sorted by name.

    Empty if the storage cannot list files. Raises OSError if the directory cannot be listed.
    """
    problems: list[str] = []
    others = {name: file.size for name, file in manifest.sidecars.items() if is_shard(name) or is_index(name)}
    expected = others | manifest.sizes()
    try:
        present = sizes_by_name(storage, directory, sorted({os.path.dirname(name) for name in expected} - {""}))
    except UnsupportedOperation:
        return problems
    found = {name: size for name, size in present.items() if is_shard(name) or is_index(name)}
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            problems.append(f"{name} is missing")
        elif name not in expected:
            problems.append(f"{escape(name)} is not part of it")
        elif found[name] < 0:
            problems.append(f"{name} is {not_a_file(directory, name)}")
        elif found[name] != expected[name]:
            problems.append(f"{name} has {found[name]} bytes, expected {expected[name]}")
    return problems
