"""NVIDIA DALI without a GPU, on our shards with our indexes: its fused random crop, resize and flip."""

from contender import Batches, Task, contend  # isort: skip

from collections.abc import Callable, Iterator
from typing import Any

import nvidia.dali.fn as fn
import nvidia.dali.tfrecord as tfrec
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from shardfeed_batches import converted

SHUFFLE = 1024  # records


def prepare(task: Task) -> Callable[[], Batches]:
    # `shardfeed` is not in this environment: the benchmark runs one of ours first.
    shards = sorted(converted(task, task.variant or "originals").glob("*.tfrecord"))

    @pipeline_def(batch_size=task.batch, num_threads=task.workers, device_id=None, seed=1)
    def photos() -> Any:
        record: Any = fn.readers.tfrecord(
            path=list(map(str, shards)),
            index_path=[str(shard.parent / "index" / shard.with_suffix(".tfindex").name) for shard in shards],
            features={
                "image/encoded": tfrec.FixedLenFeature((), tfrec.string, ""),
                "image/class/label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            },
            random_shuffle=True,
            initial_fill=SHUFFLE,
            pad_last_batch=True,
            name="reader",
        )
        images = fn.decoders.image_random_crop(
            record["image/encoded"],
            device="cpu",
            random_area=(0.08, 1.0),
            random_aspect_ratio=(3 / 4, 4 / 3),
            num_attempts=10,
        )
        images = fn.resize(images, size=(task.size, task.size), interp_type=types.INTERP_LINEAR, antialias=False)
        return fn.flip(images, horizontal=fn.random.coin_flip()), record["image/class/label"]

    pipeline: Any = photos()
    pipeline.build()
    total = pipeline.reader_meta("reader")["epoch_size"]

    def epoch() -> Iterator[tuple[Any, Any]]:
        for begin in range(0, total, task.batch):
            images, labels = (output.as_tensor() for output in pipeline.run())
            whole = min(task.batch, total - begin)  # the rest is padding
            yield as_array(images)[:whole], as_array(labels)[:whole, 0]

    return epoch


def as_array(tensor: Any) -> Any:
    import numpy as np

    return np.asarray(tensor)


if __name__ == "__main__":
    contend(prepare, ["nvidia-dali-cuda120"])
