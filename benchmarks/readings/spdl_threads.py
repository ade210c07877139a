"""SPDL: its pipeline of threads over the image folder; decoded by Pillow, OpenCV, or its own part, which is FFmpeg."""

from contender import Batches, Task, contend, photo_files  # isort: skip

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from crops import PACKAGES, crop_of, random_window
from spdl.pipeline import PipelineBuilder

AHEAD = 3  # batches in the sink


def decoded_by(task: Task) -> Callable[[Sequence[str]], "np.ndarray[Any, Any]"]:
    """From paths to a batch of images."""
    if task.variant == "ffmpeg":
        import spdl.io

        spdl.io.demux_image(photo_files(task.photos)[0][0])  # fails where the system has no FFmpeg

        def frames(path: str) -> Any:
            packets: Any = spdl.io.demux_image(path)
            top, left, height, width = random_window(packets.height, packets.width)
            filters = [f"crop={width}:{height}:{left}:{top}", f"scale={task.size}:{task.size}:flags=bilinear"]
            filters += ["hflip"] * (random.random() < 0.5) + ["format=rgb24"]
            return spdl.io.decode_packets(packets, filter_desc=",".join(filters))

        return lambda paths: spdl.io.to_numpy(spdl.io.convert_frames(list(map(frames, paths))))
    crop = crop_of(task.variant)
    return lambda paths: np.stack([crop(Path(path).read_bytes(), task.size) for path in paths])


def prepare(task: Task) -> Callable[[], Batches]:
    samples = list(zip(*photo_files(task.photos), strict=True))
    images = decoded_by(task)

    def decode(batch: list[tuple[str, int]]) -> tuple[Any, Any]:
        paths, labels = zip(*batch, strict=True)
        return images(paths), np.array(labels)

    def epoch() -> Iterator[tuple[Any, Any]]:
        shuffled = PipelineBuilder().add_source(random.sample(samples, len(samples)))
        # Whole batches in each thread: a task for each image costs more.
        batches = shuffled.aggregate(task.batch).pipe(decode, concurrency=task.workers)
        pipeline = batches.add_sink(AHEAD).build(num_threads=task.workers)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()

    return epoch


if __name__ == "__main__":
    contend(prepare, ["spdl", "numpy", *([PACKAGES[sys.argv[-1]]] if sys.argv[-1] in PACKAGES else [])])
