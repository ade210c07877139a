"""A folder of images: in class folders, with labels in their names, or without labels."""

import os
from collections.abc import Mapping

from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.folders.file_names import FileNames
from shardfeed.converters.sources.folders.image_folder import ImageFolder
from shardfeed.converters.sources.folders.unlabelled import Unlabelled
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import LabelOptions
from shardfeed.converters.sources.reader import Evidence
from shardfeed.converters.sources.rows.source import ListedSource
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import UsageError
from shardfeed.text import some

# Folders with these names hold images of all classes, or no images of their own.
_GENERIC = frozenset(
    (
        *("annotations", "annotation", "annots", "labels", "label", "masks", "mask", "images", "image", "imgs", "img"),
        *("jpegimages", "imagesets", "data", "photos", "pictures", "jpg", "jpeg", "png", "xml", "xmls", "segmentation"),
        *("segmentationclass", "segmentationobject", "gt", "gtfine", "leftimg8bit", "train", "val", "valid", "test"),
        *("validation", "testing", "training", "unlabeled", "minival"),
    )
)


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
    holding = [name for name in folders if any(_has_image(look, place) for place in inside[name])]
    named = [name for name in holding if name.casefold().rstrip("0123456789_-") not in _GENERIC]
    if len(named) > 1 and len(named) == len(holding):
        return Evidence("folder", f"class folders ({some(named)})")
    return None


def _has_image(look: Look, folder: str) -> bool:
    return any(names_image(os.fsencode(name)) for name in look.names(folder)[1])


def read(look: Look, options: LabelOptions) -> ListedSource:
    """An `ImageFolder`, or `FileNames` where there are no folders or a pattern is given, or `Unlabelled`."""
    wanted = {"include": look.include, "exclude": look.exclude, "follow_links": look.follow_links}
    if options.unlabelled:
        return Unlabelled(look.path, **wanted)
    if isinstance(options.class_names, Mapping):
        raise UsageError("class_names", "got a mapping, which is about columns of a label file", "give the names")
    if options.pattern is not None or look.is_flat:
        return FileNames(look.path, pattern=options.pattern, class_names=options.class_names, **wanted)
    return ImageFolder(look.path, class_names=options.class_names, **wanted)
