"""Label files as a reader: what any file is that no other reader takes."""

import os

from shardfeed.converters.sources.labels.label_file import LabelFile
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.options import LabelOptions, given
from shardfeed.converters.sources.readers import Evidence
from shardfeed.errors import UsageError


def recognise(look: Look, options: LabelOptions) -> Evidence | None:
    """A label file has no sign of its own: it is what is left."""
    del look, options
    return None


def read(look: Look, options: LabelOptions) -> LabelFile:
    """The file that is opened, or `options.labels` for the images in the folder that is opened."""
    values = given(options)
    for name in ("labels", "unlabelled", "images"):
        values.pop(name, None)
    if options.labels is not None and look.is_file:
        raise UsageError(look.path, "is a file, and so is the one with the labels", "give the folder of the images")
    if options.labels is None and look.is_folder:
        raise UsageError(look.path, "is a folder, expected a label file", "give the file itself")
    if options.labels is not None and options.images is not None:
        raise UsageError(look.path, "is a folder of images, and images is one, too", "leave one out")
    if options.unlabelled:
        values["label_columns"] = ()
    file, root = (look.path, options.images) if options.labels is None else (options.labels, look.path)
    wanted = {"include": look.include, "exclude": look.exclude, "follow_links": look.follow_links}
    return LabelFile(os.fspath(file), root, **values, **wanted)
