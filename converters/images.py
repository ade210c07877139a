"""One image, checked, and normalised where some loader would read it wrong.

Kept byte for byte: JPEG, gray or YCbCr, 8 bits, sequential or progressive, upright; PNG, gray or RGB, 8 bits, without
transparency, upright. TensorFlow, DALI, Pillow and OpenCV agree on those. The rest is transcoded: to PNG, exactly,
when the source is lossless or a JPEG of unusual colors (CMYK, YCCK, RGB: rare, and worth the bytes); to JPEG of
quality 92 when it is a turned JPEG, a lossy WebP or an AVIF, which as PNG would be four to eight times their size.
"""

from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from shardfeed.converters import pixels as px
from shardfeed.converters.jpeg_header import JpegHeader, check_end_marker, check_scans, read_jpeg_header
from shardfeed.converters.limits import MAX_FILE_BYTES, MAX_PIXELS
from shardfeed.converters.other_formats import load_other
from shardfeed.converters.png_header import GRAY, PALETTE, RGB, Crcs, read_png_header
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sniff import Kind, image_kind
from shardfeed.errors import UsageError

Check = Literal["decode", "header", "none"]

DEFAULT_QUALITY = 92  # about 40 to 42 dB against the pixels it encodes, at the size of an original of that quality
_CRCS: dict[Check, Crcs] = {"decode": "all", "header": "header", "none": "none"}


