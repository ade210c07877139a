"""Images with classes in their file names: `cat.123.jpg`, `cat_0001.jpg`, `3_cat.jpg`."""

import os
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.classes import BadLabelError, ClassList, class_list
from shardfeed.converters.sources.files.listing import Globs, Listing
from shardfeed.converters.sources.files.walk import (
    SkippedFiles,
    list_files,
    no_files_error,
    only_images,
    shown_annotations,
)
from shardfeed.converters.sources.folders.other_layouts import (
    is_part,
    read_otherwise,
    refuse_other_layouts,
    with_labels,
)
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.image_classes import KnownClasses, Labels
from shardfeed.converters.sources.rows.rows import ListedSource, Rows
from shardfeed.converters.sources.source import Skipped
from shardfeed.converters.sources.split_names import folder_splits, split_named
from shardfeed.errors import UsageError, argument
from shardfeed.schema import LABEL
from shardfeed.text import some

# A name and the image's number, in either order. The name begins with a letter and so does not fit both, and its last
# part has a letter: in `cat_2020_01.jpg` it is unclear whether 2020 belongs to the class.
_CLASS = r"(?P<label>(?=[^\W\d_])(?:.*[ ._-])?(?=[^ ._-]*[^\W\d_])[^ ._-]+)"
_USUAL = (re.compile(rf"{_CLASS}[ ._-]+\(?\d+\)?\.\w+"), re.compile(rf"\d+[ ._-]+{_CLASS}\.\w+"))
_EXAMPLE = r"(?P<label>[^_]+)_.*"


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
        asked = None if pattern is None else _compile(pattern)
        files = list_files(root, include=include, exclude=exclude, follow_links=follow_links)
        if not len(files):
            raise no_files_error(files)
        if asked is None and given is None:
            refuse_other_layouts(files)
        listing, others = only_images(files)
        chosen = asked or _usual_pattern(listing, others)
        found = _Found.of(listing, chosen)
        if not found.kept:
            raise _unlike(listing, f"no file name matches the pattern {chosen.pattern!r}")
        rows = Rows(os.fsdecode(listing.root), LabelOptions(class_names=given))
        known = KnownClasses(place=rows.place, refuse=partial(_refuse, listing, found))
        rows.labels.append(labels := Labels(known=known))
        labels.add_many([*found.texts], np.array(found.text_of, np.int64))
        rows.splits = _splits(listing, found) if found.splits else None
        rows.ledger.skip([*listing.skipped, *_rejected(found)])
        rows.ledger.notes += [*listing.notes, *others.notes]
        super().__init__(listing.take(np.array(found.kept, np.int64)), rows, folder=listing.root)
        if asked is None and given is None:
            _check_names(listing, others, self.schema.class_names[LABEL])


@dataclass
class _Found:
    """Labels and splits from file names.

    `kept` [n]: numbers of files with matching names; `text_of`, `split_of` [n]: indices into `texts` and `splits`,
    which have each text with the number of its first file. `splits` is empty if names have none.
    """

    kept: "array[int]" = field(default_factory=lambda: array("q"))
    texts: dict[str, int] = field(default_factory=dict)
    text_of: "array[int]" = field(default_factory=lambda: array("q"))
    splits: dict[str, int] = field(default_factory=dict)
    split_of: "array[int]" = field(default_factory=lambda: array("q"))
    strays: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, listing: Listing, pattern: re.Pattern[str]) -> "_Found":
        """Read every name."""
        found = cls()
        whole, says_split = "/" in pattern.pattern, "split" in pattern.groupindex
        folders = {} if says_split else folder_splits(listing)
        text_places: dict[str, int] = {}
        split_places: dict[str, int] = {}
        for i, key in enumerate(listing):
            match = _fit(pattern, key, whole)
            split = match and match["split"] if says_split else folders.get(key.partition(b"/")[0])
            if not match or not match["label"] or (not split and (says_split or folders)):
                found.strays.append(key)
                continue
            found.kept.append(i)
            found.texts.setdefault(match["label"], i)
            found.text_of.append(text_places.setdefault(match["label"], len(text_places)))
            if split:
                found.splits.setdefault(split, i)
                found.split_of.append(split_places.setdefault(split, len(split_places)))
        return found


def _fit(pattern: re.Pattern[str], key: bytes, whole: bool) -> re.Match[str] | None:
    name = key if whole else key.rpartition(b"/")[2]
    return pattern.fullmatch(name.decode("utf-8", "surrogateescape"))


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError("pattern", f"{pattern!r} is not a valid regular expression: {error}", "correct it") from None
    if "label" not in compiled.groupindex:
        raise UsageError("pattern", f"{pattern!r} has no group 'label'", f"write it like {_EXAMPLE!r}")
    return compiled


def _usual_pattern(listing: Listing, others: SkippedFiles) -> re.Pattern[str]:
    """The one of the two usual patterns that names fit."""
    fits = [pattern for pattern in _USUAL if any(_fit(pattern, key, False) for key in listing)]
    if len(fits) == 1:
        return fits[0]
    both = "some names are a class and a number, others a number and a class"
    raise _unlike(listing, both if fits else "file names contain no class", others)


def _check_names(listing: Listing, others: SkippedFiles, names: Sequence[str]) -> None:
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


def _refuse(listing: Listing, found: _Found, error: BadLabelError) -> UsageError:
    """The error for a class, with the first file that has it."""
    return UsageError(listing.file(found.texts[error.value]).path, error.problem, error.remedy)


def _splits(listing: Listing, found: _Found) -> Splits:
    named: list[str] = []
    for split, first in found.splits.items():
        try:
            named.append(split_named(split))
        except UsageError as error:
            raise UsageError(listing.file(first).path, f"the split: {error.problem}", error.remedy) from None
    return Splits.coded(named, np.array(found.split_of))


def _rejected(found: _Found) -> list[Skipped]:
    reason = "the file name does not match the pattern, or the file is in no split"
    return [Skipped(key, RejectCode.NO_LABEL.value, reason) for key in found.strays]
