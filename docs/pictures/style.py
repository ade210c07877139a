"""One look for the pictures of the docs: a palette, and a font."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image, ImageFont


@dataclass(frozen=True)
class Look:
    """The colours of a picture."""

    paper: str
    ground: str  # below what does not fill its place
    ink: str
    soft: str
    line: str
    blue: str
    pale: str


LIGHT = Look("#ffffff", "#f1f2f4", "#1f2933", "#6b7785", "#d5dbe1", "#0072b2", "#9cc3e0")


@contextmanager
def sheets(look: Look) -> Iterator[None]:
    """Let `shardfeed preview` draw in the colours of `look`."""
    from shardfeed.tools import contact_sheet

    colours = {"_PAPER": look.paper, "_GROUND": look.ground, "_RULE": look.line, "_INK": look.ink, "_SOFT": look.soft}
    before = {name: getattr(contact_sheet, name) for name in colours}
    try:
        vars(contact_sheet).update(colours)
        yield
    finally:
        vars(contact_sheet).update(before)


@cache
def font_file() -> Any:
    """A file with Pillow's own font, which goes when the process ends."""
    font = ImageFont.load_default(10)
    assert isinstance(font, ImageFont.FreeTypeFont)
    assert isinstance(font.path, io.BytesIO)
    file = tempfile.NamedTemporaryFile(suffix=".ttf")  # noqa: SIM115  # matplotlib reads it as it draws
    file.write(font.path.getvalue())
    file.flush()
    return file


@contextmanager
def charts(look: Look) -> Iterator[Any]:
    """Give matplotlib's pyplot, set to draw in the colours of `look` and in Pillow's own font."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import font_manager, pyplot

    font_manager.fontManager.addfont(font_file().name)
    colours = {"text.color": look.ink, "axes.edgecolor": look.line, "axes.labelcolor": look.soft}
    ticks = {
        f"{axis}tick.{part}": color
        for axis in "xy"
        for part, color in (("color", look.line), ("labelcolor", look.soft))
    }
    papers = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), look.paper)
    others = {"axes.spines.top": False, "axes.spines.right": False, "font.family": ["Aileron", "DejaVu Sans"]}
    with matplotlib.rc_context(colours | ticks | papers | others):
        yield pyplot


def save(figure: Any, path: Path, colours: int = 64) -> None:
    """Write a chart as lossless WebP, which is smaller than PNG. Fewer colours make it smaller still."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=130)
    few_colours(Image.open(drawn), path, colours)


def few_colours(picture: Image.Image, path: Path, colours: int = 64) -> None:
    """Write a drawing as lossless WebP of at most `colours` colours."""
    few = picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    few.convert("RGB").save(path, lossless=True, quality=100, method=6)