@dataclass(frozen=True)
class ImageOptions:
    """Everything about images that changes bytes.

    check: "decode" decodes every image; "header" reads headers and looks for the end of the file; "none" reads only
        what is stored beside the image (format, height, width). Images that are transcoded are always decoded.
    resize_shorter: pixels; larger images are shrunk so that the shorter side is this. Never enlarges.
    quality: 1 to 100; given, every JPEG is encoded again with it. None: only what must be, with 92.
    max_pixels: height * width, max_bytes: of the file; more is rejected as E_TOO_LARGE before it is decoded.
    """

    check: Check = "decode"
    resize_shorter: int | None = None
    quality: int | None = None
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_FILE_BYTES

    def __post_init__(self) -> None:
        if self.check not in _CRCS:
            raise UsageError("check", f"got {self.check!r}, expected decode, header or none")
        for name, least, most in (
            ("resize_shorter", 1, 65_535),
            ("quality", 1, 100),
            ("max_pixels", 1, MAX_PIXELS),
            ("max_bytes", 1, MAX_FILE_BYTES),
        ):
            value = getattr(self, name)
            if value is None and name in ("resize_shorter", "quality"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise UsageError(name, f"got {value!r}, expected an integer from {least} to {most}")

    def to_json(self) -> dict[str, Any]:
        """A JSON value; two options that could give other bytes differ in it."""
        return {
            "check": self.check,
            "resize_shorter": self.resize_shorter,
            "quality": self.quality,
            "max_pixels": self.max_pixels,
            "max_bytes": self.max_bytes,
        }


@dataclass(frozen=True)
class StoredImage:
    """What a record holds of one image.

    encoded: the file. format: b"jpeg" or b"png". height, width: pixels.
    transform: None when `encoded` is the source byte for byte; else why not, words joined by "+".
    warnings: sentences about oddities that changed nothing.
    """

    encoded: bytes
    format: bytes
    height: int
    width: int
    transform: str | None
    warnings: tuple[str, ...]


def store_image(data: bytes, options: ImageOptions) -> StoredImage:
    """The image in `data`, an encoded file of any format. Raises RejectedError, and nothing else for any bytes."""
    kind = image_kind(data)
    if len(data) > options.max_bytes:
        raise RejectedError(RejectCode.TOO_LARGE, f"{len(data)} bytes, more than {options.max_bytes}")
    if kind == "jpeg":
        return _store_jpeg(data, options)
    if kind == "png":
        return _store_png(data, options)
    return _store_other(kind, data, options)


def check_encoded(data: bytes) -> tuple[bytes, int, int]:
    """Format (b"jpeg" or b"png"), height and width of a stored image that decodes whole. Raises RejectedError."""
    kind = image_kind(data)
    if kind == "jpeg":
        header = read_jpeg_header(data, MAX_PIXELS)
        _check_jpeg_variant(header)
        check_scans(data, header)
    elif kind == "png":
        header = read_png_header(data, MAX_PIXELS, "all")
    else:
        raise RejectedError(RejectCode.UNSUPPORTED, f"a record holds JPEG or PNG, this is {kind}")
    px.check_pixels(data, header)
    return kind.encode(), header.height, header.width


def _store_jpeg(data: bytes, options: ImageOptions) -> StoredImage:
    header = read_jpeg_header(data, options.max_pixels)
    _check_jpeg_variant(header)
    warnings = (header.exif_problem,) if header.exif_problem else ()
    if options.check == "decode":
        check_scans(data, header)
    elif options.check == "header":
        check_end_marker(data, header)

    words = {"CMYK": ["cmyk"], "YCCK": ["cmyk"], "RGB": ["rgb-jpeg"]}.get(header.color or "", [])
    exact = bool(words)
    if header.orientation != 1:
        words.append("exif-rotated")
    size = _smaller(header.height, header.width, options)
    if size:
        words.append("resized")
    elif options.quality is not None:
        words.append("re-encoded")
    if not words:
        if options.check == "decode":
            px.check_pixels(data, header)
        return StoredImage(data, b"jpeg", header.height, header.width, None, warnings)
    with px.strict_decoding("jpeg"):
        # Twice the size wanted: the last step is then always a real, antialiased one.
        pixels = px.load_jpeg(data, header, (2 * size[0], 2 * size[1]) if size else None)
        if size:
            pixels = px.shrink(pixels, size)
        pixels = px.upright(pixels, header.orientation)
        if exact and not size and options.quality is None:
            return _stored_png(pixels, words, warnings)
        return _stored_jpeg(pixels, words, warnings, options, half_chroma=header.half_chroma)


def _store_png(data: bytes, options: ImageOptions) -> StoredImage:
    header = read_png_header(data, options.max_pixels, _CRCS[options.check])
    if header.animated:
        raise RejectedError(RejectCode.ANIMATED, "PNG with more than one frame")
    warnings = (header.exif_problem,) if header.exif_problem else ()

    words: list[str] = []
    if header.color_type == PALETTE:
        words.append("palette")
    elif header.bits != 8:
        words.append(f"{header.bits}-bit")
    if header.color_type not in (GRAY, RGB, PALETTE) or header.transparency:
        words.append("alpha")
    if header.orientation != 1:
        words.append("exif-rotated")
    size = _smaller(header.height, header.width, options)
    if size:
        words.append("resized")
    if not words:
        if options.check == "decode":
            px.check_pixels(data, header)
        return StoredImage(data, b"png", header.height, header.width, None, warnings)
    with px.strict_decoding("png"):
        header = read_png_header(data, options.max_pixels, "header")  # with check="none" it stops before the pixels
        pixels = px.load_png(data, header)
        if size:
            pixels = px.shrink(pixels, size)
        return _stored_png(px.upright(pixels, header.orientation), words, warnings)


def _store_other(kind: Kind, data: bytes, options: ImageOptions) -> StoredImage:
    loaded = load_other(kind, data, options.max_pixels)
    words = list(loaded.changes)
    warnings = (loaded.exif_problem,) if loaded.exif_problem else ()
    pixels = loaded.pixels
    with px.strict_decoding(kind):
        size = _smaller(pixels.height, pixels.width, options)
        if size:
            words.append("resized")
            pixels = px.shrink(pixels, size)
        pixels = px.upright(pixels, loaded.orientation)
        if loaded.lossy:
            return _stored_jpeg(pixels, words, warnings, options, half_chroma=kind == "webp")
        return _stored_png(pixels, words, warnings)


def _stored_png(pixels: Image.Image, words: list[str], warnings: tuple[str, ...]) -> StoredImage:
    return StoredImage(px.encode_png(pixels), b"png", pixels.height, pixels.width, "+".join(words), warnings)


def _stored_jpeg(
    pixels: Image.Image, words: list[str], warnings: tuple[str, ...], options: ImageOptions, *, half_chroma: bool
) -> StoredImage:
    # Chroma as in the source: 4:4:4 would make a 4:2:0 source a fifth larger for detail it does not have.
    encoded = px.encode_jpeg(pixels, options.quality or DEFAULT_QUALITY, half_chroma=half_chroma)
    return StoredImage(encoded, b"jpeg", pixels.height, pixels.width, "+".join(words), warnings)


def _check_jpeg_variant(header: JpegHeader) -> None:
    if header.process > 2 or header.bits != 8 or header.color is None:
        what = f"process SOF{header.process}, {header.bits} bits, {header.components} components"
        raise RejectedError(RejectCode.UNSUPPORTED, f"JPEG of a kind that common decoders do not read: {what}")


def _smaller(height: int, width: int, options: ImageOptions) -> tuple[int, int] | None:
    """(width, height) after shrinking the shorter side to `resize_shorter`; None when nothing is to be done."""
    shorter, goal = min(height, width), options.resize_shorter
    if goal is None or shorter <= goal:
        return None
    return max(1, (width * goal + shorter // 2) // shorter), max(1, (height * goal + shorter // 2) // shorter)
