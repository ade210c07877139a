"""What is left of a damaged dataset: which shards are as they were written, and where the records of the others lie."""

import os
from dataclasses import dataclass, field

from shardfeed.manifest import Manifest
from shardfeed.schema import Schema
from shardfeed.storage.local import storage_error
from shardfeed.storage.local_reading import FileInfo

_MOST_BYTES = 256 << 20  # of a side file that no checksum vouches for


@dataclass(frozen=True)
class SurvivingShard:
    """Shard `number` of the `count` that a split has, and the file at `path` that holds its records; None: it is gone.

    `whole`: that file is `written`, the shard as it was written. `written` and `records`: None where nothing tells.
    """

    split: str
    number: int
    count: int
    path: str | None
    whole: bool
    written: FileInfo | None
    records: int | None


@dataclass
class Survivors:
    """`manifest`: None where it is missing or damaged. `shards`: those of all `splits`, of each in order.

    `kept`: content of side files that are whole. `notes`: what to tell people.
    """

    schema: Schema
    manifest: Manifest | None
    splits: tuple[str, ...]
    shards: list[SurvivingShard]
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_side_file(path: str) -> bytes | None:
    """A side file's content; None where it is not there, or is larger than any. Raises StorageError."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return data if len(data) <= _MOST_BYTES else None
