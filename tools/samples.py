"""Small real inputs for the README, the tests and the demo: `python -m shardfeed.tools.samples OUT`.

Everything is drawn from numbers that the standard library promises to keep, so the same pictures come out everywhere;
the files' bytes may differ with the version of libjpeg.
"""

import argparse
import csv
import io
import json
import math
import os
import random
import sys
from collections.abc import Sequence

from PIL import Image, ImageDraw

from shardfeed.errors import MissingExtraError, StorageError
from shardfeed.storage.local import storage_error
from shardfeed.tools.scenes.canvas import BRIGHT, DARK, SCALE, drawn_colour, gradient, noisy
from shardfeed.tools.scenes.scene import LONG, SCENES, SHORT
from shardfeed.tools.scenes.scene_files import scene_files

SHAPES = ("circle", "square", "triangle")
IMAGES_PER_CLASS = 80  # a file takes a whole block of 4 kB on most disks: 240 keep the folder near 1 MB
LABELLED_PER_CLASS = 10  # images of each class that the label files name
FLAT_PER_CLASS = 4
SIZE = 64  # pixels, width and height of every image
_MARGIN = 1 / 16  # of the side, around every shape: the usual crop of evaluation leaves it whole
_REACH = {"circle": 0.75, "square": 0.94, "triangle": 1.17}  # times the radius, for equal areas
_QUALITY = 80
_ORIENTATION = 0x0112  # EXIF tag
_QUARTER_TURN = 6  # its value for: turn clockwise by 90 degrees to see it upright
_CUT = 0.6  # share of the broken file that is kept

_README = f"""# Sample inputs

Drawn by `python -m shardfeed.tools.samples data_samples`; nothing here is anybody's photo.
`shapes/` is an image folder of {len(SHAPES)} classes with {IMAGES_PER_CLASS} JPEGs of {SIZE}x{SIZE} pixels each:
one bright circle, square or triangle of any hue, size, place and angle on a dark, noisy background of two
colours. Areas are alike, so that the outline alone tells the class.
`flat/` holds {FLAT_PER_CLASS * len(SHAPES)} of them without folders, named after their class (`circle.001.jpg`).
`labels/` names {LABELLED_PER_CLASS * len(SHAPES)} images of `shapes/` in four kinds of label file:
`labels.csv`, `labels.tsv` and `labels.jsonl` with path, label and split, and `train.txt` with lines of
`path number`, the numbers counting from 0 in `classes.txt`; their paths are relative to `shapes/`.
`odd/` holds what real folders hold: a PNG, a grey JPEG, one turned by its EXIF entry, a CMYK JPEG, a GIF
with a palette, a name with spaces and a non-ASCII letter, and two files that no decoder reads: a JPEG
that was cut, and a text file called `.jpg`.
`scenes/` holds {SCENES} images of {LONG}x{SHORT} pixels with up to three shapes that do not touch. What is on
them is there as people have it: `coco/` (instances, key points of triangles, captions), `yolo/` (segments),
`voc/` (boxes and palette masks), `masks/` (a class for each pixel, named in `masks.txt`), `boxes.csv` (a row a
box) and `tags.csv` (the classes of an image). All say the same, where they can. One scene has a crowd, which
only COCO can say and masks call void, one has no objects, and one is turned by its EXIF entry.

    cd data_samples
    shardfeed convert shapes /tmp/shapes --split train=0.8,validation=0.1,test=0.1
    shardfeed convert shapes /tmp/labelled --labels labels/labels.csv
    shardfeed convert shapes /tmp/numbered --labels labels/train.txt --classes labels/classes.txt
    shardfeed convert flat /tmp/flat
    shardfeed convert odd /tmp/odd --max-bad 2
    shardfeed convert scenes/images /tmp/tagged --labels scenes/tags.csv --label-column tags --label-separator ' '
    shardfeed convert scenes/coco/instances.json /tmp/scenes --images scenes/images --task boxes,masks
    shardfeed convert scenes/coco/keypoints.json /tmp/corners --images scenes/images --task boxes,keypoints
    shardfeed convert scenes/coco/captions.json /tmp/captions --images scenes/images
    shardfeed convert scenes/yolo/data.yaml /tmp/yolo --task boxes,masks
    shardfeed convert scenes/voc /tmp/voc --from voc
    shardfeed convert scenes/masks /tmp/masks --images scenes/images --classes scenes/masks.txt
    shardfeed convert scenes/boxes.csv /tmp/boxes --images scenes/images
"""


