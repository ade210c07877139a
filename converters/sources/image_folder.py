"""A folder of images: in class folders, with labels in their names, or without labels.

root/class/**/image, root/split/class/**/image        folders named after their classes
cat.123.jpg, cat_0001.jpg, 3_cat.jpg                  classes in file names

Folders that are laid out for another task are refused: their names are no classes.
"""

import os
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.classes import BadLabelError, ClassList, class_list, class_text, classes_by_folder
from shardfeed.converters.sources.files.annotation_files import AnnotationFile
from shardfeed.converters.sources.files.folder_layouts import (
    are_units,
    generic_names,
    is_generic,
    is_part,
    keep_classes,
    label_table,
    read_otherwise,
    refuse_other_layouts,
    with_labels,
    without_labels,
)
from shardfeed.converters.sources.files.listing import (
    Globs,
    Listing,
    folder_splits,
    names_image,
    split_level,
    split_named,
    split_words_in,
    splits_meant,
    top_folders,
)
from shardfeed.converters.sources.files.name_patterns import NamePattern
from shardfeed.converters.sources.files.text import encoding_remedy, look_at_names, name_as_text
from shardfeed.converters.sources.files.walk import SkippedFiles, only_images, shown_annotations, some_files
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.rows.columns import Codes, KnownClasses, Labels, Splits
from shardfeed.converters.sources.rows.rows import ListedSource, Rows
from shardfeed.declared import checked
from shardfeed.errors import UsageError, argument, as_source, escape, name_text
from shardfeed.schema import LABEL
from shardfeed.split_words import usual_split
from shardfeed.text import counted, some

# A name and the image's number, in either order. The name begins with a letter and so does not fit both, and its last
# part has a letter: in `cat_2020_01.jpg` it is unclear whether 2020 belongs to the class.
_CLASS = r"(?P<label>(?=[^\W\d_])(?:.*[ ._-])?(?=[^ ._-]*[^\W\d_])[^ ._-]+)"
_USUAL = (re.compile(rf"{_CLASS}[ ._-]+\(?\d+\)?\.\w+"), re.compile(rf"\d+[ ._-]+{_CLASS}\.\w+"))
_EXAMPLE = r"(?P<label>[^_]+)_.*"
_NUMBERED = re.compile(r"\d{3,}|\d+_.*")  # of shards, and of repeats in training: `00000`, `10_sks dog`


@checked
class FileNames(ListedSource):
    r"""A folder of images, in any subfolders, with the class of each in its file name.

    `pattern`: a regular expression for the whole file name, including the extension, or, if it contains a "/", for the
    whole path relative to `root`. Its group `label` is the class, its optional group `split` the split:
    `r"(?P<split>\w+)/(?P<label>[a-z]+)\d+\.jpg"`. Without a pattern, names of image files are a class and a number
    (`cat.123.jpg`, `cat_0001.jpg`, `cat (1).jpg`), or a number and a class (`3_cat.jpg`), but not both; the number
    belongs to the image, not to the class. If every folder in the root is named like a split and the pattern has no
    group `split`, the folders are splits.

    Class names are sorted, or in the order of `class_names`; integer labels are kept if they are 0 to K-1. Images whose
    name does not match are in `findings.rejected`. Files that are not images, by name or by their first bytes, are
    skipped and counted in the notes. `include`, `exclude`, `follow_links`: see `list_files`. Features:
    `image/class/label`, `image/class/text`. Raises UsageError if no class can be found in the names.

    Example:
        convert(FileNames("photos", pattern=r"(?P<label>\w+)/\d+[.]jpg"), "out")
    """

    def __init__(
        self,
        root: str | bytes | os.PathLike[str],
        *,
        pattern: str | None = None,
        class_names: ClassList | None = None,
        include: Globs = (),
        exclude: Globs = (),
        follow_links: bool = False,
    ) -> None:
        given = class_list(class_names)
        asked = None if pattern is None else _given(pattern)
        files = some_files(root, include=include, exclude=exclude, follow_links=follow_links)
        if asked is None and given is None:
            refuse_other_layouts(files)
        listing, others = only_images(files)
        chosen = asked or _usual_pattern(listing, others)
        found = _Matches(listing, chosen)
        if not found.kept:
            raise _unlike(listing, f"no file name matches the pattern {chosen.pattern!r}")
        rows = Rows(os.fsdecode(listing.root), LabelOptions(class_names=given))
        known = KnownClasses(place=rows.place, refuse=partial(found.refused, found.texts))
        rows.labels.append(labels := Labels(known=known))
        labels.add_many([*found.texts.values], found.texts.codes)
        rows.splits = found.split_column()
        rows.ledger.skip(listing.skipped)
        for key in found.strays:
            reason = "the file name does not match the pattern, or the file is in no split"
            rows.ledger.reject(key, RejectCode.NO_LABEL, reason)
        rows.ledger.notes += [*listing.notes, *others.notes]
        super().__init__(listing.take(np.array(found.kept, np.int64)), rows, folder=listing.root)
        if asked is None and given is None:
            _check_texts(listing, others, self.schema.class_names[LABEL])


