"""Images of 60 x 40 pixels with rectangles, as files, and what is known of them; and what a conversion makes of it."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import shardfeed
from shardfeed.annotations import OBJECTS
from shardfeed.converters import Report, convert
from shardfeed.converters.sources.source import Source

WIDTH, HEIGHT = 60, 40
Objects = Sequence[tuple[str, tuple[int, int, int, int]]]  # class; left, top, right, bottom
SCENES: dict[str, Objects] = {
    "a": [("dog", (10, 5, 30, 25)), ("cat", (0, 0, 60, 40))],
    "b": [("cat", (3, 4, 9, 38))],
    "c": [],
    "d": [("dog", (20, 10, 40, 30)), ("dog", (41, 10, 59, 30)), ("owl", (1, 1, 5, 7))],
}


def encoded(pixels: np.ndarray, kind: str = "PNG", orientation: int | None = None, **options: Any) -> bytes:
    """An image file of these pixels."""
    out = io.BytesIO()
    if orientation is not None:
        options["exif"] = exif = Image.Exif()
        exif[0x0112] = orientation
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def image_file(objects: Objects = (), *, seed: int = 0, orientation: int | None = None) -> bytes:
    """A PNG in which objects are bright."""
    pixels = np.full((HEIGHT, WIDTH, 3), (seed % 100, 20, 30), np.uint8)
    for _, (left, top, right, bottom) in objects:
        pixels[top:bottom, left:right] += 60
    return encoded(pixels, orientation=orientation)


def draw(folder: Path, scenes: Mapping[str, Objects] = SCENES) -> Path:
    """The images of `scenes`, `a.png` and so on, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (name, objects) in enumerate(scenes.items()):
        (folder / f"{name}.png").write_bytes(image_file(objects, seed=i))
    return folder


def put(path: Path, text: str | bytes) -> Path:
    """A file, and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    return path


def converted(source: Source, out: Path, **options: Any) -> tuple[Report, dict[str, dict[str, Any]]]:
    """The report of a conversion, and by key what its records have of objects, as lists."""
    report = convert(source, out, workers=1, **options)
    said = [*report.notes, *(one.why for one in report.rejected)]
    said += [one.reason for one in report.account.left_out] if report.account else []
    assert not any("\ue000" <= char <= "\uf8ff" for text in said for char in text), "an argument that nobody formatted"
    found: dict[str, dict[str, Any]] = {}
    data = shardfeed.open(out)
    for split in data.manifest.splits:
        for record in data[split]:
            values = {key: np.asarray(value).tolist() for key, value in record.items() if key.startswith(OBJECTS)}
            found[bytes(record["image/filename"]).decode()] = {"split": split, **values}  # type: ignore[arg-type]
    return report, found


def expected(scenes: Mapping[str, Objects] = SCENES, classes: Sequence[str] = ("cat", "dog", "owl")) -> dict[str, Any]:
    """Boxes and labels that `converted` must return for scenes, by the stem of the key and without the split."""
    found = {}
    for name, objects in scenes.items():
        sides = {}
        for key, place, of in (("xmin", 0, WIDTH), ("ymin", 1, HEIGHT), ("xmax", 2, WIDTH), ("ymax", 3, HEIGHT)):
            sides[f"{OBJECTS}bbox/{key}"] = [float(np.float32(box[place] / of)) for _, box in objects]
        sides[f"{OBJECTS}class/label"] = [classes.index(label) for label, _ in objects]
        sides[f"{OBJECTS}class/text"] = [label.encode() for label, _ in objects]
        found[name] = sides
    return found


def stems(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Result of `converted` in the form of `expected`: by the stem of the key, without the split."""
    return {Path(key).stem: {k: v for k, v in values.items() if k != "split"} for key, values in found.items()}
