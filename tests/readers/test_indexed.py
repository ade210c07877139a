"""tf.data by number: errors that name the record, a process that can end, and how records are parsed."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from shardfeed.errors import RecordError, UsageError
from shardfeed.formats.example import encode
from shardfeed.readers import Dataset
from shardfeed.readers.tensorflow.indexed import indexed_records, parse_spec
from shardfeed.schema import LABEL, Feature, Schema


def pairs(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).map(lambda n: (n // 3, n % 3))


@pytest.mark.parametrize("parallelism", [1, 4])
def test_sample_by_sample_in_order(parallelism: int) -> None:
    def read(epoch: int, chunk: int) -> tuple[np.ndarray, list[bytes]]:
        assert type(epoch) is type(chunk) is int
        time.sleep(0.01 * ((epoch + chunk) % 2))
        count = chunk  # the first chunk of each epoch is empty
        return np.full((count, 2), epoch), [b"%d %d %d" % (epoch, chunk, i) for i in range(count)]

    dataset = indexed_records(pairs(9), read, parallelism=parallelism)
    assert dataset.element_spec == (tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.string))
    found = [(tuple(seed.tolist()), record) for seed, record in dataset.as_numpy_iterator()]
    expected = [((e, e), b"%d %d %d" % (e, c, i)) for e in range(3) for c in range(3) for i in range(c)]
    assert found == expected


def test_an_error_keeps_its_words() -> None:
    def read(epoch: int, chunk: int) -> tuple[np.ndarray, list[bytes]]:
        if epoch == 1:
            raise RecordError("shard-7, record 3, offset 99", "damaged")
        return np.zeros((1, 2), np.int64), [b"good"]

    iterator = indexed_records(pairs(9), read, parallelism=2).as_numpy_iterator()
    assert [next(iterator)[1] for _ in range(3)] == [b"good"] * 3
    with pytest.raises(tf.errors.OpError, match="RecordError: shard-7, record 3, offset 99: damaged"):
        next(iterator)


LEFT = """
import sys
import tensorflow as tf
import shardfeed
from shardfeed.pipelines import Blocks, make_batches

def busy(features, seed):
    value = tf.random.stateless_uniform([150, 150], seed)
    for _ in range(3):
        value = value @ value / 150
    return value[0, 0]

train = shardfeed.open(sys.argv[1])["train"]
orders = {"global": "global", "blocks": Blocks(buffer=16)}
options = dict(batch_size=16, order=orders[sys.argv[2]], start_step=0, keys=[], workers=8)
iterator = iter(make_batches(train, busy, **options))
for _ in range(3):
    next(iterator)
if sys.argv[3] == "raises":
    raise SystemExit(3)
"""


@pytest.mark.long
def test_a_process_ends_while_it_reads_ahead(flowers: Dataset) -> None:
    """Promptly and in silence, with the iterator alive and reads under way: most such processes once hung."""
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "1"}
    environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", LEFT, flowers.directory, order, how],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for order, how in (("global", "returns"), ("global", "raises"), ("global", "returns"), ("blocks", "returns"))
    ]
    try:
        for child in children:
            _, said = child.communicate(timeout=150)
            assert child.returncode in (0, 3), said
            lines = [line for line in said.splitlines() if "cuda" not in line.lower() and "absl" not in line]
            assert lines == []
        assert [child.returncode for child in children] == [0, 3, 0, 0]
    finally:
        for child in children:
            child.kill()


FEATURES = {
    "name": Feature("bytes"),
    "score": Feature("float32"),
    "label": Feature("int64"),
    "boxes": Feature("float32", (None,)),
    "ids": Feature("int64", (None,)),
    "words": Feature("bytes", (None,)),
}
SCHEMA = Schema(FEATURES, {})


def record(boxes: list[float], **other: object) -> bytes:
    values = {"name": b"n", "score": 0.5, "label": -3, "boxes": boxes, "ids": [7], "words": [b"a", b""]}
    return encode(FEATURES, values | other)  # pyright: ignore[reportArgumentType]


def test_one_record_parses_to_scalars_and_vectors() -> None:
    parsed = tf.io.parse_single_example(record([0.25, 0.75, 1.0]), parse_spec(SCHEMA))
    assert parsed.keys() == FEATURES.keys()
    assert {key: value.dtype for key, value in parsed.items()} == {
        "name": tf.string,
        "score": tf.float32,
        "label": tf.int64,
        "boxes": tf.float32,
        "ids": tf.int64,
        "words": tf.string,
    }
    assert (parsed["name"].numpy(), parsed["score"].numpy(), parsed["label"].numpy()) == (b"n", 0.5, -3)
    np.testing.assert_array_equal(parsed["boxes"].numpy(), [0.25, 0.75, 1.0])
    assert parsed["words"].numpy().tolist() == [b"a", b""]


def test_a_ragged_feature_may_be_empty() -> None:
    assert tf.io.parse_single_example(record([]), parse_spec(SCHEMA))["boxes"].shape == (0,)


def test_a_batch_parses_to_ragged() -> None:
    parsed = tf.io.parse_example([record([0.5]), record([]), record([1.0, 2.0])], parse_spec(SCHEMA))
    assert parsed["boxes"].to_list() == [[0.5], [], [1.0, 2.0]]
    assert parsed["label"].numpy().tolist() == [-3, -3, -3]


def test_a_record_without_a_feature_fails() -> None:
    fewer = {key: feature for key, feature in FEATURES.items() if key != "label"}
    values = {"name": b"n", "score": 0.5, "boxes": [], "ids": [], "words": []}
    with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
        tf.io.parse_single_example(encode(fewer, values), parse_spec(SCHEMA))


def test_chosen_keys() -> None:
    assert parse_spec(SCHEMA, ["label", "boxes"]).keys() == {"label", "boxes"}


def test_an_unknown_key_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'lable'.*boxes, ids, label, name, score, words"):
        parse_spec(SCHEMA, ["lable"])


def test_a_real_dataset(flowers: Dataset) -> None:
    split = flowers["train"]
    parsed = tf.io.parse_single_example(split.payload(3), parse_spec(split.schema))
    expected = split[3]
    assert parsed.keys() == expected.keys()
    assert {key: value.numpy() for key, value in parsed.items()} == expected
    assert parsed[LABEL].dtype == tf.int64
