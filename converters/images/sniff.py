"""Detect the image format of some bytes, by content and never by name."""

import re
from typing import Literal

from shardfeed.converters.images.no_image import recognise_file
from shardfeed.converters.images.png import SIGNATURE as PNG_SIGNATURE
from shardfeed.converters.rejects import RejectCode, RejectedError

Kind = Literal["jpeg", "png", "gif", "bmp", "tiff", "webp", "avif", "heif", "jpeg2000", "pnm"]

HEAD_BYTES = 4096  # bytes of a file that are enough to recognise its type
PNM_BLANK = rb"(?:[ \t-\r]|#[^\n\r]*[\n\r])+"  # white space and comments
PNM_START = re.compile(rb"P([1-6])" + PNM_BLANK + rb"([0-9]{1,9})" + PNM_BLANK + rb"([0-9]{1,9})")  # and the size
CODESTREAM_SIGNATURE = b"\xff\x4f\xff\x51"  # of JPEG 2000: SOC, SIZ

_JPEG_SIGNATURE = b"\xff\xd8\xff"
_DIB_HEADER_BYTES = (12, 40, 52, 56, 64, 108, 124)  # every version of the header that follows "BM"
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # TIFF and BigTIFF, little and big endian
_UNSUPPORTED = {
    b"8BPS": "Photoshop",
    b"\0\0\0\x0cJXL ": "JPEG XL",
    b"\xff\x0a": "JPEG XL",
    b"qoif": "QOI",
    b"v/1\x01": "OpenEXR",
    b"#?RADIANCE": "Radiance HDR",
    b"P7\nWIDTH ": "PAM",
    b"Pf\n": "PFM",
    b"PF\n": "PFM",
    b"icns": "Apple icon",
    b"DDS |\0\0\0": "DDS",
    b"FUJIFILMCCD-RAW": "camera RAW",
    b"IIRO": "camera RAW",
    b"IIU\0": "camera RAW",
}
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}  # with AVIF's, it is AVIF
_JP2_SIGNATURE = b"\0\0\0\x0cjP  \r\n\x87\n"
_ENDINGS = {"jpeg": b".jpg", "tiff": b".tif", "jpeg2000": b".jp2", "pnm": b".ppm", "heif": b".heic"}
_TGA_FOOTER = b"TRUEVISION-XFILE.\0"


def image_kind(data: bytes) -> Kind:
    """The format of a whole file's bytes. Raises RejectedError: empty, no image, or a format that is not handled."""
    if not data:
        raise RejectedError(RejectCode.EMPTY, "no bytes")
    kind = _converted_kind(data)
    if kind:
        return kind
    name = _unsupported_name(data)
    if name or data.endswith(_TGA_FOOTER):
        raise RejectedError(RejectCode.UNSUPPORTED, f"{name or 'TGA'} images are not converted")
    for signature in (_JPEG_SIGNATURE, PNG_SIGNATURE):
        if signature.startswith(data):
            raise RejectedError(RejectCode.TRUNCATED, f"ends after {len(data)} bytes")
    found = recognise_file(data[:HEAD_BYTES])
    raise RejectedError(RejectCode.NOT_IMAGE, str(found) if found else f"begins with {data[:12]!r}")


def begins_as_image(head: bytes) -> bool:
    """Whether a file that begins with `head`, HEAD_BYTES or all of it, is an image, of a format converted or not."""
    try:
        return bool(_converted_kind(head) or _unsupported_name(head))
    except RejectedError:  # an image, and more than one
        return True


def _converted_kind(data: bytes) -> Kind | None:
    if data.startswith(_JPEG_SIGNATURE):
        return "jpeg"
    if data.startswith(PNG_SIGNATURE):
        return "png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _DIB_HEADER_BYTES:
        return "bmp"
    if data.startswith(_TIFF_SIGNATURES):
        return "tiff"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data.startswith((_JP2_SIGNATURE, CODESTREAM_SIGNATURE)):
        return "jpeg2000"
    if data.startswith(b"P") and PNM_START.match(data, 0, HEAD_BYTES):
        return "pnm"
    brands = _brands(data)
    return "avif" if b"avif" in brands else "heif" if brands & _HEIF_BRANDS else None


def _unsupported_name(data: bytes) -> str | None:
    """The name of an image format that is known and not handled."""
    # "\0\0\1\0" alone begins many files; then come the number of icons and, in each one's entry, a zero.
    if data.startswith(b"\0\0\1\0") and 0 < int.from_bytes(data[4:6], "little") < 256 and data[9:10] in (b"", b"\0"):
        return "icon"
    return next((name for signature, name in _UNSUPPORTED.items() if data.startswith(signature)), None)


def _brands(data: bytes) -> set[bytes]:
    """Brands that the first box lists, in a file of the many formats that begin with `ftyp` (ISO/IEC 14496-12)."""
    if data[4:8] != b"ftyp":
        return set()
    if data[8:12] == b"avis":
        raise RejectedError(RejectCode.ANIMATED, "AVIF image sequence")
    size = min(int.from_bytes(data[:4], "big"), HEAD_BYTES)
    return {data[8:12], *(data[at : at + 4] for at in range(16, size, 4))}


def ending_of(image: bytes) -> bytes:
    """The extension of an image, by its first bytes; b"" if unknown: a worker reports it later."""
    try:
        kind = image_kind(image[:HEAD_BYTES])
    except RejectedError:
        return b""
    return _ENDINGS.get(kind, b"." + kind.encode())
