"""Images in folders named after their classes: `root/class/**/image`, or `root/split/class/**/image`.

Folders that are laid out for another task are refused: their names are no classes.
"""

import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.classes import ClassList, class_list, class_text
from shardfeed.converters.sources.files.listing import Globs, Listing
from shardfeed.converters.sources.files.walk import (
    SkippedFiles,
    list_files,
    no_files_error,
    only_images,
    shown_annotations,
)
from shardfeed.converters.sources.folders.other_layouts import refuse_other_layouts, with_labels, without_labels
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.image_classes import KnownClasses, Labels
from shardfeed.converters.sources.rows.rows import ListedSource, Rows
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import folder_splits, top_folders, usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import LABEL
from shardfeed.text import counted, some


class ImageFolder(ListedSource):
    """A folder of images with one subfolder per class, in which the files may be at any depth.

    If every folder in the root is named train, training, validation, valid, val, test or testing (in upper or lower
    case) and `class_names` does not name them all, these folders are splits, and contain the class folders. Every
    visible class folder is a class, even if it is empty, but not if it has files and no image. Class names are sorted
    as bytes, or as numbers if the folders are named 0 to K-1, or are in the order of `class_names`: a sequence of
    names, or the path of a file with one per line.

    Files that are not images, by name or by their first bytes, are skipped and counted in the notes. Images next to the
    class folders are in `findings.rejected`. `include`, `exclude`, `follow_links`: see `list_files`. Features:
    `image/class/label`, `image/class/text`. Raises UsageError if the folders are not classes, or belong to a COCO, YOLO
    or VOC dataset, or hold images and masks; with `class_names`, folders of images and masks are treated as classes.

    Example:
        source = ImageFolder("photos", class_names=["tulip", "rose", "daisy"])
        print(len(source), source[0].key)
        convert(source, "out")
    """

    def __init__(
        self,
        root: str | bytes | os.PathLike[str],
        *,
        class_names: ClassList | None = None,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
    ) -> None:
        given = class_list(class_names)
        files = list_files(root, include=include, exclude=exclude, follow_links=follow_links)
        if given is None:
            refuse_other_layouts(files)
        listing, others = only_images(files)
        splits = _splits(listing, given)
        found = _Found.of(listing, 2 if splits else 1)
        _check(listing, found, splits, given, others)
        rows = Rows(os.fsdecode(listing.root), LabelOptions(class_names=given))
        known = KnownClasses(place=rows.place, integers="names")
        rows.labels.append(labels := Labels(known=known))
        labels.add_many(_classes(listing, found), found.folder_of)
        if splits:
            rows.splits = Splits.coded([splits[top] for top in found.tops], found.top_of)
        rows.ledger.skip([*listing.skipped, *_rejected(found)])
        rows.ledger.notes += [*listing.notes, *others.notes]
        self.labels = others.labels
        super().__init__(listing.take(found.kept), rows, folder=listing.root)
        rows.ledger.notes += _notes(found, splits, labels.label_of, self.schema.class_names[LABEL], others)


@dataclass
class _Found:
    """Class folders at `depth` (1, or 2 under a split); strays are files above that depth.

    `kept` int64 [n]: numbers of the files in class folders. `folder_of`, `top_of` int64 [n]: their places in
    `folders` (class folders) and `tops` (folders in the root). `filled`: (top, folder) pairs that hold a file.
    """

    folders: list[bytes] = field(default_factory=list)
    tops: list[bytes] = field(default_factory=list)
    bare: list[bytes] = field(default_factory=list)
    strays: list[bytes] = field(default_factory=list)
    filled: set[tuple[bytes, bytes]] = field(default_factory=set)
    kept: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    folder_of: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    top_of: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, listing: Listing, depth: int) -> "_Found":
        """Sort a listing's files into folders, in one pass."""
        found = cls()
        folders: dict[bytes, int] = {}
        tops: dict[bytes, int] = {}
        kept, folder_of, top_of = array("q"), array("q"), array("q")
        for i, key in enumerate(listing):
            parts = key.split(b"/", depth)
            if len(parts) <= depth:
                found.strays.append(key)
                continue
            top, folder = parts[0], parts[depth - 1]
            kept.append(i)
            folder_of.append(folders.setdefault(folder, len(folders)))
            top_of.append(tops.setdefault(top, len(tops)))
            found.filled.add((top, folder))
        for key in listing.bare:
            parts = key.split(b"/")
            if len(parts) == depth:
                found.bare.append(key)
                folders.setdefault(parts[-1], len(folders))
        found.folders, found.tops = list(folders), list(tops)
        found.kept, found.folder_of, found.top_of = (np.array(n, np.int64) for n in (kept, folder_of, top_of))
        return found


