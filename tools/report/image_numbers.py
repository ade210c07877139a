"""Numbers of one image, from its bytes: size, format, quality, brightness, sharpness, and pixels for comparison."""

import io
from typing import Any

import numpy as np
from PIL import Image
from simplejpeg import decode_jpeg

from shardfeed.readers.notebook import FORMATS, as_rgb

TINY, PATCHES = 9, 3  # pixels: sides of the squares, grey and in colour, used to compare images
SIDE = 128  # pixels: maximum width and height at which images are measured
KINDS = ("does not decode", "jpeg", "progressive jpeg", "png", "webp", "gif", "bmp", "raw", "other")
_STANDARD = 3688  # sum of the luminance table of T.81 annex K, which encoders scale by their quality
_LIMITS = np.array((0.05, 0.95))
_LEVELS = np.arange(256)

# Of each image. `same`: of its source's or its own SHA-256; 0 of a damaged record. `annotations`: a hash of these.
# `kind`: of KINDS; if 0, the image does not decode, and the following fields are 0. `tiny`: grey pixels. `color`: RGB
# pixels. `mean`, `spread` (standard deviation), `low`, `high` (percentiles 5 and 95): of grey. `sharp`: variance of the
# Laplacian. `quality`: of a JPEG, about; 0 unknown. `label`: a class, -1 without. `objects`, `caption` (characters): -1
# where records have none.
NUMBERS = np.dtype(
    [
        *((name, "<u8") for name in ("same", "annotations")),
        *((name, "<i4") for name in ("label", "objects", "caption", "height", "width", "bytes")),
        *((name, "u1") for name in ("kind", "quality", "mean", "low", "high")),
        *((name, "<f4") for name in ("spread", "sharp")),
        ("color", "u1", (PATCHES, PATCHES, 3)),
        ("tiny", "u1", (TINY, TINY)),
    ]
)


def image_numbers(encoded: bytes, raw: tuple[int, int] | None) -> dict[str, Any]:
    """The fields of NUMBERS that an image determines. May raise any error for damaged bytes.

    `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
    """
    if raw is not None:
        size, kind, quality = (raw[1], raw[0]), "raw", 0
        picture = Image.frombytes("RGB", size, encoded)
    else:
        with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:
            kind = str(image.format).lower().replace("mpo", "jpeg")  # an MPO is a JPEG with more pictures after it
            size, kind = image.size, "progressive " * ("progressive" in image.info) + kind
            tables = getattr(image, "quantization", {})
            scale = 100 * sum(tables.get(0, ())) / _STANDARD
            quality = (200 - scale) / 2 if scale <= 100 else 5000 / scale
            quality = min(100, max(1, round(quality))) if tables else 0
            try:  # three times as fast; for another format, CMYK, or after a warning: Pillow decides
                height, width = min(SIDE, size[1]), min(SIDE, size[0])
                pixels = decode_jpeg(encoded, fastdct=True, fastupsample=True, min_height=height, min_width=width)
                picture = Image.frombuffer("RGB", pixels.shape[1::-1], pixels, "raw", "RGB", 0, 1)
            except (ValueError, KeyError):
                image.draft("RGB", (SIDE, SIDE))
                picture = as_rgb(image)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    gray = picture.convert("L")
    light = _pixels(gray)
    counts = np.bincount(light.ravel(), minlength=256)
    mean = float(counts @ _LEVELS) / light.size
    low, high = np.searchsorted(np.cumsum(counts), _LIMITS * light.size)
    wide = light.astype(np.int16)
    inner = wide[1:-1, 1:-1]  # none of a small image
    edges = 4 * inner - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:] if inner.size else inner
    return {
        "kind": KINDS.index(kind if kind in KINDS else "other"),
        "height": size[1],
        "width": size[0],
        "bytes": len(encoded),
        "quality": quality,
        "mean": round(mean),
        "spread": float(counts @ (_LEVELS - mean) ** 2 / light.size) ** 0.5,
        "low": low,
        "high": min(255, high),
        "sharp": float(edges.var()) if edges.size else 0.0,  # a product of vectors would busy-wait in NumPy's threads
        "color": _pixels(picture.resize((PATCHES, PATCHES), Image.Resampling.BOX)).reshape(PATCHES, PATCHES, 3),
        "tiny": _pixels(gray.resize((TINY, TINY), Image.Resampling.BOX)),
    }


def _pixels(picture: Image.Image) -> np.ndarray:
    """uint8 [height, width * channels]. `np.asarray` takes twice as long for a small image."""
    return np.frombuffer(picture.tobytes(), np.uint8).reshape(picture.height, -1)
