"""Which image format some bytes are, by content and never by name."""

from typing import Literal

from shardfeed.converters.images.png import SIGNATURE as PNG_SIGNATURE
from shardfeed.converters.rejects import RejectCode, RejectedError

Kind = Literal["jpeg", "png", "gif", "bmp", "tiff", "webp", "avif"]

_JPEG_SIGNATURE = b"\xff\xd8\xff"
_DIB_HEADER_BYTES = (12, 40, 52, 56, 64, 108, 124)  # every version of the header that follows "BM"
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # TIFF and BigTIFF, little and big endian
_UNSUPPORTED = {
    b"8BPS": "Photoshop",
    b"\0\0\1\0": "icon",
    b"\0\0\0\x0cjP  ": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"\0\0\0\x0cJXL ": "JPEG XL",
    b"\xff\x0a": "JPEG XL",
    b"qoif": "QOI",
    b"v/1\x01": "OpenEXR",
    b"#?RADIANCE": "Radiance HDR",
    b"P5\n": "PGM",
    b"P6\n": "PPM",
}


def image_kind(data: bytes) -> Kind:
    """The format of a whole file's bytes. Raises RejectedError: empty, no image, or a format that is not handled."""
    if data.startswith(_JPEG_SIGNATURE):
        return "jpeg"
    if data.startswith(PNG_SIGNATURE):
        return "png"
    if not data:
        raise RejectedError(RejectCode.EMPTY, "no bytes")
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _DIB_HEADER_BYTES:
        return "bmp"
    if data.startswith(_TIFF_SIGNATURES):
        return "tiff"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp":
        return _isobmff_kind(data)
    for signature, name in _UNSUPPORTED.items():
        if data.startswith(signature):
            raise RejectedError(RejectCode.UNSUPPORTED, f"{name} images are not converted")
    for signature in (_JPEG_SIGNATURE, PNG_SIGNATURE):
        if signature.startswith(data):
            raise RejectedError(RejectCode.TRUNCATED, f"ends after {len(data)} bytes")
    raise RejectedError(RejectCode.NOT_IMAGE, f"begins with {data[:12]!r}")


def _isobmff_kind(data: bytes) -> Kind:
    """AVIF, among the many formats that begin with a box that lists brands (ISO/IEC 14496-12, ftyp)."""
    size = min(int.from_bytes(data[:4], "big"), 4096)
    brands = {data[8:12], *(data[at : at + 4] for at in range(16, size, 4))}
    if data[8:12] == b"avis":
        raise RejectedError(RejectCode.ANIMATED, "AVIF image sequence")
    if b"avif" in brands:
        return "avif"
    if brands & {b"heic", b"heix", b"hevc", b"hevx", b"mif1", b"msf1"}:
        raise RejectedError(RejectCode.UNSUPPORTED, "HEIF images are not converted")
    raise RejectedError(RejectCode.NOT_IMAGE, f"a media file of brand {data[8:12]!r}")
