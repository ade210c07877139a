"""Report of an export, for the command line and for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Exported:
    """Result of an export or, with `dry_run`, of a planned export.

    Attributes:
        out: the absolute path of the folder.
        to: the format.
        splits: images by split.
        files, size: number of files in the folder, and their size in bytes.
        left_out: kind of data that the format cannot store -> how many were left out.
        renamed: number of images that get a different name when they are converted again.
        notes: further remarks for the user, a sentence each.
        convert_commands: the commands that convert the folder again; each converts a different part.
        dry_run: whether nothing was written.
        seconds: duration of the export.

    Example:
        exported = export("flowers", "flowers-folder", to="folder")
        print(exported.splits, exported.convert_commands)
    """

    out: str
    to: str
    splits: Mapping[str, int]
    files: int
    size: int
    left_out: Mapping[str, int]
    renamed: int
    notes: tuple[str, ...]
    convert_commands: tuple[str, ...]
    dry_run: bool
    seconds: float

    @property
    def images(self) -> int:
        """Number of images in all splits."""
        return sum(self.splits.values())

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON value, for scripts."""
        return {
            "out": self.out,
            "to": self.to,
            "splits": dict(self.splits),
            "files": self.files,
            "bytes": self.size,
            "left_out": dict(self.left_out),
            "renamed": self.renamed,
            "notes": list(self.notes),
            "convert_commands": list(self.convert_commands),
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 3),
        }
