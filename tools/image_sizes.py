"""Image sizes of a split, its most expensive images, the time to decode all of them, and shapes for them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.errors import UsageError, argument, escape
from shardfeed.manifest import SplitInfo
from shardfeed.pipelines.orders.shapes import Shape, ShapeFit, by_ratio, shapes_of_area
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, FORMAT, HEIGHT, WIDTH
from shardfeed.text import number, table

_SHOWN = 3
# Nanoseconds of one core to decode a pixel, by Pillow 12 on an AMD EPYC, the best of three over up to 300 images of
# each of five sets: JPEGs of photos 4.5 and 5.0, PNGs of wallpapers 12.5, icons 19.4, stamps 12.6, drawings 5.7. Pixels
# stored raw are not decoded. A pipeline that decodes crops of JPEGs takes less.
NANOSECONDS, OTHER_NANOSECONDS = {b"jpeg": 5.0, b"raw": 0.0}, 13.0


@dataclass(frozen=True)
class ImageSize:
    """An image: its name, height and width in pixels, its format, and about how long one core takes to decode it."""

    filename: bytes
    height: int
    width: int
    format: str
    decode_s: float


@dataclass(frozen=True)
class ImageSizes:
    """Sizes of `images` images. `median`: (height, width) of the one with the median number of pixels. `pixels`: sum.

    `largest`: (height, width). `half`: number of the largest images that hold half of all pixels. `expensive`: the
    images that take longest to decode, slowest first. `decode_s`: about how many seconds one core takes to decode all
    once.
    """

    images: int
    median: tuple[int, int]
    pixels: int
    largest: tuple[int, int]
    half: int
    expensive: tuple[ImageSize, ...]
    decode_s: float


def image_sizes(split: Split, info: SplitInfo) -> ImageSizes | None:
    """Read the sizes from the dataset's columns; None without them, because records would have to be read.

    `info`: the split's entry in the manifest.
    """
    if not len(split) or not {HEIGHT, WIDTH, FORMAT, FILENAME} <= info.columns.keys():
        return None
    heights, widths = split.column(HEIGHT), split.column(WIDTH)
    formats, names = split.column(FORMAT), split.column(FILENAME)
    pixels = heights * widths
    order = np.argsort(pixels, kind="stable")[::-1]
    held = np.cumsum(pixels[order])
    middle = int(order[len(order) // 2])
    nanoseconds = pixels * np.array([NANOSECONDS.get(form, OTHER_NANOSECONDS) for form in formats.tolist()])
    expensive = []
    for i in np.argsort(nanoseconds, kind="stable")[::-1][:_SHOWN].tolist():
        name, form = bytes(names[i]), bytes(formats[i]).decode("utf-8", "replace")
        expensive.append(ImageSize(name, int(heights[i]), int(widths[i]), form, float(nanoseconds[i] / 1e9)))
    largest = int(order[0])
    return ImageSizes(
        images=len(split),
        median=(int(heights[middle]), int(widths[middle])),
        pixels=int(held[-1]),
        half=int(np.searchsorted(held, held[-1] / 2)) + 1,
        largest=(int(heights[largest]), int(widths[largest])),
        expensive=tuple(expensive),
        decode_s=float(nanoseconds.sum() / 1e9),
    )


def sizes_text(sizes: ImageSizes) -> str:
    """A sentence: the median, the largest, the images with half of all pixels, the cost of decoding."""
    sides = (("median", sizes.median), ("largest", sizes.largest))
    parts = [f"{what} {width}x{height}" for what, (height, width) in sides]
    if sizes.half < sizes.images / 10:
        parts.append(f"{sizes.half:,} of {number(sizes.images, 'image')} have half of all pixels")
    parts.append(f"{sizes.pixels / 1e6:,.1f} million pixels, decoded in about {sizes.decode_s:,.1f} s on one core")
    return ", ".join(parts)


def read_shapes(text: str) -> list[Shape]:
    """Parse what is typed for `--shapes`, sorted by aspect ratio. Raises UsageError."""
    if not re.fullmatch(r"(\d{1,5}x\d{1,5},)+\d{1,5}x\d{1,5}|\d{1,5}x\d{1,5}(/[1-9]\d{0,4})?", text):
        problem = f"got {escape(text)!r}, expected HEIGHTxWIDTH, like 512x768,768x512, or one and a step, 1024x1024/64"
        raise UsageError(argument("shapes"), problem)
    listed, _, step = text.partition("/")
    shapes = [(int(height), int(width)) for height, width in (pair.split("x") for pair in listed.split(","))]
    return by_ratio(shapes_of_area(math.prod(shapes[0]), step=int(step)) if step else shapes)


def shapes_text(found: Sequence[ShapeFit], square: ShapeFit) -> str:
    """A table of how images fit into shapes, and a sentence beside squares."""
    rows: list[list[object]] = [["height x width", "ratio", "images", "cut away", "enlarged"]]
    for (height, width), images, cut, enlarged in found:
        rows.append([f"{height}x{width}", f"{width / height:.2f}", images, f"{cut:.1%}", f"{enlarged:.0%}"])
    cut = sum(each.cut * each.images for each in found) / max(1, square.images)
    return f"{table(rows)}\n  cropping cuts away {cut:.1%} of an image on average; to a square {square.cut:.1%}"
