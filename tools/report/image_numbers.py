"""Numbers of one image, from its bytes: size, format, quality, brightness, sharpness, and pixels for comparison."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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


class JpegHeader(NamedTuple):
    """`height`, `width` in pixels; `quality`: 1 to 100, by the sum of the first quantisation table, 0 without one."""

    height: int
    width: int
    progressive: bool
    quality: int


def jpeg_header(data: bytes) -> JpegHeader | None:
    """Read the segments before the image data; None if they are damaged."""
    height = width = quality = 0
    progressive = False
    try:
        for marker, start, _ in header_segments(data):
            body = start + 4
            if marker == DQT and not quality and data[body] & 15 == 0:
                wide = data[body] >> 4  # 16 bits a value
                table = np.frombuffer(data, ">u2" if wide else "u1", 64, body + 1)
                scale = 100 * int(table.sum()) / _STANDARD
                quality = min(100, max(1, round((200 - scale) / 2 if scale <= 100 else 5000 / scale)))
            elif marker in FRAMES:
                height, width = (int.from_bytes(data[body + i : body + i + 2], "big") for i in (1, 3))
                progressive = marker in _PROGRESSIVE
    except (MarkerError, IndexError, ValueError):
        return None
    return JpegHeader(height, width, progressive, quality) if height and width else None


def image_numbers(encoded: bytes, raw: tuple[int, int] | None) -> Mapping[str, Any]:
    """The fields of NUMBERS that an image determines. May raise any error for damaged bytes.

    `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
    """
    header = jpeg_header(encoded) if raw is None and encoded[:3] == SIGNATURE else None
    picture, kind, quality = None, "other", 0
    if header is not None:
        kind, quality = ("progressive jpeg" if header.progressive else "jpeg"), header.quality
        size = (header.width, header.height)
        height, width = min(SIDE, header.height), min(SIDE, header.width)
        try:
            pixels = simplejpeg.decode_jpeg(
                encoded, fastdct=True, fastupsample=True, min_height=height, min_width=width
            )
            picture = Image.frombuffer("RGB", pixels.shape[1::-1], pixels, "raw", "RGB", 0, 1)
        except (ValueError, KeyError):  # a warning, or CMYK: Pillow decides whether it decodes
            picture = rgb_picture(encoded, None, SIDE)
    else:
        picture = rgb_picture(encoded, raw, SIDE)
        kind = "raw" if raw else "bmp" if encoded[:2] == b"BM" else _BEGINNINGS.get(encoded[:4], kind)
        size = picture.size
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
