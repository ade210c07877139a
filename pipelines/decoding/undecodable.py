"""What is said of an image that does not decode, whichever framework it was for."""

from PIL import Image, UnidentifiedImageError

from shardfeed.errors import IntegrityError

PILLOW_ERRORS = (ValueError, OSError, SyntaxError, Image.DecompressionBombError)  # all that its decoders raise
_REMEDY = "`shardfeed verify DIR --deep` names all such records"


def undecodable(encoded: bytes | memoryview, error: Exception) -> IntegrityError:
    """The error to raise for `encoded`, where one of PILLOW_ERRORS came up; it does not know the record."""
    known = f"no image that is known begins with {bytes(encoded[:8])!r}"
    why = known if isinstance(error, UnidentifiedImageError) else error
    return IntegrityError("image", f"it does not decode: {why}", _REMEDY)
