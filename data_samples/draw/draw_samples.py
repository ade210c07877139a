"""The inputs of data_samples, for the README, the tests and the demo: `python draw_samples.py OUT` draws them."""

import argparse
import io
import json
import os

from PIL import Image

from shardfeed.tools.shapes import IMAGES_PER_CLASS, QUALITY, SHAPES, draw_shape, draw_shapes

from scene_files import scene_files, separated

LABELLED_PER_CLASS = 10  # images of each class that the label files name
FLAT_PER_CLASS = 4
_ORIENTATION = 0x0112  # EXIF tag
_QUARTER_TURN = 6  # its value for: turn clockwise by 90 degrees to see it upright
_CUT = 0.6  # share of the broken file that is kept


def make_samples(directory: str | os.PathLike[str]) -> None:
    """Write the folders that README.md names into `directory`, which is created when missing.

    Files of the same names are overwritten, others are left alone. Needs pycocotools, which fills the masks.
    """
    root = os.fspath(directory)
    draw_shapes(os.path.join(root, "shapes"))
    for shape in SHAPES:
        for number in range(1, FLAT_PER_CLASS + 1):
            _write(root, f"flat/{shape}.{number:03d}.jpg", _jpeg(draw_shape(shape, number)))
    _write_labels(root)
    _write_odd(root)
    for name, data in scene_files():
        _write(root, f"scenes/{name}", data)


def _key(shape: str, number: int) -> str:
    return f"{shape}/{shape}_{number:03d}.jpg"


def _jpeg(image: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True, **options)
    return file.getvalue()


def _write(root: str, name: str, data: bytes) -> None:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def _write_labels(root: str) -> None:
    numbers = range(1, LABELLED_PER_CLASS + 1)
    rows = [(_key(shape, n), shape, "validation" if n % 5 == 0 else "train") for n in numbers for shape in SHAPES]
    heads = ("path", "label", "split")
    _write(root, "labels/labels.csv", separated([heads, *rows]))
    _write(root, "labels/labels.tsv", separated([heads, *rows], "\t"))
    lines = [json.dumps(dict(zip(heads, row, strict=True))) for row in rows]
    _write(root, "labels/labels.jsonl", "".join(f"{line}\n" for line in lines).encode())
    numbered = [f"{path} {SHAPES.index(label)}\n" for path, label, _ in rows]
    _write(root, "labels/train.txt", "".join(numbered).encode())
    _write(root, "labels/classes.txt", "".join(f"{shape}\n" for shape in SHAPES).encode())


def _write_odd(root: str) -> None:
    def drawn(shape: str, number: int) -> Image.Image:
        return draw_shape(shape, IMAGES_PER_CLASS + number)  # none of those in shapes/

    def encoded(image: Image.Image, kind: str) -> bytes:
        file = io.BytesIO()
        image.save(file, kind)
        return file.getvalue()

    exif = Image.Exif()
    exif[_ORIENTATION] = _QUARTER_TURN
    lying = drawn("triangle", 1).transpose(Image.Transpose.ROTATE_90)
    whole = _jpeg(drawn("square", 3))
    palette = drawn("square", 2).quantize(32, dither=Image.Dither.NONE)
    _write(root, "odd/circle/rgb.png", encoded(drawn("circle", 1), "PNG"))
    _write(root, "odd/circle/gray.jpg", _jpeg(drawn("circle", 2).convert("L")))
    _write(root, "odd/square/cmyk.jpg", _jpeg(drawn("square", 1).convert("CMYK")))
    _write(root, "odd/square/palette.gif", encoded(palette, "GIF"))
    _write(root, "odd/square/cut.jpg", whole[: int(len(whole) * _CUT)])
    _write(root, "odd/triangle/turned by EXIF.jpg", _jpeg(lying, exif=exif))
    _write(root, "odd/triangle/drei Wörter lang.jpg", _jpeg(drawn("triangle", 2)))
    _write(root, "odd/triangle/text.jpg", b"This is no image, whatever its name says.\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", help="folder to write into; created when missing")
    make_samples(parser.parse_args().directory)
