"""Draws the dark twin of a chart, if its figures are not kept: `python docs/pictures/dark_twin.py docs/bench.webp`.

Hues and differences in lightness stay; white paper becomes the dark pages' paper, and black ink becomes light.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor
from style import LOOKS, few_colours

_DARK = LOOKS[1]


def darken(picture: Image.Image) -> Image.Image:
    """Invert the lightness (HSL) of each pixel, from the dark look's paper to its ink."""
    rgb = np.asarray(picture.convert("RGB")) / 255
    inverted = rgb + 1 - rgb.max(2, keepdims=True) - rgb.min(2, keepdims=True)
    paper, ink = (np.array(ImageColor.getrgb(color)) for color in (_DARK.paper, _DARK.ink))
    return Image.fromarray((paper + inverted * (ink - paper)).round().astype(np.uint8))


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        few_colours(darken(Image.open(path)), _DARK.beside(path))
