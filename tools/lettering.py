"""Text in pictures, in Pillow's built-in font: cut if it is too long, broken into lines, escaped."""

from functools import cache

from PIL import ImageDraw, ImageFont

from shardfeed.errors import escape

_MARK = "..."  # where text was shortened; the built-in font has ASCII


def write(canvas: ImageDraw.ImageDraw, place: tuple[int, int], text: str, size: int, ink: str) -> None:
    """Draw any `text` with its top left corner at `place`."""
    canvas.text(place, _printable(text), ink, _font(size))


def text_width(text: str, size: int) -> int:
    """Pixels that `text` takes in a line."""
    return round(_font(size).getlength(_printable(text)))


def shortened(text: str, size: int, width: int, *, keep_end: bool = False) -> str:
    """`text` cut with a mark so that it is at most `width` pixels wide."""
    text = _printable(text)
    if text_width(text, size) <= width:
        return text
    kept = min(len(text), width)  # no letter is narrower than a pixel
    while kept and text_width(_cut(text, kept, keep_end), size) > width:
        kept -= 1
    return _cut(text, kept, keep_end)


def in_lines(text: str, size: int, width: int, most: int) -> list[str]:
    """`text` broken between words into at most `most` lines of `width` pixels; the rest is cut with a mark."""
    words = _printable(" ".join(text.split())[: width * most]).split()
    lines: list[str] = []
    while words and len(lines) < most - 1:
        taken = 1
        while taken < len(words) and text_width(" ".join(words[: taken + 1]), size) <= width:
            taken += 1
        lines.append(shortened(" ".join(words[:taken]), size, width))
        words = words[taken:]
    return [*lines, shortened(" ".join(words), size, width)] if words else lines


def _cut(text: str, kept: int, keep_end: bool) -> str:
    return _MARK + text[len(text) - kept :] if keep_end else text[:kept] + _MARK


def _printable(text: str) -> str:
    """Escape text for the built-in font, which only has ASCII."""
    return text if text.isascii() and text.isprintable() else escape(text).encode("ascii", "backslashreplace").decode()


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
