"""What has no annotations: a folder of classes, named files, a label file, images alone."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.converters.sources.classes import ClassList
from shardfeed.converters.sources.files.glance import Glance
from shardfeed.converters.sources.files.listed_source import ListedSource
from shardfeed.converters.sources.folders.file_names import FileNames
from shardfeed.converters.sources.folders.image_folder import ImageFolder
from shardfeed.converters.sources.folders.unlabelled import Unlabelled
from shardfeed.errors import ShardfeedError, UsageError, argument
from shardfeed.schema import LABEL

if TYPE_CHECKING:
    from shardfeed.converters.sources.labels.label_file import LabelFile

_OF_ANNOTATIONS_TOO = ("delimiter", "encoding")


@dataclass(frozen=True)
class Plain:
    """A path, and what was said of it, as `open_source` takes both.

    `table`: the arguments about the columns and the form of a label file; None for those that were not given. `wanted`:
    include, exclude and follow_links. `glance`: at the names in it, where it is a folder. Raises UsageError for
    arguments about labels where there are to be none.
    """

    path: str | os.PathLike[str]
    labels: str | os.PathLike[str] | None
    pattern: str | None
    class_names: ClassList | Mapping[str, ClassList] | None
    unlabelled: bool
    images: str | os.PathLike[str] | None
    table: Mapping[str, Any]
    wanted: Mapping[str, Any]
    glance: Glance

    def __post_init__(self) -> None:
        of_labels = {"pattern": self.pattern, "class_names": self.class_names}
        of_labels |= {name: self.table[name] for name in ("label_columns", "one_hot")}
        for name, value in of_labels.items():
            if self.unlabelled and value is not None:
                raise UsageError("unlabelled", f"{argument(name)} is about labels", "leave one of the two out")

    @property
    def said(self) -> list[str]:
        """The arguments that were given and are about this kind of source alone."""
        of_plain = {"labels": self.labels, "pattern": self.pattern, "unlabelled": self.unlabelled or None, **self.table}
        return [name for name, value in of_plain.items() if value is not None and name not in _OF_ANNOTATIONS_TOO]

    def open(self) -> ListedSource:
        """The source. Raises UsageError, StorageError."""
        if self.labels is not None or os.path.isfile(self.path):
            return self._label_file()
        if named := [name for name, value in self.table.items() if value is not None]:
            problem = f"is a folder, and {argument(named[0])} is about a label file"
            raise UsageError(self.path, problem, f"give that file as {argument('labels')}")
        if self.images is not None:
            raise UsageError(self.path, f"is a folder of images, and {argument('images')} is one, too", "leave one out")
        if self.unlabelled:
            return Unlabelled(self.path, **self.wanted)
        if isinstance(self.class_names, Mapping):
            problem = "got a mapping, which is about the columns of a label file"
            raise UsageError("class_names", problem, "give the names")
        if self.pattern is not None or self.glance.is_flat:
            return FileNames(self.path, pattern=self.pattern, class_names=self.class_names, **self.wanted)
        return ImageFolder(self.path, class_names=self.class_names, **self.wanted)

    def _label_file(self) -> "LabelFile":
        if self.pattern is not None:
            raise UsageError("pattern", "labels come either from a file or from file names", "leave one out")
        if self.labels is not None and os.path.isfile(self.path):
            raise UsageError(self.path, "is a file, and so is the one with the labels", "give the folder of the images")
        file, root = (self.path, self.images) if self.labels is None else (self.labels, self.path)
        table = {name: value for name, value in self.table.items() if value is not None}
        if self.unlabelled:
            table["label_columns"] = ()
        from shardfeed.converters.sources.labels.label_file import LabelFile  # not above: a folder needs none

        return LabelFile(file, root, class_names=self.class_names, **table, **self.wanted)

    def classes(self) -> Sequence[str]:
        """The names of the classes, where it is a folder with a folder for each of several; else nothing."""
        try:
            source = self.open()
        except ShardfeedError:
            return ()
        names = source.schema.class_names.get(LABEL, ()) if isinstance(source, ImageFolder) else ()
        # The PNGs of panoptic files lie in a folder beside those, in annotations: no class is called so.
        return names if len(names) > 1 and "annotations" not in names else ()
