"""Images in folders named after their classes: `cat/1.jpg`, or `train/cat/1.jpg`; `classes.txt` has their order."""

import os
from collections.abc import Iterator
from typing import ClassVar

from shardfeed.converters.sources.classes import class_folder
from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    RENAME,
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    name_of,
)
from shardfeed.errors import UsageError, escape
from shardfeed.schema import LABEL, TEXT
from shardfeed.split_words import usual_split
from shardfeed.text import counted

_MOST_BYTES = 255  # of a folder's name
_NUMBERED = "; programs that number the folders they find, such as torchvision's ImageFolder, give other labels"


class FolderFormat(ExportFormat):
    """One class per image. Without folders of splits if all is in train and names begin with their classes."""

    NAME: ClassVar[str] = "folder"
    NEEDS: ClassVar[str] = "one class per image (image/class/label)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        self._names = self.class_names(LABEL)
        self._folders = self._class_folders()
        self.parts = [RestoredPart([LABEL, TEXT] if TEXT in items.schema.features else [LABEL])]
        self._seen_in: dict[str, set[int]] = {split: set() for split in items.splits}
        self._words = {"train": b""} if self._is_flat() else {k: w + b"/" for k, w in self.folder_words(0).items()}

    def _class_folders(self) -> list[bytes]:
        """The folder of each class. Raises UsageError for one that is too long, or that two would share."""
        folders = [class_folder(name) for name in self._names]
        for name, folder in zip(self._names, folders, strict=True):
            if len(folder) > _MOST_BYTES:
                where = f"the class {escape(name[:40])}... has more than {_MOST_BYTES} bytes"
                raise UsageError(self.items.directory, where, "export to csv")
        if twice := [folder for i, folder in enumerate(folders) if folder in folders[:i]]:
            raise UsageError(self.items.directory, f"two classes would share the folder {escape(twice[0])}", RENAME)
        other = [f"{n} in {escape(f)}" for n, f in zip(self._names, folders, strict=True) if f != n.encode()]
        if other:
            self.notes.append(counted("classes that no folder can be called, and their folders", other, len(other)))
        return folders

    def _notes_for_others(self) -> Iterator[str]:
        """Notes on labels and splits that programs which know no class list find in the folders."""
        for split, seen in self._seen_in.items():
            if lacking := [name for label, name in enumerate(self._names) if label not in seen]:
                yield counted(f"classes without images in the split {split}", lacking, len(lacking)) + _NUMBERED
        if self._folders != sorted(self._folders, key=os.fsdecode):
            yield "classes are not sorted by name" + _NUMBERED
        if len(self._seen_in) > 1 and (words := [name for name in self._names if usual_split(name.encode())]):
            what = counted("classes that are called like a split", words, len(words))
            yield f"{what}; Hugging Face's imagefolder also puts their images into that split"

    def _is_flat(self) -> bool:
        """Whether class folders are in the root: all is in train, names begin with classes, and none is a split's."""
        if self.items.splits != ("train",) or any(map(usual_split, self._folders)):
            return False
        first = self.items.first("train")
        return (first.key or b"").startswith(self._folder_of(first) + b"/")

    @classmethod
    def storable(cls, items: ExportRecords) -> frozenset[str]:
        """The class, where an image has one."""
        schema = items.schema
        feature = schema.features.get(LABEL)
        single = feature is not None and feature.scalar and schema.kind(LABEL) == "label"
        return frozenset({LABEL}) if single else frozenset()

    def _folder_of(self, item: ExportRecord) -> bytes:
        return self._folders[self._names.index(name_of(self._names, item.values[LABEL], item, LABEL))]

    def add(self, item: ExportRecord) -> bytes:
        """Write one file; folders that its name has already are not doubled."""
        word, folder = self._words[item.split.name], self._folder_of(item) + b"/"
        self._seen_in[item.split.name].add(int(item.values[LABEL]))
        rest = image_name(item).removeprefix(word).removeprefix(folder)
        name = word + folder + rest
        self._tree.write(name, item.image, item.where)
        return name

    def finish(self) -> list[ReconvertCommand]:
        """The list of classes."""
        self.notes += self._notes_for_others()
        names = self.write_classes("classes", self._names)
        return [ReconvertCommand("", {"reader": "folder", "class_names": names})]
