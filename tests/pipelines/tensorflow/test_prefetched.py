"""Prefetched batches as a tf.data.Dataset."""

import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.pipelines import as_dataset, prefetch_processes, prefetch_threads
from shardfeed.pipelines.prefetch import Prefetcher

import prefetch_producers as producers
from processes import until_gone

pytestmark = pytest.mark.timeout(120)
both = pytest.mark.parametrize("prefetch", [prefetch_threads, prefetch_processes])


@both
def test_signature_and_batches(prefetch: Callable[..., Prefetcher]) -> None:
    """The first dimension and those that vary are None; lists are tuples; nothing is lost to the look ahead."""
    with prefetch([producers.ragged] * 2) as batches:
        dataset = as_dataset(batches)
        assert dataset.element_spec == {
            "x": tf.TensorSpec([None, 3, 2], tf.float32),  # both first ones are of index 0
            "parts": (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.float64)),
        }
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"batch 2\['x'\]: got float32 \[4, 3, 3\].*signature="
        ):
            list(dataset)
        varying = {
            "x": tf.TensorSpec([None, 3, None], tf.float32),
            "parts": (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.float64)),
        }
        for _ in range(2):
            rows = list(as_dataset(batches, signature=varying).as_numpy_iterator())
            assert [int(row["parts"][1]) for row in rows] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
            assert [row["x"].shape for row in rows[-4:]] == [(4, 3, 3)] * 2 + [(2, 3, 2)] * 2
            assert [float(row["x"].max()) for row in rows[:4]] == [0, 1, 0, 1]
    with prefetch([producers.ragged]) as batches:
        dataset = as_dataset(batches)
        assert dataset.element_spec["x"] == tf.TensorSpec([None, 3, None], tf.float32)
        for _ in range(2):
            assert len(list(dataset)) == 5


@pytest.mark.long
@both
def test_keras_fit(prefetch: Callable[..., Prefetcher]) -> None:
    """Three epochs of other batches; the model learns."""
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    with prefetch([partial(producers.learnable, batches=10)] * 2, seed=1) as batches:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            data = as_dataset(batches, steps=20)
            history = model.fit(data, epochs=3, verbose=0, shuffle=False).history["loss"]
        assert batches.statistics().batches == 20
    assert len(history) == 3
    assert history[-1] < 0.6 * history[0]


def test_a_producers_error_arrives() -> None:
    with prefetch_threads([producers.Raiser(3)]) as batches:
        found = []
        with pytest.raises(tf.errors.OpError, match="no such batch"):
            for each in as_dataset(batches):
                found.append(each.numpy().tolist())
        assert found == [[0, 0], [0, 1], [0, 2]]


def test_no_batch_to_look_at() -> None:
    with prefetch_threads([[]]) as batches, pytest.raises(UsageError, match="no batch"):
        as_dataset(batches)


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (np.array([object()]), "Python objects"),
        (None, "Python objects"),
        (np.array(["2026-01-01"], "datetime64[D]"), r"cannot be converted to tensors.*signature"),
    ],
)
def test_what_makes_no_tensor(batch: Any, says: str) -> None:
    with prefetch_threads([[batch]]) as batches, pytest.raises(UsageError, match=says):
        as_dataset(batches)


def test_strings() -> None:
    with prefetch_threads([[np.array(["a", "é"]), np.array([b"c", b"d"], object)]]) as batches:
        rows = list(as_dataset(batches).as_numpy_iterator())
    assert [row.tolist() for row in rows] == [[b"a", "é".encode()], [b"c", b"d"]]


def test_texts_of_other_lengths() -> None:
    with prefetch_threads([[np.array([text]) for text in ("a", "bcd", "ef")]]) as batches:
        assert [row.tolist() for row in as_dataset(batches).as_numpy_iterator()] == [[b"a"], [b"bcd"], [b"ef"]]


FLOATS = [np.array([0.5, 1.5]), np.array([2.5])]


@pytest.mark.parametrize("others", [[np.array([1, 2])], [np.array([1, 2], np.float32)]], ids=str)
def test_the_first_batches_are_of_one_dtype(others: list[np.ndarray]) -> None:
    """Else the second would be cast to the first's, in silence."""
    for arrays in (others + FLOATS, FLOATS[:1] + others):
        says = r"cannot be converted to tensors: .* different dtypes in the first batches; pass signature="
        with prefetch_threads([arrays]) as batches, pytest.raises(UsageError, match=says):
            as_dataset(batches)


@pytest.mark.parametrize("place", range(4))
def test_a_signature_holds_from_the_first_batch_on(place: int) -> None:
    arrays = FLOATS * 2
    arrays.insert(place, np.array([1, 2]))
    found = []
    with prefetch_threads([arrays]) as batches:
        dataset = as_dataset(batches, signature=tf.TensorSpec([None], tf.float64))
        with pytest.raises(tf.errors.OpError, match=rf"batch {place}: got int64 \[2\], expected float64"):
            for each in dataset.as_numpy_iterator():
                found.append(each.tolist())
    assert found == [array.tolist() for array in (FLOATS * 2)[: len(found)]]
    assert len(found) >= place - 1  # one is on its way


def test_steps() -> None:
    with prefetch_threads([producers.counting]) as batches:
        dataset = as_dataset(batches, steps=6)
        assert [len(list(dataset)) for _ in range(2)] == [6, 6]
        assert int(dataset.cardinality()) == 6
        with pytest.raises(tf.errors.OpError, match="expected to contain 7 elements"):
            list(as_dataset(batches, steps=7))


def test_leaving_the_dataset_ends_the_workers() -> None:
    before = set(threading.enumerate())
    batches = prefetch_threads([partial(producers.endless, pause=0.01)])
    for _, each in zip(range(3), as_dataset(batches), strict=False):
        assert each.shape == (1000,)
    batches.close()
    until_gone(lambda: [each for each in set(threading.enumerate()) - before if each.name.startswith("prefetch")])
