"""The numbers in a mask's file, exactly: indices of a palette, 1 to 16 bits; or its colours.

A decoder of pictures would give the colours of a palette, stretch 2 and 4 bits to 8, and keep the high byte of 16.
"""

import io
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile

from shardfeed.converters.images.exif import ORIENTATION_TAG
from shardfeed.converters.images.other_headers import check_gif
from shardfeed.converters.images.pixels import strict_decoding
from shardfeed.converters.images.png import GRAY, check_rows, only_pixels, read_png_header
from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError, check_size

_BITS_TAG, _COMPRESSION_TAG, _PHOTOMETRIC_TAG = 258, 259, 262  # TIFF 6.0
_LOSSY_COMPRESSION = {6, 7, 33003, 33005, 34712, 34892, 50001}  # JPEG, JPEG 2000, WebP
_WHITE_IS_ZERO = 0
_STEP = {2: 85, 4: 17}  # factors by which Pillow multiplies gray values with fewer bits
_SAVE = "save masks as PNG of 8 bits, or as TIFF, BMP or GIF"


class MaskFile(NamedTuple):
    """`pixels`: [height, width], integers; or colours, uint8 [height, width, 3].

    `palette`: uint8 [256, 3], the colours that the integers stand for; None for plain numbers.
    """

    pixels: np.ndarray
    palette: np.ndarray | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        return self.pixels.shape[1], self.pixels.shape[0]

    def values(self) -> np.ndarray | None:
        """[height, width]: integers, for a palette its indices; None if it has colours other than gray."""
        if self.pixels.ndim == 2:
            return self.pixels
        red = self.pixels[..., 0]
        return red if (self.pixels == red[..., None]).all() else None

    def colours(self) -> np.ndarray | None:
        """Int32 [height, width]: red * 65536 + green * 256 + blue; None if there are numbers above 255."""
        if self.pixels.ndim == 3:
            return packed(self.pixels)
        if self.palette is not None:
            return packed(self.palette)[self.pixels]
        if self.pixels.size and (self.pixels.max() > 255 or self.pixels.min() < 0):
            return None
        return self.pixels.astype(np.int32) * 0x010101


def packed(colours: np.ndarray) -> np.ndarray:
    """Int32 [...]: red * 65536 + green * 256 + blue of uint8 [..., 3]."""
    wide = colours.astype(np.int32)
    return (wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2]


def read_mask(data: bytes, max_pixels: int = MAX_PIXELS) -> MaskFile:
    """Decode the file of a mask. Raise RejectedError if it is lossy, turned, transparent, cut, or has many images."""
    kind = image_kind(data)
    if kind in ("jpeg", "webp", "avif", "heif", "jpeg2000"):
        problem = f"a {kind} file, whose lossy compression may mix class values: {_SAVE}"
        raise RejectedError(RejectCode.MASK_LOSSY, problem)
    if kind == "pnm":
        raise RejectedError(RejectCode.UNSUPPORTED, f"a mask as {kind}: {_SAVE}")
    if kind == "png":
        return _read_png(data, max_pixels)
    if kind == "gif":
        check_gif(data, max_pixels)  # which refuses animations
    with strict_decoding(kind):
        image = {"gif": GifImageFile, "bmp": BmpImageFile, "tiff": TiffImageFile}[kind](io.BytesIO(data))
        check_size(image.height, image.width, max_pixels)
        bits = _checked_tiff(image) if isinstance(image, TiffImageFile) else 8
        image.load()
        return _pixels(image, bits)


def _read_png(data: bytes, max_pixels: int) -> MaskFile:
    header = read_png_header(data, max_pixels, "all")
    if header.animated:
        raise RejectedError(RejectCode.ANIMATED, "PNG with more than one frame")
    if header.orientation != 1:
        raise _turned(header.orientation)
    if header.bits == 16 and header.color_type != GRAY:
        raise RejectedError(RejectCode.UNSUPPORTED, f"colours of 16 bits: {_SAVE}")
    check_rows(data, header)
    with strict_decoding("png"):
        image = PngImageFile(io.BytesIO(only_pixels(data, header)))
        image.load()
        return _pixels(image, header.bits)


def _checked_tiff(image: TiffImageFile) -> int:
    """Bits of a value. Raises RejectedError."""
    tags = image.tag_v2
    if getattr(image, "is_animated", False):
        raise RejectedError(RejectCode.ANIMATED, "TIFF with more than one image")
    if (turn := tags.get(ORIENTATION_TAG, 1)) != 1:
        raise _turned(turn)
    if tags.get(_COMPRESSION_TAG) in _LOSSY_COMPRESSION:
        raise RejectedError(RejectCode.MASK_LOSSY, f"a TIFF file with lossy compression: {_SAVE}")
    bits = tags.get(_BITS_TAG, (1,))[0]
    if tags.get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO and bits > 1:
        raise RejectedError(RejectCode.UNSUPPORTED, f"a TIFF file in which 0 is white: {_SAVE}")
    return bits


def _turned(orientation: int) -> RejectedError:
    problem = f"the mask has its own EXIF orientation ({orientation}), which only some tools apply"
    return RejectedError(RejectCode.FRAME, f"{problem}: save it rotated, without EXIF")


def _pixels(image: Image.Image | ImageFile.ImageFile, bits: int) -> MaskFile:
    """`bits`: of a value in the file."""
    mode = image.mode
    if mode == "1":
        return MaskFile(np.asarray(image).astype(np.uint8), _grays(2))
    if mode == "L" and bits in _STEP:
        return MaskFile(np.asarray(image) // _STEP[bits], _grays(1 << bits))
    if mode == "P":
        palette = np.zeros((256, 3), np.uint8)
        known = np.array(image.getpalette("RGB") or [], np.uint8).reshape(-1, 3)
        palette[: len(known)] = known
        return MaskFile(np.asarray(image), palette)
    if mode in ("L", "RGB", "I") or mode.startswith("I;16"):
        return MaskFile(np.asarray(image))
    if mode in ("LA", "RGBA"):
        pixels = np.asarray(image)
        see_through = np.flatnonzero(pixels[..., -1].ravel() != 255)
        if len(see_through):
            place = place_text(see_through[0], image.width)
            raise RejectedError(RejectCode.MASK_VALUE, f"a transparent pixel at {place}: {_SAVE}")
        return MaskFile(pixels[..., 0] if mode == "LA" else pixels[..., :3])
    raise RejectedError(RejectCode.UNSUPPORTED, f"pixels of mode {mode} are not class numbers: {_SAVE}")


def _grays(count: int) -> np.ndarray:
    """A palette of `count` grays from black to white."""
    palette = np.zeros((256, 3), np.uint8)
    palette[:count] = np.linspace(0, 255, count).round()[:, None]
    return palette


def place_text(index: int | np.integer, width: int) -> str:
    """Describe the position of pixel `index`, counted row by row."""
    return f"column {index % width}, row {index // width}"
