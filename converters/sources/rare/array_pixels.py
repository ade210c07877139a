"""Arrays of pixels: the order of rows, columns and channels, and conversion of one image to PNG.

And arrays stored contiguously in a file, compressed or not, with access to any row without the others.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.rejects import MAX_PIXELS, RejectedError
from shardfeed.converters.sources.files.parts import FilePart, Parts, listed
from shardfeed.converters.sources.files.unpack import DamagedStreamError, Unpacked
from shardfeed.converters.sources.guard import budget
from shardfeed.converters.sources.source import SourceFile
from shardfeed.errors import UsageError, escape

_BROKEN = (EOFError, zlib.error, zipfile.BadZipFile, DamagedStreamError, RejectedError)
_CHANNELS = (1, 3, 4)  # gray, RGB, RGB with alpha


@dataclass(frozen=True)
class PixelLayout:
    """Layout of the pixels of one image: `shape` as stored, and `axes`, the axes of rows, columns and channels."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Encode pixels as the bytes of an image."""
        return math.prod(self.shape)

    def png(self, pixels: bytes | np.ndarray) -> bytes:
        """The image as a PNG; `pixels`: uint8 of this shape, or as many bytes."""
        array = np.frombuffer(pixels, np.uint8) if isinstance(pixels, bytes) else pixels
        array = array.reshape(self.shape).transpose(self.axes)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        return encode_png(Image.fromarray(np.ascontiguousarray(array)))


@dataclass(frozen=True)
class PixelPart:
    """The PNG that `png` makes of the bytes of `part`: a content as `Sample.image` takes it.

    Raises RejectedError when called, as `part` does.
    """

    part: FilePart
    png: Callable[[bytes], bytes]

    @property
    def size(self) -> int:
        """Bytes of the part."""
        return self.part.size

    @property
    def mtime_ns(self) -> int:
        """Modification time of the file."""
        return self.part.mtime_ns

    def __call__(self) -> bytes:
        """The PNG."""
        return self.png(self.part())


@dataclass(frozen=True, eq=False)
class PixelParts:
    """The images of parts, by number; `png_of`: by file, what makes the PNG of the bytes; None: these are an image."""

    parts: Parts
    png_of: Sequence[Callable[[bytes], bytes] | None]

    def __getitem__(self, index: int, /) -> FilePart | PixelPart:
        part, png = self.parts[index], self.png_of[self.parts.numbers.item(index)]
        return part if png is None else PixelPart(part, png)


def shape_text(shape: tuple[int, ...], dtype: Any) -> str:
    """`uint8 [60000, 28, 28]`, for a message."""
    return f"{dtype} [{', '.join(map(str, shape))}]"


def layout_of(place: str, name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[PixelLayout, str]:
    """Return the layout of the images in an array of `shape`, and a note that names its axes.

    Raises UsageError if it is no array of 8-bit images, with a remedy that makes it one.
    """
    got = f"{escape(name)} is {shape_text(shape, dtype)}"
    expected = "expected uint8 [n, height, width, channels], [n, channels, height, width] or [n, height, width]"
    if dtype != np.uint8:
        raise UsageError(place, f"{got}, {expected}", _other_dtype(dtype))
    sides = shape[1:]
    remedy = "save it as such an array: numpy's moveaxis and reshape"
    axes, layout = (), ""
    if len(sides) == 1:
        remedy = f"{sides[0]} numbers per image are flattened rows: save x.reshape(-1, height, width)"
    elif len(sides) == 3:
        last, first = sides[2] in _CHANNELS, sides[0] in _CHANNELS
        if last != first:
            axes, layout = ((0, 1, 2), "height, width, channels") if last else ((1, 2, 0), "channels, height, width")
        elif shape[3] > 4 and shape[2] in _CHANNELS:
            remedy = "the number of images comes first: save np.moveaxis(x, -1, 0)"
    elif len(sides) == 2:
        if sides[1] not in _CHANNELS:
            axes, layout = (0, 1), "height, width"
        remedy = "this looks like one image: save np.stack of many of equal size, or a folder of files"
    if not axes:
        raise UsageError(place, f"{got}, {expected}", remedy)
    height, width = (sides[axis] for axis in axes[:2])
    if not 0 < height * width <= MAX_PIXELS:
        raise UsageError(place, f"{got}: {height} x {width} pixels per image", f"expected 1 to {MAX_PIXELS}")
    return PixelLayout(sides, axes), f"axes of {escape(name)}: images, {layout}"


def _other_dtype(dtype: np.dtype) -> str:
    """Return the remedy for an array that is not uint8: how to convert it to bytes."""
    if dtype.kind == "f":
        return "save bytes: (x * 255).round().astype('uint8') where x is 0 to 1; undo a mean that was subtracted"
    if dtype.kind == "b":
        return "save bytes: x.astype('uint8') * 255"
    if dtype.kind in "iu":
        return "save x.astype('uint8') if its values are 0 to 255, else scale them first"
    return "give the array that holds the pixels"


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

    def imaged(self) -> "tuple[RawArray, PixelLayout, bytes, list[str]]":
        """Find the layout of its images, and a note. Raises UsageError if it holds no images."""
        if self.dtype.hasobject:
            raise pickled(self.place, self.named)
        count, *sides = self.shape or (0,)
        layout, note = layout_of(self.place, self.named, (count, *sides[:: self.order]), self.dtype)
        if self.order < 0:
            layout = PixelLayout(tuple(sides), tuple(len(sides) - 1 - axis for axis in layout.axes))
        return self, layout, b".png", [note]

    def content(self, index: int, layout: PixelLayout | None) -> PixelPart:
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
