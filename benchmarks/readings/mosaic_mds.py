"""Mosaic Streaming: MDS shards by `MDSWriter`, a `StreamingDataset` in torch's `DataLoader`; Pillow or OpenCV."""

from contender import Batches, Task, contend, made_once, photo_files  # isort: skip

import importlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crops import PACKAGES, crop_of
from torch.utils.data import DataLoader

sys.path.append(str(Path(__file__).parents[1] / "conversions"))
importlib.import_module("mosaic_imports")  # first: it sees to it that `streaming` can be imported
streaming: Any = importlib.import_module("streaming")
FOLDER = tempfile.TemporaryDirectory(prefix="mosaic-")  # removed when this process ends


def write(task: Task, out: Path) -> None:
    with streaming.MDSWriter(out=str(out / "all"), columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in zip(*photo_files(task.photos), strict=True):
            writer.write({"image": Path(path).read_bytes(), "label": label})


def prepare(task: Task) -> Callable[[], Batches]:
    directory = made_once(task.data / "mosaic", lambda out: write(task, out)) / "all"
    crop = crop_of(task.variant)

    class Photos(streaming.StreamingDataset):
        """(uint8 [size, size, 3], label)."""

        def __getitem__(self, at: Any) -> Any:
            stored = super().__getitem__(at)
            return crop(stored["image"], task.size), stored["label"]

    # Under a name of its own: it refuses a folder that another process reads, or did until it was killed.
    local = Path(FOLDER.name, "all")
    local.symlink_to(directory)
    photos: Any = Photos(local=str(local), shuffle=True, batch_size=task.batch)
    loader: Any = DataLoader(photos, batch_size=task.batch, num_workers=task.workers, persistent_workers=True)
    return lambda: loader


if __name__ == "__main__":
    contend(prepare, ["mosaicml-streaming", "torch", PACKAGES[sys.argv[-1]]])
