"""From any readable image to upright 8-bit gray or RGB pixels, resized, and from those to the bytes of a record.

Pillow decodes all images except regular JPEGs. What it does silently (warn, fill in a truncated file, keep metadata) is
an error here, or is removed. A JPEG's image data is checked, and decoded if it is regular, by a decoder that reports
more: `jpeg_check`. The reference for colors, exact unless noted otherwise:
- CMYK: R = (255 - C) * (255 - K) / 255, and so on; values of a JPEG are inverted when it has an Adobe marker. As
  TensorFlow and ImageMagick do; ICC profiles are not applied, no loader does.
- 16 bits: v / 257, rounded (gray); the high byte, which is at most one level off (color, as Pillow and libpng do).
  Gray values that use fewer bits are scaled by these if the user says how many (`bits`): the range of one image does
  not tell, and images scaled one by one could no longer be compared.
- Alpha: over white, as in browsers, unless another color is requested. Loaders that drop alpha show hidden pixels.
"""

import io
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from PIL import Image, ImageChops, ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from shardfeed.converters.images.deep import DeepImage, deep_image
from shardfeed.converters.images.jpeg import JpegHeader, clean_pixels, first_warning, without_metadata
from shardfeed.converters.images.options import WHITE, Filter, ImageOptions, Rgb
from shardfeed.converters.images.png import GRAY_ALPHA, PngHeader, check_rows, only_pixels
from shardfeed.converters.images.sniff import Kind
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError
from shardfeed.errors import argument

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
P = TypeVar("P", Image.Image, DeepImage)
_CLEAR = 128  # alpha of the most opaque pixel, below which an image is hardly seen
_DARK = 1 << 14  # values of 16 bits below it leave less than a quarter of the gray levels
_settings = threading.RLock()  # Pillow's settings and the warning filters belong to the whole process

# By EXIF orientation the one that undoes it.
TURNED_BACK = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}


class Fit(NamedTuple):
    """`size`: (width, height) to make, pixels. `box`: (left, top, right, bottom) of the image that becomes it.

    `filter`: how pixels are mixed when it is shrunk.

    The box is in pixels of the image, as real numbers: a pixel is the square from its number to the next one, so half
    pixels can be meant. Only these values are rounded:
    - `resize_shorter` P: the box is the whole image, the longer side longer * P / shorter, rounded half up, at least 1.
    - `size` (H, W): the box is the largest rectangle of the ratio W / H in the middle of the image, its left and top
      (width - w) / 2 and (height - h) / 2. If it already has W x H pixels, so that nothing is scaled, left and top are
      rounded down: pixels are then copied, not mixed with their neighbors.
    """

    size: tuple[int, int]
    box: tuple[float, float, float, float]
    filter: Filter = "lanczos"

    @property
    def scale(self) -> float:
        """Pixels made for a pixel of the image, along a side: below 1 it is shrunk, above 1 enlarged."""
        left, top, right, bottom = self.box
        return max(self.size[0] / (right - left), self.size[1] / (bottom - top))


