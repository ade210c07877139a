"""Images and masks that say a class for each pixel: pairs of files by name, Pascal VOC, Cityscapes, ADE20K."""

import os
from dataclasses import dataclass

import numpy as np

from shardfeed.annotations import Raster
from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.annotations.masks.layouts import Layout, known_layout, stem
from shardfeed.converters.sources.annotations.masks.meaning import Meaning, Seen, meaning_of
from shardfeed.converters.sources.annotations.masks.pairs import Pair, Pairs, may_have_masks, pair_files, split_of
from shardfeed.converters.sources.annotations.masks.tables import (
    ClassRow,
    has_pixel_values,
    is_class_table,
    read_class_table,
)
from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.recognise import Evidence
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.files.patterns import Choice
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.source import Findings, RasterImage, Skipped
from shardfeed.converters.sources.split_names import split_named, usual_split
from shardfeed.errors import LabelFileError, UsageError, argument, escape
from shardfeed.text import counted, number

_MOST_LIST = 64 << 20  # bytes of a list of stems


@dataclass(frozen=True, eq=False)
class _Masks:
    """What AnnotatedSource takes as `rasters`: the mask of image i is number `of_images[i]`, int64, of `files`."""

    files: Listing
    of_images: np.ndarray
    meaning: Meaning
    upright: bool | None

    @property
    def raster(self) -> Raster:
        """What values mean in records."""
        return self.meaning.raster

    def of_image(self, image: int) -> RasterImage:
        """The mask of one image."""
        place = self.of_images.item(image)
        return RasterImage(self.files.file(place), self.meaning.table, os.fsdecode(self.files.key(place)), self.upright)


def recognise(path: str, options: AnnotationOptions) -> Evidence | None:
    """Whether a folder holds images and masks of half of them or more, by names alone."""
    if not os.path.isdir(path) or (options.tasks and "rasters" not in options.tasks):
        return None
    if not (options.images or may_have_masks(path)):
        return None
    images, masks = _listed(path, options)
    layout = known_layout(images if masks is None else masks)
    try:
        choice = Choice.of(options.include, options.exclude)
        pairs = pair_files(images, masks, choice, layout.is_image, layout.is_mask)
    except UsageError as error:
        return Evidence("masks", f"{layout.name}: {error.problem}", error.remedy)
    if not pairs.found:
        return None
    paired = f"{number(len(pairs.found), 'image')} with a mask"
    if layout.found:
        return Evidence("masks", f"{layout.name} ({layout.found}): {paired}")
    others = max(pairs.images, pairs.masks) - len(pairs.found)
    missing = f"partners for {others:,} others" if others > len(pairs.found) else ""
    first = pairs.found[0]
    of_mask = images if masks is None else masks
    names = f"{escape(images.key(first.image))} and {escape(of_mask.key(first.mask))}"
    return Evidence("masks", f"{layout.name}: {paired}, as {names}", missing)


def read(path: str, options: AnnotationOptions) -> AnnotatedSource:
    """The images of a folder and their masks; `options.images`: where the images are, if elsewhere.

    A table of colours or values is `options.colours`, or lies beside the masks; class names are `options.class_names`,
    for the values 0, 1, 2, ... without the void one, or, where there is a table, those of its classes that are wanted.
    Some masks are read to learn what is in them. Raises UsageError where files are no pairs, an image has two
    masks, or nothing says what the values in masks mean; LabelFileError for a table or list that is none.
    """
    images, masks = _listed(path, options)
    files = images if masks is None else masks
    layout = known_layout(files)
    choice = Choice.of(options.include, options.exclude)
    pairs = pair_files(images, masks, choice, layout.is_image, layout.is_mask)
    rejected, notes = list(pairs.rejected), _notes(pairs, choice)
    found, split_of_pair = pairs.found, [_split(pair.folder, layout, options) for pair in pairs.found]
    if layout.lists:
        found, listed = _listed_pairs(files, images, layout, pairs, rejected, notes)
        split_of_pair = [split if options.split is None else options.split for split in listed]
    if not found:
        raise _no_pair(files, pairs)
    rows = _table(files, options)
    seen = Seen.of(len(found), lambda place: files.file(found[place].mask))
    meaning = meaning_of(files.root, layout, rows, seen, options)
    findings = Findings(
        sorted([*images.skipped, *rejected], key=lambda skipped: skipped.key),
        [*images.notes, *notes, *meaning.notes],
        images.root,
    )
    numbers = np.array([pair.image for pair in found], np.int64)
    return AnnotatedSource(
        images.take(numbers),
        rasters=_Masks(files, np.array([pair.mask for pair in found], np.int64), meaning, options.upright),
        splits=_splits(files.root, split_of_pair),
        findings=findings,
        described=f"{layout.name}{f' ({layout.found})' if layout.found else ''}",
    )


def _listed(path: str, options: AnnotationOptions) -> tuple[Listing, Listing | None]:
    """The images, and the masks where those are listed apart from them."""
    files = list_files(path, follow_links=options.follow_links)
    inside = (
        "." if options.images is None else os.path.relpath(os.path.realpath(options.images), os.path.realpath(path))
    )
    if options.images is None or inside == ".":
        return files, None
    images = list_files(options.images, follow_links=options.follow_links)
    if inside.split(os.sep)[0] != os.pardir:
        folder = os.fsencode(inside) + b"/"
        files = files.take(np.array([i for i, key in enumerate(files) if not key.startswith(folder)], np.int64))
    return images, files


