"""The window of an encoded image as pixels, by libraries that let other threads run.

A JPEG is decoded by libjpeg-turbo (simplejpeg): of OpenCV, Pillow and it the fastest, and its accurate DCT gives
Pillow's pixels bit for bit. It cannot cut a window. Of a seekable JPEG it gets the pieces that the window needs; of
another the rows below the window are taken from the image's header, which saves a tenth. Where the target fits into the
window 2, 4 or 8 times, the decoder scales by that.
"""

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from shardfeed.jpeg.markers import FRAMES, SOS, MarkerError, header_segments
from shardfeed.pipelines.decoding.seekable import MARGIN, splice
from shardfeed.pipelines.decoding.undecodable import PILLOW_ERRORS, undecodable
from shardfeed.pipelines.geometry import ChooseView, View, reduction
from shardfeed.pipelines.windows import Window
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH

# What `view_pixels` looks at, where a record has it; FORMAT, HEIGHT and WIDTH only where there are raw pixels.
IMAGE_FEATURES = (ENCODED, FORMAT, HEIGHT, WIDTH, RESTARTS)

_SEQUENTIAL = (0xC0, 0xC1)
_END = b"\xff\xd9"


def view_pixels(record: Mapping[str, Any], choose: ChooseView) -> tuple[np.ndarray, View]:
    """The window of the view that `choose` picks, uint8 [h, w, 3], gray made RGB; and that view.

    A JPEG is scaled where the content fits into the window 2, 4 or 8 times; then the view's window is in whole pixels
    of the smaller image: up to 7 pixels from the chosen. The array may be a part of a larger one.
    `record`: `image/encoded`, bytes or a view of some; `image/format`, of raw pixels `image/height` and `image/width`,
    and of a seekable JPEG `image/restarts`. Raises IntegrityError where it does not decode.
    """
    encoded = record[ENCODED]
    try:
        if record.get(FORMAT) == b"raw":
            pixels = np.frombuffer(encoded, np.uint8).reshape(record[HEIGHT], record[WIDTH], 3)
            return _cut_view(pixels, choose)
        if encoded[:3] == b"\xff\xd8\xff":
            shape = _jpeg_shape(encoded)
            if shape is not None:
                return _jpeg_window(encoded, choose(*shape), record.get(RESTARTS, b""))
        image = Image.open(io.BytesIO(encoded))
        pixels = np.asarray(image)
        if pixels.dtype != np.uint8 and image.mode != "1":  # 16 bits, of which the upper ones count
            pixels = np.repeat((pixels >> 8).astype(np.uint8)[..., None], 3, 2)
        elif image.mode != "RGB":
            pixels = np.asarray(image.convert("RGB"))
    except PILLOW_ERRORS as error:
        raise undecodable(encoded, error) from None
    return _cut_view(pixels, choose)


def _jpeg_shape(encoded: bytes | memoryview) -> tuple[int, int] | None:
    """(height, width) of a JPEG that simplejpeg decodes; None for CMYK and for sampling factors it has no name for."""
    try:
        height, width, color, _ = simplejpeg.decode_jpeg_header(encoded)
    except (ValueError, KeyError):
        return None
    return None if color == "CMYK" else (int(height), int(width))


def _jpeg_window(encoded: bytes | memoryview, view: View, restarts: bytes) -> tuple[np.ndarray, View]:
    """As `view_pixels`."""
    window, content = view.window, view.content
    ratio = reduction((window.height, window.width), (content.height, content.width))
    # In pixels of the scaled image, whose sides are rounded up: rounding down stays inside.
    scaled = Window(*(side // ratio for side in window))
    part = splice(encoded, restarts, window, ratio) if restarts else None
    if part is not None:
        pixels = _decoded(part.data, part.height, part.width, ratio, strict=False)
        scaled = scaled._replace(top=scaled.top - part.top // ratio, left=scaled.left - part.left // ratio)
    else:
        height, width = view.size
        whole = encoded[-2:] == _END  # a file without its end is cut: then let the decoder complain
        if whole:
            encoded, height = _shortened(encoded, height, window.top + window.height + MARGIN * ratio)
        pixels = _decoded(encoded, height, width, ratio, strict=not whole)
    if ratio > 1:
        view = view._replace(window=Window(*(side // ratio * ratio for side in window)))
    return _cut(pixels, scaled), view


def _decoded(
    encoded: bytes | bytearray | memoryview, height: int, width: int, ratio: int, *, strict: bool
) -> np.ndarray:
    """The pixels of a JPEG of `height` x `width`, made smaller by `ratio`: uint8 [ceil(height / ratio), ..., 3]."""
    least_height, least_width = -(-height // ratio), -(-width // ratio)
    return simplejpeg.decode_jpeg(
        encoded, min_height=least_height, min_width=least_width, min_factor=ratio, strict=strict
    )


def _shortened(encoded: bytes | memoryview, height: int, rows: int) -> tuple[bytes | memoryview, int]:
    """The JPEG with a header that says it has `rows` rows, or some more, instead of `height`, its own; and how many.

    The decoder stops there, and passes over the rest. Only one that is sent from top to bottom, in one scan; another
    comes back as it is.
    """
    frame, units = 0, 1
    with suppress(MarkerError, IndexError):  # a damaged header: the decoder says so
        for marker, start, _ in header_segments(encoded):
            body = start + 4
            if marker in FRAMES:
                if marker not in _SEQUENTIAL:
                    break
                frame, components = body + 1, encoded[body + 5]
                units = max((encoded[body + 7 + 3 * n] & 15 for n in range(components)), default=1)
            elif marker == SOS:
                kept = -(-rows // (8 * units)) * 8 * units
                if not frame or encoded[body] != encoded[frame + 4] or kept >= height:
                    break
                return b"".join((encoded[:frame], kept.to_bytes(2, "big"), encoded[frame + 2 :])), kept
    return encoded, height


def _cut_view(pixels: np.ndarray, choose: ChooseView) -> tuple[np.ndarray, View]:
    """As `view_pixels`, of those of the whole image."""
    height, width = pixels.shape[:2]
    view = choose(height, width)
    return _cut(pixels, view.window), view


def _cut(pixels: np.ndarray, window: Window) -> np.ndarray:
    return pixels[window.top : window.top + window.height, window.left : window.left + window.width]
