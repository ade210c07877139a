"""How a serialized record becomes tensors: TensorFlow's parse specification, made from the schema."""

from collections.abc import Iterable

import tensorflow as tf

from shardfeed.errors import UsageError, escape
from shardfeed.schema import Schema

ParseSpec = dict[str, tf.io.FixedLenFeature | tf.io.RaggedFeature]

_DTYPES = {"bytes": tf.string, "int64": tf.int64, "float32": tf.float32}


def parse_spec(schema: Schema, keys: Iterable[str] | None = None) -> ParseSpec:
    """What `tf.io.parse_single_example` and `tf.io.parse_example` take, for the features named by `keys` or for all.

    One record parses to scalars, to tensors of a feature's fixed shape, and to 1-D tensors [n] for ragged features; a
    batch of records to tensors with one dimension more, and to `tf.RaggedTensor`s. A record that lacks a ragged feature
    has no values of it; one that lacks another fails to parse.

    Raises UsageError for a key that the schema does not have; it lists those it has.
    """
    features = schema.features
    chosen = sorted(features) if keys is None else list(keys)
    for key in chosen:
        if key not in features:
            raise UsageError(
                "keys", f"got {escape(key)!r}, no feature of this dataset", f"it has {', '.join(sorted(features))}"
            )
    spec: ParseSpec = {}
    for key in chosen:
        dtype, shape = _DTYPES[features[key].dtype], features[key].shape
        spec[key] = tf.io.RaggedFeature(dtype) if features[key].ragged else tf.io.FixedLenFeature(list(shape), dtype)
    return spec
