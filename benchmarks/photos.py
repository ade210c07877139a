"""Photo-like JPEGs for benchmarks: `python benchmarks/photos.py OUT --count 4000 --size 500x375 --quality 92`.

What matters to a converter and to a decoder is how many bytes each image has and how its energy is spread over
frequencies. Photos have 1/f spectra, broken by edges: so each image is a smooth gradient, a few overlapping
surfaces with sharp outlines, and 1/f noise, which is cut from large tiles made once per process. The amount of noise
varies from image to image, and sizes with it, as in a real folder. The same arguments give the same pixels.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

CLASSES = 10
SIZE = (500, 375)  # width and height in pixels
QUALITY = 92
_TILE = 1024  # pixels, side of a noise tile; cut anywhere, as it wraps around
_TILES = 4
_SURFACES = 6
_NOISE = 11.5  # grey levels, standard deviation of the 1/f noise in the median image
_SPREAD = 0.5  # of the logarithm of that


def make_photos(directory: str, count: int, size: tuple[int, int] = SIZE, quality: int = QUALITY, seed: int = 0) -> int:
    """Write `count` JPEGs of `size` (width, height in pixels) in 10 class folders; their bytes in all."""
    for label in range(CLASSES):
        os.makedirs(os.path.join(directory, f"class_{label}"), exist_ok=True)
    tasks = ((directory, number, size, quality, seed) for number in range(count))
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        return sum(pool.imap_unordered(_write_photo, tasks, chunksize=16))


def photo(number: int, size: tuple[int, int], seed: int = 0) -> Image.Image:
    """The RGB image `number`, a pure function of its arguments."""
    draw = np.random.default_rng([seed, number])
    width, height = size
    canvas = np.asarray(_surfaces(draw, size), np.float32)
    amount = _NOISE * float(np.exp(_SPREAD * draw.standard_normal()))
    light = _cut(draw, height, width) * amount
    tint = _cut(draw, height, width) * (amount / 4)
    canvas = canvas + light[:, :, None] + tint[:, :, None] * np.array([1.0, 0.0, -1.0], np.float32)
    return Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))


def _surfaces(draw: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    width, height = size
    corners = Image.fromarray(draw.integers(40, 216, (2, 2, 3), np.uint8))
    image = corners.resize(size, Image.Resampling.BICUBIC)
    canvas = ImageDraw.Draw(image)
    for _ in range(_SURFACES):
        x, y = draw.uniform(0, width), draw.uniform(0, height)
        radius = draw.uniform(0.05, 0.35) * width
        colour = tuple(draw.integers(20, 236, 3).tolist())
        turns = np.sort(draw.uniform(0, 2 * np.pi, int(draw.integers(3, 9))))
        if draw.random() < 0.4:
            canvas.ellipse([x - radius, y - radius * 0.7, x + radius, y + radius * 0.7], fill=colour)
        else:
            canvas.polygon([(x + radius * np.cos(t), y + radius * np.sin(t)) for t in turns], fill=colour)
    return image


def _cut(draw: np.random.Generator, height: int, width: int) -> np.ndarray:
    """float32 [height, width] of 1/f noise with standard deviation 1, from a random place in a random tile."""
    tile = _noise_tiles()[int(draw.integers(_TILES))]
    rows = (int(draw.integers(_TILE)) + np.arange(height)) % _TILE
    columns = (int(draw.integers(_TILE)) + np.arange(width)) % _TILE
    return tile[rows[:, None], columns]


@cache
def _noise_tiles() -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    frequencies = np.hypot(np.fft.fftfreq(_TILE)[:, None], np.fft.rfftfreq(_TILE))
    frequencies[0, 0] = np.inf  # no constant part
    tiles = []
    for _ in range(_TILES):
        spectrum = np.fft.rfft2(draw.standard_normal((_TILE, _TILE))) / frequencies
        tile = np.fft.irfft2(spectrum)
        tiles.append((tile / tile.std()).astype(np.float32))
    return tiles


def _write_photo(task: tuple[str, int, tuple[int, int], int, int]) -> int:
    directory, number, size, quality, seed = task
    path = os.path.join(directory, f"class_{number % CLASSES}", f"photo_{number:06d}.jpg")
    photo(number, size, seed).save(path, "JPEG", quality=quality)
    return os.path.getsize(path)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected WIDTHxHEIGHT in pixels")
    return int(width), int(height)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write photo-like JPEGs into 10 class folders.")
    parser.add_argument("directory")
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--size", type=_size, default=SIZE, metavar="WxH")
    parser.add_argument("--quality", type=int, default=QUALITY)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    started = time.monotonic()
    size = make_photos(args.directory, args.count, args.size, args.quality, args.seed)
    seconds = time.monotonic() - started
    mean = size / max(1, args.count)
    print(f"{args.directory}: {args.count} images, {size / 1e6:.1f} MB, {mean / 1e3:.1f} kB each, {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
