"""The window of an encoded image as pixels, by libraries that let other threads run.

A JPEG is decoded by libjpeg-turbo (simplejpeg): it is faster than OpenCV and Pillow, and its accurate DCT gives
Pillow's pixels bit for bit. It cannot decode only a window. From a seekable JPEG it gets just the pieces that the
window needs; for any other JPEG, the height in the header is reduced so that rows below the window are not decoded,
which saves a tenth. If the target fits into the window 2, 4 or 8 times, the decoder scales by that factor. The pixels
of the pieces are those of the whole image bit for bit, because the data is the same, and the margin includes the pixels
that colors are smoothed with.

The window is resized to the size of a sample by OpenCV: bilinear, without antialiasing. It computes in integers: the
result is within one level of the result in floats. OpenCV's bit-exact form is off by one level in 1 % of the values
rather than 12 %, and takes two to three times as long.
"""

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import simplejpeg
from PIL import Image, ImageFile, UnidentifiedImageError

from shardfeed.errors import IntegrityError, MissingExtraError
from shardfeed.formats.jpeg_markers import EOI, FRAMES, SOS, MarkerError, header_segments
from shardfeed.formats.jpeg_restarts import are_in_turn, grid_of, piece_ends, restart_codes
from shardfeed.pipelines.augment.view import ChooseView, View
from shardfeed.pipelines.geometry import reduction
from shardfeed.pipelines.windows import Window
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, RESTARTS, WIDTH

PILLOW_ERRORS = (ValueError, OSError, SyntaxError, Image.DecompressionBombError)  # all that its decoders raise
# Pixels around a window that are decoded, too: the decoder smooths subsampled color with the neighbours that it has.
# One is enough, but it does not smooth a strip of two columns at all.
MARGIN = 2
_WORTH = 0.9  # of the MCUs read by a decoder that stops below the window: with more, joining does not pay off
_REMEDY = "`shardfeed verify DIR --deep` names all such records"
_SEQUENTIAL = (0xC0, 0xC1)
# libjpeg's warning about the rows that `_shortened` leaves out; no pixel depends on such bytes.
_LEFT_OVER = "extraneous bytes before marker"
_TRUNCATED = "Premature end of JPEG file"
_END = b"\xff\xd9"
_Data = bytes | bytearray | memoryview


def undecodable(encoded: bytes | memoryview, error: Exception) -> IntegrityError:
    """Create the error for `encoded` after one of PILLOW_ERRORS; it does not name the record."""
    known = f"no known image format begins with {bytes(encoded[:8])!r}"
    why = known if isinstance(error, UnidentifiedImageError) else error
    return IntegrityError("image", f"it does not decode: {why}", _REMEDY)


class PlannedView(NamedTuple):
    """The view chosen for an image, and the function that decodes its window."""

    view: View
    decode: Callable[[], np.ndarray]
    encoded: bytes | memoryview

    def pixels(self) -> np.ndarray:
        """Decode the view's window: uint8 [h, w, 3], RGB, possibly shrunk by 2, 4 or 8, and a view of a larger array.

        With `gray` [h, w, 1]; of a PNG of 16 bits uint16. Raises IntegrityError if it does not decode.
        """
        try:
            return self.decode()
        except PILLOW_ERRORS as error:
            raise undecodable(self.encoded, error) from None


