"""Splits by the names of folders."""

from collections.abc import Iterable

from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError


def top_folders(listing: Listing) -> list[bytes]:
    """The visible folders in the root, sorted, empty ones too."""
    tops = {folder.partition(b"/")[0] for folder in listing.bare}
    tops.update(listing.children()[0])
    return sorted(tops)


def folder_splits(listing: Listing) -> dict[bytes, str]:
    """The split by folder where every folder in the root has a usual split's name; else nothing.

    Raises UsageError when two folders mean the same split.
    """
    splits: dict[bytes, str] = {}
    for top in top_folders(listing):
        split = usual_split(top)
        if split is None:
            return {}
        if split in splits.values():
            raise UsageError(listing.root, f"more than one folder means the split {split!r}", "rename or merge them")
        splits[top] = split
    return splits


def splits_by_folder(listing: Listing, keys: Iterable[bytes]) -> list[str | None]:
    """For each of the keys the split that its folder in the root is called like, as `folder_splits` says."""
    folders = folder_splits(listing)
    return [folders.get(key.partition(b"/")[0]) if b"/" in key else None for key in keys]
