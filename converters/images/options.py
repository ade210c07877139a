"""Options for images: every choice that changes their bytes in records."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from shardfeed.converters.rejects import MAX_FILE_BYTES, MAX_PIXELS, RejectCode, RejectedError
from shardfeed.errors import UsageError, argument


class Change(StrEnum):
    """One word a change, or an oddity of the source that made one necessary. A word never changes its meaning."""

    GIF = "gif"  # a format that not every loader reads; AVIF to WEBP likewise
    BMP = "bmp"
    TIFF = "tiff"
    WEBP = "webp"
    AVIF = "avif"
    HEIF = "heif"
    JPEG2000 = "jpeg2000"
    PNM = "pnm"
    CMYK = "cmyk"
    RGB_JPEG = "rgb-jpeg"
    PALETTE = "palette"
    BITS_1 = "1-bit"
    BITS_2 = "2-bit"
    BITS_4 = "4-bit"
    BITS_16 = "16-bit"
    ALPHA = "alpha"
    TURNED = "exif-rotated"
    RESIZED = "resized"
    REENCODED = "re-encoded"
    RAW = "raw"
    JPEG = "png-to-jpeg"
    BASELINE = "baseline"
    SEEKABLE = "seekable"


# What only the options ask for; the others are about the source.
ASKED = frozenset({Change.RESIZED, Change.REENCODED, Change.RAW, Change.JPEG, Change.BASELINE, Change.SEEKABLE})


Check = Literal["decode", "header", "none"]
Encode = Literal["keep", "raw"]
Filter = Literal["lanczos", "bicubic", "hamming"]
Rgb = tuple[int, int, int]  # each 0 to 255

WHITE: Rgb = (255, 255, 255)

_LARGE = 384  # pixels, of a side from which on cutting a JPEG into pieces helps
_LONGEST = 65_535  # pixels, of a side of a JPEG


@dataclass(frozen=True)
class ImageOptions:
    """Everything about images that changes bytes.

    Args:
        check: "decode" decodes every image; "header" reads headers and looks for the end of the file; "none" reads only
            what is stored beside the image (format, height, width). Images that are transcoded are always decoded.
        encode: "keep" stores JPEG and PNG files; "raw" stores pixels: uint8 RGB, row-major [height, width, 3], gray as
            three equal channels. Every source format becomes them.
        resize_shorter: pixels; larger images are shrunk so that the shorter side is this. Never enlarges.
        size: (height, width), or one number for a square, each 1 to 65535: every image covers it and the middle is cut
            out, so that all records have one shape. Enlarges small images. Excludes `resize_shorter`.
        resize_filter: how pixels are mixed where an image is shrunk: "lanczos", the sharpest, "bicubic", or "hamming",
            the fastest, which is about as good as averaging over areas. What is enlarged is always bicubic.
        quality: 1 to 100; given, every JPEG is encoded again with it. None: only what must be, with 92. Not for "raw".
        baseline: progressive JPEGs that are kept are made baseline without loss. Needs the package `turbojpeg`, the
            extra `baseline`, looked for when a conversion is planned; not for "raw".
        seekable: JPEGs get restart markers, and records say where their rows begin (`image/restarts`), so that windows
            of them are decoded without the rest. True: all, those that are kept, too, without loss, which needs the
            extra `seekable`, looked for when a conversion is planned. None: those that are encoded again, to a side of
            384 pixels or more, for at most 2 % of their bytes. False: none. Not True for "raw".
        png_to_jpeg: what would be stored as PNG is stored as JPEG, of `quality` or 92, for readers that take nothing
            else; not for "raw".
        background: what shows where an image is transparent: a name ("white", "gray"), "#rrggbb", "r,g,b" or a tuple of
            three, each 0 to 255.
        max_pixels: height * width; more is rejected as E_TOO_LARGE before it is decoded.
        max_bytes: of the file; more is rejected as E_TOO_LARGE before it is read.
        sha256: the hash of every source file is stored.
    """

    check: Check = "decode"
    encode: Encode = "keep"
    resize_shorter: int | None = None
    size: int | tuple[int, int] | None = None
    resize_filter: Filter = "lanczos"
    quality: int | None = None
    baseline: bool = False
    seekable: bool | None = None
    png_to_jpeg: bool = False
    background: str | Rgb = "white"
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_FILE_BYTES
    sha256: bool = True

    def __post_init__(self) -> None:
        if self.check not in get_args(Check):
            raise UsageError("check", f"got {self.check!r}, expected decode, header or none")
        if self.encode not in get_args(Encode):
            raise UsageError("encode", f"got {self.encode!r}, expected keep or raw")
        if self.resize_filter not in get_args(Filter):
            raise UsageError("resize_filter", f"got {self.resize_filter!r}, expected {', '.join(get_args(Filter))}")
        _check_range("resize_shorter", self.resize_shorter, _LONGEST, optional=True)
        _check_range("quality", self.quality, 100, optional=True)
        _check_range("max_pixels", self.max_pixels, MAX_PIXELS)
        _check_range("max_bytes", self.max_bytes, MAX_FILE_BYTES)
        self._check_size()
        if self.encode == "raw" and self.quality is not None:
            raise UsageError("quality", "raw pixels are not encoded, so they have none", "leave it out")
        for name in ("baseline", "png_to_jpeg", "seekable"):
            asked = getattr(self, name)
            if not isinstance(asked, bool) and not (name == "seekable" and asked is None):
                raise UsageError(name, f"got {asked!r}, expected True or False")
            if asked and self.encode == "raw":
                raise UsageError(name, "raw pixels are no JPEG", "leave it out")
        _ = self.background_rgb

    def _check_size(self) -> None:
        if self.size is None:
            return
        sides = (self.size,) if isinstance(self.size, int) else self.size
        if not isinstance(sides, tuple) or len(sides) not in (1, 2):
            raise UsageError("size", f"got {self.size!r}, expected (height, width) or one number")
        for side in sides:
            _check_range("size", side, _LONGEST)
        if sides[0] * sides[-1] > MAX_PIXELS:
            raise UsageError("size", f"got {sides[0]} x {sides[-1]} pixels, expected at most {MAX_PIXELS}")
        if self.resize_shorter is not None:
            raise UsageError(
                "size", f"every image gets this size, so {argument('resize_shorter')} says nothing", "leave one out"
            )

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of every record by `size`; None where images keep a size of their own."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @property
    def restarts(self) -> bool:
        """Whether records say where the pieces of their JPEGs begin."""
        sides = [side for side in (self.resize_shorter, *(self.shape or ())) if side is not None]
        large = max(sides) >= _LARGE if sides else self.quality is not None
        return self.encode == "keep" and (large if self.seekable is None else self.seekable)

    @property
    def background_rgb(self) -> Rgb:
        """`background` as red, green, blue, each 0 to 255. Raises UsageError for what is no color."""
        found: object = self.background
        if found == "white":  # nearly always: what knows the others takes a while to import
            return WHITE
        if isinstance(found, str):
            from PIL import ImageColor

            try:
                numbers = [int(part) for part in found.split(",")] if "," in found else None
                found = tuple(numbers) if numbers else ImageColor.getrgb(found.strip())
            except ValueError:
                found = None
        whole = isinstance(found, tuple) and len(found) == 3 and all(type(part) is int for part in found)
        if not whole or not all(0 <= part <= 255 for part in found):  # type: ignore[union-attr]  # three ints: see above
            problem = f"got {self.background!r}, expected a color such as white, '#808080' or '128,128,128'"
            raise UsageError("background", problem)
        return found  # type: ignore[return-value]  # as above

    def to_json(self) -> dict[str, Any]:
        """A JSON value; two options that could give other bytes differ in it."""
        return {
            "sha256": self.sha256,
            "check": self.check,
            "encode": self.encode,
            "resize_shorter": self.resize_shorter,
            "size": list(self.shape) if self.shape else None,
            # Others were made before there was a choice.
            **({"resize_filter": self.resize_filter} if self.resize_filter != "lanczos" else {}),
            "quality": self.quality,
            "baseline": self.baseline,
            "seekable": self.seekable,
            "png_to_jpeg": self.png_to_jpeg,
            "background": list(self.background_rgb),
            "max_pixels": self.max_pixels,
            "max_bytes": self.max_bytes,
        }

    @classmethod
    def from_json(cls, options: Mapping[str, Any]) -> "ImageOptions":
        """Inverse of `to_json`. Missing keys get defaults; unknown keys are ignored."""
        known: dict[str, Any] = {each.name: options[each.name] for each in fields(cls) if each.name in options}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**known)


def _check_range(name: str, value: object, most: int, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError(name, f"got {value!r}, expected an integer from 1 to {most}")


# By EXIF orientation the one that undoes it.
TURNED_BACK = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}


class Fit(NamedTuple):
    """`size`: (width, height) to make, pixels. `box`: (left, top, right, bottom) of the image that becomes it.

    `filter`: how pixels are mixed where it is shrunk.

    The box is in pixels of the image, as real numbers: a pixel is the square from its number to the next one, so half
    pixels can be meant. Nothing is rounded but what is said here:
    - `resize_shorter` P: the box is the whole image, the longer side longer * P / shorter, rounded half up, at least 1.
    - `size` (H, W): the box is the largest rectangle of the ratio W / H in the middle of the image, its left and top
      (width - w) / 2 and (height - h) / 2. Where it has W x H pixels already, so that nothing is scaled, left and
      top are rounded down: pixels are then copied, not mixed with their neighbors.
    """

    size: tuple[int, int]
    box: tuple[float, float, float, float]
    filter: Filter = "lanczos"

    @property
    def scale(self) -> float:
        """Pixels made for a pixel of the image, along a side: below 1 it is shrunk, above 1 enlarged."""
        left, top, right, bottom = self.box
        return max(self.size[0] / (right - left), self.size[1] / (bottom - top))


def fit_image(height: int, width: int, options: ImageOptions, *, lying: bool = False) -> Fit | None:
    """Plan the resize and crop of an image of `height` x `width` pixels as stored; None if nothing is to be done.

    `lying`: whether its EXIF orientation exchanges height and width; sizes are meant for the upright image.
    """
    if options.shape is not None:
        goal_height, goal_width = options.shape[::-1] if lying else options.shape
        if (height, width) == (goal_height, goal_width):
            return None
        return _cover(height, width, goal_height, goal_width, options.resize_filter)
    shorter, goal = min(height, width), options.resize_shorter
    if goal is None or shorter <= goal:
        return None
    sides = max(1, (width * goal + shorter // 2) // shorter), max(1, (height * goal + shorter // 2) // shorter)
    return Fit(sides, (0, 0, width, height), options.resize_filter)


def _cover(height: int, width: int, goal_height: int, goal_width: int, how: Filter) -> Fit:
    # In integers where it is decided which side is cut, so that the other one is the image's own to the last bit.
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
    def lying(self) -> bool:
        """Whether height and width are exchanged."""
        return self.orientation >= 5

    def size(self, *, upright: bool) -> tuple[int, int]:
        """(width, height) of the whole image, as its file has it or turned upright."""
        return (self.height, self.width) if upright and self.lying else (self.width, self.height)

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


def is_upright(placement: Placement, size: tuple[int, int] | None, said: bool | None, unclear: str) -> bool:
    """Whether annotations are of the upright image: its size tells, (width, height), where it differs, else `said`.

    Raises RejectedError, E_FRAME, where neither tells: `unclear` begins the reason.
    """
    stored, turned = placement.size(upright=False), placement.size(upright=True)
    if placement.orientation == 1:
        return True
    if size is not None and stored != turned:
        return size == turned
    if said is not None:
        return said
    remedy = argument("boxes_on", typed="upright|stored")
    raise RejectedError(RejectCode.FRAME, f"{unclear} of the upright image: say {remedy}")
