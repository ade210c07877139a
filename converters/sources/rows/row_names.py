"""Names of rows: their own, as long as all have one and no two the same; else those of their file and number."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.rows.columns import ByteStrings, as_array
from shardfeed.errors import name_bytes


@dataclass(frozen=True, eq=False)
class NumberedKeys:
    """Names of samples by their file and number: `train-0/00000017.jpg`."""

    prefixes: tuple[str, ...]
    digits: int
    endings: Sequence[bytes]
    file_of: np.ndarray
    record_of: np.ndarray
    ending_of: Any

    def __len__(self) -> int:
        return len(self.file_of)

    def __getitem__(self, index: int, /) -> bytes:
        name = f"{self.prefixes[self.file_of.item(index)]}{self.record_of.item(index):0{self.digits}}"
        return name_bytes(name) + self.endings[self.ending_of[index]]


class RowNames:
    """Takes the name and the ending of each row; `prefixes` of files and `digits` are of numbered names."""

    def __init__(self, prefixes: Sequence[str], digits: int) -> None:
        self._prefixes, self._digits = prefixes, digits
        self._names: ByteStrings | None = ByteStrings()
        self._hashes = array("q")
        self._endings: dict[bytes, int] = {b"": 0}
        self._ending_of = array("B")

    def numbered(self, file: int, record: int) -> str:
        """What a row is called that has no name of its own, without its ending."""
        return f"{self._prefixes[file]}{record:0{self._digits}}"

    def add(self, name: bytes, ending: bytes) -> None:
        """Take those of the next row. No name is kept once a row has none that may be a key."""
        self._ending_of.append(self._endings.setdefault(ending, len(self._endings)))
        if self._names is None:
            return
        key = name.replace(b"\\", b"/").removeprefix(b"./")
        above = b".." in key and b".." in key.split(b"/")
        if not key or key.startswith(b"/") or b"://" in key or b"\0" in key or above:
            self._names, self._hashes = None, array("q")
            return
        if ending and not names_image(key):
            key += ending
        self._names.add(key)
        self._hashes.append(hash(key))

    def unique(self) -> ByteStrings | None:
        """The rows' own names; None where one has none, or two have the same."""
        if self._names is None:
            return None
        hashes, self._hashes = as_array(self._hashes), array("q")
        hashes.sort()
        again = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
        met: set[bytes] = set()
        for name in self._names if again else ():
            if hash(name) in again:
                if name in met:
                    return None
                met.add(name)
        return self._names

    def numbers(self, file_of: np.ndarray, record_of: np.ndarray) -> NumberedKeys:
        """Names by file and number, of all rows."""
        return NumberedKeys(tuple(self._prefixes), self._digits, [*self._endings], file_of, record_of, self._ending_of)
