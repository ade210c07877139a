"""Draws docs/pictures/strip.webp, the way from a folder to a GPU: `python docs/pictures/strip.py`.

What it shows is real: files of data_samples/shapes, the shards of their conversion with each record as wide as it is,
the contact sheet of `shardfeed preview`, and a batch of `train_batches`.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from style import LIGHT, Look, sheets

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

HERE = Path(__file__).parent
SHAPES = HERE.parent.parent / "data_samples" / "shapes"
WIDTH, HEIGHT = 1800, 486
FINE = 2  # drawn so many times larger, then scaled down: smooth edges
TOP, BOTTOM = 48, 372  # of what is drawn, above the captions
SHARDS = 4


class Canvas:
    """An empty picture to draw on in pixels of the finished one."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.image = Image.new("RGB", (WIDTH * FINE, HEIGHT * FINE), look.paper)
        self.draw = ImageDraw.Draw(self.image)

    def box(self, left: float, top: float, right: float, bottom: float, *, round: float = 8, **colors: str) -> None:
        corners = [round_ * FINE for round_ in (left, top, right, bottom)]
        self.draw.rounded_rectangle(corners, round * FINE, width=FINE * 2, **colors)

    def line(self, *points: tuple[float, float], fill: str, width: float = 2) -> None:
        self.draw.line([(x * FINE, y * FINE) for x, y in points], fill, round(width * FINE))

    def text(self, x: float, y: float, text: str, size: float, fill: str = "", anchor: str = "ls") -> None:
        font = ImageFont.load_default(size * FINE)
        self.draw.text((x * FINE, y * FINE), text, fill or self.look.ink, font, anchor)

    def picture(self, picture: Image.Image, left: float, top: float, width: float, height: float) -> None:
        size = round(width * FINE), round(height * FINE)
        self.image.paste(
            picture.convert("RGB").resize(size, Image.Resampling.LANCZOS), (round(left * FINE), round(top * FINE))
        )

    def arrow(self, left: float, right: float, label: str) -> None:
        y = (TOP + BOTTOM) / 2
        self.line((left, y), (right - 8, y), fill=self.look.blue, width=4)
        points = [(right, y), (right - 16, y - 11), (right - 16, y + 11)]
        self.draw.polygon([(x * FINE, y * FINE) for x, y in points], self.look.blue)
        self.text((left + right) / 2, y - 20, label, 20, self.look.blue, "ms")

    def caption(self, x: float, title: str, below: str) -> None:
        self.text(x, 424, title, 29, anchor="ms")
        self.text(x, 456, below, 22, self.look.soft, "ms")

    def save(self, path: Path) -> None:
        small = self.image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        small.save(path, quality=20, method=6)


def folders(canvas: Canvas, left: float) -> None:
    """Class folders, each with its first images."""
    for row, folder in enumerate(sorted(SHAPES.iterdir())):
        top = TOP + row * 113
        canvas.box(left, top + 2, left + 30, top + 20, round=5, fill=canvas.look.pale)
        canvas.box(left, top + 7, left + 50, top + 40, round=5, fill=canvas.look.pale)
        canvas.text(left + 62, top + 34, f"{folder.name}/", 25)
        for column, path in enumerate(sorted(folder.iterdir())[2:6]):
            image = Image.open(path)
            side = min(image.size)
            canvas.picture(image.crop((0, 0, side, side)), left + column * 62, top + 47, 55, 55)


def shards(canvas: Canvas, left: float, dataset: Path) -> None:
    """Each shard a bar, each record a piece as wide as its bytes; the manifest below."""
    width = 262.0
    for number in range(SHARDS):
        name = f"train-{number:05d}-of-{SHARDS:05d}"
        (index,) = dataset.rglob(f"{name}.tfindex")
        sizes = [int(line.split()[1]) for line in index.read_text().splitlines()]
        top = TOP + number * 68
        canvas.text(left, top + 20, name, 20, canvas.look.soft)
        x = left
        for record, size in enumerate(sizes):
            end = x + width * size / sum(sizes)
            canvas.box(x, top + 27, end, top + 54, round=0, fill=canvas.look.blue if record % 2 else canvas.look.pale)
            x = end
    canvas.text(left, TOP + SHARDS * 68 + 34, "manifest.json", 25)
    canvas.text(left + width, TOP + SHARDS * 68 + 34, "CRC-32C", 20, canvas.look.soft, "rs")


