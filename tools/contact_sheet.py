"""Drawing a contact sheet: a heading, and rows of pictures with a label in front of each row. Pillow only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from shardfeed.readers.notebook import rgb_picture
from shardfeed.tools.lettering import in_lines, shortened, text_width, write

TILE = 96  # pixels, side of the square a picture is fitted into
WIDE_TILE = 224  # if something is drawn over the picture
_MARGIN = 28
_GAP = 8  # between tiles
_LINE = 18  # height of a line of small text
_SMALL = 13  # height of a line below the name of a picture
_MOST_LINES = 2  # of each text below it
_LABEL_WIDTH = 240  # at most, of the text in front of a row
_PAPER, _GROUND, _RULE = "#ffffff", "#f1f2f4", "#dfe2e6"
_INK, _SOFT, _ALARM = "#1b1f24", "#6a737d", "#d1242f"
_BROKEN = "#b4b9bf"


@dataclass(frozen=True)
class Tile:
    """One picture: `image` RGB, a square; `caption` printed below it, and then each of `texts` in a line or more."""

    image: Image.Image
    caption: str
    texts: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        encoded: bytes,
        caption: str,
        raw: tuple[int, int] | None = None,
        *,
        side: int = TILE,
        drawn: Callable[[Image.Image], Image.Image] | None = None,
        texts: Sequence[str] = (),
    ) -> "Tile":
        """A tile of an image file's bytes, `side` pixels wide; a grey one with a red cross if they do not decode.

        `raw`: (height, width) of uint8 RGB pixels [height, width, 3], when that is what `encoded` holds. `drawn`: gives
        the picture, at the size it has in the tile, with something drawn over it.
        """
        try:
            picture = rgb_picture(encoded, raw, side)
            scale = side / max(picture.size)
            width, height = (max(1, round(length * scale)) for length in picture.size)
            picture = picture.resize((width, height), Image.Resampling.LANCZOS)
            tile = Image.new("RGB", (side, side), _GROUND)
            tile.paste(drawn(picture) if drawn else picture, ((side - width) // 2, (side - height) // 2))
        except Exception:  # decoders raise any error for damaged bytes; here all mean the same
            tile = Image.new("RGB", (side, side), _BROKEN)
            near, far = side // 5, side - side // 5
            for ends in ([(near, near), (far, far)], [(near, far), (far, near)]):
                ImageDraw.Draw(tile).line(ends, _ALARM, 7)
        return cls(tile, caption, texts)


@dataclass(frozen=True)
class SheetRow:
    """A row of tiles, after `number`, `name` and `remark`, one below the other; empty ones take no space."""

    number: str
    name: str
    remark: str
    tiles: Sequence[Tile]


def draw_sheet(
    title: str,
    notes: Sequence[str],
    rows: Sequence[SheetRow],
    columns: int,
    *,
    side: int = TILE,
    legend: Sequence[tuple[tuple[int, int, int], str]] = (),
) -> Image.Image:
    """The sheet as an RGB image, as high as its rows, each with room for `columns` tiles of `side` pixels.

    `legend`: colours and their meaning, below the notes; entries that do not fit are left out. Text that is not ASCII
    is escaped, and long text is cut.
    """
    labels = ((text, size) for row in rows for text, size in ((row.number, 30), (row.name, 16), (row.remark, 12)))
    label_width = min(_LABEL_WIDTH, max((text_width(*label) for label in labels), default=0))
    left = _MARGIN + (label_width + 2 * _GAP if label_width else 0)
    heading = 34 + _LINE * (len(notes) + bool(legend)) + _GAP
    below = lambda tile: [line for text in tile.texts for line in in_lines(text, 10, side, _MOST_LINES)]  # noqa: E731
    lines = [[*map(below, row.tiles)] for row in rows]
    heights = [side + _LINE + 2 * _GAP + _SMALL * max(map(len, of_row), default=0) for of_row in lines]
    width = left + columns * (side + _GAP) - _GAP + _MARGIN
    texts = [(title, 24), *((note, 13) for note in notes)]
    width = max(width, *(2 * _MARGIN + text_width(text, size) for text, size in texts))
    sheet = Image.new("RGB", (width, 2 * _MARGIN + heading + sum(heights)), _PAPER)
    canvas = ImageDraw.Draw(sheet)
    write(canvas, (_MARGIN, _MARGIN), title, 24, _INK)
    for line, note in enumerate(notes):
        write(canvas, (_MARGIN, _MARGIN + 34 + _LINE * line), note, 13, _SOFT)
    _write_legend(canvas, (_MARGIN, _MARGIN + 34 + _LINE * len(notes)), legend, width - _MARGIN)
    for place, row in enumerate(rows):
        top = _MARGIN + heading + sum(heights[:place])
        canvas.line([(_MARGIN, top), (width - _MARGIN, top)], _RULE)
        _write_label(canvas, (_MARGIN, top + _GAP), row)
        for column, tile in enumerate(row.tiles):
            x, y = left + column * (side + _GAP), top + _GAP
            sheet.paste(tile.image, (x, y))
            caption = shortened(tile.caption, 10, side, keep_end=True)
            write(canvas, (x, y + side + 3), caption, 10, _SOFT)
            for number, text in enumerate(lines[place][column]):
                write(canvas, (x, y + side + _LINE + _SMALL * number), text, 10, _INK)
    return sheet


def _write_legend(
    canvas: ImageDraw.ImageDraw, place: tuple[int, int], legend: Sequence[tuple[tuple[int, int, int], str]], end: int
) -> None:
    """A line of squares, each followed by a name, up to `end`."""
    x, y = place
    for colour, name in legend:
        text = shortened(name, 12, _LABEL_WIDTH)
        wide = _SMALL + 3 + text_width(text, 12)
        if x + wide > end:
            write(canvas, (x, y), "...", 12, _SOFT)
            return
        canvas.rectangle((x, y + 1, x + _SMALL - 2, y + _SMALL - 1), fill=colour, outline=_SOFT)
        write(canvas, (x + _SMALL + 3, y), text, 12, _SOFT)
        x += wide + 2 * _GAP


def _write_label(canvas: ImageDraw.ImageDraw, place: tuple[int, int], row: SheetRow) -> None:
    x, y = place
    for text, size, ink, height in ((row.number, 30, _INK, 38), (row.name, 16, _INK, 22), (row.remark, 12, _SOFT, 0)):
        if text:
            write(canvas, (x, y), shortened(text, size, _LABEL_WIDTH), size, ink)
            y += height
