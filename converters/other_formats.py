"""GIF, BMP, TIFF, WebP and AVIF to pixels: formats that some loader cannot read, or reads otherwise.

GIF and WebP headers are read here first: Pillow allocates a WebP's canvas when it opens the file, and answers "how many
frames?" by walking them.
"""

import io
from typing import NamedTuple

from PIL import Image, ImageFile
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from shardfeed.converters.exif import ORIENTATION_TAG, read_orientation
from shardfeed.converters.pixels import check_size, gray_or_rgb, strict_decoding
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sniff import Kind

# The plugins' classes and not Image.open, which refuses and warns by Image.MAX_IMAGE_PIXELS, a setting of the host
# process: the same image must give the same result everywhere, and our own limit is checked before.
_FILES: dict[Kind, type[ImageFile.ImageFile]] = {
    "gif": GifImageFile,
    "bmp": BmpImageFile,
    "tiff": TiffImageFile,
    "webp": WebPImageFile,
    "avif": AvifImageFile,
}
_NEW_SUBFILE_TYPE, _REDUCED = 254, 1  # TIFF 6.0: a smaller version of another image in the file
_DNG_VERSION = 50706


class LoadedImage(NamedTuple):
    """Pixels of mode L or RGB, not upright yet, and what was found on the way.

    changes: words for what makes the format unusual. orientation: EXIF, 1..8, still to be applied.
    exif_problem: None or why it was read as 1. lossy: whether the source stores pixels with loss.
    """

    pixels: Image.Image
    changes: tuple[str, ...]
    orientation: int
    exif_problem: str | None
    lossy: bool


class FrameSize(NamedTuple):
    """What a header says of a possibly animated image: pixels, and whether a second frame exists.

    `lossy`: whether its pixels are stored with loss.
    """

    height: int
    width: int
    animated: bool
    lossy: bool


def load_other(kind: Kind, data: bytes, max_pixels: int) -> LoadedImage:
    """Decode one still image of `kind`. Raises RejectedError, on animations too."""
    lossy = kind == "avif"
    if kind in ("gif", "webp"):
        frame = read_gif_header(data) if kind == "gif" else read_webp_header(data)
        check_size(frame.height, frame.width, max_pixels)
        if frame.animated:
            raise RejectedError(RejectCode.ANIMATED, f"{kind} with more than one frame")
        lossy = frame.lossy
    with strict_decoding(kind):
        image = _FILES[kind](io.BytesIO(data))
        check_size(image.height, image.width, max_pixels)
        # GIF answers by reading on to its second frame, and our own walk has done that.
        if kind != "gif" and getattr(image, "is_animated", False):
            raise RejectedError(RejectCode.ANIMATED, f"{kind} with more than one image")
        exif = image.info.get("exif")
        orientation, problem = read_orientation(exif) if exif else (1, None)
        turned = orientation != 1
        if isinstance(image, TiffImageFile):
            tags = image.tag_v2
            if _DNG_VERSION in tags or tags.get(_NEW_SUBFILE_TYPE, 0) & _REDUCED:
                raise RejectedError(
                    RejectCode.UNSUPPORTED, "TIFF whose first image is a thumbnail, as in camera RAW files"
                )
            turned = tags.get(ORIENTATION_TAG, 1) in range(2, 9)  # Pillow applies it while it loads
        changes: list[str] = [kind]
        if image.mode == "P" and kind != "gif":
            changes.append("palette")
        elif image.mode == "CMYK":
            changes.append("cmyk")
        elif image.mode == "1":
            changes.append("1-bit")
        elif image.mode.startswith("I;16"):
            changes.append("16-bit")
        if image.has_transparency_data:
            changes.append("alpha")
        if turned:
            changes.append("exif-rotated")
        image.load()
        return LoadedImage(gray_or_rgb(image), tuple(changes), orientation, problem, lossy)


def read_gif_header(data: bytes) -> FrameSize:
    """Walks to the second frame or the end, whatever comes first. Raises RejectedError when the file is cut."""
    cut = RejectedError(RejectCode.TRUNCATED, f"GIF ends before its trailer, at byte {len(data)}")
    if len(data) < 13:
        raise cut
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    at = 13 + _color_table_bytes(data[10])
    frames = 0
    while True:
        block = data[at : at + 1]
        if block == b"\x3b" and frames:  # trailer
            return FrameSize(height, width, False, False)
        if block == b"\x2c":  # image descriptor, color table, LZW code size, sub-blocks
            frames += 1
            if frames > 1:
                return FrameSize(height, width, True, False)
            if at + 11 > len(data):
                raise cut
            at += 11 + _color_table_bytes(data[at + 9])
        elif block == b"\x21":  # extension, label, sub-blocks
            at += 2
        elif block and at < len(data):
            raise RejectedError(RejectCode.CORRUPT, f"GIF has an unknown block 0x{block.hex()} at byte {at}")
        while at < len(data) and data[at]:
            at += 1 + data[at]
        if at >= len(data):
            raise cut
        at += 1


def _color_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def read_webp_header(data: bytes) -> FrameSize:
    """Walks to the second frame or the first still image. Raises RejectedError when the file is cut or corrupt."""
    if int.from_bytes(data[4:8], "little") + 8 > len(data) or len(data) < 30:
        raise RejectedError(RejectCode.TRUNCATED, f"WebP ends before its declared size, at byte {len(data)}")
    canvas: tuple[int, int] | None = None
    frames = 0
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 18]
        if name == b"VP8X":
            canvas = int.from_bytes(body[7:10], "little") + 1, int.from_bytes(body[4:7], "little") + 1
        elif name == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
            width, height = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
            return FrameSize(*(canvas or (height & 0x3FFF, width & 0x3FFF)), False, True)
        elif name == b"VP8L" and body[:1] == b"\x2f":
            bits = int.from_bytes(body[1:5], "little")
            return FrameSize(*(canvas or ((bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)), False, False)
        elif name == b"ANMF":
            frames += 1
            if frames > 1:
                break
        at += 8 + size + size % 2
    if not frames or canvas is None:
        raise RejectedError(RejectCode.CORRUPT, "WebP has no image in it")
    return FrameSize(*canvas, frames > 1, False)
