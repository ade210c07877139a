"""WebDataset: tars written by `ShardWriter`, decoded and batched in the workers of a `WebLoader`; Pillow or OpenCV."""

from contender import Batches, Task, contend, made_once, photo_files  # isort: skip

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import webdataset
from crops import PACKAGES, crop_of

TARS = 8
SHUFFLE = 1000  # samples, in each worker


def write(task: Task, out: Path) -> None:
    paths, labels = photo_files(task.photos)
    for number in range(TARS):
        with webdataset.TarWriter(str(out / f"{number:05d}.tar")) as writer:
            for path, label in zip(paths[number::TARS], labels[number::TARS], strict=True):
                writer.write({"__key__": Path(path).stem, "jpg": Path(path).read_bytes(), "cls": label})


def prepare(task: Task) -> Callable[[], Batches]:
    directory = made_once(task.data / "webdataset", lambda out: write(task, out))
    crop = crop_of(task.variant)
    urls = sorted(map(str, directory.iterdir()))
    samples: Any = webdataset.WebDataset(urls, shardshuffle=TARS).shuffle(SHUFFLE).to_tuple("jpg", "cls")
    samples = samples.map_tuple(lambda encoded: crop(encoded, task.size), int).batched(task.batch)
    # Batches come from the workers: one by one, images would cost a message each.
    loader: Any = webdataset.WebLoader(
        samples, batch_size=None, num_workers=min(task.workers, TARS), persistent_workers=True
    )
    return lambda: loader


if __name__ == "__main__":
    contend(prepare, ["webdataset", "torch", PACKAGES[sys.argv[-1]]])
