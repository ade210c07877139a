"""Numbers of one image, from its bytes: size, format, quality, brightness, sharpness, and pixels for comparison."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from shardfeed.jpeg.markers import DQT, FRAMES, SIGNATURE, MarkerError, header_segments
from shardfeed.readers.pictures import rgb_picture

TINY, PATCHES = 9, 3  # pixels: sides of the squares, gray and in colour, used to compare images
SIDE = 128  # pixels: maximum width and height at which images are measured
KINDS = ("does not decode", "jpeg", "progressive jpeg", "png", "webp", "gif", "bmp", "raw", "other")
_BEGINNINGS = {b"\x89PNG": "png", b"RIFF": "webp", b"GIF8": "gif"}
_PROGRESSIVE = (0xC2, 0xC6, 0xCA, 0xCE)
_STANDARD = 3688  # sum of the luminance table of T.81 annex K, which encoders scale by their quality
_LIMITS = np.array((0.05, 0.95))
_LEVELS = np.arange(256)

# Of each image. `same`: of its source's or its own SHA-256. `kind`: of KINDS; if 0, the image does not decode, and the
# following fields are 0. `tiny`: gray pixels. `color`: RGB pixels. `mean`, `spread` (standard deviation), `low`, `high`
# (percentiles 5 and 95): of gray. `sharp`: variance of the Laplacian. `quality`: of a JPEG, about; 0 unknown. `label`:
# a class, -1 without. `objects`, `caption` (characters): -1 where records have none.
NUMBERS = np.dtype(
    [
        ("same", "<u8"),
        *((name, "<i4") for name in ("label", "objects", "caption", "height", "width", "bytes")),
        *((name, "u1") for name in ("kind", "quality", "mean", "low", "high")),
        *((name, "<f4") for name in ("spread", "sharp")),
        ("color", "u1", (PATCHES, PATCHES, 3)),
        ("tiny", "u1", (TINY, TINY)),
    ]
)


def jpeg_header(data: bytes) -> tuple[tuple[int, int], str, int]:
    """The size (width, height), the kind, and the quality, 1 to 100, by the sum of the first quantisation table.

    The quality is 0 without such a table, and the size (0, 0) if the segments before the image data are damaged.
    """
    size, kind, quality = (0, 0), "jpeg", 0
    with suppress(MarkerError, IndexError, ValueError):
        for marker, start, _ in header_segments(data):
            body = start + 4
            if marker == DQT and not quality and data[body] & 15 == 0:
                table = np.frombuffer(data, ">u2" if data[body] >> 4 else "u1", 64, body + 1)
                scale = 100 * int(table.sum()) / _STANDARD
                quality = min(100, max(1, round((200 - scale) / 2 if scale <= 100 else 5000 / scale)))
            elif marker in FRAMES:
                size = (data[body + 3] << 8 | data[body + 4], data[body + 1] << 8 | data[body + 2])
                kind = "progressive jpeg" if marker in _PROGRESSIVE else kind
        return size, kind, quality
    return (0, 0), "other", 0


def image_numbers(encoded: bytes, raw: tuple[int, int] | None) -> Mapping[str, Any]:
    """The fields of NUMBERS that an image determines. May raise any error for damaged bytes.

    `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
    """
    size, kind, quality = (0, 0), "other", 0
    if raw is None and encoded[:3] == SIGNATURE:
        size, kind, quality = jpeg_header(encoded)
    picture = None
    if all(size):
        with suppress(ValueError, KeyError):  # a warning, or CMYK: Pillow decides whether it decodes
            width, height = (min(SIDE, side) for side in size)
            pixels = simplejpeg.decode_jpeg(
                encoded, fastdct=True, fastupsample=True, min_height=height, min_width=width
            )
            picture = Image.frombuffer("RGB", pixels.shape[1::-1], pixels, "raw", "RGB", 0, 1)
    else:
        kind = "raw" if raw else "bmp" if encoded[:2] == b"BM" else _BEGINNINGS.get(encoded[:4], kind)
    if picture is None:
        picture = rgb_picture(encoded, raw, SIDE)
        size = size if all(size) else picture.size
    longest = max(picture.size)
    if longest > SIDE:
        small = [max(1, round(side * SIDE / longest)) for side in picture.size]
        picture = picture.resize((small[0], small[1]), Image.Resampling.BOX)
    gray = picture.convert("L")
    light = _pixels(gray)
    counts = np.bincount(light.ravel(), minlength=256)
    mean = float(counts @ _LEVELS) / light.size
    low, high = np.searchsorted(np.cumsum(counts), _LIMITS * light.size)
    return {
        "kind": KINDS.index(kind),
        "height": size[1],
        "width": size[0],
        "bytes": len(encoded),
        "quality": quality,
        "mean": round(mean),
        "spread": float(counts @ (_LEVELS - mean) ** 2 / light.size) ** 0.5,
        "low": low,
        "high": min(255, high),
        "sharp": _sharpness(light.astype(np.int16)),
        "color": _pixels(picture.resize((PATCHES, PATCHES), Image.Resampling.BOX)).reshape(PATCHES, PATCHES, 3),
        "tiny": _pixels(gray.resize((TINY, TINY), Image.Resampling.BOX)),
    }


def _pixels(picture: Image.Image) -> np.ndarray:
    """uint8 [height, width * channels]. `np.asarray` takes twice as long for a small image."""
    return np.frombuffer(picture.tobytes(), np.uint8).reshape(picture.height, -1)


def _sharpness(gray: np.ndarray) -> float:
    """Variance of the Laplacian of int16 [height, width]; 0 of an image without an inner pixel."""
    inner = gray[1:-1, 1:-1]
    if not inner.size:
        return 0.0
    found = 4 * inner - gray[:-2, 1:-1] - gray[2:, 1:-1] - gray[1:-1, :-2] - gray[1:-1, 2:]
    flat = found.ravel().astype(np.float64)
    return float(flat @ flat / len(flat) - flat.mean() ** 2)  # as `var`, in a third of its time
