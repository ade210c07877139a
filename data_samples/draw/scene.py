"""Scenes of up to three shapes that do not touch: where they are, to the pixel, and their picture.

Corners are whole pixels and sides powers of two, so that each format can say every place without rounding.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from shardfeed.tools.shapes import BRIGHT, DARK, SCALE, drawn_colour, gradient, noisy

KINDS = ("circle", "square", "triangle")
LONG, SHORT = 128, 64  # pixels
CROWDED, EMPTY, TURNED = 3, 5, 6  # of each SCENES: has a crowd, has nothing, is turned by its EXIF
SCENES = 16
_CELLS = 3  # along the long side, for a shape each
_SIDES = {"circle": 16, "square": 4, "triangle": 3}
_SMALL = 5  # pixels, radius of those in a crowd

Corners = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Figure:
    """A shape, or a crowd of one kind: `parts` are polygons, corners in pixels from the top left."""

    kind: str
    parts: Sequence[Corners]
    crowd: bool = False

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom."""
        xs, ys = zip(*(corner for part in self.parts for corner in part), strict=True)
        return min(xs), min(ys), max(xs), max(ys)


@dataclass(frozen=True)
class Scene:
    """`size`: (width, height) of the upright image. `turned`: its file holds it lying, with an EXIF entry."""

    number: int
    size: tuple[int, int]
    figures: Sequence[Figure]
    turned: bool = False

    @property
    def name(self) -> str:
        """Names of its files, without extension."""
        return f"scene_{self.number:03d}"


def scene(number: int) -> Scene:
    """Scene `number`, from 1 without end; the same for the same number. Any SCENES of them have all kinds."""
    draw = random.Random(f"scene {number}").random
    odd = (number - 1) % SCENES + 1
    upright = odd == TURNED
    size = (SHORT, LONG) if upright else (LONG, SHORT)
    count = 0 if odd == EMPTY else 3 if odd in (CROWDED, TURNED) else 1 + int(draw() * _CELLS)
    cells = [cell for cell in range(_CELLS) if cell < count]
    figures = []
    for cell in cells:
        kind = KINDS[(number + cell + int(draw() * 2)) % len(KINDS)]
        along = LONG // _CELLS * cell + LONG // _CELLS // 2
        if odd == CROWDED and cell == 1:
            figures.append(_crowd(kind, along, SHORT // 2))
            continue
        radius = 11 + 8 * draw()
        across = SHORT // 2 + round((draw() - 0.5) * 2 * (SHORT // 2 - 21))
        x, y = (across, along) if upright else (along, across)
        figures.append(Figure(kind, [_polygon(kind, x, y, radius, (draw() - 0.5) * math.pi / 3)]))
    return Scene(number, size, tuple(figures), upright)


def draw_scene(drawn: Scene) -> Image.Image:
    """The RGB image, upright."""
    draw = random.Random(f"colours {drawn.number}").random
    width, height = drawn.size
    backs = drawn_colour(draw, 0, DARK), drawn_colour(draw, 0, DARK)
    image = gradient((width * SCALE, height * SCALE), *backs, turned=draw() < 0.5)
    canvas = ImageDraw.Draw(image)
    for figure in drawn.figures:
        colour = drawn_colour(draw, BRIGHT, 256)
        for part in figure.parts:
            canvas.polygon([(x * SCALE, y * SCALE) for x, y in part], colour)
    return noisy(image.resize(drawn.size, Image.Resampling.BOX), random.Random(f"noise {drawn.number}"))


def _polygon(kind: str, x: int, y: int, radius: float, angle: float) -> list[tuple[int, int]]:
    """Corners on the circle around (x, y), the first one at the top but for `angle`."""
    corners = _SIDES[kind]
    first = angle - math.pi / 2
    turns = [first + 2 * math.pi * corner / corners for corner in range(corners)]
    return [(round(x + radius * math.cos(turn)), round(y + radius * math.sin(turn))) for turn in turns]


def _crowd(kind: str, x: int, y: int) -> Figure:
    offsets = ((-12, -14), (4, -16), (-4, 0), (12, 2), (-13, 14), (6, 16))
    return Figure(kind, [_polygon(kind, x + dx, y + dy, _SMALL, 0) for dx, dy in offsets], crowd=True)
