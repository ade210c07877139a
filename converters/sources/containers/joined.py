"""Many byte strings in two arrays, at 8 bytes each besides their own."""

import operator
from array import array
from collections.abc import Iterable, Sequence
from typing import overload


class Joined(Sequence[bytes]):
    """Byte strings, one behind the other, with where each ends."""

    def __init__(self, strings: Iterable[bytes] = ()) -> None:
        self._data, self._ends = bytearray(), array("q", [0])
        for string in strings:
            self.append(string)

    def append(self, string: bytes) -> None:
        """One more."""
        self._data += string
        self._ends.append(len(self._data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"string {index} of {len(self)}")
        index %= len(self)
        return bytes(self._data[self._ends[index] : self._ends[index + 1]])
