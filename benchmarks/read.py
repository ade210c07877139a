"""What `train_batches` costs an image, beside the JPEG decoder alone: `python benchmarks/read.py [PHOTOS]`.

The photos are converted once (checked by header), then whole epochs alternate in one process: the decoder's floor
(parse, then decode_and_crop_jpeg of the same windows), `train_batches` (224 pixels, flip), and the
pipeline most tutorials show (decode all, random crop of a resized image, flip, autotuning). Medians of the counted
rounds; CPU time is that of the whole process, so what buffers hide shows.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
RESULTS = Path(__file__).parent / "results"
BATCH, SIZE = 64, 224


def pipelines(split: Any) -> dict[str, Any]:
    import tensorflow as tf

    from shardfeed.pipelines import augment, make_batches, train_batches

    def floor(features: dict[str, Any], seed: Any) -> Any:
        encoded = features["image/encoded"]
        # The very windows of train_batches, drawn as it draws them: another sampler's would be larger or smaller.
        own = seed + tf.constant(augment._OWN_KEY, tf.int64)
        uniform = tf.random.stateless_uniform([2 * augment._ATTEMPTS + 3], own, alg="philox")
        window = augment._random_window(tf.image.extract_jpeg_shape(encoded)[:2], uniform, (0.08, 1.0), (3 / 4, 4 / 3))
        pixels = tf.image.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.shape(pixels), features["image/class/label"]

    def tutorial() -> Any:
        spec = {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        }

        def parse(record: Any) -> Any:
            features = tf.io.parse_single_example(record, spec)
            image = tf.image.resize(tf.io.decode_jpeg(features["image/encoded"], channels=3), [256, 256])
            image = tf.image.random_flip_left_right(tf.image.random_crop(image, [SIZE, SIZE, 3]))
            return tf.cast(image, tf.uint8), features["image/class/label"]

        paths = [part.path for part in split.shard_slices()]
        data = tf.data.TFRecordDataset(paths).shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        return data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    keys = ["image/encoded", "image/class/label"]
    return {
        "decoder alone": make_batches(split, floor, batch_size=BATCH, keys=keys),
        "train_batches": train_batches(split, batch_size=BATCH, image_size=SIZE),
        "tutorial": tutorial(),
    }


def epoch(data: Any) -> tuple[float, float]:
    """CPU microseconds an image, and images per second, of one whole epoch."""
    wall, cpu, images = time.perf_counter(), time.process_time(), 0
    for _, labels in data:
        images += int(labels.shape[0])
    return (time.process_time() - cpu) / images * 1e6, images / (time.perf_counter() - wall)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure train_batches against the JPEG decoder alone.")
    parser.add_argument("photos", nargs="?", default=RESULTS / "photos", help="folder made by photos.py")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds after one warm-up (5)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for read.json and read.md")
    args = parser.parse_args()
    import shardfeed
    from shardfeed.converters import ImageFolder, ImageOptions, convert

    with tempfile.TemporaryDirectory() as scratch:
        convert(ImageFolder(args.photos), f"{scratch}/photos", image=ImageOptions(check="header"), shards=8)
        built = pipelines(shardfeed.open(f"{scratch}/photos")["train"])
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in built}
        for number in range(args.rounds + 1):  # one after the other, not each in a row: the machine drifts
            for name, data in built.items():
                measured = epoch(data)
                if number:
                    found[name].append(measured)
    rows = {
        name: {
            "cpu_us_per_image": statistics.median(cpu for cpu, _ in runs),
            "images_per_second": statistics.median(rate for _, rate in runs),
            "cpu_times_decoder": statistics.median(
                cpu / base for (cpu, _), (base, _) in zip(runs, found["decoder alone"], strict=True)
            ),
        }
        for name, runs in found.items()
    }
    lines = ["| | CPU µs/image | times the decoder | images/s |", "|---|---:|---:|---:|"]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['cpu_us_per_image']:,.0f} | {row['cpu_times_decoder']:.2f} "
            f"| {row['images_per_second']:,.0f} |"
        )
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "read.json").write_text(json.dumps(rows, indent=1) + "\n")
    (args.results / "read.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
