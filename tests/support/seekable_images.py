"""JPEGs of many kinds, drawn, for what cuts them into pieces and what joins the pieces."""

import random

import numpy as np
from PIL import Image

from shardfeed.converters.images.seekable import interval_for

from pictures import image_bytes


def drawn(height: int, width: int, seed: int) -> Image.Image:
    """A picture that is smooth enough for a photo, with noise."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (height // 9 + 1, width // 9 + 1, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return Image.fromarray(np.clip(smooth + rng.integers(-15, 16, smooth.shape), 0, 255).astype(np.uint8))


def jpeg(image: Image.Image, **options: object) -> bytes:
    return image_bytes(image, "JPEG", **({"quality": 90} | options))


def cut_jpeg(image: Image.Image, **options: object) -> bytes:
    """The picture as `jpeg` encodes it, with the restart markers that a conversion inserts: Pillow writes them."""
    sampling = (1, 1) if image.mode == "L" else _FACTORS[options.get("subsampling", "4:2:0")]
    interval = interval_for(image.height, image.width, (8 * sampling[0], 8 * sampling[1]))
    return jpeg(image, **options | ({"restart_marker_blocks": interval} if interval else {}))


def any_picture(rng: random.Random) -> tuple[Image.Image, dict[str, object]]:
    """A picture, gray or not, from one pixel up, and how to encode it: any sampling, markers or tables of its own."""
    height, width = (rng.randint(1, 40), rng.randint(1, 300)) if rng.random() < 0.5 else (rng.randint(1, 260), 333)
    if rng.random() < 0.5:
        height, width = width, height
    image = drawn(height, width, rng.randrange(10**6))
    options: dict[str, object] = {"quality": rng.choice([10, 30, 75, 92, 99])}
    options["subsampling"] = rng.choice(list(_FACTORS))
    if rng.random() < 0.3:
        options["restart_marker_blocks"] = rng.randint(1, 30)
    elif rng.random() < 0.3:
        options["optimize"] = True
    return image.convert("L") if rng.random() < 0.15 else image, options


def any_jpeg(rng: random.Random) -> tuple[bytes, int, int]:
    """A sequential JPEG of any picture, its height and width."""
    image, options = any_picture(rng)
    return jpeg(image, **options), image.height, image.width


def several_jpegs(seed: int) -> list[bytes]:
    """Twelve JPEGs: three pictures, one of them gray, in four encodings, one of them progressive."""
    pictures = [drawn(90, 333, seed), drawn(130, 70, seed + 1), drawn(64, 200, seed + 2).convert("L")]
    return [jpeg(picture, **encoding) for picture in pictures for encoding in _ENCODINGS]


_FACTORS: dict[object, tuple[int, int]] = {"4:4:4": (1, 1), "4:2:2": (1, 2), "4:2:0": (2, 2)}  # down, across
_ENCODINGS: list[dict[str, object]] = [
    {"subsampling": "4:2:0"},
    {"subsampling": "4:4:4", "optimize": True},
    {"subsampling": "4:2:2", "restart_marker_blocks": 7},
    {"progressive": True},
]
