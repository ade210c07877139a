"""Small real files of a layout, written into a folder."""

import io
import itertools
import json
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pictures import image_bytes

SIZE = (60, 40)  # width and height of an image, where nothing else is said
_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF", ".bmp": "BMP"}


def expand(pattern: str) -> list[str]:
    """`{a,b}` and `{0..3}` in a name, as a shell has them: `{cat,dog}/{1..2}.jpg` gives four."""
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices: list[Sequence[str]] = []
    for at, part in enumerate(parts):
        numbers = re.fullmatch(r"(\d+)\.\.(\d+)", part) if at % 2 else None
        if numbers:
            first, last = numbers.groups()
            choices.append([str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)])
        else:
            choices.append(part.split(",") if at % 2 else [part])
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def picture(name: str, kind: str = "JPEG", size: tuple[int, int] = SIZE) -> bytes:
    """An image file of a gradient, another one for each name."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    image = Image.fromarray(rng.integers(0, 256, (3, 4, 3), np.uint8)).resize(size, Image.Resampling.BILINEAR)
    return image_bytes(image, kind)


def plain(gray: int, size: tuple[int, int] = (28, 28), kind: str = "PNG") -> bytes:
    """An image file whose pixels all have that value."""
    return image_bytes(Image.new("RGB", size, (gray,) * 3), kind)


def grays(values: Sequence[int], *shape: int) -> np.ndarray:
    """An array of images of that shape: all pixels of one have its value."""
    column = np.array(values, np.uint8).reshape(-1, *[1] * len(shape))
    return np.broadcast_to(column, (len(values), *shape)).copy()


def voc_colour(value: int) -> list[int]:
    """The colour of a number in Pascal VOC's palette: its bits, dealt out to red, green and blue."""
    return [sum((value >> 3 * bit + channel & 1) << 7 - bit for bit in range(3)) for channel in range(3)]


class Files:
    """Writes below a folder; each method takes paths relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, content: str | bytes | dict[str, Any] | list[Any]) -> None:
        """A file of text, with a line break at its end, of bytes, or of JSON."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif isinstance(content, str):
            file.write_bytes(content.rstrip("\n").encode() + b"\n")
        else:
            file.write_text(json.dumps(content))

    def images(self, *patterns: str, size: tuple[int, int] = SIZE) -> None:
        """Images of these names, in the format that each says."""
        for path in itertools.chain.from_iterable(map(expand, patterns)):
            self.put(path, picture(path, _FORMATS[Path(path).suffix.lower()], size))

    def mask(
        self, path: str, values: Any, size: tuple[int, int] = SIZE, *, palette: bool = False, dtype: Any = np.uint8
    ) -> None:
        """A mask as PNG: all 0 but for `values`, {value: (left, top, right, bottom)}, a colour or a number."""
        channels = [3] if any(isinstance(value, tuple) for value in values) else []
        pixels = np.zeros((size[1], size[0], *channels), dtype)
        for value, (left, top, right, bottom) in values.items():
            pixels[top:bottom, left:right] = value
        image = Image.fromarray(pixels)
        if palette:
            image.putpalette([component for value in range(256) for component in voc_colour(value)])
        out = io.BytesIO()
        image.save(out, "PNG")
        self.put(path, out.getvalue())

    def pack(self, archive: str, folder: str = "packed") -> None:
        """A .zip, .tar or .tar.gz of what lies in `folder`, which goes."""
        source, target = self.root / folder, self.root / archive
        target.parent.mkdir(parents=True, exist_ok=True)
        files = [path for path in sorted(source.rglob("*")) if path.is_file()]
        if archive.endswith(".zip"):
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
                for path in files:
                    packed.write(path, path.relative_to(source))
        else:
            with tarfile.open(target, "w:gz" if archive.endswith("gz") else "w") as tar:
                for path in files:
                    tar.add(path, path.relative_to(source))
        shutil.rmtree(source)
