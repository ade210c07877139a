"""Options for images: every choice that changes their bytes in records."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, Literal

from shardfeed.converters.rejects import MAX_FILE_BYTES, MAX_PIXELS
from shardfeed.declared import Range, Typed, checked
from shardfeed.errors import UsageError, argument, shown
from shardfeed.text import typed_number


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


# Changes made only on request; all others depend on the source.
ASKED = frozenset({Change.RESIZED, Change.REENCODED, Change.RAW, Change.JPEG, Change.BASELINE, Change.SEEKABLE})


Check = Literal["decode", "header", "none"]
Encode = Literal["keep", "raw"]
Filter = Literal["lanczos", "bicubic", "hamming"]
Rgb = tuple[int, int, int]  # each 0 to 255

WHITE: Rgb = (255, 255, 255)

_LARGE = 384  # pixels, of a side from which on cutting a JPEG into pieces helps
Side = Annotated[int, Range(1, 65_535)]  # pixels, as of a JPEG
Quality = Annotated[int, Range(1, 100)]


def read_shape(text: str) -> int | tuple[int, int]:
    """Parse `size` as it is typed. Raises UsageError."""
    sides = [side for side in map(typed_number, text.lower().split("x", 2)) if side is not None]
    if len(sides) not in (1, 2) or text.lower().count("x") != len(sides) - 1:
        raise UsageError("size", f"got {shown(text)}, expected HEIGHTxWIDTH like 224x320, or one number")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


@checked
@dataclass(frozen=True)
class ImageOptions:
    """Image options that affect the stored bytes.

    Args:
        check: "decode" decodes every image; "header" reads headers and looks for the end marker; "none" reads only the
            values that are stored with the image (format, height, width). Images that are transcoded are always
            decoded.
        encode: "keep" stores JPEG and PNG files; "raw" stores pixels, for every source format: uint8 RGB, row-major
            [height, width, 3], greyscale as three equal channels.
        resize_shorter: pixels; larger images are shrunk so that their shorter side has this length. Never enlarges.
        size: (height, width), or one number for a square, each 1 to 65535: every image is resized to cover it and
            cropped at the centre, so that all records have one shape. Enlarges small images. Not together with
            `resize_shorter`.
        resize_filter: the filter for shrinking: "lanczos" (the sharpest), "bicubic", or "hamming" (the fastest, about
            as good as area averaging). Enlarging is always bicubic.
        quality: 1 to 100; if given, every JPEG is re-encoded at this quality. None: only images that have to be
            re-encoded are encoded, at quality 92. Not for "raw".
        baseline: progressive JPEGs that are not re-encoded are converted to baseline JPEGs, losslessly. Needs the
            package `turbojpeg` (the extra `baseline`), which is checked when a conversion is planned. Not for "raw".
        seekable: JPEGs get restart markers, and records store where the rows of the JPEG begin (`image/restarts`), so
            that a crop can be decoded alone. True: all JPEGs; JPEGs that are not re-encoded get markers losslessly,
            which needs the compiled module, checked when a conversion is planned. None: only re-encoded JPEGs with a
            side of 384 pixels or more, which grow by at most 2 %. False: none. True is an error with "raw".
        png_to_jpeg: images that would be stored as PNG are stored as JPEG, at `quality` or 92, for readers that support
            only JPEG; not for "raw".
        background: colour behind transparent pixels: a name ("white", "gray"), "#rrggbb", "r,g,b" or a tuple of three,
            each 0 to 255. "none": alpha is dropped, and the colours of transparent pixels are stored.
        bits: bits that the values of 16-bit gray images use, 9 to 16: 12 for most X-ray detectors, so that 4095 becomes
            white. An image with a larger value is an error (E_UNSUPPORTED), and so is a colour image of 16 bits if
            this is below 16.
        keep_depth: PNG and TIFF images of 16 bits, gray or RGB, are stored as PNG of 16 bits (`image/format` "png16"),
            and loaders give them as uint16. Other images are stored as without it. Not with "raw", `png_to_jpeg` and
            `bits`.
        max_pixels: limit of height * width; larger images are rejected as E_TOO_LARGE before they are decoded.
        max_bytes: limit of the file size; larger files are rejected as E_TOO_LARGE before they are read.
        sha256: store the hash of every source file.

    Example:
        convert("photos", "out", image=ImageOptions(resize_shorter=256, quality=90))
    """

    check: Annotated[Check, Typed("check of each image: decode (default), header, none", "HOW")] = "decode"
    encode: Annotated[Encode, Typed("store files (keep, default) or raw RGB pixels (raw)")] = "keep"
    resize_shorter: Annotated[Side | None, Typed("shrink images so that the shorter side is PX", "PX")] = None
    size: Annotated[
        Side | tuple[Side, Side] | None,
        Typed("scale to cover HxW pixels, then crop the center", "HxW|PX", read=read_shape),
    ] = None
    resize_filter: Annotated[Filter, Typed()] = "lanczos"  # rarely needed: docs/convert.md explains when
    quality: Annotated[Quality | None, Typed("JPEG quality of re-encoded images, 1 to 100", "Q")] = None
    baseline: Annotated[bool, Typed("convert progressive JPEGs to baseline; needs shardfeed[baseline]")] = False
    seekable: Annotated[bool | None, Typed("faster decoding of crops; needs the compiled module")] = None
    png_to_jpeg: Annotated[bool, Typed("store PNGs as JPEG, for readers that only decode JPEG")] = False
    background: Annotated[str | Rgb, Typed("colour behind transparent pixels; none drops alpha", "COLOR")] = "white"
    bits: Annotated[int, Range(9, 16), Typed("bits used by 16-bit gray images: 12 makes 4095 white", "N")] = 16
    keep_depth: Annotated[bool, Typed("keep the 16 bits of PNG and TIFF images; batches are uint16")] = False
    max_pixels: Annotated[
        int, Range(1, MAX_PIXELS), Typed(f"reject larger images (default and maximum: {MAX_PIXELS})", "N")
    ] = MAX_PIXELS
    max_bytes: Annotated[int, Range(1, MAX_FILE_BYTES)] = MAX_FILE_BYTES
    sha256: Annotated[bool, Typed("do not store the SHA-256 of each source file", flag="no-hash")] = True

    def __post_init__(self) -> None:
        self._check_size()
        if self.encode == "raw" and self.quality is not None:
            raise UsageError("quality", "does not apply to raw pixels", "leave it out")
        for name in ("baseline", "png_to_jpeg", "seekable"):
            if getattr(self, name) and self.encode == "raw":
                raise UsageError(name, "does not apply to raw pixels", "leave it out")
        for name in ("encode", "png_to_jpeg", "bits"):
            if self.keep_depth and getattr(self, name) not in ("keep", False, 16):
                raise UsageError("keep_depth", f"with {argument(name)} images have 8 bits", "leave one of the two out")
        _ = self.background_rgb

    def _check_size(self) -> None:
        if self.size is None:
            return
        sides = (self.size,) if isinstance(self.size, int) else self.size
        if sides[0] * sides[-1] > MAX_PIXELS:
            raise UsageError("size", f"got {sides[0]} x {sides[-1]} pixels, expected at most {MAX_PIXELS}")
        if self.resize_shorter is not None:
            problem = f"every image gets this size, so {argument('resize_shorter')} has no effect"
            raise UsageError("size", problem, "leave one out")

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of every record, from `size`; None if images keep their own sizes."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @property
    def restarts(self) -> bool:
        """True if each record stores where the rows of its JPEG begin (`image/restarts`)."""
        sides = [side for side in (self.resize_shorter, *(self.shape or ())) if side is not None]
        large = max(sides) >= _LARGE if sides else self.quality is not None
        return self.encode == "keep" and (large if self.seekable is None else self.seekable)

    @property
    def background_rgb(self) -> Rgb | None:
        """`background` as red, green, blue, each 0 to 255; None to drop alpha. Raises UsageError if it is no colour."""
        found: object = self.background
        if found == "none":
            return None
        if found == "white":  # nearly always; the module for other colours takes a while to import
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
            problem = f"got {self.background!r}, expected a color such as white, '#808080' or '128,128,128', or none"
            raise UsageError("background", problem)
        return found  # type: ignore[return-value]  # as above

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that differs for any two sets of options that could give different bytes."""
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
            "background": "none" if self.background_rgb is None else list(self.background_rgb),
            **({"bits": self.bits} if self.bits != 16 else {}),
            **({"keep_depth": True} if self.keep_depth else {}),
            "max_pixels": self.max_pixels,
            "max_bytes": self.max_bytes,
        }

    @classmethod
    def from_json(cls, options: Mapping[str, Any]) -> "ImageOptions":
        """Inverse of `to_json`. Missing keys get defaults; unknown keys are ignored."""
        known: dict[str, Any] = {each.name: options[each.name] for each in fields(cls) if each.name in options}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**known)