class _Matches:
    """Labels and splits from file names. `kept` [n]: numbers of files with matching names; `strays`: keys of others.

    `texts`, `splits`: the label and the split of each in `kept`; without splits if names have none.
    """

    def __init__(self, listing: Listing, pattern: re.Pattern[str] | NamePattern) -> None:
        self.listing, self.kept, self.strays = listing, array("q"), list[bytes]()
        self.texts, self.splits = Codes(), Codes()
        whole, says_split = "/" in pattern.pattern, "split" in pattern.groupindex
        folders = {} if says_split else folder_splits(listing)
        for i, key in enumerate(listing):
            match = _fit(pattern, key, whole)
            said = match["split"] if match and says_split else None
            split = said if says_split else folders.get(key.partition(b"/")[0])
            if not match or not match["label"] or (not split and (says_split or folders)):
                self.strays.append(key)
                continue
            self.kept.append(i)
            self.texts.add(match["label"])
            if split:
                self.splits.add(split)

    def refused(self, of: Codes, error: BadLabelError) -> UsageError:
        """The error for a text, with the first file that has it."""
        first = self.kept[int(np.argmax(of.codes == of.values[error.value]))]
        return UsageError(self.listing.file(first).path, error.problem, error.remedy)

    def split_column(self) -> Splits | None:
        """The split of each file. Raises UsageError for a text that is none."""
        named: list[str] = []
        for split in self.splits.values:
            try:
                named.append(split_named(split))
            except UsageError as error:
                bad = BadLabelError(split, f"the split: {error.problem}", error.remedy)
                raise self.refused(self.splits, bad) from None
        return Splits.coded(named, self.splits.codes) if named else None


def _given(pattern: str) -> NamePattern:
    return NamePattern("pattern", pattern, needs="label", example=repr(_EXAMPLE))


def _fit(pattern: re.Pattern[str] | NamePattern, key: bytes, whole: bool) -> Mapping[str, Any] | re.Match[str] | None:
    name = key if whole else key.rpartition(b"/")[2]
    return pattern.fullmatch(name.decode("utf-8", "surrogateescape"))


def _usual_pattern(listing: Listing, others: SkippedFiles) -> re.Pattern[str]:
    """The one of the two usual patterns that names fit."""
    fits = [pattern for pattern in _USUAL if any(_fit(pattern, key, False) for key in listing)]
    if len(fits) == 1:
        return fits[0]
    both = "some names are a class and a number, others a number and a class"
    raise _unlike(listing, both if fits else "file names contain no class", others)


def _check_texts(listing: Listing, others: SkippedFiles, names: Sequence[str]) -> None:
    """Raise UsageError if the texts in usual places of file names are no classes."""
    if len(names) == 1:
        raise _unlike(listing, f"all matching names have the same class, {names[0]!r}", others)
    if all(map(is_part, names)):
        raise _unlike(listing, f"{some(names)} in file names are rarely classes", others)
    if any(one.is_sure for one in others.labels.values()):
        raise _unlike(listing, f"{some(names)} in file names may not be the classes", others)


