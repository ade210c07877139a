"""Images of 16 bits that keep them, gray or RGB: their pixels while they are resized and turned, and the PNG of those.

Pillow, which decodes all other images, has no colours of 16 bits: OpenCV decodes and encodes those.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from shardfeed.converters.images.options import Rgb
from shardfeed.converters.rejects import RejectCode, RejectedError


class DeepImage:
    """Pixels of 16 bits, with the methods of Pillow's images that `pixels` calls.

    `bands`: one, or red, green and blue, of mode F, whose float32 hold each value exactly. So filters compute in
    float32, and `png` rounds once, and clips what a filter overshoots.
    """

    def __init__(self, bands: Sequence[Image.Image]) -> None:
        self._bands = bands
        self.width, self.height = bands[0].size

    def resize(self, *how: Any) -> "DeepImage":
        return DeepImage([band.resize(*how) for band in self._bands])

    def transpose(self, method: Image.Transpose) -> "DeepImage":
        return DeepImage([band.transpose(method) for band in self._bands])

    def png(self) -> bytes:
        """Return the PNG file."""
        bands = [np.rint(np.asarray(band)).clip(0, 65_535).astype(np.uint16) for band in self._bands]
        if len(bands) == 3:
            return _opencv().imencode(".png", np.stack(bands[::-1], 2))[1].tobytes()  # it has blue first
        out = io.BytesIO()
        Image.fromarray(bands[0]).save(out, "PNG")
        return out.getvalue()


def deep_image(image: Image.Image, data: bytes, background: Rgb | None) -> DeepImage:
    """The pixels of `image`, which Pillow has loaded from `data`, a PNG or TIFF file of 16 bits.

    Any alpha is put over `background`, or dropped if that is None. Raises RejectedError.
    """
    if image.mode.startswith("I;16"):
        return DeepImage([Image.fromarray(np.asarray(image).astype(np.float32))])
    cv2 = _opencv()
    found: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    shape = getattr(found, "shape", ())  # None if it does not decode
    known = shape[:2] == image.size[::-1] and len(shape) == 3 and found.dtype == np.uint16
    if not known or (found[..., 2] >> 8 != np.asarray(image.getchannel(0))).any():  # Pillow has the upper 8 bits
        problem = f"pixels of 16 bits and mode {image.mode}, which OpenCV does not decode"
        raise RejectedError(RejectCode.UNSUPPORTED, problem)
    values = found[..., 2::-1].astype(np.float32)
    if background is not None and image.mode in ("LA", "RGBA"):
        share = found[..., 3:].astype(np.float64) / 65_535
        values = (values * share + np.array(background) * 257 * (1 - share)).astype(np.float32)
    gray = image.mode == "LA" and (background is None or len(set(background)) == 1)  # over a colour it becomes one
    return DeepImage([Image.fromarray(np.ascontiguousarray(values[..., band])) for band in range(1 if gray else 3)])


def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        problem = "colours of 16 bits to decode and encode again, for which OpenCV is not installed"
        raise RejectedError(RejectCode.UNSUPPORTED, f"{problem}: pip install opencv-python-headless") from None
    return cv2
