"""Drawing a sheet: where things are, and that no text or picture can stop it."""

import itertools

import numpy as np
import pytest
from PIL import Image

from shardfeed.tools.contact_sheet import TILE, SheetRow, Tile, draw_sheet

from pictures import image_bytes

RED = (209, 36, 47)  # of the cross


def png(colour: tuple[int, int, int], size: tuple[int, int] = (20, 20)) -> bytes:
    return image_bytes(Image.new("RGB", size, colour), "PNG")


def has(sheet: Image.Image, colour: tuple[int, int, int]) -> int:
    """Pixels of exactly this colour."""
    return int((np.asarray(sheet) == colour).all(axis=2).sum())


def one(image: bytes, name: str = "cat", caption: str = "") -> Image.Image:
    return draw_sheet("title", ["note"], [SheetRow("0", name, "1 image", [Tile.of(image, caption)])], 1)


def test_a_picture_fills_its_tile() -> None:
    assert has(one(png((1, 200, 3))), (1, 200, 3)) == TILE * TILE


def test_a_picture_keeps_its_shape() -> None:
    assert has(one(png((1, 200, 3), (40, 20))), (1, 200, 3)) == TILE * TILE // 2


def test_a_strip_is_still_seen() -> None:
    assert has(one(png((1, 200, 3), (3000, 1))), (1, 200, 3)) == TILE


@pytest.mark.parametrize(
    "damaged", [b"", b"text", png((1, 200, 3))[:60], b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"]
)
def test_what_does_not_decode_is_a_red_cross(damaged: bytes) -> None:
    assert has(one(damaged), RED) > 300
    assert has(one(png((1, 200, 3))), RED) == 0


def test_raw_pixels_are_drawn() -> None:
    pixels = np.full((20, 40, 3), (1, 200, 3), np.uint8)
    sheet = draw_sheet("t", [], [SheetRow("", "", "", [Tile.of(pixels.tobytes(), "", (20, 40))])], 1)
    assert has(sheet, (1, 200, 3)) == TILE * TILE // 2
    broken = draw_sheet("t", [], [SheetRow("", "", "", [Tile.of(pixels.tobytes()[:-1], "", (20, 40))])], 1)
    assert has(broken, RED) > 300


def test_rows_follow_each_other() -> None:
    colours = [(250, 0, 1), (0, 250, 1), (0, 1, 250)]
    rows = [SheetRow(str(i), "x", "", [Tile.of(png(colour), "")] * 2) for i, colour in enumerate(colours)]
    pixels = np.asarray(draw_sheet("t", [], rows, 2))
    bands = [np.flatnonzero((pixels == colour).all(axis=2).any(axis=1)) for colour in colours]
    assert all(above.max() < below.min() for above, below in itertools.pairwise(bands))


@pytest.mark.promise("E")
@pytest.mark.parametrize("text", ["a\nb", "\udc80", "猫", "\x1b[31m", "x" * 500, "", "\u202eabc"])
def test_any_text_can_be_drawn(text: str) -> None:
    plain, odd = one(png((1, 200, 3))), one(png((1, 200, 3)), text, text)
    assert has(odd, (1, 200, 3)) == TILE * TILE
    assert odd.height == plain.height
    assert odd.width <= plain.width + 240


def test_a_long_title_makes_room_for_itself() -> None:
    short, long = draw_sheet("t", [], [], 1), draw_sheet("t" * 100, [], [], 1)
    assert long.width > 500 > short.width
    ink = np.asarray(long.convert("L")) < 128
    assert not ink[:, -20:].any()


def test_different_names_look_different() -> None:
    assert one(png((9, 9, 9)), "é").tobytes() != one(png((9, 9, 9)), "è").tobytes()
