"""The record of waits says what was waited, for tf.data under Keras and for loops over loaders."""

import copy
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from shardfeed.errors import StorageError, UsageError
from shardfeed.pipelines import WaitRecorder, train_batches
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset

_PAUSE = 0.02  # seconds, far above what a step takes here


def slow_after(first: int, steps: int) -> Iterator[np.ndarray]:
    for step in range(steps):
        if step >= first:
            time.sleep(_PAUSE)
        yield np.zeros((2, 3), np.float32)


def pipeline(first: int, steps: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_generator(
        lambda: slow_after(first, steps), output_signature=tf.TensorSpec((2, 3), tf.float32)
    )


def test_waits_of_a_loop_are_found_from_the_step_where_they_begin() -> None:
    waits = WaitRecorder()
    for step in range(400):  # with times of our own, so that a busy machine changes nothing
        waits.record(step, step + (0.5 if step >= 250 else 0.001))
    assert len(waits) == 400
    assert waits.since() == 200  # its window of 100 steps
    assert waits.share(100) == pytest.approx(0.5, abs=0.01)
    assert waits.waits_ms[[0, -1]] == pytest.approx([1, 500])
    assert str(waits).startswith("400 steps, waiting 18.8% of the time; half of the waits below 1.00 ms")
    assert str(waits).endswith("waiting since step 200")


def test_fast_batches_are_not_counted_as_waits() -> None:
    waits = WaitRecorder()
    assert (str(waits), waits.share(), waits.since()) == ("no batch yet", 0.0, None)
    for step in range(50):
        waits.record(step, step + 0.001)
    assert waits.since() is None


def test_a_tf_data_pipeline_passes_unchanged_and_its_waits_are_recorded() -> None:
    waits = WaitRecorder()
    watched = waits.watch(pipeline(5, 10))
    assert watched.element_spec == tf.TensorSpec((2, 3), tf.float32)
    assert [batch.shape for batch in watched] == [(2, 3)] * 10
    assert len(waits) == 10
    assert (waits.waits_ms[5:] >= 0.8 * _PAUSE * 1e3).all()
    assert 0 < waits.share() <= 1


@pytest.mark.parametrize("kind", ["loop", "tf.data"])
def test_a_clock_that_is_set_changes_no_wait(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The clock on the wall jumps by an hour whenever it is read, forward and back in turn."""
    jumps = itertools.cycle([3600, -3600])
    for name in ("time", "time_ns"):
        real, unit = getattr(time, name), 1 if name == "time" else 10**9
        monkeypatch.setattr(time, name, lambda real=real, unit=unit: real() + next(jumps) * unit)
    wall = lambda name=None: tf.constant(time.time(), tf.float64)  # noqa: E731
    monkeypatch.setattr(tf, "timestamp", lambda name=None: tf.py_function(wall, [], tf.float64))
    waits = WaitRecorder()
    batches = [np.zeros(3)] * 4 if kind == "loop" else tf.data.Dataset.from_tensor_slices(np.zeros((4, 3)))
    assert len(list(waits.watch(batches))) == len(waits) == 4
    assert (waits.waits_ms >= 0).all()
    assert waits.waits_ms.max() < 3_000_000, "most of an hour"
    assert 0 <= waits.share() <= 1


def test_the_batches_of_train_batches_are_the_same(flowers: Dataset) -> None:
    def batches() -> tf.data.Dataset:
        return train_batches(flowers["train"], batch_size=8, image_size=32, seed=3).take(4)

    waits = WaitRecorder()
    for (images, labels), (watched_images, watched_labels) in zip(batches(), waits.watch(batches()), strict=True):
        np.testing.assert_array_equal(images, watched_images)
        np.testing.assert_array_equal(labels, watched_labels)
    assert len(waits) == 4


def test_keras_shows_the_share_of_each_epoch() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    waits = WaitRecorder()
    batches = pipeline(0, 5).map(lambda batch: (batch, batch[:, :1]))
    history = model.fit(waits.watch(batches), epochs=2, callbacks=[waits.callback()], verbose=0)
    assert len(waits) == 10
    assert all(0 < share <= 1 for share in history.history["waiting"])


def test_a_loader_keeps_its_length_and_its_position(flowers: Dataset) -> None:
    loader = torch_loader(flowers["train"], batch_size=16, image_size=32, seed=1, workers=0)
    waits = WaitRecorder()
    watched = waits.watch(loader)
    assert len(watched) == len(loader)
    for step, _ in enumerate(watched):
        if step == 2:
            break
    assert len(waits) == 3
    assert watched.state_dict() == loader.state_dict()
    assert len(copy.copy(watched)) == len(loader)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    waits = WaitRecorder()
    for step in range(1000):  # more than there are bars
        waits.record(step, step + step / 2000)
    waits.plot(str(tmp_path / "waits.png"))
    with Image.open(tmp_path / "waits.png") as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 10
    with pytest.raises(StorageError, match=r"none/waits\.png"):
        waits.plot(str(tmp_path / "none" / "waits.png"))


def test_watching_anything_but_batches_is_refused() -> None:
    with pytest.raises(UsageError, match="got int"):
        WaitRecorder().watch(3)
