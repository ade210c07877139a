"""What the image in a record is, by its bytes: what another program wrote beside it vouches for nothing."""

from shardfeed.converters.images.jpeg import check_end_marker, read_jpeg_header
from shardfeed.converters.images.png import read_png_header
from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError
from shardfeed.formats.format import Fields
from shardfeed.jpeg.markers import SIGNATURE, is_whole
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH

DAMAGED = "damaged"  # begins as an image, and no decoder would read it
UNKNOWN = "unknown"  # no image that is known

_STARTS = (SIGNATURE, b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II", b"MM")


def image_formats(features: Fields) -> dict[str, str]:
    """Key -> "jpeg", "png", "webp", "raw" ..., or DAMAGED, of each feature whose only value is an image by its bytes.

    Raw pixels are known by `image/format` alone, and by as many bytes as height and width ask for. Of a JPEG or PNG the
    header and the end are looked at, not the image data.
    """
    found: dict[str, str] = {}
    for key, (dtype, values) in features.items():
        if dtype != "bytes" or len(values) != 1:
            continue
        data = bytes(values[0])
        if key == ENCODED and one_text(features, FORMAT) == b"raw":
            found[key] = (
                "raw" if len(data) == 3 * one_number(features, HEIGHT) * one_number(features, WIDTH) else DAMAGED
            )
        elif data.startswith(_STARTS) or data[4:8] == b"ftyp":
            try:
                found[key] = _file_format(data)
            except RejectedError as error:
                if error.code is not RejectCode.NOT_IMAGE:
                    found[key] = DAMAGED
    return found


def _file_format(data: bytes) -> str:
    if is_whole(data):
        return "jpeg"
    kind = image_kind(data)
    if kind == "jpeg":
        header = read_jpeg_header(data, MAX_PIXELS)
        check_end_marker(data, header)
        return kind if header.process <= 2 and header.bits == 8 else DAMAGED
    if kind == "png":
        read_png_header(data, MAX_PIXELS, "header")
    return kind


def one_text(features: Fields, key: str) -> bytes:
    """The only value as text, a number in digits; b"" where there is none."""
    dtype, values = features.get(key, ("", ()))
    if len(values) != 1 or dtype == "float32":
        return b""
    return bytes(values[0]) if dtype == "bytes" else b"%d" % int(values[0])


def one_number(features: Fields, key: str) -> int:
    """The only value, an integer; -1 where it is none."""
    dtype, values = features.get(key, ("int64", ()))
    return int(values[0]) if dtype == "int64" and len(values) == 1 else -1
