"""Encoded images to pixels and crops, with PyTorch: one image at a time, in a worker that has one thread.

Called as `transform(record, seed)`, with a record as `split[i]` gives it and a `SampleSeed`. What comes back is a view
[3, height, width] of pixels that lie as [height, width, 3], which `collate` makes a batch in the channels-last memory
format of, without moving a channel.

A JPEG is decoded by libjpeg-turbo (simplejpeg, which lets other threads run): of OpenCV, Pillow and it the fastest, and
its accurate DCT gives Pillow's pixels bit for bit. It cannot cut a window, so the rows below the window are taken from
the image's header, which saves a tenth. Where the target fits into the window 2, 4 or 8 times, the decoder scales by
that. The rest is PyTorch's bilinear resize with antialiasing, as torchvision does it.
"""

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import simplejpeg
import torch
from PIL import Image

from shardfeed.errors import UsageError
from shardfeed.jpeg_markers import FRAMES, SOS, MarkerError, header_segments
from shardfeed.pipelines.arguments import Size, image_size
from shardfeed.pipelines.undecodable import PILLOW_ERRORS, undecodable
from shardfeed.pipelines.windows import (
    AREA,
    ASPECT_RATIO,
    RandomWindow,
    SampleSeed,
    Window,
    center_window,
    check_ranges,
    sample_seeds,
)
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH

ImageTransform = Callable[[Mapping[str, Any], int], torch.Tensor]
ChooseWindow = Callable[[int, int], Window]  # from an image's height and width

_RATIOS = (8, 4, 2)
_SEQUENTIAL = (0xC0, 0xC1)
_END = b"\xff\xd9"


def random_resized_crop(
    size: Size,
    *,
    area: tuple[float, float] = AREA,
    aspect_ratio: tuple[float, float] = ASPECT_RATIO,
    flip: bool = True,
) -> ImageTransform:
    """A random window of the image, resized to `size`, mirrored half of the time: the usual crop of training.

    Gives uint8 [3, height, width], resized with antialiasing, and pickles. The same seed cuts the same window, here
    and with TensorFlow. Source: Szegedy et al. 2015, section 6, in the form of torchvision's RandomResizedCrop.

    Args:
        size: pixels, one side or (height, width).
        area: the window's share of the image, (least, most) within 0..1, drawn evenly.
        aspect_ratio: its width over its height, (least, most), drawn evenly on a logarithmic scale. Where ten draws do
            not fit into the image (a very long one), the window is the largest one in its middle with an aspect ratio
            in that range.
        flip: mirror left and right, half of the time.

    Raises:
        UsageError: for a size that is not positive, and for a range that is empty or out of bounds.

    Example:
        crop = random_resized_crop(224, area=(0.25, 1.0))
        loader = torch_loader(data["train"], batch_size=256, transform=crop, seed=7)
    """
    check_ranges(area, aspect_ratio)
    return _RandomResizedCrop(image_size(size), RandomWindow(area, aspect_ratio), flip)


def resize_center_crop(size: Size, *, crop_fraction: float = 0.875) -> ImageTransform:
    """The middle of the image, resized to `size`: the usual crop of evaluation. The seed is not used.

    Gives uint8 [3, height, width], resized with antialiasing, and pickles. The window is the largest with the aspect
    ratio of `size`, times `crop_fraction`, centred: with 0.875 what is left of an image resized so that it just covers
    256 x 256, of which the middle 224 x 224 are cut.

    Raises UsageError for a size that is not positive, and for a fraction that is not within 0..1.

        loader = torch_eval_loader(data["validation"], batch_size=256, transform=resize_center_crop(224))
    """
    if not 0 < crop_fraction <= 1:
        raise UsageError("crop_fraction", f"got {crop_fraction!r}, expected more than 0, at most 1")
    return _ResizeCenterCrop(image_size(size), crop_fraction)


# Classes, because a function made in a function does not pickle, as workers that are spawned need it.


@dataclass(frozen=True)
class _RandomResizedCrop:
    size: tuple[int, int]
    window: RandomWindow
    flip: bool

    def __call__(self, record: Mapping[str, Any], seed: int) -> torch.Tensor:
        own = seed if isinstance(seed, SampleSeed) else sample_seeds(np.array([[seed, 0]], np.int64))[0]
        image = decode_resized(record, lambda height, width: self.window.draw(own.uniform, height, width), self.size)
        return image.flip(2) if self.flip and self.window.flipped(own.uniform) else image


