"""Grain: a MapDataset over ArrayRecord files, shuffled, read and decoded in its threads; Pillow or OpenCV."""

from contender import Batches, Task, contend, made_once, photo_files  # isort: skip

import struct
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import grain
from array_record.python.array_record_module import ArrayRecordWriter
from crops import PACKAGES, crop_of

FILES = 8
AHEAD = 4  # batches


def write(task: Task, out: Path) -> None:
    """Records of a label, int64, and a JPEG; one record a group, as Grain wants it for random access."""
    paths, labels = photo_files(task.photos)
    for number in range(FILES):
        writer = ArrayRecordWriter(str(out / f"{number:05d}.array_record"), "group_size:1")
        for path, label in zip(paths[number::FILES], labels[number::FILES], strict=True):
            writer.write(struct.pack("<q", label) + Path(path).read_bytes())
        writer.close()


def prepare(task: Task) -> Callable[[], Batches]:
    directory = made_once(task.data / "array-record", lambda out: write(task, out))
    source: Any = grain.sources.ArrayRecordDataSource(sorted(map(str, directory.iterdir())))
    crop = crop_of(task.variant)

    def decode(record: bytes) -> tuple[Any, int]:
        return crop(record[8:], task.size), struct.unpack_from("<q", record)[0]

    numbers = count()

    def epoch() -> Any:
        shuffled = grain.MapDataset.source(source).shuffle(seed=next(numbers))
        batches = shuffled.map(decode).batch(task.batch, drop_remainder=True)
        # Whole batches in each thread, and few of them: by default 16 threads queue up for Python's lock.
        return batches.to_iter_dataset(grain.ReadOptions(num_threads=task.workers + 1, prefetch_buffer_size=AHEAD))

    return epoch


if __name__ == "__main__":
    contend(prepare, ["grain", "array-record", "numpy", PACKAGES[sys.argv[-1]]])
