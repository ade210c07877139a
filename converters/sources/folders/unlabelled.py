"""Images of which nothing is known but where they lie: every test set."""

import os

import numpy as np

from shardfeed.converters.sources.files.folder_splits import folder_splits
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.passed_over import only_images
from shardfeed.converters.sources.files.patterns import Globs
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.source import ListedSource
from shardfeed.converters.sources.source import Findings


class Unlabelled(ListedSource):
    """Every image under `root`, in whatever folders, without labels; other files are counted in a note.

    Where every folder in the root is called like a split (`train`, `val`, `test` ...) and no file lies beside them,
    those are splits. No features; the path relative to `root` is in `image/filename`, as of every image.
    `include`, `exclude`, `follow_links`: see `list_files`. Raises UsageError where there is no image.
    """

    def __init__(
        self,
        root: str | bytes | os.PathLike[str],
        *,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
    ) -> None:
        files = list_files(root, include=include, exclude=exclude, follow_links=follow_links)
        if not len(files):
            raise nothing_listed(files)
        listing, others = only_images(files)
        findings = Findings(listing.skipped, [*listing.notes, *others.notes], listing.root)
        super().__init__(listing, (), _splits(listing), findings)


def _splits(listing: Listing) -> Splits | None:
    folders = folder_splits(listing)
    if not folders or not all(b"/" in key for key in listing):
        return None
    names = tuple(sorted(set(folders.values())))
    return Splits(names, np.array([names.index(folders[key.partition(b"/")[0]]) for key in listing], np.int64))