@dataclass(frozen=True)
class _ResizeCenterCrop:
    size: tuple[int, int]
    crop_fraction: float

    def __call__(self, record: Mapping[str, Any], seed: int) -> torch.Tensor:
        del seed
        return decode_resized(
            record, lambda height, width: center_window(height, width, self.size, self.crop_fraction), self.size
        )


@dataclass(frozen=True)
class ImageAndLabel:
    """A transform to (image, label): `image`'s, and the feature `label`."""

    image: ImageTransform
    label: str

    def __call__(self, record: Mapping[str, Any], seed: int) -> tuple[torch.Tensor, int | float]:
        return self.image(record, seed), record[self.label]


def decode_image(record: Mapping[str, Any]) -> torch.Tensor:
    """The whole image: uint8 [3, height, width], gray made RGB. Raises IntegrityError where it does not decode."""
    whole = _pixels(record, lambda height, width: Window(0, 0, height, width), None)
    return torch.from_numpy(whole).permute(2, 0, 1)


def decode_resized(record: Mapping[str, Any], choose: ChooseWindow, target: tuple[int, int]) -> torch.Tensor:
    """The window of an image that `choose` picks, resized to `target`, (height, width): uint8 [3, height, width].

    Raises IntegrityError where it does not decode.
    """
    # A batch of one first, then turned: the other way round its strides do not look like channels-last ones.
    window = torch.from_numpy(_pixels(record, choose, target))[None].permute(0, 3, 1, 2)
    if window.shape[2:] != target:
        window = torch.nn.functional.interpolate(window, target, mode="bilinear", antialias=True)
    return window[0]


def _pixels(record: Mapping[str, Any], choose: ChooseWindow, target: tuple[int, int] | None) -> np.ndarray:
    """The window, uint8 [h, w, 3]; scaled where `target` fits into it 2, 4 or 8 times and that saves time."""
    encoded = record[ENCODED]
    try:
        if record.get(FORMAT) == b"raw":
            pixels = np.frombuffer(encoded, np.uint8).reshape(record[HEIGHT], record[WIDTH], 3)
            return _cut(pixels, choose(*pixels.shape[:2]))
        if encoded[:3] == b"\xff\xd8\xff":
            shape = _jpeg_shape(encoded)
            if shape is not None:
                return _jpeg_window(encoded, shape, choose, target)
        image = Image.open(io.BytesIO(encoded))
        pixels = np.asarray(image)
        if pixels.dtype != np.uint8 and image.mode != "1":  # 16 bits, of which the upper ones count
            pixels = np.repeat((pixels >> 8).astype(np.uint8)[..., None], 3, 2)
        elif image.mode != "RGB":
            pixels = np.asarray(image.convert("RGB"))
    except PILLOW_ERRORS as error:
        raise undecodable(encoded, error) from None
    return _cut(pixels, choose(*pixels.shape[:2]))


def _jpeg_shape(encoded: bytes) -> tuple[int, int] | None:
    """(height, width) of a JPEG that simplejpeg decodes; None for CMYK and for sampling factors it has no name for."""
    try:
        height, width, color, _ = simplejpeg.decode_jpeg_header(encoded)
    except (ValueError, KeyError):
        return None
    return None if color == "CMYK" else (int(height), int(width))


def _jpeg_window(
    encoded: bytes, shape: tuple[int, int], choose: ChooseWindow, target: tuple[int, int] | None
) -> np.ndarray:
    window = choose(*shape)
    ratio = 1
    if target is not None:
        ratio = next((r for r in _RATIOS if window.height >= r * target[0] and window.width >= r * target[1]), 1)
    whole = encoded.endswith(_END)  # a file without its end is cut: then let the decoder complain
    rows = shape[0]
    if whole:  # the decoder smooths colour with the row below, of half as many
        encoded, rows = _shortened(encoded, rows, window.top + window.height + 2 * ratio)
    pixels = simplejpeg.decode_jpeg(
        encoded, min_height=-(-rows // ratio), min_width=-(-shape[1] // ratio), min_factor=ratio, strict=not whole
    )
    # In pixels of the scaled image, whose sides are rounded up: rounding down stays inside.
    return _cut(pixels, window if ratio == 1 else Window(*(side // ratio for side in window)))


def _shortened(encoded: bytes, height: int, rows: int) -> tuple[bytes, int]:
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


def _cut(pixels: np.ndarray, window: Window) -> np.ndarray:
    """The window, on its own: PyTorch resizes it with vector instructions only where it lies in one piece."""
    return pixels[window.top : window.top + window.height, window.left : window.left + window.width].copy()
