"""The rules by which a reading holds: each looks at what the reading gives, and says what speaks against it.

A reading that the user did not ask for, as advice is, has to pass all of them.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from shardfeed.converters.sources.files.folder_layouts import are_units, is_generic
from shardfeed.converters.sources.files.listing import COPY_FOLDERS, MASK_FOLDERS, MASK_WORD, splits_meant
from shardfeed.converters.sources.recognition.outcome import Outcome
from shardfeed.errors import escape
from shardfeed.split_words import usual_split
from shardfeed.text import number, some

Rule = Callable[[Outcome], str]

_UNNAMED = frozenset(("no_label", "nolabel", "unlabeled", "unlabelled", "unknown_label", "none", "null"))
_LOOKED_AT = 2000  # names of files, spread evenly, that are searched for words
_FEW = 4  # classes of one image each, which may be the beginning of a dataset
_ALIKE = 0.9  # of the files of a folder that another one has, too, for them to be pictures of the same samples
# Words at the end of names of files for one of the pictures of a sample.
_ROLES = "left|right|disp|disparity|depth|flow|mask|gt|normals?|rgb|image|img|ir|thermal"
_ROLE = re.compile(rf"(?:[_.-](?:{_ROLES}))+\Z", re.IGNORECASE)

_MASK_FILE = re.compile(rf"(?:^|[/_.-])(?:{MASK_WORD.decode()})\.\w+\Z", re.IGNORECASE)


def faults_of(outcome: Outcome, rules: Iterable[Rule]) -> list[str]:
    """Return what speaks against a reading: a clause for each rule that it breaks."""
    return [fault for rule in rules if (fault := rule(outcome))]


def _splits_in(folders: Iterable[str]) -> set[str]:
    """The splits that words in the names of folders mean."""
    return set().union(*map(splits_meant, folders))


def puts_splits_together(outcome: Outcome) -> str:
    """Folders are named like splits, and the reading has none."""
    if outcome.splits:
        return ""
    named = [splits for splits in map(_splits_in, outcome.parts.values()) if splits]
    seen = set().union(*named)
    parts = {part for folders in outcome.parts.values() for part in folders}
    if kept_apart := sorted(part for part in parts if usual_split(part) in ("validation", "test")):
        return f"the images of {some(kept_apart)} would not be kept apart"
    if len(seen) < 2 or 2 * len(named) < len(outcome.parts):
        return ""
    return f"{' and '.join(sorted(seen))} would be one split"


def splits_some(outcome: Outcome) -> str:
    """Some images have a split, and others have none."""
    lacking = outcome.splits.get(None, 0)
    return f"{number(lacking, 'image')} would be in no split" if 0 < lacking < outcome.images else ""


def leaves_images_out(outcome: Outcome) -> str:
    """Some images have no label."""
    lacking = outcome.without_label
    return f"{number(lacking, 'image')} would be left out, without a label" if lacking else ""


def calls_no_class_a_class(outcome: Outcome) -> str:
    """A class is called like a split, like a folder of images of all classes, or like no class."""
    doubtful = [name for name in outcome.classes if is_no_class(name, in_splits=bool(outcome.splits))]
    if not doubtful and are_units(outcome.classes):
        doubtful = [*outcome.classes]
    return f"{some(doubtful)} would be {number(len(doubtful), 'class', 'classes')}" if doubtful else ""


def is_no_class(name: str, *, in_splits: bool = False) -> bool:
    """Whether the name of a class, or of the folder that it ends with, says that it is none.

    `in_splits`: whether it is in the folder of a split, where `train` may be a class.
    """
    folder = name.rpartition("/")[2]
    if usual_split(folder) is not None:
        return not in_splits
    return is_generic(folder) or folder.casefold().strip("_- ") in _UNNAMED


def joins_folders(outcome: Outcome) -> str:
    """Folders of one name in some folders, not in all, would be one class: `theatre/indoor` and `pub/indoor`."""
    parents: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for label, folder in set(zip(outcome.labels, outcome.folders, strict=False)):
        parts, name = outcome.parts[folder], outcome.classes[label]
        if name not in parts:
            return ""  # the class is not a folder's name
        above = parts[: len(parts) - 1 - parts[::-1].index(name)]
        parents[label].add(tuple(part for part in above if not splits_meant(part)))
    everywhere = set().union(*parents.values())
    joined = [label for label, places in parents.items() if 1 < len(places) < len(everywhere)]
    if not joined:
        return ""
    return f"{some(outcome.classes[label] for label in joined)} in different folders would be one class"


def has_classes_of_one_image(outcome: Outcome) -> str:
    """No class comes twice. Numbers from 0 on are of a file that numbers its classes, and may be few images of many."""
    names = outcome.classes
    alone = outcome.labels and len(names) == outcome.images > _FEW and set(names) != set(map(str, range(len(names))))
    return f"each of {outcome.images:,} images would be a class" if alone else ""


def stores_masks_as_images(outcome: Outcome) -> str:
    """Images in a folder of masks or of small copies are called like images in another folder."""
    beside = {folder: name for folder, parts in outcome.parts.items() if (name := folder_of_others(parts))}
    if outcome.source.rasters is not None:
        return ""
    looked_at = outcome.keys[:: 1 + len(outcome.keys) // _LOOKED_AT]
    masks = [key for key in looked_at if _MASK_FILE.search(key)]
    if masks and len(masks) < len(looked_at):
        return f"masks ({some(masks)}) would be stored as images"
    if not beside:
        return ""
    stems: dict[bool, set[str]] = {True: set(), False: set()}
    for key, folder in zip(outcome.keys, outcome.folders, strict=True):
        stems[folder in beside].add(_stem(key))
    if not stems[True] & stems[False]:
        return ""
    return f"masks or copies of the others ({some(sorted(set(beside.values())))}) would be stored as images"


def folder_of_others(parts: Sequence[str]) -> str:
    """The first folder that is named like one of masks, or of small copies; "" if there is none."""
    return next((part for part in parts if os.fsencode(part.casefold()) in MASK_FOLDERS | COPY_FOLDERS), "")


def _stem(key: str) -> str:
    return os.path.splitext(key.rpartition("/")[2])[0]


def has_one_class(outcome: Outcome) -> str:
    """All images are of one class, and are not directly in its folder, which then is one around others."""
    names, folders = outcome.classes, outcome.folders
    if len(names) != 1 or any(folder.rpartition("/")[2] == names[0] for folder in folders):
        return ""
    return f"all {outcome.images:,} images would be of the one class {escape(names[0])}"


def has_classes_of_the_same_files(outcome: Outcome) -> str:
    """Classes hold folders with the same files: `clean/alley/1.png`, `final/alley/1.png` are two pictures of a sample.

    Files directly in a class are often numbered alike, and say nothing.
    """
    below = {folder: _below_class(outcome, folder, label) for folder, label in _labelled_folders(outcome).items()}
    if len(outcome.classes) < 2 or not below or not all(below.values()):
        return ""
    files: dict[int, set[str]] = defaultdict(set)
    for key, folder, label in zip(outcome.keys, outcome.folders, outcome.labels, strict=False):
        files[label].add(f"{below[folder]}/{key.rpartition('/')[2]}")
    shared = set.intersection(*files.values())
    if len(shared) < _ALIKE * max(map(len, files.values())):
        return ""
    return f"{some(outcome.classes)} have files of the same names, so they may be pictures of the same samples"


def _labelled_folders(outcome: Outcome) -> dict[str, int]:
    """The class of the images in each folder."""
    return dict(zip(outcome.folders, outcome.labels, strict=False))


def _below_class(outcome: Outcome, folder: str, label: int) -> str:
    """The path of a folder below the folder of its class, without it; "" for the folder itself."""
    parts, name = outcome.parts[folder], outcome.classes[label]
    return "/".join(parts[parts.index(name) + 1 :]) if name in parts else ""


def has_several_pictures_of_a_sample(outcome: Outcome) -> str:
    """Names of files end with words for one of several pictures: `0_left.jpg`, `0_right.jpg`, `0_left.disp.png`."""
    if not outcome.labels or not _ROLE.search(_stem(outcome.keys[0])):
        return ""
    samples: dict[str, int] = defaultdict(int)
    for key in outcome.keys:
        stem = os.path.splitext(key)[0]
        samples[_ROLE.sub("", stem)] += 1
    alone = sum(count == 1 for count in samples.values())
    if alone > (1 - _ALIKE) * len(samples):
        return ""
    return f"names such as {some(outcome.keys[:2])} are of pictures of the same samples"


ALL: tuple[Rule, ...] = (
    puts_splits_together,
    splits_some,
    leaves_images_out,
    calls_no_class_a_class,
    joins_folders,
    has_classes_of_one_image,
    stores_masks_as_images,
    has_classes_of_the_same_files,
    has_several_pictures_of_a_sample,
)
# Of class folders that are read because nothing else is known.
OF_FOLDERS: tuple[Rule, ...] = (has_one_class, *(rule for rule in ALL if rule is not leaves_images_out))
# Of classes in names of files, by a pattern that was guessed: all names have to fit it.
OF_NAMES: tuple[Rule, ...] = ALL
