"""Arrays of pixels: the order of rows, columns and channels, and conversion of one image to PNG."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.converters.images.pixels import encode_png
from shardfeed.converters.rejects import MAX_PIXELS
from shardfeed.converters.sources.rows.source import FilePart
from shardfeed.errors import UsageError, escape

_CHANNELS = (1, 3, 4)  # gray, RGB, RGB with alpha


@dataclass(frozen=True)
class Layout:
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


def shape_text(shape: tuple[int, ...], dtype: Any) -> str:
    """`uint8 [60000, 28, 28]`, for a message."""
    return f"{dtype} [{', '.join(map(str, shape))}]"


def layout_of(place: str, name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Layout, str]:
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
    return Layout(sides, axes), f"axes of {escape(name)}: images, {layout}"


def _other_dtype(dtype: np.dtype) -> str:
    """Return the remedy for an array that is not uint8: how to convert it to bytes."""
    if dtype.kind == "f":
        return "save bytes: (x * 255).round().astype('uint8') where x is 0 to 1; undo a mean that was subtracted"
    if dtype.kind == "b":
        return "save bytes: x.astype('uint8') * 255"
    if dtype.kind in "iu":
        return "save x.astype('uint8') if its values are 0 to 255, else scale them first"
    return "give the array that holds the pixels"
