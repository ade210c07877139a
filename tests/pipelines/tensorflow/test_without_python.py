"""A stream through a transform of the user's own is a graph without Python: processes without this package run it."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from shardfeed.pipelines import Stream, make_batches, random_resized_crop
from shardfeed.readers import Dataset
from shardfeed.schema import LABEL

SERVICE = """
import sys
import tensorflow as tf

service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.partition("://")[2]
worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
print(dispatcher.target, flush=True)
sys.stdin.read()
"""


def batches_of(flowers: Dataset, transform: Any, order: Any) -> tf.data.Dataset:
    return make_batches(flowers["train"], transform, batch_size=12, seed=3, order=order)


def by_own_function() -> Any:
    crop = random_resized_crop(24)
    return lambda features, seed: (crop(features, seed), features[LABEL])


def python_functions(dataset: tf.data.Dataset) -> set[str]:
    """The kinds of operations of a dataset's graph, and of its functions, that call Python."""
    content = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset)).numpy()
    graph = tf.compat.v1.GraphDef.FromString(content)
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return {node.op for node in nodes if "PyFunc" in node.op}


def test_only_a_stream_through_an_own_function_has_no_python(flowers: Dataset) -> None:
    assert python_functions(batches_of(flowers, by_own_function(), Stream(buffer=20))) == set()
    assert python_functions(batches_of(flowers, by_own_function(), "global")) == {"PyFunc"}
    pytest.importorskip("cv2")
    assert python_functions(batches_of(flowers, random_resized_crop(24), Stream(buffer=20))) == {"PyFunc"}


@pytest.fixture
def service() -> Iterator[str]:
    """Address of a tf.data service, whose worker is another process, without this package."""
    command = [sys.executable, "-c", SERVICE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.mark.long
def test_the_tf_data_service_gives_the_same_batches(flowers: Dataset, service: str) -> None:
    batches = batches_of(flowers, by_own_function(), Stream(buffer=20))
    served = batches.apply(tf.data.experimental.service.distribute("parallel_epochs", service))
    expected = list(batches.as_numpy_iterator())
    found = list(served.as_numpy_iterator())
    assert len(found) == len(expected) > 3
    for one, other in zip(found, expected, strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)
