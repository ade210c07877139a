"""Copies of a split's shards, read instead of the originals: complete, or filled as records are needed."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shardfeed.manifest import SplitInfo


class Filler(Protocol):
    """Fills the files of a copy with the records that are about to be read. Pickles."""

    def fill(self, places: np.ndarray, *, again: bool = False) -> AbstractContextManager[None]:
        """Wait until the records at `places`, int64 [k], are in the files; they stay there until the block ends.

        `again`: fetch them again, because they are damaged. Raises StorageError, IntegrityError.
        """
        ...

    def fill_index(self, shard: int) -> None:
        """Wait until the index of a shard is in its file. Raises StorageError, IntegrityError."""
        ...


@dataclass(frozen=True)
class Copy:
    """Files read instead of a split's original ones: the same samples at the same positions. Made by `copies.py`.

    `directory`: directory of the files. `info`: their entry in a manifest. `numbers[i]`: the split's shard of which
    shard `i` is the copy; shards without one are read in their original place. `decoded`: whether images are raw pixels
    in it. `filler`: fetches missing parts of files with holes; None: the files are complete.
    """

    directory: str
    info: SplitInfo
    numbers: Sequence[int]
    decoded: bool
    filler: Filler | None = None