def plan_view(
    record: Mapping[str, Any], choose: ChooseView, *, like_cuda: bool = False, gray: bool = False
) -> PlannedView:
    """The view that `choose` picks, by the size in the image's header.

    A JPEG is scaled if the content fits into the window 2, 4 or 8 times; the view's window is then in whole pixels of
    the smaller image, up to 7 pixels from the chosen one. `record`: `image/encoded`, bytes or a view of some;
    `image/format`, of raw pixels `image/height` and `image/width`, and of a seekable JPEG `image/restarts`.
    `gray`: one channel: a JPEG's own brightness, of other colours (19595 R + 38470 G + 7471 B) / 65536, rounded.
    `like_cuda`: a JPEG has the pixels that a GPU makes: subsampled colors are repeated, not interpolated, and nothing
    is scaled. Raises IntegrityError if the header does not decode.

    Plan a few MB of images before you decode the first of them: a decoder evicts Python from the processor's caches,
    and planning takes two to three times as long with cold caches.
    """
    encoded = record[ENCODED]
    try:
        if record.get(FORMAT) == b"raw":
            pixels = np.frombuffer(encoded, np.uint8).reshape(record[HEIGHT], record[WIDTH], 3)
            view = choose(*pixels.shape[:2])
            return PlannedView(view, lambda: _with_channels(_cut(pixels, view.window), gray), encoded)
        if encoded[:3] == b"\xff\xd8\xff":
            shape = _jpeg_shape(encoded)
            if shape is not None:
                return _plan_jpeg(encoded, choose(*shape), record.get(RESTARTS, b""), like_cuda, gray)
        image = Image.open(io.BytesIO(encoded))
    except PILLOW_ERRORS as error:
        raise undecodable(encoded, error) from None
    view = choose(image.height, image.width)
    if record.get(FORMAT) == PNG16.encode():
        return PlannedView(view, lambda: _with_channels(_cut(_deep_pixels(image, encoded), view.window), gray), encoded)
    return PlannedView(view, lambda: _cut(_pillow_pixels(image, gray), view.window), encoded)


def _pillow_pixels(image: Image.Image, gray: bool = False) -> np.ndarray:
    """uint8 [height, width, 3], or with `gray` 1."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 and image.mode != "1":  # 16 bits: the upper 8 are used
        return _with_channels((pixels >> 8).astype(np.uint8), gray)
    mode = "L" if gray else "RGB"
    pixels = pixels if image.mode == mode else np.asarray(image.convert(mode))
    return pixels[..., None] if gray else pixels


def _deep_pixels(image: Image.Image, encoded: bytes | memoryview) -> np.ndarray:
    """uint16 [height, width, 3], or of a gray image [height, width]. Raises ValueError for another image."""
    if image.mode == "RGB":  # Pillow has 8 bits of colours
        try:
            cv2: Any = import_module("cv2")
        except ImportError as error:
            problem = "OpenCV, which reads colours of 16 bits, cannot be imported"
            raise MissingExtraError("images", problem, "pip install opencv-python-headless") from error
        found = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_UNCHANGED)
        found = None if found is None or found.ndim != 3 else found[..., 2::-1]
    else:
        found = np.asarray(image)
    if found is None:
        raise ValueError("image file is damaged")
    if found.dtype != np.uint16:
        raise ValueError(f"its record says {PNG16}, and it is no such file")
    return found


def _with_channels(pixels: np.ndarray, gray: bool) -> np.ndarray:
    """[h, w] or [h, w, 3] as [h, w, 3], or with `gray` as [h, w, 1], by Pillow's weights."""
    if pixels.ndim == 2:
        return pixels[..., None] if gray else np.repeat(pixels[..., None], 3, 2)
    if not gray:
        return pixels
    bright = pixels @ np.array([19_595, 38_470, 7_471], np.uint32) + np.uint32(1 << 15)
    return (bright >> 16).astype(pixels.dtype)[..., None]


def _jpeg_shape(encoded: bytes | memoryview) -> tuple[int, int] | None:
    """(height, width) of a JPEG that simplejpeg decodes; None for CMYK and YCCK, and for sampling it cannot name."""
    try:
        height, width, color, _ = simplejpeg.decode_jpeg_header(encoded)
    except (ValueError, KeyError):
        return None
    return None if color in ("CMYK", "YCCK") else (int(height), int(width))