def _no_pair(files: Listing, pairs: Pairs) -> UsageError:
    if not len(files):
        return nothing_listed(files)
    problem = f"no image with a mask: {number(pairs.images, 'image')} and {number(pairs.masks, 'mask')} by their names"
    remedy = "put images into a folder images and masks of the same names into a folder masks, or call a mask of "
    remedy += f"1.jpg 1_mask.png; {argument('images', typed='DIR')} says where images are, if elsewhere"
    return UsageError(files.root, problem, remedy)


def _notes(pairs: Pairs, choice: Choice) -> list[str]:
    beside = [key for key in pairs.beside if not is_class_table(key.rpartition(b"/")[2])]
    notes = [counted("files passed over, neither images nor their masks", beside, len(beside))] if beside else []
    if pairs.unwanted:
        notes.append(f"{number(pairs.unwanted, 'image')} left out by include and exclude")
    return notes + choice.unused()


def _split(folder: bytes, layout: Layout, options: AnnotationOptions) -> str | None:
    """The split that a pair's folder says; that of all pairs where it is given."""
    if options.split is not None:
        return options.split
    extra = b"train_extra" in folder.split(b"/") and layout.name == "Cityscapes"
    return "train_extra" if extra else split_of(folder)


def _splits(root: bytes, names: list[str | None]) -> Splits | None:
    """None where no pair has a split. Raises UsageError where some have."""
    known = sorted({name for name in names if name is not None})
    if not known:
        return None
    if None in names:
        problem = f"{number(names.count(None), 'image')} in no split, the others in {', '.join(known)}"
        remedy = f"move them, leave them out by {argument('exclude', typed='PATTERN')}, or say one split for all"
        raise UsageError(root, problem, remedy)
    return Splits.of(names)


def _listed_pairs(
    files: Listing, images: Listing, layout: Layout, pairs: Pairs, rejected: list[Skipped], notes: list[str]
) -> tuple[list[Pair], list[str | None]]:
    """Of Pascal VOC the pairs that its lists name, and the split of each; adds to `rejected` and `notes`.

    An image without a mask is no fault where no list names it: most of VOC's have boxes alone.
    """
    split_of_stem: dict[bytes, str | None] = {}
    for key in layout.lists:
        alone = len(layout.lists) == 1 and not usual_split(stem(key))  # CVAT's default.txt names all, and no split
        split = None if alone else split_named(os.fsdecode(stem(key)))
        for line, text in _stems(files, key):
            if split_of_stem.setdefault(text, split) != split:
                problem = f"{escape(text)} is in the split {split_of_stem[text]}, too"
                raise LabelFileError(
                    f"{os.fsdecode(files.root)}/{os.fsdecode(key)}:{line}", problem, "name it in one list"
                )
    known = {stem(key) for listing in (files, images) for key in listing if names_image(key)}
    kept: list[Skipped] = []
    unlisted = 0
    for one in rejected:
        named = stem(one.key) in split_of_stem
        kept += [one] if named else []
        unlisted += not named
    for text in sorted(split_of_stem.keys() - known):
        why = f"a list in {escape(layout.lists[0].rpartition(b'/')[0])} names it, and neither image nor mask is there"
        kept.append(Skipped(text, RejectCode.MISSING.value, why))
    rejected[:] = kept
    found = [pair for pair in pairs.found if stem(images.key(pair.image)) in split_of_stem]
    unlisted += len(pairs.found) - len(found)
    if unlisted:
        notes.append(f"{number(unlisted, 'image or mask', 'images or masks')} that no list names, left out")
    return found, [split_of_stem[stem(images.key(pair.image))] for pair in found]


def _stems(files: Listing, key: bytes) -> list[tuple[int, bytes]]:
    """The lines of a list of stems, with their numbers."""
    path = files.root.rstrip(b"/") + b"/" + key
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_LIST)
    except OSError as error:
        raise LabelFileError(path, f"cannot be read: {error.strerror}", "check the file") from None
    return [(line, text.strip()) for line, text in enumerate(data.splitlines(), 1) if text.strip()]


def _table(files: Listing, options: AnnotationOptions) -> list[ClassRow] | None:
    """The classes of the table that is given, or of the one that lies among the files; None without."""
    if options.colours is not None:
        return read_class_table(options.colours)
    root = files.root.rstrip(b"/") + b"/"
    keys = [key for key in files if is_class_table(name := key.rpartition(b"/")[2]) or name == b"_classes.csv"]
    keys = [key for key in keys if is_class_table(key.rpartition(b"/")[2]) or has_pixel_values(root + key)]
    tables = {key: read_class_table(os.fsdecode(root + key)) for key in keys}
    for key in keys[1:]:
        if tables[key] != tables[keys[0]]:
            problem = f"{escape(keys[0])} and {escape(key)} say different classes"
            raise UsageError(files.root, problem, f"say which one holds: {argument('colours', typed='FILE')}")
    return tables[keys[0]] if keys else None
