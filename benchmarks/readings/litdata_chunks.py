"""LitData: chunks of 64 MB written by `optimize`, read by its `StreamingDataLoader`; Pillow or OpenCV."""

from contender import Batches, Task, contend, made_once, photo_files  # isort: skip

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crops import PACKAGES, crop_of


def sample(path_and_label: tuple[str, int]) -> dict[str, object]:
    path, label = path_and_label
    return {"image": Path(path).read_bytes(), "label": label}


def write(task: Task, out: Path) -> None:
    # Where it gathers chunks before it moves them to the output.
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(out / "cache")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(out / "data_cache")
    import litdata

    inputs = list(zip(*photo_files(task.photos), strict=True))
    litdata.optimize(
        fn=sample, inputs=inputs, output_dir=str(out / "all"), chunk_bytes="64MB", num_workers=task.workers
    )


def write_apart(task: Task, out: Path) -> None:
    """In a process of its own: `optimize` changes how its process starts workers."""
    process = multiprocessing.get_context("spawn").Process(target=write, args=(task, out))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"litdata.optimize ended with exit code {process.exitcode}")


def prepare(task: Task) -> Callable[[], Batches]:
    directory = made_once(task.data / "litdata", lambda out: write_apart(task, out)) / "all"
    import litdata

    crop = crop_of(task.variant)

    class Photos(litdata.StreamingDataset):
        """(uint8 [size, size, 3], label)."""

        def __getitem__(self, index: Any) -> Any:
            stored = super().__getitem__(index)
            return crop(stored["image"], task.size), stored["label"]

    loader = litdata.StreamingDataLoader(
        Photos(str(directory), shuffle=True),
        batch_size=task.batch,
        num_workers=task.workers,
        persistent_workers=True,
    )
    return lambda: loader


if __name__ == "__main__":
    contend(prepare, ["litdata", "torch", PACKAGES[sys.argv[-1]]])
