"""tf.data by hand: as most tutorials have it, as an expert writes it, and the latter on TFDS; all on our shards."""

from contender import Batches, Task, contend  # isort: skip

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from shardfeed_batches import converted

SHUFFLE = 1000  # records, as tutorials have it
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def tutorial(task: Task) -> tf.data.Dataset:
    """Decode all, resize, cut and flip."""

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = tf.io.parse_single_example(record, FEATURES)
        image = tf.image.resize(tf.io.decode_jpeg(features["image/encoded"], channels=3), [256, 256])
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, [task.size, task.size, 3]))
        return tf.cast(image, tf.uint8), features["image/class/label"]

    data = tf.data.TFRecordDataset(shards(task)).shuffle(SHUFFLE).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(task.batch).prefetch(tf.data.AUTOTUNE)


def tuned(task: Task) -> tf.data.Dataset:
    """Shards interleaved, the JPEG cut while it is decoded, order given up for speed, the rest left to AUTOTUNE."""
    files = tf.data.Dataset.from_tensor_slices(shards(task)).shuffle(len(shards(task)))
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = tf.io.parse_single_example(record, FEATURES)
        return random_resized_crop(features["image/encoded"], task.size), features["image/class/label"]

    return batched(records.shuffle(SHUFFLE).map(parse, num_parallel_calls=tf.data.AUTOTUNE), task)


def tfds(task: Task) -> tf.data.Dataset:
    """Read by TFDS, which leaves the decoding out, as its guide to performance says; then as `tuned`."""
    import tensorflow_datasets

    builder = tensorflow_datasets.builder_from_directory(str(converted(task, "originals")))
    skip = {"image/encoded": tensorflow_datasets.decode.SkipDecoding()}
    samples = builder.as_dataset(split="train", shuffle_files=True, decoders=skip, as_supervised=True)

    def crop(encoded: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return random_resized_crop(encoded, task.size), label

    return batched(samples.shuffle(SHUFFLE).map(crop, num_parallel_calls=tf.data.AUTOTUNE), task)


def random_resized_crop(encoded: tf.Tensor, size: int) -> tf.Tensor:
    """With TensorFlow's own op, which draws a window's height evenly, not its area: 39 % of a photo, others 43 %."""
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(encoded),
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], extent[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32), [size, size])  # uint8 would be resized at half the speed
    return tf.cast(tf.round(tf.image.random_flip_left_right(image)), tf.uint8)


def batched(samples: tf.data.Dataset, task: Task) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = False
    return samples.batch(task.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE).with_options(options)


def shards(task: Task) -> list[str]:
    name = "seekable" if task.variant.endswith("seekable") else "originals"
    return sorted(map(str, converted(task, name).glob("*.tfrecord")))


VARIANTS: dict[str, Callable[[Task], tf.data.Dataset]] = {
    "tutorial": tutorial,
    "tuned": tuned,
    "tuned-seekable": tuned,
    "tfds": tfds,
}


def prepare(task: Task) -> Callable[[], Batches]:
    data: Any = VARIANTS[task.variant](task)
    return lambda: data


if __name__ == "__main__":
    contend(prepare, ["tensorflow", *(["tensorflow-datasets"] if sys.argv[-1] == "tfds" else [])])
