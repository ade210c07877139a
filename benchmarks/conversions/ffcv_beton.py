"""FFCV: `DatasetWriter` with `RGBImageField` in two processes, as its ImageNet example re-encodes, then `sync -f`."""

# The first import starts the clock.
from measured import WORKERS, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import sys
from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter
from PIL import Image

QUALITY = 92  # as shardfeed's


class Folder:
    """PIL images and labels, as its writer takes them."""

    def __init__(self, photos: str) -> None:
        self.paths = photo_paths(photos)
        self.labels = photo_labels(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        path: Path = self.paths[index]
        return Image.open(path).convert("RGB"), self.labels[path.parent.name]


def main() -> None:
    photos, out = photos_and_out()
    # It bounds the longer side: at 341 a photo of 4:3 gets a shorter side of 256.
    longer = round(int(sys.argv[3]) * 4 / 3)

    def work() -> None:
        fields = {
            "image": RGBImageField(write_mode="jpg", max_resolution=longer, jpeg_quality=QUALITY),
            "label": IntField(),
        }
        DatasetWriter(f"{out}/all.beton", fields, num_workers=WORKERS).from_indexed_dataset(Folder(photos))
        sync(out)

    def count() -> int:
        from ffcv.reader import Reader

        return len(np.asarray(Reader(f"{out}/all.beton").metadata))

    measure(work, count)


if __name__ == "__main__":
    main()
