"""Waits, measured on producers whose pace is known."""

import time
from collections.abc import Iterator

import numpy as np
import pytest

from shardfeed.tools.bench.waits import Waits, measure_waits


def slow(count: int, seconds: float) -> Iterator[int]:
    """Batches that are made while the consumer waits: nothing is made ahead."""
    for number in range(count):
        time.sleep(seconds)
        yield number


def test_a_producer_that_makes_nothing_ahead_is_waited_for() -> None:
    waits = measure_waits(slow(20, 0.02), 10, 15)
    found = waits.summary()
    assert len(waits.waits_ms) == 15
    assert waits.first_ms >= 20
    assert 20 <= found["p50_wait_ms"] <= found["max_wait_ms"]
    assert 20 <= found["mean_wait_ms"] <= found["max_wait_ms"]
    assert waits.step_ms >= 10
    assert found["lost_share"] == pytest.approx(found["mean_wait_ms"] / (found["mean_wait_ms"] + waits.step_ms))


@pytest.mark.parametrize("model_ms", [10, 80])
def test_a_pipeline_that_reads_ahead(model_ms: float) -> None:
    """A step is at least as long as the model's and, with its wait, as the batch that is made meanwhile."""
    import tensorflow as tf

    def produce(number: np.ndarray) -> np.ndarray:
        time.sleep(0.03)
        return number

    batches = tf.data.Dataset.range(1000).map(lambda n: tf.numpy_function(produce, [n], tf.int64)).prefetch(2)
    waits = measure_waits(batches, model_ms, 16)
    assert waits.summary(steady=True)["steps"] == 12
    assert waits.step_ms >= model_ms
    ahead = 4  # batches, at most, that were there before the first step
    assert waits.summary()["mean_wait_ms"] + waits.step_ms >= 30 * (16 - ahead) / 16


def test_the_steady_state_leaves_out_what_came_before() -> None:
    waits = Waits(100.0, np.array([90.0, 10.0, 10.0, 10.0, 0.0, 0.0, 20.0, 0.0]), 10.0)
    assert waits.summary()["mean_wait_ms"] == 17.5
    steady = waits.summary(steady=True)
    assert steady["steps"] == 6
    assert steady["mean_wait_ms"] == pytest.approx(40 / 6)
    assert steady["lost_share"] == pytest.approx(0.4)
    assert steady["max_wait_ms"] == 20.0


def test_batches_that_end_early() -> None:
    assert len(measure_waits(iter([1, 2, 3]), 0.1, 10).waits_ms) == 2
    with pytest.raises(ValueError, match="fewer than two"):
        measure_waits(iter([1]), 0.1, 10)
