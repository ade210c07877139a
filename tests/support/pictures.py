"""Image files of the pictures that tests draw."""

import io
from typing import Any

from PIL import Image


def image_bytes(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file of Pillow's format `kind`, with what Pillow's `save` takes."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()