def _splits(listing: Listing, given: tuple[str, ...] | None) -> dict[bytes, str]:
    """Return the split of each folder in the root; empty if the folders are classes."""
    tops = top_folders(listing)
    if given is not None and {class_text(top) for top in tops} <= set(given):
        return {}
    splits = folder_splits(listing)
    usual = [top for top in tops if usual_split(top)]
    if not splits and len({usual_split(top) for top in usual}) > 1:
        rest = [top for top in tops if top not in usual]
        problem = f"got the splits {some(usual)} beside {some(rest)}, expected only splits or only classes"
        remedy = f"move the others out, or give {argument('class_names')} when all are classes"
        raise UsageError(listing.root, problem, remedy)
    return splits


def _check(
    listing: Listing, found: _Found, splits: dict[bytes, str], given: tuple[str, ...] | None, others: SkippedFiles
) -> None:
    root = listing.root
    names = argument("pattern", python="FileNames", typed="REGEX")
    table = with_labels(root, others.labels)
    tables = f"give their labels by {table} (a table of paths and labels) or {names} (labels in the file names)"
    if not len(listing):
        raise no_files_error(listing)
    for top in splits:
        if any(key.startswith(top + b"/") for key in found.strays) and not any(t == top for t, _ in found.filled):
            place = root.rstrip(b"/") + b"/" + top
            left = argument("exclude", f"/{escape(top)}")
            alone = argument("unlabelled", python="Unlabelled")
            remedy = f"leave it out by {left} (and convert it alone by {alone}), or {tables}"
            raise UsageError(place, "got files and no class folders", remedy)
    if not found.folders:
        raise UsageError(root, "got files and no folders, expected one folder for each class", tables)
    only = escape(found.folders[0]) if len(found.folders) == 1 and given is None else ""
    places = {top + b"/" + (folder + b"/" if splits else b"") for top, folder in found.filled if only}
    inside = list(map(listing.children, places))
    deeper = sorted({name for names, _ in inside for name in names})
    if deeper and not any(files for _, files in inside):
        problem = f"got one class folder, '{only}', with only folders in it ({some(deeper)})"
        inner = b"" if splits else _innermost(listing, found.folders[0])
        root_ = f"'{escape(inner)}' in it" if inner.count(b"/") else "that folder"
        one = argument("class_names", python=f"class_names=['{only}']", typed=f"FILE with the line '{only}'")
        alone = without_labels() if others.labels else ""
        if others.labels:
            problem += f", next to annotations or lists: {shown_annotations(others.labels)}"
        way = f"give {root_} {argument('path', python='as the root')}"
        raise UsageError(root, problem, f"{way}, {alone}or {one} for one class")


def _innermost(listing: Listing, folder: bytes) -> bytes:
    """The last of the folders that hold one folder each and nothing else, from `folder` on, that has folders in it."""
    while True:
        names, files = listing.children(folder + b"/")
        inner = folder + b"/" + names[0]
        if len(names) > 1 or files or not listing.children(inner + b"/")[0]:
            return folder
        folder = inner


def _classes(listing: Listing, found: _Found) -> list[str]:
    """The class of each folder. Raises UsageError for two that would be the same."""
    folder_named: dict[str, bytes] = {}
    for folder in found.folders:
        twin = folder_named.setdefault(class_text(folder), folder)
        if twin != folder:
            raise UsageError(listing.root, f"the folders {some([twin, folder])} would be the same class", "rename one")
    return [*folder_named]


def _rejected(found: _Found) -> Iterator[Skipped]:
    for key in found.strays:
        yield Skipped(key, RejectCode.NO_LABEL.value, "an image next to the class folders")


def _notes(
    found: _Found,
    splits: Mapping[bytes, str],
    label_of: Mapping[str, int],
    names: Sequence[str],
    others: SkippedFiles,
) -> Iterator[str]:
    insides = [top + b"/" for top in splits] or [b""]
    imageless = [inside + name for inside in insides for name in others.files.children(inside)[0]]
    imageless = [folder for folder in imageless if folder.rpartition(b"/")[2] not in found.folders]
    if imageless:
        yield counted("folders without images, not used as classes", imageless, len(imageless))
    if found.bare:
        yield counted("empty class folders", found.bare, len(found.bare))
    for folder in found.folders if not splits else ():
        if usual_split(folder):
            yield f"the folder {escape(folder)} is used as a class, not as a split"
    for top in splits or (b"",):
        there = [folder for t, folder in found.filled if t == top] if splits else found.folders
        have = {label_of[class_text(folder)] for folder in there}
        if lacking := [name for label, name in enumerate(names) if label not in have]:
            what = f"classes without files in the split {splits[top]}" if splits else "listed classes without a folder"
            yield counted(what, lacking, len(lacking))
