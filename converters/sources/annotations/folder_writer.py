"""Images in folders named after their classes: `cat/1.jpg`, or `train/cat/1.jpg`; `classes.txt` has their order."""

from typing import ClassVar

from shardfeed.converters.sources.export_files import ExportFiles
from shardfeed.converters.sources.export_format import (
    DroppedFeatures,
    ExportFormat,
    ExportRecord,
    ExportRecords,
    ReconvertCommand,
    RestoredPart,
    image_name,
    name_of,
)
from shardfeed.converters.sources.files.listing import is_hidden
from shardfeed.errors import UsageError, escape
from shardfeed.schema import LABEL, TEXT
from shardfeed.text import counted


class FolderFormat(ExportFormat):
    """One class per image. Without folders of splits if all is in train and names begin with their classes."""

    NAME: ClassVar[str] = "folder"
    NEEDS: ClassVar[str] = "one class per image (image/class/label)"

    def __init__(self, items: ExportRecords, tree: ExportFiles, losses: DroppedFeatures) -> None:
        super().__init__(items, tree, losses)
        self._names = self.class_names(LABEL)
        self._folders = [_folder(name) for name in self._names]
        if len(set(self._folders)) < len(self._folders):
            twice = next(folder for i, folder in enumerate(self._folders) if folder in self._folders[:i])
            raise UsageError(items.directory, f"two classes would share the folder {escape(twice)}", "rename one")
        pairs = zip(self._names, self._folders, strict=True)
        other = [f"{name} in {escape(folder)}" for name, folder in pairs if folder != name.encode()]
        if other:
            what = "classes whose names are not valid folder names, renamed to their folders"
            self.notes.append(counted(what, other, len(other)))
        named = TEXT in items.schema.features and not other
        self.parts = [RestoredPart([LABEL, TEXT] if named else [LABEL])]
        first = items.first("train") if items.splits == ("train",) else None
        flat = first is not None and (first.key or b"").startswith(self._folder_of(first) + b"/")
        self._words = {"train": b""} if flat else {k: w + b"/" for k, w in self.folder_words(0).items()}

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
        rest = image_name(item).removeprefix(word).removeprefix(folder)
        name = word + folder + rest
        self._tree.write(name, item.image, item.where)
        return name

    def finish(self) -> list[ReconvertCommand]:
        """The list of classes."""
        self.write_lines("classes.txt", [folder.decode() for folder in self._folders])
        return [ReconvertCommand("", {"reader": "folder", "class_names": "classes.txt"})]


def _folder(name: str) -> bytes:
    """The folder of a class: its name, in which what cannot be is written as %XX."""
    text = name.replace("/", "%2F")
    if is_hidden(text.encode()):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if len(text.encode()) > 255:
        raise UsageError("folder", f"the class {escape(name[:40])}... has more than 255 bytes", "export to csv")
    return text.encode()
