"""A `fit` that is interrupted in this process goes on exactly. test_backup.py kills processes, which takes minutes."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from shardfeed.pipelines import Backup, Global, distribute
from shardfeed.readers import Dataset

STEPS = 5


class Interrupted(Exception):
    """What ends a fit in the middle."""


class InterruptAfter(keras.callbacks.Callback):
    """Raises at the end of step `count` of a fit."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.left -= 1
        if not self.left:
            raise Interrupted


def fit(flowers: Dataset, directory: Path, *callbacks: keras.callbacks.Callback) -> list[np.ndarray]:
    """The weights after three epochs of five steps, with a backup every second step."""
    order = Global(epoch_samples=STEPS * 8)
    feed = distribute(tf.distribute.get_strategy(), flowers["train"], batch_size=8, image_size=8, seed=3, order=order)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    backup = Backup(str(directory), feed, every=2)
    model.fit(
        backup.batches,
        steps_per_epoch=feed.steps_per_epoch,
        epochs=3,
        callbacks=[backup, *callbacks],
        shuffle=False,
        verbose=0,
    )
    return model.get_weights()


def test_an_interrupted_fit_goes_on(flowers: Dataset, tmp_path: Path) -> None:
    whole = fit(flowers, tmp_path / "whole")
    try:
        fit(
            flowers, tmp_path / "stopped", InterruptAfter(STEPS + 3)
        )  # of the second epoch; the last backup is a step old
    except Interrupted:
        pass
    else:
        raise AssertionError("it was not interrupted")
    for found, expected in zip(fit(flowers, tmp_path / "stopped"), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
