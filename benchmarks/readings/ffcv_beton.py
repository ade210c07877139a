"""FFCV: its JPEG mode, which re-encodes, at the original size or smaller; cut and flipped by its own compiled code."""

from contender import Batches, Task, contend, made_once, photo_files  # isort: skip

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor
from ffcv.writer import DatasetWriter
from PIL import Image

QUALITY = 90  # its default, and as ours re-encoded


class Photos:
    """Pillow images and labels, as its writer takes them."""

    def __init__(self, photos: Path) -> None:
        self.paths, self.labels = photo_files(photos)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.open(self.paths[index]).convert("RGB"), self.labels[index]


def write(task: Task, out: Path) -> None:
    photos = Photos(task.photos)
    width, height = Image.open(photos.paths[0]).size
    longer = None  # pixels; what it bounds is the longer side
    if task.variant:
        longer = round(int(task.variant) * max(width, height) / min(width, height))
    image = RGBImageField(write_mode="jpg", max_resolution=longer, jpeg_quality=QUALITY)
    writer = DatasetWriter(str(out / "all.beton"), {"image": image, "label": IntField()}, num_workers=task.workers)
    writer.from_indexed_dataset(photos)


def prepare(task: Task) -> Callable[[], Batches]:
    directory = made_once(task.data / f"ffcv-{task.variant or 'full'}", lambda out: write(task, out))
    loader: Any = Loader(
        str(directory / "all.beton"),
        batch_size=task.batch,
        num_workers=task.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        pipelines={
            "image": [RandomResizedCropRGBImageDecoder((task.size, task.size)), RandomHorizontalFlip(), ToTensor()],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
    return lambda: loader


if __name__ == "__main__":
    contend(prepare, ["ffcv", "torch"])
