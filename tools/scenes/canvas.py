"""Colours, backgrounds and noise of drawn samples, of numbers that the standard library promises to keep."""

import random
from collections.abc import Callable

from PIL import Image, ImageChops

SCALE = 4  # drawn larger by this and shrunk, for smooth edges
DARK, BRIGHT = 110, 130  # a colour of the background is below, one of a shape above, in each channel
_NOISE = 10  # grey levels that noise adds or takes at most


def drawn_colour(draw: Callable[[], float], least: int, bound: int) -> tuple[int, int, int]:
    """RGB, each channel from `least` to below `bound`, of three numbers of `draw`."""
    red, green, blue = (least + int(draw() * (bound - least)) for _ in range(3))
    return red, green, blue


def gradient(
    size: tuple[int, int], near: tuple[int, int, int], far: tuple[int, int, int], *, turned: bool
) -> Image.Image:
    """An RGB image of `size` (width, height) that goes from one colour to another, down or across."""
    mask = Image.linear_gradient("L").resize(size)
    mask = mask.transpose(Image.Transpose.ROTATE_90).resize(size) if turned else mask
    return Image.composite(Image.new("RGB", size, near), Image.new("RGB", size, far), mask)


def noisy(image: Image.Image, noise: random.Random) -> Image.Image:
    """`image`, RGB, with grain."""
    grain = Image.frombytes("L", image.size, noise.randbytes(image.width * image.height))
    lighter = grain.point([max(0, (value - 128) * _NOISE // 128) for value in range(256)])
    darker = grain.point([max(0, (128 - value) * _NOISE // 128) for value in range(256)])
    bands = [ImageChops.subtract(ImageChops.add(band, lighter), darker) for band in image.split()]
    return Image.merge("RGB", bands)
