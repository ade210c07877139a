"""Ray Data: `read_binary_files`, shuffled by file, a `map` that decodes and crops, `iter_batches`; Pillow or OpenCV."""

from contender import Batches, Task, contend, photo_files  # isort: skip

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ray
import ray.data
from crops import PACKAGES, crop_of


def prepare(task: Task) -> Callable[[], Batches]:
    ray.init(num_cpus=task.workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    paths, labels = photo_files(task.photos)
    number = {os.path.basename(os.path.dirname(path)): label for path, label in zip(paths, labels, strict=True)}
    crop = crop_of(task.variant)

    def decode(row: dict[str, Any]) -> dict[str, Any]:
        folder = os.path.basename(os.path.dirname(row["path"]))
        return {"image": crop(row["bytes"], task.size), "label": number[folder]}

    photos: Any = ray.data.read_binary_files(str(task.photos), include_paths=True, shuffle="files").map(decode)

    def epoch() -> Iterator[tuple[Any, Any]]:
        for batch in photos.iter_batches(batch_size=task.batch, batch_format="numpy", prefetch_batches=2):
            yield batch["image"], batch["label"]

    return epoch


if __name__ == "__main__":
    contend(prepare, ["ray", "numpy", PACKAGES[sys.argv[-1]]])
