"""Small pictures of stored images, for notebooks and contact sheets."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # only formats whose decoder starts no other program


def rgb_picture(encoded: bytes, raw: tuple[int, int] | None, side: int) -> "Image":
    """Decode an image file to RGB, of about `side` pixels or more; may raise any error for damaged bytes.

    `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
    """
    from PIL import Image

    if raw is not None:
        return Image.frombytes("RGB", (raw[1], raw[0]), encoded)
    with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:  # as loaders see it: no EXIF orientation
        image.draft("RGB", (side, side))
        return image.convert("RGB")
