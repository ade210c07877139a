"""A `fit` that is interrupted in this process goes on exactly. test_backup.py kills processes, which takes minutes."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from shardfeed.pipelines import Backup, Global, distribute
from shardfeed.readers import Dataset

STEPS = 5


class Interrupted(Exception):
    """Error that ends a fit in the middle."""


class Steps(keras.callbacks.Callback):
    """Counts the steps of a fit, and raises at the end of one of them."""

    def __init__(self, last: int = 10**9) -> None:
        super().__init__()
        self.done, self.last = 0, last

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.done += 1
        if self.done == self.last:
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
    return [weight.numpy() for weight in model.weights]


@pytest.mark.long
def test_an_interrupted_fit_goes_on(flowers: Dataset, tmp_path: Path) -> None:
    whole = fit(flowers, tmp_path / "whole")
    with pytest.raises(Interrupted):
        fit(flowers, tmp_path / "stopped", Steps(last=STEPS + 2))  # the last backup is of the step before
    steps = Steps()
    resumed = fit(flowers, tmp_path / "stopped", steps)
    assert steps.done == 3 * STEPS - (STEPS + 1)
    for found, expected in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(found, expected)