def _unlike(listing: Listing, problem: str, others: SkippedFiles | None = None) -> UsageError:
    """Return an error that shows three very different names, and files with labels, and asks for a pattern."""
    labels = others.labels if others else {}
    if labels:
        problem += f"; annotations or lists that are not read: {shown_annotations(labels)}"
    keys = [listing.key(i) for i in sorted({0, len(listing) // 2, len(listing) - 1})]
    pattern = argument("pattern", typed="REGEX")
    remedy = f"give {pattern} with a group 'label', such as {_EXAMPLE!r}, or"
    remedy += f" {with_labels(listing.root, labels)}"
    remedy += f", or {argument('unlabelled', python='Unlabelled')} to convert without labels"
    otherwise = read_otherwise(labels) if any(one.is_sure for one in labels.values()) else ""
    return UsageError(listing.root, f"{problem}; names are for example {some(keys)}", otherwise + remedy)


@checked
class ImageFolder(ListedSource):
    """A folder of images with one subfolder per class, in which the files may be at any depth.

    If every folder in the root is named train, training, validation, valid, val, test or testing (in upper or lower
    case), these folders are splits, and contain the class folders; if `class_names` names them all, only where every
    image in them is in the folder of a listed class, as `train/train/1.jpg` of the class train. A folder `a%2Fb` is
    that of a listed class `a/b`, as an export writes it. Every
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
        files = some_files(root, include=include, exclude=exclude, follow_links=follow_links)
        if given is None:
            refuse_other_layouts(files)
        listing, others = only_images(files)
        listed = classes_by_folder(given or ())
        splits = _top_splits(listing, None if given is None else listed.keys())
        found = _ClassFolders(listing, 2 if splits else 1)
        _check(listing, found, splits, given, others)
        rows = Rows(os.fsdecode(listing.root), LabelOptions(class_names=given))
        known = KnownClasses(place=rows.place, integers="names")
        rows.labels.append(labels := Labels(known=known))
        classes = _classes(listing, found, listed)
        labels.add_many(classes, found.folder_of)
        if splits:
            rows.splits = Splits.coded([splits[top] for top in found.tops], found.top_of)
        rows.ledger.skip(listing.skipped)
        for key in found.strays:
            rows.ledger.reject(key, RejectCode.NO_LABEL, "an image next to the class folders")
        rows.ledger.notes += [*listing.notes, *others.notes]
        self.labels = others.labels
        super().__init__(listing.take(found.kept), rows, folder=listing.root)
        label_of = {
            class_text(folder): labels.label_of[name] for folder, name in zip(found.folders, classes, strict=True)
        }
        rows.ledger.notes += _notes(found, splits, label_of, self.schema.class_names[LABEL], others)


class _ClassFolders:
    """The files of a listing in class folders at `depth` (1, or 2 under a split); strays are files above that depth.

    `kept` int64 [n]: numbers of the files in class folders. `folder_of`, `top_of` int64 [n]: their places in
    `folders` (class folders) and `tops` (folders in the root). `filled`: (top, folder) pairs that hold a file.
    """

    def __init__(self, listing: Listing, depth: int) -> None:
        self.strays, self.bare, self.filled = list[bytes](), list[bytes](), set[tuple[bytes, bytes]]()
        folders: dict[bytes, int] = {}
        tops: dict[bytes, int] = {}
        kept, folder_of, top_of = array("q"), array("q"), array("q")
        for i, key in enumerate(listing):
            parts = key.split(b"/", depth)
            if len(parts) <= depth:
                self.strays.append(key)
                continue
            top, folder = parts[0], parts[depth - 1]
            kept.append(i)
            folder_of.append(folders.setdefault(folder, len(folders)))
            top_of.append(tops.setdefault(top, len(tops)))
            self.filled.add((top, folder))
        for key in listing.bare:
            parts = key.split(b"/")
            if len(parts) == depth:
                self.bare.append(key)
                folders.setdefault(parts[-1], len(folders))
        self.folders, self.tops = list(folders), list(tops)
        self.kept, self.folder_of, self.top_of = (np.array(n, np.int64) for n in (kept, folder_of, top_of))


def _top_splits(listing: Listing, listed: Collection[bytes] | None) -> dict[bytes, str]:
    """Return the split of each folder in the root; empty if the folders are classes.

    `listed`: the folders of the class list, if there is one. Where both a split and a class may be called so, as the
    class train, folders are splits if every image in them is in the folder of a class of the list.
    """
    tops = top_folders(listing)
    if listed is not None and all(top in listed for top in tops):
        return folder_splits(listing) if _are_inside(listing, listed) else {}
    splits = folder_splits(listing)
    usual = [top for top in tops if usual_split(top)]
    if not splits and len({usual_split(top) for top in usual}) > 1:
        rest = [top for top in tops if top not in usual]
        problem = f"got the splits {some(usual)} beside {some(rest)}, expected only splits or only classes"
        remedy = f"move the others out, or give {argument('class_names')} when all are classes"
        raise UsageError(listing.root, problem, remedy)
    return splits


def _are_inside(listing: Listing, folders: Collection[bytes]) -> bool:
    """Whether each file is in one of those folders, which are in the folders of the root."""
    parts = (key.split(b"/", 2) for key in listing)
    return all(len(names) > 2 and names[1] in folders for names in parts)


def _check(
    listing: Listing,
    found: _ClassFolders,
    splits: dict[bytes, str],
    given: tuple[str, ...] | None,
    others: SkippedFiles,
) -> None:
    """Raise UsageError where folders are missing in which files of a class would be."""
    names = argument("pattern", python="FileNames", typed="REGEX")
    table = with_labels(listing.root, others.labels)
    tables = f"give their labels by {table} (a table of paths and labels) or {names} (labels in the file names)"
    for top in splits:
        _check_split(listing, found, top, tables)
    if not found.folders:
        raise UsageError(listing.root, "got files and no folders, expected one folder for each class", tables)
    if len(found.folders) == 1 and given is None:
        _check_only(listing, found, splits, others)


def _check_split(listing: Listing, found: _ClassFolders, top: bytes, tables: str) -> None:
    """Raise UsageError for the folder of a split with files and no class folder; `tables`: how labels can be given."""
    has_files = any(key.startswith(top + b"/") for key in found.strays)
    has_classes = any(filled == top for filled, _ in found.filled)
    if has_files and not has_classes:
        left = argument("exclude", f"/{escape(top)}")
        alone = argument("unlabelled", python="Unlabelled")
        remedy = f"leave it out by {left} (and convert it alone by {alone}), or {tables}"
        raise UsageError(os.path.join(listing.root, top), "got files and no class folders", remedy)


def _check_only(listing: Listing, found: _ClassFolders, splits: Collection[bytes], others: SkippedFiles) -> None:
    """Raise UsageError for one class folder that holds nothing but folders."""
    only, labels = found.folders[0], others.labels
    places = [top + b"/" + (folder + b"/" if splits else b"") for top, folder in found.filled]
    inside = [listing.children(place) for place in places]
    deeper = sorted({name for names, _ in inside for name in names})
    if not deeper or any(files for _, files in inside):
        return
    problem = f"got one class folder, '{escape(only)}', with only folders in it ({some(deeper)})"
    raise _only_around(listing, only, problem, labels, in_split=bool(splits))


def _only_around(
    listing: Listing, only: bytes, problem: str, labels: Mapping[bytes, AnnotationFile], *, in_split: bool
) -> UsageError:
    """Return the error for a folder around others, which are given instead, unless it is in the folder of a split."""
    problem += f", next to annotations or lists: {shown_annotations(labels)}" if labels else ""
    called = "that folder"
    if not in_split:
        inner = _innermost(listing, only)
        called = as_source(os.path.join(listing.root, inner), f"'{escape(inner)}' in it" if b"/" in inner else called)
    one = argument(
        "class_names", python=f"class_names=['{escape(only)}']", typed=f"FILE with the line '{escape(only)}'"
    )
    way = f"give {called} {argument('path', python='as the root')}"
    alone = without_labels() if labels else ""
    return UsageError(listing.root, problem, f"{way}, {alone}or {one} for one class")


def _innermost(listing: Listing, folder: bytes) -> bytes:
    """The last of the folders that hold one folder each and nothing else, from `folder` on, that has folders in it."""
    while True:
        names, files = listing.children(folder + b"/")
        inner = folder + b"/" + names[0]
        if len(names) > 1 or files or not listing.children(inner + b"/")[0]:
            return folder
        folder = inner


def _classes(listing: Listing, found: _ClassFolders, listed: Mapping[bytes, str]) -> list[str]:
    """The class of each folder; `listed`: listed classes by folder. Raises UsageError for two of the same class."""
    look_at_names(found.folders)
    folder_named: dict[str, bytes] = {}
    for folder in found.folders:
        twin = folder_named.setdefault(listed.get(folder) or class_text(folder), folder)
        if twin != folder:
            raise UsageError(listing.root, f"the folders {some([twin, folder])} would be the same class", "rename one")
    return [*folder_named]


def _notes(
    found: _ClassFolders,
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
    yield from _foreign_names(found.folders)
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


def _foreign_names(folders: Sequence[bytes]) -> Iterator[str]:
    """Yield a note on class folders whose names are not UTF-8, with an encoding that reads them."""
    if foreign := [folder for folder in folders if name_as_text(folder) is None]:
        note = counted("class folders whose names are not UTF-8", foreign, len(foreign))
        yield f"{note}; {encoding_remedy(name_text(b' '.join(foreign)))}"


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
    way += f"give only {_each_as_source(look, splits)} if its folders are classes; " if splits else ""
    way += "" if splits else _inner_classes(look, names)
    problem = f"its folders ({some(names)}) may not be classes"
    if labels:
        problem += f": next to them are annotations or lists that are not read: {shown_annotations(labels)}"
        way += read_otherwise(labels)
    elif len(names) == 1 and not splits:
        inner = as_source(os.path.join(look.path, names[0]), escape(names[0]))
        way += f"give {inner} as SOURCE if the names of its files or folders have the classes; "
    return UsageError(look.path, problem, f"{way}{without_labels()}{keep_classes()}")


def _each_as_source(look: Look, folders: Sequence[str], between: str = ", ") -> str:
    """Format folders of which each can be given alone: the first three."""
    each = [as_source(os.path.join(look.path, folder), escape(folder)) for folder in folders[:3]]
    return between.join([*each, *(["..."] if len(folders) > 3 else [])])


def _check_splits(look: Look, names: Sequence[str], *, classes_alone: bool) -> None:
    """Raise UsageError if the folders are named like splits; with `classes_alone` only if classes are in them."""
    words = list(filter(split_words_in, names))
    if len(words) > 1 and 2 * len(words) > len(names):
        deeper = {name: look.names(name)[0] for name in words}
        inner = [f"{name}/{deeper[name][0]}" for name in words if deeper[name]]
        way = f"give {_each_as_source(look, inner or words, ' or ')} alone, {'' if inner else without_labels()}"
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


@checked
class Unlabelled(ListedSource):
    """All images under `root`, in any subfolders, without labels; other files are counted in a note.

    If every folder in the root, or in the one folder that holds all images, is named like a split (`train`, `val`,
    `test` ...) and there are no files next to them, the folders are splits; so are the folders of a level that all have
    such a word in their names (`trainA`, `trainB`, `testA`). There are no features; the path relative to
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
        listing, others = only_images(some_files(root, include=include, exclude=exclude, follow_links=follow_links))
        rows = Rows(os.fsdecode(listing.root), LabelOptions())
        rows.splits = _common_splits(listing)
        rows.ledger.skip(listing.skipped)
        rows.ledger.notes += [*listing.notes, *others.notes]
        super().__init__(listing, rows, folder=listing.root)


def _common_splits(listing: Listing) -> Splits | None:
    """Find splits by the folders in the common folder of all images (`images/100k/train`, `val`), else in the root.

    Else by the words in the names of all folders of one level: `trainA`, `testA`.
    """
    ends = [os.path.dirname(listing.key(i)) for i in (0, len(listing) - 1)]  # sorted: all others begin as both do
    for folder in dict.fromkeys((os.path.join(os.path.commonpath(ends), b""), b"")):
        folders, start = folder_splits(listing, folder), len(folder)
        if folders and all(b"/" in key[start:] for key in listing):
            return Splits.of([folders[key[start:].partition(b"/")[0]] for key in listing])
    paths = [os.fsdecode(key).split("/")[:-1] for key in listing]
    level = split_level(paths)
    return None if level is None else Splits.of([splits_meant(path[level]).pop() for path in paths])