def make_samples(directory: str | os.PathLike[str]) -> None:
    """Write the folders that README.md names, and it, into `directory`, which is created when missing.

    Files of the same names are overwritten, others are left alone. Raises StorageError where the disk refuses,
    MissingExtraError where pycocotools is missing, which fills the masks.
    """
    root = os.fspath(directory)
    for shape in SHAPES:
        for number in range(1, IMAGES_PER_CLASS + 1):
            data = _jpeg(draw_shape(shape, number))
            _write(root, f"shapes/{_key(shape, number)}", data)
            if number <= FLAT_PER_CLASS:
                _write(root, f"flat/{shape}.{number:03d}.jpg", data)
    _write_labels(root)
    _write_odd(root)
    for name, data in scene_files():
        _write(root, f"scenes/{name}", data)
    _write(root, "README.md", _README.encode())


def draw_shape(shape: str, number: int) -> Image.Image:
    """The RGB image [64, 64] of one `shape`; the same for the same `number`."""
    draw = random.Random(f"{shape} {number}").random
    image = gradient(
        (SIZE * SCALE, SIZE * SCALE), drawn_colour(draw, 0, DARK), drawn_colour(draw, 0, DARK), turned=draw() < 0.5
    )
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
    """Draw the circle of `radius` around `centre`, or the shape whose corners lie on it."""
    if shape == "circle":
        canvas.circle(centre, radius, colour)
        return
    corners = {"square": 4, "triangle": 3}[shape]
    turn = angle - math.pi / 2 + (math.pi / 4 if shape == "square" else 0)
    turns = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    canvas.polygon([(centre[0] + radius * math.cos(t), centre[1] + radius * math.sin(t)) for t in turns], colour)


def _key(shape: str, number: int) -> str:
    return f"{shape}/{shape}_{number:03d}.jpg"


def _jpeg(image: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_QUALITY, **options)
    return file.getvalue()


def _write(root: str, name: str, data: bytes) -> None:
    path = os.path.join(root, name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise storage_error(path, "write", error) from error


def _write_labels(root: str) -> None:
    numbers = range(1, LABELLED_PER_CLASS + 1)
    rows = [(_key(shape, n), shape, "validation" if n % 5 == 0 else "train") for n in numbers for shape in SHAPES]
    heads = ("path", "label", "split")
    _write(root, "labels/labels.csv", _separated([heads, *rows], ","))
    _write(root, "labels/labels.tsv", _separated([heads, *rows], "\t"))
    lines = [json.dumps(dict(zip(heads, row, strict=True))) for row in rows]
    _write(root, "labels/labels.jsonl", "".join(f"{line}\n" for line in lines).encode())
    numbered = [f"{path} {SHAPES.index(label)}\n" for path, label, _ in rows]
    _write(root, "labels/train.txt", "".join(numbered).encode())
    _write(root, "labels/classes.txt", "".join(f"{shape}\n" for shape in SHAPES).encode())


def _separated(rows: Sequence[Sequence[str]], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: make the samples in the folder named by the only argument."""
    parser = argparse.ArgumentParser(prog="python -m shardfeed.tools.samples", description=main.__doc__)
    parser.add_argument("directory", help="folder to write into; created when missing")
    try:
        make_samples(parser.parse_args(arguments).directory)
    except (StorageError, MissingExtraError) as error:
        print(f"samples: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
