"""Arrays stored contiguously in a file, compressed or not, with access to any row without the others."""

import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.archives.unpack import DamagedStreamError, Unpacked
from shardfeed.converters.sources.containers.arrays.pixels import Layout, PixelPart, layout_of
from shardfeed.converters.sources.containers.handles import listed
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.rows.source import FilePart
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape

_BROKEN = (EOFError, zlib.error, zipfile.BadZipFile, DamagedStreamError, RejectedError)


@dataclass(frozen=True)
class RawArray:
    """An array of `shape` [n, ...] and `dtype` in `file`: row i begins at `offset` + i * `stride` bytes.

    `named`: its name, for messages. `pieces`: of one that is compressed gives the `size` bytes in which that is so; it
    raises what `_BROKEN` has. `order`: -1 where the sides of an image are stored in reverse order.
    """

    named: str
    file: SourceFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    stride: int
    pieces: Callable[[], Iterable[bytes]] | None = None
    size: int = 0
    order: int = 1

    @property
    def place(self) -> str:
        """The file's path, for errors."""
        return os.fsdecode(self.file.path)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop`. Raises RejectedError; UsageError for an array that is pickled."""
        if self.dtype.hasobject:
            raise pickled(self.place, self.named)
        count = stop - start
        size = (count - 1) * self.stride + self.row_bytes
        data = self._part(self.offset + start * self.stride, size)().ljust(count * self.stride, b"\0")
        fields = np.frombuffer(data, np.uint8).reshape(count, self.stride)[:, : self.row_bytes]
        return np.ascontiguousarray(fields).view(self.dtype).reshape(count, *self.shape[1:])

    def imaged(self) -> "tuple[RawArray, Layout, bytes, list[str]]":
        """Find the layout of its images, and a note. Raises UsageError if it holds no images."""
        if self.dtype.hasobject:
            raise pickled(self.place, self.named)
        count, *sides = self.shape or (0,)
        layout, note = layout_of(self.place, self.named, (count, *sides[:: self.order]), self.dtype)
        if self.order < 0:
            layout = Layout(tuple(sides), tuple(len(sides) - 1 - axis for axis in layout.axes))
        return self, layout, b".png", [note]

    def content(self, index: int, layout: Layout | None) -> PixelPart:
        """Row `index` as a PNG."""
        assert layout is not None
        return PixelPart(self._part(self.offset + index * self.stride, self.row_bytes), layout.png)

    def _part(self, offset: int, size: int) -> FilePart:
        return FilePart(self.file.path, offset, size, self.file.size, self.file.mtime_ns)

    def unpacked(self, folder: Unpacked) -> "RawArray":
        """The same array, uncompressed in a file in `folder`. Raises UsageError, StorageError."""
        if self.pieces is None:
            return self
        budget().unpacked(self.size, self.file.size, self.place)
        with folder.new(self.place) as out:
            try:
                for piece in self.pieces():
                    out.write(piece)
            except _BROKEN as error:
                problem = f"{escape(self.named)} cannot be decompressed: {escape(getattr(error, 'reason', error))}"
                raise UsageError(self.place, problem, "copy or save it again") from None
        if out.size != self.size:
            problem = f"{escape(self.named)} does not decompress to the declared {self.size} bytes"
            raise UsageError(self.place, problem, "copy or save it again")
        file = SourceFile(os.fsencode(out.path), out.size, self.file.mtime_ns)
        return replace(self, file=file, pieces=None)


def byte_array(folder: str, name: str, row: tuple[int, ...] = ()) -> RawArray:
    """A whole file as an array of bytes, [n, *row]. Raises UsageError if it is incomplete."""
    place, stride = os.path.join(folder, name), math.prod(row)
    file = listed(place)
    count, rest = divmod(file.size, stride)
    if rest or not count:
        problem = f"is {file.size} bytes long, expected a multiple of {stride}"
        raise UsageError(place, problem, "it is truncated, or of another format: copy it again")
    return RawArray(name, file, 0, (count, *row), np.dtype(np.uint8), stride)


def pickled(place: str, name: str) -> UsageError:
    """Return the error for content that only a pickle could provide."""
    problem = f"{escape(name)} is pickled, and loading a pickle can run arbitrary code: it is not loaded"
    return UsageError(place, problem, "save arrays of numbers by np.savez, images of one size as uint8")
