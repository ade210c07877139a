"""Drawing a contact sheet: a heading, and rows of pictures with a label in front of each row. Pillow only."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from PIL import Image, ImageDraw, ImageFont

from shardfeed.errors import escape

TILE = 96  # pixels, side of the square a picture is fitted into
_MARGIN = 28
_GAP = 8  # between tiles
_LINE = 18  # height of a line of small text
_LABEL_WIDTH = 240  # at most, of the text in front of a row
_MARK = "..."  # where text was shortened; the built-in font has ASCII
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # none whose decoder starts another program
_PAPER, _GROUND, _RULE = "#ffffff", "#f1f2f4", "#dfe2e6"
_INK, _SOFT, _ALARM = "#1b1f24", "#6a737d", "#d1242f"
_BROKEN = "#b4b9bf"


@dataclass(frozen=True)
class Tile:
    """One picture: `image` RGB of TILE x TILE pixels, `caption` printed below it."""

    image: Image.Image
    caption: str

    @classmethod
    def of(cls, encoded: bytes, caption: str, raw: tuple[int, int] | None = None) -> "Tile":
        """A tile of an image file's bytes; a grey one with a red cross where they do not decode.

        `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds.
        """
        return cls(_picture(encoded, raw), caption)


@dataclass(frozen=True)
class Row:
    """`number`, `name` and `remark` stand in front of the tiles, one below the other; empty ones take no room."""

    number: str
    name: str
    remark: str
    tiles: Sequence[Tile]


def draw_sheet(title: str, notes: Sequence[str], rows: Sequence[Row], columns: int) -> Image.Image:
    """The sheet as an RGB image, as high as its rows ask for, each with room for `columns` tiles.

    Text that is not ASCII is escaped; what is too long is cut.
    """
    label_width = max((_text_width(row) for row in rows), default=0)
    left = _MARGIN + (label_width + 2 * _GAP if label_width else 0)
    heading = 34 + _LINE * len(notes) + _GAP
    row_height = TILE + _LINE + 2 * _GAP
    width = left + columns * (TILE + _GAP) - _GAP + _MARGIN
    width = max(width, *(2 * _MARGIN + _width(text, size) for text, size in [(title, 24), *((n, 13) for n in notes)]))
    sheet = Image.new("RGB", (width, 2 * _MARGIN + heading + row_height * len(rows)), _PAPER)
    canvas = ImageDraw.Draw(sheet)
    _write(canvas, (_MARGIN, _MARGIN), title, 24, _INK)
    for line, note in enumerate(notes):
        _write(canvas, (_MARGIN, _MARGIN + 34 + _LINE * line), note, 13, _SOFT)
    for place, row in enumerate(rows):
        top = _MARGIN + heading + row_height * place
        canvas.line([(_MARGIN, top), (width - _MARGIN, top)], _RULE)
        _write_label(canvas, (_MARGIN, top + _GAP), row)
        for column, tile in enumerate(row.tiles):
            x, y = left + column * (TILE + _GAP), top + _GAP
            sheet.paste(tile.image, (x, y))
            caption = _shortened(tile.caption, 10, TILE, keep_end=True)
            _write(canvas, (x, y + TILE + 3), caption, 10, _SOFT)
    return sheet


def _picture(encoded: bytes, raw: tuple[int, int] | None) -> Image.Image:
    """A TILE x TILE image with the picture in its middle, or a cross."""
    try:
        if raw is not None:
            return _in_tile(Image.frombytes("RGB", (raw[1], raw[0]), encoded))
        # As loaders see it: an EXIF orientation is not applied.
        with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
            image.draft("RGB", (TILE, TILE))
            return _in_tile(image.convert("RGB"))
    except Exception:  # decoders raise anything at damaged bytes; all of it means the same here
        return _cross()


def _in_tile(picture: Image.Image) -> Image.Image:
    scale = TILE / max(picture.size)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    tile = Image.new("RGB", (TILE, TILE), _GROUND)
    tile.paste(picture.resize((width, height), Image.Resampling.LANCZOS), ((TILE - width) // 2, (TILE - height) // 2))
    return tile


def _cross() -> Image.Image:
    tile = Image.new("RGB", (TILE, TILE), _BROKEN)
    near, far = TILE // 5, TILE - TILE // 5
    canvas = ImageDraw.Draw(tile)
    canvas.line([(near, near), (far, far)], _ALARM, 7)
    canvas.line([(near, far), (far, near)], _ALARM, 7)
    return tile


def _write_label(canvas: ImageDraw.ImageDraw, place: tuple[int, int], row: Row) -> None:
    x, y = place
    for text, size, ink, height in ((row.number, 30, _INK, 38), (row.name, 16, _INK, 22), (row.remark, 12, _SOFT, 0)):
        if text:
            _write(canvas, (x, y), _shortened(text, size, _LABEL_WIDTH), size, ink)
            y += height


def _text_width(row: Row) -> int:
    widest = max(_width(row.number, 30), _width(row.name, 16), _width(row.remark, 12))
    return min(widest, _LABEL_WIDTH)


def _shortened(text: str, size: int, width: int, *, keep_end: bool = False) -> str:
    """`text` cut with a mark so that it is at most `width` pixels wide."""
    text = _printable(text)
    if _width(text, size) <= width:
        return text
    kept = len(text)
    while kept and _width(_cut(text, kept, keep_end), size) > width:
        kept -= 1
    return _cut(text, kept, keep_end)


def _cut(text: str, kept: int, keep_end: bool) -> str:
    return _MARK + text[len(text) - kept :] if keep_end else text[:kept] + _MARK


def _write(canvas: ImageDraw.ImageDraw, place: tuple[int, int], text: str, size: int, ink: str) -> None:
    canvas.text(place, _printable(text), ink, _font(size))


def _width(text: str, size: int) -> int:
    return round(_font(size).getlength(_printable(text)))


def _printable(text: str) -> str:
    """The built-in font draws nothing but ASCII, an empty box for all else."""
    return text if text.isascii() and text.isprintable() else escape(text).encode("ascii", "backslashreplace").decode()


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