def fit_image(height: int, width: int, options: ImageOptions, *, sideways: bool = False) -> Fit | None:
    """Plan the resize and crop of an image of `height` x `width` pixels as stored; None if nothing is to be done.

    `sideways`: whether its EXIF orientation exchanges height and width; sizes are meant for the upright image.
    """
    if options.shape is not None:
        goal_height, goal_width = options.shape[::-1] if sideways else options.shape
        if (height, width) == (goal_height, goal_width):
            return None
        return _cover(height, width, goal_height, goal_width, options.resize_filter)
    shorter, goal = min(height, width), options.resize_shorter
    if goal is None or shorter <= goal:
        return None
    sides = max(1, (width * goal + shorter // 2) // shorter), max(1, (height * goal + shorter // 2) // shorter)
    return Fit(sides, (0, 0, width, height), options.resize_filter)


def _cover(height: int, width: int, goal_height: int, goal_width: int, how: Filter) -> Fit:
    # Integers decide which side is cropped, so that the uncropped side is exactly the image's.
    if width * goal_height >= height * goal_width:
        box_height, box_width = float(height), height * goal_width / goal_height
    else:
        box_height, box_width = width * goal_height / goal_width, float(width)
    left, top = (width - box_width) / 2, (height - box_height) / 2
    if (box_height, box_width) == (goal_height, goal_width):
        left, top = left // 1, top // 1
    return Fit((goal_width, goal_height), (left, top, left + box_width, top + box_height), how)


class Placement(NamedTuple):
    """Placement of the pixels of an image file in the stored image.

    `height`, `width`: of the file, pixels. `orientation`: EXIF's, 1 to 8, by which it was turned upright. `fit`: what
    was cut out of the file's pixels and scaled, before it was turned; None where all of it was kept.
    """

    height: int
    width: int
    orientation: int = 1
    fit: Fit | None = None

    @property
    def sideways(self) -> bool:
        """Whether height and width are exchanged."""
        return self.orientation >= 5

    def size(self, *, upright: bool) -> tuple[int, int]:
        """(width, height) of the whole image, as its file has it or turned upright."""
        return (self.height, self.width) if upright and self.sideways else (self.width, self.height)

    @property
    def scale(self) -> float:
        """Square pixels of the stored image for a square pixel of the file."""
        if self.fit is None:
            return 1.0
        left, top, right, bottom = self.fit.box
        return self.fit.size[0] * self.fit.size[1] / ((right - left) * (bottom - top))

    def moved(self, points: np.ndarray, *, upright: bool) -> np.ndarray:
        """Fractions of the stored image's sides, [..., 2] (x, y), from those of the whole one, upright or as its file.

        Nothing is clipped: what was cut off is below 0 or above 1.
        """
        cut = self.fit is not None and self.fit.box != (0, 0, self.width, self.height)
        if not cut and (upright or self.orientation == 1):
            return points
        if upright:
            points = _turned(points, TURNED_BACK[self.orientation])
        if cut and self.fit is not None:
            left, top, right, bottom = self.fit.box
            points = (points * (self.width, self.height) - (left, top)) / (right - left, bottom - top)
        return _turned(points, self.orientation)


def _turned(points: np.ndarray, orientation: int) -> np.ndarray:
    """Fractions [..., 2] (x, y) of the image that EXIF orientation `orientation` makes of another."""
    x, y = points[..., 0], points[..., 1]
    turns = {
        1: (x, y), 2: (1 - x, y), 3: (1 - x, 1 - y), 4: (x, 1 - y), 5: (y, x), 6: (1 - y, x), 7: (1 - y, 1 - x),
        8: (y, 1 - x),
    }  # fmt: skip
    return np.stack(turns[orientation], axis=-1)


def is_upright(placement: Placement, size: tuple[int, int] | None, stated: bool | None, unclear: str) -> bool:
    """Whether annotations refer to the upright image: by `stated`, or else by the annotated size, (width, height).

    Raises RejectedError, E_FRAME, if neither decides it: `unclear` begins the reason.
    """
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    if placement.orientation == 1:
        return True
    if stated is not None:  # some tools write the size of the stored image beside boxes on the upright one
        return stated
    if size is not None and stored != turned:
        return size == turned
    remedy = argument("boxes_on", python="boxes_on='upright' or 'stored'", typed="upright|stored")
    raise RejectedError(RejectCode.FRAME, f"{unclear}: give {remedy}")


class Converted(NamedTuple):
    """Pixels of mode L or RGB, or a `DeepImage`, and sentences about what was lost on the way."""

    pixels: Any
    warnings: tuple[str, ...]


@contextmanager
def strict_decoding(kind: Kind) -> Iterator[None]:
    """Inside, whatever Pillow raises or warns about `kind` becomes a RejectedError; the host's settings are kept."""
    try:
        with _settings:  # else this could be the value that another thread has set below
            tolerant = ImageFile.LOAD_TRUNCATED_IMAGES
        if kind in ("jpeg", "png") and not tolerant:
            # They come here without metadata, the only part Pillow warns about: threads may run in parallel.
            yield
            return
        with _settings, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            limit = Image.MAX_IMAGE_PIXELS
            # Pillow raises above twice its limit, so this is ours; some plugins look at it again, at sizes of tiles.
            ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = False, MAX_PIXELS // 2
            try:
                yield
            finally:
                ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = tolerant, limit
    except RejectedError:
        raise
    except (MemoryError, Image.DecompressionBombError) as error:
        raise RejectedError(RejectCode.TOO_LARGE, f"{kind} decoder: {str(error) or 'not enough memory'}") from error
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, struct.error, IndexError and others
        message = str(error).lower()
        code = RejectCode.CORRUPT
        if isinstance(error, EOFError) or "truncated" in message or "end of file" in message:
            code = RejectCode.TRUNCATED
        elif "unsupported" in message or "unknown pixel mode" in message:
            code = RejectCode.UNSUPPORTED
        elif "out of memory" in message or "insufficient memory" in message:
            code = RejectCode.TOO_LARGE
        raise RejectedError(code, f"{kind} decoder: {str(error) or type(error).__name__}") from error


def check_pixels(data: bytes, header: JpegHeader | PngHeader) -> tuple[str, ...]:
    """Decode a whole JPEG or PNG, discard the pixels and return its oddities. Raise RejectedError."""
    if isinstance(header, PngHeader):
        check_rows(data, header)
        return ()
    message = None
    if header.color in ("gray", "YCbCr"):
        message = first_warning(data)
        if message is None:
            return ()
    with strict_decoding("jpeg"):
        image = JpegImageFile(io.BytesIO(without_metadata(data, header)))
        # An eighth of the size, as `first_warning` does it.
        image.draft("L", (max(1, image.width // 8), max(1, image.height // 8)))
        image.load()
    if message and "subsampling" in message:  # no oddity, only unknown to the first decoder
        return ("chroma subsampling that cannot be checked for truncation",)
    return (f"decoder error: {message}",) if message else ()


def load_clean_jpeg(data: bytes, header: JpegHeader, fit: Fit | None = None) -> Image.Image | None:
    """Decode as `load_jpeg` does a file in which `check_pixels` would find nothing odd; None for any other file.

    So a file that is encoded again is decoded once, and by the faster decoder.
    """
    if header.color not in ("gray", "YCbCr"):
        return None
    gray, reduction = header.color == "gray", _reduction(header, fit)
    found = clean_pixels(data, header.height, header.width, reduction, gray=gray)
    if found is None:
        return None
    size = found.shape[1], found.shape[0]
    pixels = Image.frombytes("L" if gray else "RGB", size, found.data, "raw", "L" if gray else "RGBX")
    return fitted(pixels, fit, reduction) if fit else pixels


def _reduction(header: JpegHeader, fit: Fit | None) -> int:
    """Factor by which a decoder may divide the sides: 1, 2, 4 or 8."""
    if fit is None:
        return 1
    # At least twice the size wanted: the last step is then always a real, antialiased one.
    width, height = math.ceil(2 * fit.scale * header.width), math.ceil(2 * fit.scale * header.height)
    return next((by for by in (8, 4, 2) if header.width >= by * width and header.height >= by * height), 1)


def load_jpeg(data: bytes, header: JpegHeader, fit: Fit | None = None) -> Image.Image:
    """Gray or RGB pixels as stored, with `fit` made to fit; then decoded at 1/2, 1/4 or 1/8 where that is enough."""
    image: Image.Image = JpegImageFile(io.BytesIO(without_metadata(data, header)))
    reduction = _reduction(header, fit)
    if reduction > 1:
        image.draft(None, (header.width // reduction, header.height // reduction))
    image.load()
    if header.components == 4 and not header.adobe:
        image = ImageChops.invert(image)  # Pillow treats every CMYK JPEG as Adobe's, with inverted values
    pixels, _ = gray_or_rgb(image)
    return fitted(pixels, fit, reduction) if fit else pixels


def load_png(
    data: bytes, header: PngHeader, background: Rgb | None = WHITE, bits: int = 16, *, deep: bool = False
) -> Converted:
    """Gray or RGB pixels as stored; `background`, `bits` as in `gray_or_rgb`. `deep`: those of 16 bits, kept."""
    if header.bits == 16 and header.transparency:
        raise RejectedError(RejectCode.UNSUPPORTED, "PNG of 16 bits with a transparent color")
    check_rows(data, header)  # Pillow leaves rows that are missing black
    clean = only_pixels(data, header)
    image = PngImageFile(io.BytesIO(clean))
    image.load()
    if deep:
        return kept_depth(image, clean, background, gray=header.color_type == GRAY_ALPHA)
    return gray_or_rgb(image, background, bits, wide=header.bits == 16)


def kept_depth(image: Image.Image, data: bytes, background: Rgb | None, **how: bool) -> Converted:
    """A `DeepImage`; the arguments are those of `deep_image`. Raises RejectedError."""
    warnings: list[str] = []
    if background is not None and image.mode == "RGBA":
        _check_alpha(image, warnings)
    return Converted(deep_image(image, data, background, **how), tuple(warnings))


def _check_alpha(image: Image.Image, warnings: list[str]) -> None:
    """Warn if an image of mode RGBA is hardly seen."""
    opaque = int(image.getextrema()[3][1])  # type: ignore[index]  # a pair for each band
    if opaque >= _CLEAR:
        return
    share = "most" if opaque else "all"
    dropped = argument("background", "none", python="ImageOptions(background='none')")
    problem = f"alpha is at most {opaque} of 255, so {share} that is stored is background"
    warnings.append(f"{problem}; {dropped} drops alpha")


def gray_or_rgb(
    image: Image.Image, background: Rgb | None = WHITE, bits: int = 16, *, wide: bool = False, inverted: bool = False
) -> Converted:
    """Mode L or RGB, without metadata, which Pillow would write into the new file.

    Any alpha is put over `background`, or dropped if that is None. `bits`: that values of 16-bit gray images use, 9 to
    16. `wide`: whether the file has 16 bits. `inverted`: whether it is gray of 16 bits in which 0 is white. Raises
    RejectedError.
    """
    transparent = "transparency" in image.info
    mode, warnings = image.mode, list[str]()
    if mode in ("I", "F", "LAB"):
        raise RejectedError(RejectCode.UNSUPPORTED, f"pixels of mode {mode} have no standard conversion to 8 bits")
    if wide and bits < 16 and not mode.startswith("I;16"):
        problem = f"color of 16 bits, of which the upper 8 are read: {bits} bits are for gray images"
        raise RejectedError(RejectCode.UNSUPPORTED, problem)
    if background is None:  # alpha is dropped
        image.info.pop("transparency", None)
        image = image.convert({"La": "LA", "RGBa": "RGBA"}.get(mode, mode))
        image = image.convert({"LA": "L", "PA": "RGB", "RGBA": "RGB"}.get(image.mode, image.mode))
        transparent, mode = False, image.mode
    if mode.startswith("I;16"):
        pixels = _eight_bits(image.convert("I"), bits, warnings, inverted=inverted)
    elif background is not None and (transparent or mode in ("LA", "La", "PA", "RGBA", "RGBa")):
        if mode in ("La", "PA"):
            image = image.convert("LA" if mode == "La" else "RGBA")
        image = image.convert("RGBA")
        _check_alpha(image, warnings)
        behind = Image.new("RGBA", image.size, background)
        pixels = Image.alpha_composite(behind, image).convert("RGB")
        if mode in ("1", "L", "LA", "La") and len(set(background)) == 1:  # over a color gray becomes one, too
            pixels = pixels.convert("L")
    elif mode in ("1", "L"):
        pixels = image.convert("L")
    else:
        pixels = image.convert("RGB")
    # A copy if nothing was converted: saving the opened file's class would look for frames and EXIF.
    pixels = pixels.copy() if pixels is image else pixels
    pixels.info = {}
    return Converted(pixels, tuple(warnings))


def _eight_bits(image: Image.Image, bits: int, warnings: list[str], *, inverted: bool) -> Image.Image:
    """Gray of mode L, of `image`, of mode I, whose values use `bits` bits; a warning if they use far fewer of 16.

    `inverted`: 0 is white.
    """
    most = int(image.getextrema()[1])  # type: ignore[arg-type]  # of its one band
    if most >= 1 << bits:
        raise RejectedError(RejectCode.UNSUPPORTED, f"it has the value {most}, which does not fit {bits} bits")
    if bits == 16 and most < _DARK:
        used = max(9, most.bit_length())
        left = f"values of 16 bits reach {most:,} of 65,535, so {most // 257 + 1} of 256 gray levels are left"
        option = argument("bits", used, python=f"ImageOptions(bits={used})")
        warnings.append(f"{left}; if the images have {used} bits, give {option}")
    scale, black = 255 / ((1 << bits) - 1), 0.5
    if inverted:
        scale, black = -scale, 255.5
    return image.point(lambda value: value * scale + black).convert("L")


def fitted(pixels: P, fit: Fit, reduction: float = 1.0) -> P:
    """The part of `pixels` that `fit` means, at its size: by its filter where shrunk, bicubic where enlarged.

    `reduction`: pixels of the image that `fit` was made for, along a side, to one of `pixels`.
    """
    # Lanczos, which is sharper than bicubic, would draw rings around edges when it enlarges.
    how = Image.Resampling[fit.filter.upper()] if fit.scale < 1 else Image.Resampling.BICUBIC
    left, top, right, bottom = (edge / reduction for edge in fit.box)
    return pixels.resize(fit.size, how, (left, top, right, bottom))


def upright(pixels: P, orientation: int) -> P:
    """`pixels` turned and mirrored as EXIF orientation 1..8 asks."""
    return pixels.transpose(_UPRIGHT[orientation]) if orientation != 1 else pixels


def raw_bytes(pixels: Image.Image) -> bytes:
    """uint8 RGB, row-major [height, width, 3]; gray as three equal channels."""
    return pixels.convert("RGB").tobytes()


def encode_png(pixels: Image.Image) -> bytes:
    """PNG of the pixels in their mode, no metadata."""
    out = io.BytesIO()
    pixels.save(out, format="PNG")
    return out.getvalue()


def encode_jpeg(pixels: Image.Image, quality: int, *, half_chroma: bool, interval: int = 0) -> bytes:
    """Baseline JPEG of mode L or RGB, no metadata; `half_chroma` is 4:2:0, else 4:4:4.

    `interval`: MCUs between restart markers, 0 for none.
    """
    out = io.BytesIO()
    subsampling = "4:2:0" if half_chroma else "4:4:4"
    pixels.save(out, format="JPEG", quality=quality, subsampling=subsampling, restart_marker_blocks=interval)
    return out.getvalue()
