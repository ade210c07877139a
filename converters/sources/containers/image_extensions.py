"""Extensions of images, by their content."""

from shardfeed.converters.images.sniff import HEAD_BYTES, image_kind
from shardfeed.converters.rejects import RejectedError

_ENDING = {"jpeg": b".jpg", "tiff": b".tif", "jpeg2000": b".jp2", "pnm": b".ppm", "heif": b".heic"}


def ending_of(image: bytes) -> bytes:
    """The extension of an image, by its first bytes; b"" if unknown: a worker reports it later."""
    try:
        kind = image_kind(image[:HEAD_BYTES])
    except RejectedError:
        return b""
    return _ENDING.get(kind, b"." + kind.encode())
