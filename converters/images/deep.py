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


def deep_image(
    image: Image.Image, data: bytes, background: Rgb | None, *, gray: bool = False, premultiplied: bool = False
) -> DeepImage:
    """The pixels of `image`, which Pillow has loaded from `data`, a PNG or TIFF file of 16 bits.

    Any alpha is put over `background`, or dropped if that is None. `gray`: whether the file has gray and alpha, which
    Pillow loads as RGBA. `premultiplied`: whether its colours are stored times alpha. Raises RejectedError.
    """
    if image.mode.startswith("I;16"):
        return DeepImage([Image.fromarray(np.asarray(image).astype(np.float32))])
    cv2 = _opencv()
    found: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    shape = getattr(found, "shape", ())  # None if it does not decode
    known = shape[:2] == image.size[::-1] and len(shape) == 3 and found.dtype == np.uint16
    if not known or (_upper_red(found, premultiplied) != np.asarray(image.getchannel(0))).any():
        problem = f"pixels of 16 bits and mode {image.mode}, which OpenCV does not decode"
        raise RejectedError(RejectCode.UNSUPPORTED, problem)
    alpha = found[..., 3].astype(np.uint32) if image.mode == "RGBA" else None
    one = gray and (background is None or len(set(background)) == 1)  # over a colour it becomes one
    bands = []
    for band in range(1 if one else 3):
        behind = None if background is None else 257 * background[band]
        values = _without_alpha(found[..., 2 - band], alpha, behind, premultiplied)
        bands.append(Image.fromarray(values))
    return DeepImage(bands)


def _upper_red(found: np.ndarray, premultiplied: bool) -> np.ndarray:
    """The upper 8 bits of red, [h, w], as Pillow has them: with alpha divided out, by its own upper 8 bits."""
    red = found[..., 2] >> 8
    if not premultiplied:
        return red
    alpha = found[..., 3] >> 8
    return np.where(alpha == 0, 0, np.minimum(red * 255 // np.maximum(alpha, 1), 255))


def _without_alpha(values: np.ndarray, alpha: np.ndarray | None, behind: int | None, premultiplied: bool) -> np.ndarray:
    """One band, float32 [h, w], of uint16 values and alpha, uint32, put over `behind`, 0..65,535, or dropped.

    Sums are at most 65,535 squared, which uint32 holds: so they are exact, in a third of the memory of float64.
    """
    if alpha is None or (behind is None and not premultiplied):
        return values.astype(np.float32)
    shares = np.minimum(values, alpha) * 65_535 if premultiplied else values * alpha
    if behind is not None:
        shares += (65_535 - alpha) * behind
    result = np.empty(values.shape, np.float32)
    return np.divide(shares, np.maximum(alpha, 1) if behind is None else 65_535, out=result, casting="same_kind")


def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        problem = "colours of 16 bits to decode and encode again, for which OpenCV is not installed"
        raise RejectedError(RejectCode.UNSUPPORTED, f"{problem}: pip install opencv-python-headless") from None
    return cv2
