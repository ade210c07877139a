"""PyTorch: `DataLoader` with worker processes over a map-style dataset of the image folder; Pillow or OpenCV."""

from contender import Batches, Task, contend, photo_files  # isort: skip

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crops import PACKAGES, crop_of
from torch.utils.data import DataLoader, Dataset


class Folder(Dataset[Any]):
    """(uint8 [size, size, 3], label) of each file."""

    def __init__(self, photos: Path, size: int, decoder: str) -> None:
        self.paths, self.labels = photo_files(photos)
        self.size, self.crop = size, crop_of(decoder)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.crop(Path(self.paths[index]).read_bytes(), self.size), self.labels[index]


def prepare(task: Task) -> Callable[[], Batches]:
    loader = DataLoader(
        Folder(task.photos, task.size, task.variant),
        batch_size=task.batch,
        shuffle=True,
        num_workers=task.workers,
        persistent_workers=True,
        drop_last=True,
    )
    return lambda: loader


if __name__ == "__main__":
    contend(prepare, ["torch", "numpy", PACKAGES[sys.argv[-1]]])
