"""Drawn images of shapes, for the demo: `draw_shapes` writes an image folder of three classes.

All random numbers are from generators that the standard library promises to keep, so the pictures are the same
everywhere; the files' bytes may differ with the version of libjpeg.
"""

import math
import os
import random
from collections.abc import Callable

from PIL import Image, ImageChops, ImageDraw

from shardfeed.storage.local import disk_errors

SHAPES = ("circle", "square", "triangle")
IMAGES_PER_CLASS = 80  # a file takes a whole block of 4 kB on most disks: 240 keep the folder near 1 MB
SIZE = 64  # pixels, width and height of every image
QUALITY = 80
SCALE = 4  # drawn larger by this and shrunk, for smooth edges
DARK, BRIGHT = 110, 130  # in each channel, background colours are below, colours of shapes above
_NOISE = 10  # most grey levels that noise adds or subtracts
_MARGIN = 1 / 16  # of the side, around every shape: the usual evaluation crop keeps the whole shape
_REACH = {"circle": 0.75, "square": 0.94, "triangle": 1.17}  # times the radius, for equal areas


def draw_shapes(directory: str) -> None:
    """Write `circle/circle_001.jpg` and so on into `directory`, which is created when missing. Raises StorageError."""
    for shape in SHAPES:
        folder = os.path.join(directory, shape)
        with disk_errors(folder, "write"):
            os.makedirs(folder, exist_ok=True)
            for number in range(1, IMAGES_PER_CLASS + 1):
                path = os.path.join(folder, f"{shape}_{number:03d}.jpg")
                draw_shape(shape, number).save(path, "JPEG", quality=QUALITY)


def draw_shape(shape: str, number: int) -> Image.Image:
    """The RGB image [64, 64] of one `shape`; the same for the same `number`."""
    draw = random.Random(f"{shape} {number}").random
    near, far = drawn_colour(draw, 0, DARK), drawn_colour(draw, 0, DARK)
    image = gradient((SIZE * SCALE, SIZE * SCALE), near, far, turned=draw() < 0.5)
    radius = _REACH[shape] * SIZE * SCALE * (0.24 + 0.12 * draw())
    least = radius + _MARGIN * SIZE * SCALE
    room = SIZE * SCALE - 2 * least
    centre = (least + room * draw(), least + room * draw())
    # Enough to vary: a square on its tip is still a square, and a triangle never points down as much as up.
    angle = (draw() - 0.5) * math.pi / 3
    _outline(ImageDraw.Draw(image), shape, centre, radius, angle, drawn_colour(draw, BRIGHT, 256))
    return noisy(image.resize((SIZE, SIZE), Image.Resampling.BOX), random.Random(f"noise {shape} {number}"))


def _outline(
    canvas: ImageDraw.ImageDraw,
    shape: str,
    centre: tuple[float, float],
    radius: float,
    angle: float,
    colour: tuple[int, int, int],
) -> None:
    """Draw the circle of `radius` around `centre`, or the shape with its corners on the circle."""
    if shape == "circle":
        canvas.circle(centre, radius, colour)
        return
    corners = {"square": 4, "triangle": 3}[shape]
    turn = angle - math.pi / 2 + (math.pi / 4 if shape == "square" else 0)
    turns = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    canvas.polygon([(centre[0] + radius * math.cos(t), centre[1] + radius * math.sin(t)) for t in turns], colour)


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
    """`image`, RGB, with added noise."""
    grain = Image.frombytes("L", image.size, noise.randbytes(image.width * image.height))
    lighter = grain.point([max(0, (value - 128) * _NOISE // 128) for value in range(256)])
    darker = grain.point([max(0, (128 - value) * _NOISE // 128) for value in range(256)])
    bands = [ImageChops.subtract(ImageChops.add(band, lighter), darker) for band in image.split()]
    return Image.merge("RGB", bands)
