"""Values of many samples in arrays: a text costs its bytes and 8, a number 8."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from shardfeed.converters.sources.rows.columns import ListedColumn, NumberColumn, TextColumn


def as_array(numbers: "array[int]") -> np.ndarray:
    """int64, uint64 or int32 [n], of its type: the same memory, to which nothing can be appended any more."""
    return np.frombuffer(numbers, numbers.typecode) if len(numbers) else np.zeros(0, numbers.typecode)


class Packed(Sequence[bytes]):
    """Byte strings by number: `blob` is all of them, one after the other; `ends` int64 [n + 1] where each ends."""

    def __init__(self, blob: bytes | bytearray, ends: np.ndarray) -> None:
        self.blob, self.ends = blob, ends

    def __len__(self) -> int:
        return len(self.ends) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return bytes(self.blob[self.ends.item(index) : self.ends.item(index + 1)])


class Packer:
    """Makes a Packed of byte strings that are added one by one."""

    def __init__(self) -> None:
        self._blob, self._ends = bytearray(), array("q", [0])

    def add(self, item: bytes) -> None:
        """One more."""
        self._blob += item
        self._ends.append(len(self._blob))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def packed(self) -> Packed:
        """All of them. The packer is empty then: what it held is not held twice."""
        found = Packed(self._blob, as_array(self._ends))
        self.__init__()
        return found


class UnlikeError(Exception):
    """A value that is not of the kind of those before; the message is a clause."""


class Values:
    """A feature `key` of all samples, value by value: texts, or numbers, or lists of either; all alike.

    Raises UnlikeError for one that is another, and for what is neither text nor number.
    """

    def __init__(self, key: str, *, lists: bool | None = None) -> None:
        self.key, self._lists = key, lists
        self._texts: Packer | None = None
        self._numbers: Any = None
        self._ends = array("q", [0])

    def add(self, value: Any) -> None:
        """The value of one sample more."""
        listed = isinstance(value, list | tuple)
        if self._lists is None:
            self._lists = listed
        if listed != self._lists:
            raise UnlikeError(f"got {'a list' if listed else 'one value'}, expected the other as in samples before")
        items = list(value) if listed else [value]
        for item in items:
            self._check(item)
        for item in items:
            self._add(item)
        self._ends.append(self._ends[-1] + len(items))

    def _check(self, item: Any) -> None:
        if not isinstance(item, str | bytes | int | float):
            raise UnlikeError(f"got {'null' if item is None else type(item).__name__}, expected a text or a number")
        text = isinstance(item, str | bytes)
        if (self._texts is not None and not text) or (self._numbers is not None and text):
            raise UnlikeError(f"got a {'text' if text else 'number'}, expected the other as in samples before")
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            raise UnlikeError(f"got {item}, expected a number that fits int64")
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise UnlikeError("got a text that is not Unicode") from None

    def _add(self, item: Any) -> None:
        if isinstance(item, str | bytes):
            self._texts = self._texts or Packer()
            self._texts.add(item.encode() if isinstance(item, str) else item)
            return
        if self._numbers is None:
            self._numbers = array("d" if isinstance(item, float) else "q")
        if isinstance(item, float) and self._numbers.typecode == "q":
            self._numbers = array("d", self._numbers)
        self._numbers.append(item)

    def column(self) -> ListedColumn:
        """The feature: bytes of the kind "text", int64, or float32 where a value has a point."""
        ends = as_array(self._ends) if self._lists else None
        if self._numbers is not None:
            dtype = np.float32 if self._numbers.typecode == "d" else np.int64
            return NumberColumn(self.key, as_array(self._numbers).astype(dtype, copy=False), ends)
        texts = (self._texts or Packer()).packed()
        small = len(texts) < 1 << 31
        return TextColumn(self.key, texts, np.arange(len(texts), dtype=np.int32 if small else np.int64), ends)


class Codes:
    """A column of texts of which many are alike, as a number each. `values`: each different one, as it first came.

    `lists`: whether a sample has any number of them, each once.
    """

    def __init__(self, *, lists: bool = False) -> None:
        self.values: dict[str, int] = {}
        self._codes, self._ends = array("i"), array("q", [0]) if lists else None

    def add(self, text: str) -> None:
        """The text of one sample more."""
        self._codes.append(self.values.setdefault(text, len(self.values)))

    def add_all(self, texts: Iterable[str]) -> None:
        """The texts of one sample more, of a column of lists."""
        assert self._ends is not None
        for text in dict.fromkeys(texts):
            self.add(text)
        self._ends.append(len(self._codes))

    @property
    def ends(self) -> np.ndarray | None:
        """int64 [n + 1]: sample i has `codes[ends[i]:ends[i + 1]]`; None where each has one."""
        return None if self._ends is None else as_array(self._ends)

    @property
    def codes(self) -> np.ndarray:
        """int32 [n]: places in `values`."""
        return as_array(self._codes)
