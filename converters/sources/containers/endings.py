"""What names of images end in, by their content."""

from shardfeed.converters.images.sniff import image_kind
from shardfeed.converters.rejects import RejectedError

_ENDING = {"jpeg": b".jpg", "tiff": b".tif", "jpeg2000": b".jp2", "pnm": b".ppm"}


def ending_of(head: bytes) -> bytes:
    """Of an image that begins with `head`: b".jpg"; b"" where it is no image that is converted."""
    try:
        kind = image_kind(head)
    except RejectedError:
        return b""
    return _ENDING.get(kind, b"." + kind.encode())
