"""Keras: `image_dataset_from_directory` as it is, which resizes only, and with augmentation layers; float32 batches."""

from contender import Batches, Task, contend  # isort: skip

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

MARGIN = 32  # pixels that RandomCrop has to choose from


def prepare(task: Task) -> Callable[[], Batches]:
    side = task.size + (MARGIN if task.variant == "layers" else 0)
    data: Any = keras.utils.image_dataset_from_directory(
        str(task.photos), image_size=(side, side), batch_size=task.batch, shuffle=True, verbose=False
    )
    if task.variant == "layers":
        augment = keras.Sequential(
            [keras.layers.RandomCrop(task.size, task.size), keras.layers.RandomFlip("horizontal")]
        )

        def augmented(images: Any, labels: Any) -> Any:
            return augment(images, training=True), labels

        data = data.map(augmented, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return lambda: data


if __name__ == "__main__":
    contend(prepare, ["keras", "tensorflow"], dtype="float32")
