"""Pillow in two processes: full decode, shrunk to a shorter side with LANCZOS, saved as JPEG files; then `sync -f`."""

# The first import starts the clock.
from measured import WORKERS, measure, photo_paths, photos_and_out, sync  # isort: skip

import multiprocessing
import sys
from functools import partial
from pathlib import Path

from PIL import Image

QUALITY = 92  # as shardfeed's


def shrink(path: Path, out: str, shorter: int) -> None:
    with Image.open(path) as image:
        width, height = image.size
        scale = shorter / min(width, height)
        small = image.convert("RGB").resize((round(width * scale), round(height * scale)), Image.Resampling.LANCZOS)
    small.save(Path(out, path.parent.name, path.name), "JPEG", quality=QUALITY)


def main() -> None:
    photos, out = photos_and_out()
    shorter = int(sys.argv[3])

    def work() -> None:
        paths = photo_paths(photos)
        for name in {path.parent.name for path in paths}:
            Path(out, name).mkdir()
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            pool.map(partial(shrink, out=out, shorter=shorter), paths, chunksize=16)
        sync(out)

    measure(work, lambda: len(photo_paths(out)))


if __name__ == "__main__":
    main()
