"""Image files of the pictures that tests draw, and a file that is none."""

import io
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def image_bytes(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file of Pillow's format `kind`, with what Pillow's `save` takes."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def waves(mode: str = "RGB", height: int = 45, width: int = 70, *, noise: float = 25, length: int = 7) -> Image.Image:
    """Waves of `length` and more pixels in each channel, with noise of this deviation; the same in each run."""
    y, x = np.mgrid[:height, :width]
    grain = np.random.default_rng(1).normal(0, noise, (height, width))
    channels = [np.clip(128 + 100 * np.sin(x / (length + c) + y / (length + 4 - c)) + grain, 0, 255) for c in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8)).convert(mode)


def over_white(image: Image.Image) -> np.ndarray:
    """The colors of an image, laid over white by its alpha."""
    values = np.asarray(image.convert("RGBA")).astype(float)
    alpha = values[..., 3:] / 255
    return values[..., :3] * alpha + 255 * (1 - alpha)


def sound() -> bytes:
    """A WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(500))
    return out.getvalue()


def colour_images(root: Path, counts: Mapping[str, int]) -> None:
    """Red, green and blue images in folders of splits and classes: so many of each split."""
    rng = np.random.default_rng(0)
    for number, split in enumerate(split for split, count in counts.items() for _ in range(count)):
        label = number % 3
        pixels = rng.integers(0, 120, (20, 24, 3))
        pixels[..., label] += 100
        folder = root / split / "rgb"[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:03d}.jpg")
