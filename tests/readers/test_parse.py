import numpy as np
import pytest
import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.formats.example import encode
from shardfeed.readers import Dataset
from shardfeed.readers.tensorflow.indexed import parse_spec
from shardfeed.schema import LABEL, Feature, Schema

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