def batches(canvas: Canvas, left: float, images: list[Image.Image]) -> None:
    """A batch as a grid, with the next ones behind it."""
    side, gap, cells = 50, 5, 4
    size = cells * side + (cells + 1) * gap
    top = (TOP + BOTTOM - size) / 2 + 10
    for behind in (2, 1, 0):
        x, y = left + 15 * behind, top - 15 * behind
        canvas.box(x, y, x + size, y + size, round=6, fill=canvas.look.paper, outline=canvas.look.line)
    for number, image in enumerate(images[: cells * cells]):
        row, column = divmod(number, cells)
        canvas.picture(image, left + gap + column * (side + gap), top + gap + row * (side + gap), side, side)


def processor(canvas: Canvas, left: float) -> None:
    """A chip with its pins."""
    side = 132
    top = (TOP + BOTTOM - side) / 2
    for pin in range(6):
        at = 16 + pin * 20
        canvas.line((left + at, top - 14), (left + at, top + side + 14), fill=canvas.look.soft, width=6)
        canvas.line((left - 14, top + at), (left + side + 14, top + at), fill=canvas.look.soft, width=6)
    canvas.box(left, top, left + side, top + side, round=10, fill=canvas.look.ink)
    canvas.text(left + side / 2, top + side / 2, "GPU", 38, canvas.look.paper, "mm")


def draw(canvas: Canvas, dataset: Path, sheet: Image.Image, images: list[Image.Image]) -> None:
    """Draw each stage with its caption, and the arrows between them."""
    folders(canvas, 36)
    canvas.arrow(304, 388, "convert")
    shards(canvas, 412, dataset)
    canvas.arrow(696, 780, "preview")
    sheet = sheet.crop((0, 0, sheet.width, round(sheet.height * 0.945)))  # less of its lower margin
    width = (BOTTOM - TOP + 12) * sheet.width / sheet.height
    canvas.picture(sheet, 804, TOP - 6, width, BOTTOM - TOP + 12)
    canvas.box(804, TOP - 6, 804 + width, BOTTOM + 6, outline=canvas.look.line)
    canvas.arrow(1200, 1284, "feed")
    batches(canvas, 1308, images)
    canvas.arrow(1570, 1616, "")
    processor(canvas, 1640)
    for x, title, below in (
        (156, "image folder", "or label file"),
        (543, "shards", "checked, indexed"),
        (804 + width / 2, "contact sheet", "look before you train"),
        (1432, "batches", "uint8, shuffled"),
        (1706, "training", "Keras, PyTorch"),
    ):
        canvas.caption(x, title, below)


def main() -> int:
    """Write the picture for light pages, and the one for dark pages."""
    parser = argparse.ArgumentParser(description="Draw the way from a folder to a GPU.")
    parser.add_argument("--out", type=Path, default=HERE / "strip.webp")
    args = parser.parse_args()

    import shardfeed
    from shardfeed.converters import ImageFolder
    from shardfeed.tools.cli import main as shardfeed_command

    with tempfile.TemporaryDirectory() as scratch:
        dataset, sheet = Path(scratch) / "shapes", Path(scratch) / "sheet.png"
        shardfeed.convert(ImageFolder(SHAPES), dataset, shards=SHARDS)
        train = shardfeed.open(dataset)["train"]
        images, _ = next(iter(shardfeed.train_batches(train, batch_size=16, image_size=100, seed=7)))
        with sheets(LIGHT):
            shardfeed_command(["preview", str(dataset), "-o", str(sheet), "--columns", "4"])
        canvas = Canvas(LIGHT)
        draw(canvas, dataset, Image.open(sheet), [Image.fromarray(image) for image in images.numpy()])
        canvas.save(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
