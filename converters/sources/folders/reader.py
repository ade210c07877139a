"""A folder of images: in class folders, with labels in their names, or without labels."""

import os
import re
from collections.abc import Mapping, Sequence

from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.annotation_files import AnnotationFile
from shardfeed.converters.sources.files.listing import Globs, Listing, names_image
from shardfeed.converters.sources.files.walk import list_files, no_files_error, only_images, shown_annotations
from shardfeed.converters.sources.folders.file_names import FileNames
from shardfeed.converters.sources.folders.image_folder import ImageFolder
from shardfeed.converters.sources.folders.other_layouts import (
    are_units,
    generic_names,
    is_generic,
    is_part,
    keep_classes,
    label_table,
    read_otherwise,
    with_labels,
    without_labels,
)
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.readers import Evidence
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.rows import ListedSource, Rows
from shardfeed.converters.sources.split_names import folder_splits, split_words_in, usual_split
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import LABEL
from shardfeed.text import some

_NUMBERED = re.compile(r"\d{3,}|\d+_.*")  # of shards, and of repeats in training: `00000`, `10_sks dog`


def recognise(look: Look, options: LabelOptions) -> Evidence | None:
    """Several folders that are called like classes and hold images; sure where a class list has their names."""
    if not look.is_folder:
        return None
    folders = list(look.names()[0])
    if folders and all(usual_split(name) for name in folders):
        folders = sorted({inner for name in folders for inner in look.names(name)[0]})
        inside = {name: [f"{top}/{name}" for top in look.names()[0]] for name in folders}
    else:
        inside = {name: [name] for name in folders}
    if options.class_names is not None and folders:
        names = class_list(options.class_names) if not isinstance(options.class_names, Mapping) else ()
        if {*folders} <= {*(names or ())}:
            return Evidence("folder", f"class folders ({some(folders)})", sure=True)
    files = {name: (file for place in inside[name] for file in look.names(place)[1]) for name in folders}
    holding = [name for name in folders if any(names_image(os.fsencode(file)) for file in files[name])]
    named = [name for name in holding if not is_generic(name) and not _NUMBERED.fullmatch(name)]
    if len(named) > 1 and len(named) == len(holding):
        return Evidence("folder", f"class folders ({some(named)})")
    return None


def read(look: Look, options: LabelOptions) -> ListedSource:
    """An `ImageFolder`, or `FileNames` if there are no folders or a pattern is given, or `Unlabelled`."""
    wanted = {"include": look.include, "exclude": look.exclude, "follow_links": look.follow_links}
    if options.unlabelled:
        return Unlabelled(look.path, **wanted)
    if isinstance(options.class_names, Mapping):
        raise UsageError("class_names", "got a mapping, which is for the columns of a label file", "give the names")
    if options.pattern is not None or look.is_flat:
        return FileNames(look.path, pattern=options.pattern, class_names=options.class_names, **wanted)
    found = ImageFolder(look.path, class_names=options.class_names, **wanted)
    if options.class_names is None:
        names = found.schema.class_names[LABEL]
        doubts = generic_names(names)
        unlike = len(doubts) == len(names) or (found.labels and (len(names) == 1 or doubts)) or are_units(names)
        if not (unlike and found.labels):
            _check_splits(look, names, classes_alone=bool(unlike))
        if unlike:
            raise _not_classes(look, names, found.labels)
        _check_names(look, found, names)
    return found


def _not_classes(look: Look, names: Sequence[str], labels: Mapping[bytes, AnnotationFile]) -> UsageError:
    """The error for folders whose names or neighbours say that they may not be classes."""
    root = os.fsencode(look.path)
    way = f"give {with_labels(root, labels)} if it has labels; " if label_table(root, labels) else ""
    splits = [name for name in look.names()[0] if usual_split(name)]
    way += f"give only {some(splits)} if its folders are classes; " if splits else ""
    way += "" if splits else _inner_classes(look, names)
    problem = f"its folders ({some(names)}) may not be classes"
    if labels:
        problem += f": next to them are annotations or lists that are not read: {shown_annotations(labels)}"
        way += read_otherwise(labels)
    elif len(names) == 1 and not splits:
        way += f"give {escape(names[0])} as SOURCE if the names of its files or folders have the classes; "
    return UsageError(look.path, problem, f"{way}{without_labels()}{keep_classes()}")


