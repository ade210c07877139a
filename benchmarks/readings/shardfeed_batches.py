"""Ours: `train_batches` from originals, re-encoded, raw and cached, and the JPEG decoder alone in the same graph."""

from contender import Batches, Task, contend, made_once  # isort: skip

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLI = "import sys; from shardfeed.tools.cli import main; sys.exit(main(sys.argv[1:]))"
# What `shardfeed convert` is told, by the dataset it makes.
CONVERSIONS = {
    "originals": [],
    "reencoded": ["--resize-shorter", "256", "--quality", "90"],
    "raw": ["--encode", "raw", "--size", "256"],
    "seekable": ["--seekable"],
    "seekable-256": ["--resize-shorter", "256", "--quality", "90", "--seekable"],
}
DATASETS = {name: name for name in CONVERSIONS}  # of variants; of all others the originals
BY_POSITION = {"global", "raw", "cached", "seekable", "seekable-256", "reencoded-global"}
DATASETS["reencoded-global"] = "reencoded"


def converted(task: Task, name: str) -> Path:
    """The dataset, made by the command line as a user would."""

    def convert(out: Path) -> None:
        command = [sys.executable, "-c", CLI, "convert", str(task.photos), str(out / "photos"), "--check", "header"]
        done = subprocess.run(
            [*command, "--shards", "8", "--quiet", *CONVERSIONS[name]], capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
            raise RuntimeError(f"shardfeed convert: {said[-1]}")

    return made_once(task.data / f"shardfeed-{name}", convert) / "photos"


def prepare(task: Task) -> Callable[[], Batches]:
    directory = converted(task, DATASETS.get(task.variant, "originals"))
    import shardfeed
    from shardfeed.pipelines import make_batches, train_batches

    split = shardfeed.open(directory)["train"]
    if task.variant == "decoder":
        keys = ["image/encoded", "image/class/label"]
        data = make_batches(split, decoder_alone(), batch_size=task.batch, keys=keys)
        return lambda: data
    if task.variant == "cached":
        from shardfeed.pipelines import Cache, cached

        split = cached(split, Cache(task.data / "shardfeed-cache", decoded=True))
    # A shuffle buffer of pixels would hold gigabytes; what is read by position needs none.
    order: Any = "global" if task.variant in BY_POSITION else "stream"
    data = train_batches(split, batch_size=task.batch, image_size=task.size, order=order)
    return lambda: data


def decoder_alone() -> Any:
    """A transform to the decoded window's shape: the windows that train_batches draws, and nothing else done."""
    import tensorflow as tf

    from shardfeed.pipelines.tensorflow.augment import random_windows

    draw = random_windows()

    def decode(features: dict[str, Any], seed: Any) -> Any:
        encoded = features["image/encoded"]
        window, _ = draw(seed)
        place = window(tf.image.extract_jpeg_shape(encoded)[:2])
        pixels = tf.image.decode_and_crop_jpeg(encoded, place, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.shape(pixels), features["image/class/label"]

    return decode


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if sys.argv[-1] == "decoder":
        contend(prepare, ["tensorflow"], shape=[3], dtype="int32")
    else:
        contend(prepare, ["shardfeed", "tensorflow"])