def _plan_jpeg(encoded: bytes | memoryview, view: View, restarts: bytes, like_cuda: bool, gray: bool) -> PlannedView:
    """As `plan_view`."""
    window, content = view.window, view.content
    ratio = 1 if like_cuda else reduction((window.height, window.width), (content.height, content.width))
    # In pixels of the scaled image, whose sides are rounded up: rounding down stays inside.
    scaled = Window(*(side // ratio for side in window))
    if ratio > 1:
        view = view._replace(window=Window(*(side // ratio * ratio for side in window)))
    part = join_pieces(encoded, restarts, window, ratio) if restarts else None
    if part is not None:
        scaled = scaled._replace(top=scaled.top - part.top // ratio, left=scaled.left - part.left // ratio)
        decode = partial(_decoded, part.data, part.data, part.height, part.width, ratio, scaled, like_cuda, gray)
    else:
        data, height = encoded, view.size[0]
        if encoded[-2:] == _END:  # a file without an end marker is truncated: let the decoder report it
            data, height = _shortened(encoded, height, window.top + window.height + MARGIN * ratio)
        decode = partial(_decoded, data, encoded, height, view.size[1], ratio, scaled, like_cuda, gray)
    return PlannedView(view, decode, encoded)


def _decoded(
    data: _Data, whole: _Data, height: int, width: int, ratio: int, window: Window, like_cuda: bool, gray: bool
) -> np.ndarray:
    """The window, in pixels of the output, of a JPEG of `height` x `width`, shrunk by `ratio`.

    `data`: the JPEG, or the rows of `whole` down to the window.
    """
    height, width = -(-height // ratio), -(-width // ratio)
    pixels = None if data is whole else np.empty((height, width, 1 if gray else 3), np.uint8)
    decode = partial(simplejpeg.decode_jpeg, colorspace="GRAY" if gray else "RGB", fastupsample=like_cuda)
    try:
        # Strict: otherwise a fatal error after a warning passes for a warning, with memory that was never written.
        pixels = decode(data, min_height=height, min_width=width, min_factor=ratio, buffer=pixels)
    except ValueError as error:  # the fatal error; only without one, when all pixels are written, the first warning
        if pixels is None or _LEFT_OVER not in str(error):
            pixels = _judged_by_pillow(whole, ratio, error, gray)
            if like_cuda:  # it is no fatal error, and Pillow interpolates colors
                pixels = decode(whole, strict=False)
    return _cut(pixels, window)


def _judged_by_pillow(data: _Data, ratio: int, error: ValueError, gray: bool) -> np.ndarray:
    """The pixels of a JPEG that simplejpeg complained about, shrunk by `ratio`. Raises `error` if Pillow refuses it.

    Pillow takes longer, but decides in conversions, too, and tells fatal errors from warnings. A program may have told
    it to fill in truncated images; no batch has such pixels.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES and _TRUNCATED in str(error):
        raise error
    try:
        image = Image.open(io.BytesIO(data))
        image.draft("L" if gray else None, (image.width // ratio, image.height // ratio))
        return _pillow_pixels(image, gray)
    except PILLOW_ERRORS:
        raise error from None  # which says more


def _shortened(encoded: bytes | memoryview, height: int, rows: int) -> tuple[bytes | memoryview, int]:
    """Return the JPEG with a header that declares `rows` rows or slightly more instead of `height`, and that number.

    The decoder stops there and skips the rest. Only JPEGs with one scan, from top to bottom, are changed.
    """
    frame, units = 0, 1
    with suppress(MarkerError, IndexError):  # a damaged header: the decoder reports it
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


def _cut(pixels: np.ndarray, window: Window) -> np.ndarray:
    return pixels[window.top : window.top + window.height, window.left : window.left + window.width]


def has_opencv() -> bool:
    """Whether OpenCV can be imported: it is installed, and so are the libraries that it needs."""
    try:
        import_module("cv2")
    except ImportError:
        return False
    return True


# From pixels [h, w, channels] to others of a (height, width), in memory of their own, antialiased.
Shrink = Callable[[np.ndarray, tuple[int, int]], np.ndarray]


def fit(pixels: np.ndarray, view: View, image: np.ndarray, fill: int, shrink: Shrink | None = None) -> None:
    """Fill `image`, [height, width, channels], the view's target, with `pixels`, [h, w, channels], its window.

    Both are uint8 or both uint16. `fill`: the value of padding of 255, which is white in both. `shrink`: resizes; None:
    OpenCV does, without antialiasing. Raises ImportError if that is not installed.
    """
    top, left, height, width = view.content
    if (height, width) != view.target:
        image.fill(fill if image.dtype == np.uint8 else 257 * fill)
        image = image[top : top + height, left : left + width]
    if shrink is not None:
        resized = pixels if pixels.shape == image.shape else shrink(pixels, (height, width))
        image[:] = resized[:, ::-1] if view.mirrored else resized
        return
    cv2: Any = import_module("cv2")  # of an extra
    if image.shape[2] == 1:  # which it leaves out
        pixels, image = pixels[..., 0], image[..., 0]
    tall, wide = pixels.shape[:2]
    ratio = reduction((tall, wide), (height, width))
    if ratio > 1 and (tall, wide) == view.window[2:]:  # else the decoder has shrunk it
        pixels = cv2.resize(pixels, (wide // ratio, tall // ratio), interpolation=cv2.INTER_AREA)
    if pixels.shape != image.shape:
        cv2.resize(pixels, (width, height), dst=image, interpolation=cv2.INTER_LINEAR)
        if view.mirrored:
            cv2.flip(image, 1, dst=image)
    elif view.mirrored:
        cv2.flip(pixels, 1, dst=image)
    else:
        image[:] = pixels


class PartialJpeg(NamedTuple):
    """A JPEG of `height` x `width` pixels of the image, from row `top` and column `left` on."""

    data: bytes | bytearray
    top: int
    left: int
    height: int
    width: int


def join_pieces(data: bytes | memoryview, restarts: bytes, window: Window, ratio: int) -> PartialJpeg | None:
    """Cut out the part of a JPEG that shows `window`, for a decoder that shrinks it by `ratio`, 1, 2, 4 or 8.

    `restarts`: the record's `image/restarts`. None if decoding the whole image takes no longer. Raises IntegrityError
    if `restarts` do not match `data`.
    """
    grid = grid_of(data)
    if grid is None or len(restarts) != 4 * grid.rows:
        raise _wrong_restarts()
    found = grid.header
    margin = MARGIN * ratio
    piece_width = found.interval * grid.mcu_width
    first_row = max(0, window.top - margin) // grid.mcu_height
    last_row = min(grid.rows, -(-(window.top + window.height + margin) // grid.mcu_height))
    first = max(0, window.left - margin) // piece_width
    last = min(grid.pieces, -(-(window.left + window.width + margin) // piece_width))
    if (last_row - first_row) * (last - first) > _WORTH * last_row * grid.pieces:
        return None

    top, left = first_row * grid.mcu_height, first * piece_width
    height = min(found.height - top, (last_row - first_row) * grid.mcu_height)
    width = min(found.width - left, (last - first) * piece_width)
    row_ends = np.frombuffer(restarts, "<u4").cumsum(dtype=np.int64)
    before = int(row_ends[first_row - 1]) if first_row else 0
    start, end = found.scan + before, found.scan + int(row_ends[last_row - 1])
    if end > len(data):
        raise _wrong_restarts()
    ends, codes = piece_ends(data, start, end)
    count = last_row - first_row
    if len(ends) != count * grid.pieces or not are_in_turn(codes, grid, first_row):
        raise _wrong_restarts()
    ends += start
    ends = ends.reshape(count, grid.pieces)
    row_ends += found.scan
    if (ends[:, -1] != row_ends[first_row:last_row]).any():
        raise _wrong_restarts()

    # From the file: the bytes of each row from its first piece to the end of its last.
    if first:
        begins = ends[:, first - 1]
    else:
        begins = np.empty(count, np.int64)
        begins[0], begins[1:] = start, ends[:-1, -1]
    behind = ends[:, last - 1]
    at = found.size_at
    header = found.needed[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + found.needed[at + 4 :]
    parts = [data[a:b] for a, b in zip(begins.tolist(), behind.tolist(), strict=True)]
    joined = bytearray().join([header, *parts])

    # Number the markers, each the last byte of its piece, from zero again.
    lengths = behind - begins
    moved = lengths.cumsum() - behind + (len(header) - 1)
    markers = (ends[:, first:last] + moved[:, None]).ravel()
    codes = np.frombuffer(joined, np.uint8)
    codes[markers] = restart_codes(len(markers))
    codes[-1] = EOI
    return PartialJpeg(joined, top, left, height, width)


def _wrong_restarts() -> IntegrityError:
    problem = "image/restarts does not match the restart markers of this JPEG"
    return IntegrityError("image", problem, _REMEDY)
