"""The rules by which a reading holds: each looks at what the reading gives, and says what speaks against it.

A reading that the user did not ask for, as advice is, has to pass all of them.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from shardfeed.converters.sources.files.folder_layouts import are_units, is_generic
from shardfeed.converters.sources.files.listing import MASK_FOLDERS, splits_meant, usual_split
from shardfeed.converters.sources.recognition.outcome import Outcome
from shardfeed.text import number, some

Rule = Callable[[Outcome], str]

_UNNAMED = frozenset(("no_label", "nolabel", "unlabeled", "unlabelled", "unknown_label", "none", "null"))
_FEW = 4  # classes of one image each, which may be the beginning of a dataset


def faults_of(outcome: Outcome, rules: Iterable[Rule]) -> list[str]:
    """Return what speaks against a reading: a sentence for each rule that it breaks."""
    return [fault for rule in rules if (fault := rule(outcome))]


def _splits_in(folders: Sequence[str]) -> set[str]:
    """The splits that words in the names of folders mean."""
    return set().union(*map(splits_meant, folders))


def puts_splits_together(outcome: Outcome) -> str:
    """Folders are named like splits, and the reading has none."""
    if outcome.splits:
        return ""
    named = [splits for splits in map(_splits_in, outcome.folders) if splits]
    seen = set().union(*named)
    if len(seen) < 2 or 2 * len(named) < len(outcome.folders):
        return ""
    return f"it would put {' and '.join(sorted(seen))} into one split"


def splits_some(outcome: Outcome) -> str:
    """Some images have a split, and others have none."""
    lacking = outcome.splits.get(None, 0)
    return f"{number(lacking, 'image')} would be in no split" if lacking < outcome.images and lacking else ""


def leaves_images_out(outcome: Outcome) -> str:
    """Some images have no label."""
    lacking = outcome.without_label
    return f"{number(lacking, 'image')} would be left out, without a label" if lacking else ""


def calls_no_class_a_class(outcome: Outcome) -> str:
    """A class is called like a split, like a folder of images of all classes, or like no class."""
    doubtful = [name for name in outcome.classes if is_no_class(name)]
    if not doubtful and are_units(outcome.classes):
        doubtful = [*outcome.classes]
    return f"{some(doubtful)} would be {number(len(doubtful), 'class', 'classes')}" if doubtful else ""


def is_no_class(name: str) -> bool:
    """Whether the name of a folder says that it is no class."""
    return usual_split(name) is not None or is_generic(name) or name.casefold().strip("_- ") in _UNNAMED


def joins_folders(outcome: Outcome) -> str:
    """Folders of one name in some folders, not in all, would be one class: `theatre/indoor` and `pub/indoor`."""
    parents: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for label, folders in zip(outcome.labels, outcome.folders, strict=False):
        name = outcome.classes[label]
        if name not in folders:
            return ""  # the class is not a folder's name
        above = folders[: len(folders) - 1 - folders[::-1].index(name)]
        parents[label].add(tuple(folder for folder in above if not _splits_in([folder])))
    everywhere = set().union(*parents.values())
    joined = [label for label, places in parents.items() if 1 < len(places) < len(everywhere)]
    if not joined:
        return ""
    return f"{some(outcome.classes[label] for label in joined)} in different folders would be one class"


def has_classes_of_one_image(outcome: Outcome) -> str:
    """No class comes twice."""
    alone = outcome.labels and len(outcome.classes) == outcome.images > _FEW
    return f"each of {outcome.images:,} images would be a class" if alone else ""


def stores_masks_as_images(outcome: Outcome) -> str:
    """Images in a folder of masks are called like images in another folder."""
    if outcome.source.rasters is not None:
        return ""
    stems: dict[bool, set[str]] = {True: set(), False: set()}
    masks: set[str] = set()
    for key, folders in zip(outcome.keys, outcome.folders, strict=True):
        mask = next((folder for folder in folders if os.fsencode(folder.casefold()) in MASK_FOLDERS), "")
        stems[bool(mask)].add(os.path.splitext(key.rpartition("/")[2])[0])
        masks.add(mask)
    if not stems[True] & stems[False]:
        return ""
    return f"masks ({some(sorted(masks - {''}))}) would be stored as images"


ALL: tuple[Rule, ...] = (
    puts_splits_together,
    splits_some,
    leaves_images_out,
    calls_no_class_a_class,
    joins_folders,
    has_classes_of_one_image,
    stores_masks_as_images,
)
