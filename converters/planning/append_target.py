"""A dataset that a conversion appends to: its existing shards, and the positions of new records."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardfeed.errors import IntegrityError
from shardfeed.manifest import Manifest, SplitInfo
from shardfeed.schema import Schema
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import disk_errors
from shardfeed.storage.storage import LOCAL, FileInfo, whole


@dataclass(frozen=True)
class AppendTarget:
    """The dataset in `directory` (absolute), with its `manifest`; the new dataset also has all of its shards.

    `numbers`: by split, the `image/source_id` of its next record. `schema`: of all records of the new dataset: the old
    schema, perhaps with more classes. `counted`: splits with ids that a conversion assigned.
    """

    directory: str
    manifest: Manifest
    numbers: Mapping[str, int]
    schema: Schema
    counted: Collection[str]
    version: str = field(init=False)

    def __post_init__(self) -> None:
        # Frozen: set once, as a manifest of thousands of shards is not small.
        object.__setattr__(self, "version", f"{crc32c(self.manifest.to_bytes()):08x}")

    def shards(self, split: str) -> int:
        """Number of shards of a split that stay."""
        info = self.manifest.splits.get(split)
        return 0 if info is None else len(info.shards)

    def content(self, file: str, info: FileInfo) -> bytes:
        """Read one of its files and check it with the manifest. Raises IntegrityError, StorageError."""
        path = os.path.join(self.directory, file)
        with disk_errors(path, "read"):
            data = whole(LOCAL.open(path))
        if problem := info.difference_of(data):
            raise IntegrityError(path, problem, "restore it from a copy; `shardfeed verify DIR` finds other damage")
        return data

    def options(self, appended: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the new dataset: the old one's, and what was appended, in the order in which it was."""
        before = self.manifest.options
        return {**before, "appended": [*before.get("appended", ()), {"onto": self.version, **appended}]}


class ColumnsBefore(Mapping[str, bytes]):
    """The columns of a split of that dataset; each is read and checked when it is first used."""

    def __init__(self, onto: AppendTarget, split: SplitInfo) -> None:
        self._onto, self._split = onto, split

    def __getitem__(self, key: str) -> bytes:
        return self._onto.content(self._split.column_file(key), self._split.columns[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._split.columns)

    def __len__(self) -> int:
        return len(self._split.columns)