def _check_splits(look: Look, names: Sequence[str], *, classes_alone: bool) -> None:
    """Raise UsageError if the folders are named like splits; with `classes_alone` only if classes are in them."""
    words = list(filter(split_words_in, names))
    if len(words) > 1 and 2 * len(words) > len(names):
        deeper = {name: look.names(name)[0] for name in words}
        inner = [f"{name}/{deeper[name][0]}" for name in words if deeper[name]]
        way = f"give {' or '.join(map(escape, inner or words))} alone, {'' if inner else without_labels()}"
        classes = any(len(generic_names(those)) < len(those) > 1 for those in deeper.values())
        if classes_alone and not classes:
            return
        if classes:
            said = "|".join(sorted({word for name in words for word in split_words_in(name)}, reverse=True))
            whole = argument("pattern", rf"[^/]*(?P<split>{said})[^/]*/(?P<label>[^/]+)/.+")
            way = f"give {whole} if the folders in them are classes, "
        problem = f"its folders ({some(names)}) are named like splits"
        raise UsageError(look.path, problem, f"{way}{keep_classes()}")


def _check_names(look: Look, found: ImageFolder, names: Sequence[str]) -> None:
    """Raise UsageError if the class folders hold nothing but folders."""
    if found.splits is None and not any(key.count(b"/") == 1 for key in found.listing):
        deeper = sorted({name for top in names for name in look.names(top)[0]})
        if not all(map(is_generic, deeper)):
            problem = f"its folders ({some(names)}) hold only folders ({some(deeper)}): which are the classes?"
            whole = f"give {argument('pattern', r'(?P<label>.+)/[^/]+')} if the path to an image is its class, "
            raise UsageError(look.path, problem, f"{_inner_classes(look, names)}{whole}{keep_classes()}")


def _inner_classes(look: Look, names: Sequence[str]) -> str:
    """The beginning of a remedy where folders hold only folders, which may be the classes; else ""."""
    inner = [look.names(name) for name in names]
    deeper = {name for folders, _ in inner for name in folders}
    if len(deeper) < 2 or any(names_image(os.fsencode(file)) for _, files in inner for file in files):
        return ""
    if are_units([*deeper]) or any(map(is_part, deeper)):
        return ""
    return f"give {argument('pattern', r'.+/(?P<label>[^/]+)/[^/]+')} if the folders in them are the classes; "


class Unlabelled(ListedSource):
    """All images under `root`, in any subfolders, without labels; other files are counted in a note.

    If every folder in the root, or in the one folder that holds all images, is named like a split (`train`, `val`,
    `test` ...) and there are no files next to them, the folders are splits. There are no features; the path relative to
    `root` is in `image/filename`, as for every image. `include`, `exclude`, `follow_links`: see `list_files`. Raises
    UsageError if there is no image.

    Example:
        convert(Unlabelled("photos"), "out")
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
            raise no_files_error(files)
        listing, others = only_images(files)
        rows = Rows(os.fsdecode(listing.root), LabelOptions())
        rows.splits = _splits(listing)
        rows.ledger.skip(listing.skipped)
        rows.ledger.notes += [*listing.notes, *others.notes]
        super().__init__(listing, rows, folder=listing.root)


def _splits(listing: Listing) -> Splits | None:
    """Find splits by the folders in the common folder of all images (`images/100k/train`, `val`), else in the root."""
    ends = [os.path.dirname(listing.key(i)) for i in (0, len(listing) - 1)]  # sorted: all others begin as both do
    for folder in dict.fromkeys((os.path.join(os.path.commonpath(ends), b""), b"")):
        folders, start = folder_splits(listing, folder), len(folder)
        if folders and all(b"/" in key[start:] for key in listing):
            return Splits.of([folders[key[start:].partition(b"/")[0]] for key in listing])
    return None
