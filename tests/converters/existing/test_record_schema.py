"""Schema common to all records, found record by record."""

import numpy as np
import pytest

from shardfeed.converters.existing.record_schema import class_names, nonconformity
from shardfeed.converters.sources.containers.records.features import FeatureLook
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.formats.example import decode, encode
from shardfeed.schema import LABEL, TEXT, Feature, Schema, Value


def record(**values: Value) -> bytes:
    features = {}
    for key, value in values.items():
        first = value[0] if isinstance(value, list) else value
        dtype = "bytes" if isinstance(first, bytes) else "float32" if isinstance(first, float) else "int64"
        features[key] = Feature(dtype, (None,) if isinstance(value, list) else ())
    return encode(features, values)


def inferred(*records: bytes) -> FeatureLook:
    inference = FeatureLook()
    for number, payload in enumerate(records):
        inference.add(decode(payload), f"record {number}")
    return inference


def labelled(*pairs: tuple[int, bytes]) -> FeatureLook:
    return inferred(*(encode({LABEL: Feature("int64"), TEXT: Feature("bytes")}, {LABEL: a, TEXT: b}) for a, b in pairs))


def test_scalars_and_ragged() -> None:
    found = inferred(record(a=1, b=[1.0], c=b"x", d=2), record(a=2, b=[1.0, 2.0], c=b"y", e=3))
    expected = {"a": Feature("int64"), "b": Feature("float32", (None,)), "c": Feature("bytes")}
    assert found.features() == expected | {key: Feature("int64", (None,)) for key in "de"}
    assert found.features(ragged={"a"})["a"].ragged


def test_two_dtypes_are_refused_and_leave_no_trace() -> None:
    found = inferred(record(a=1, b=b"x"))
    with pytest.raises(IntegrityError, match="record 1: feature a is float32, but int64 in record 0"):
        found.add(decode(record(new=1, a=1.0)), "record 1")
    assert found.features() == {"a": Feature("int64"), "b": Feature("bytes")}
    with pytest.raises(IntegrityError):
        found.add({"a": ("bytes", [])}, "record 1")


def test_class_names() -> None:
    assert class_names(labelled((1, b"b"), (2, b"c"), (1, b"b"))) == {LABEL: ("0", "b", "c")}
    assert class_names(labelled((1, b"b"), (1, b"c"))) == {LABEL: ("0", "1")}, "two names of one label"
    assert class_names(labelled((0, b"b"), (1, b"b"))) == {LABEL: ("0", "1")}, "two labels of one name"
    assert class_names(labelled((0, b"\xff"), (1, b"b"))) == {LABEL: ("0", "1")}
    assert class_names(labelled((1, b"0"))) == {LABEL: ("0", "1")}
    assert class_names(labelled((-1, b"a"))) == {}
    assert class_names(labelled((1 << 40, b"a"))) == {}
    assert class_names(inferred(record(a=1))) == {}
    assert class_names(labelled((1, b"b")), ("x", "y")) == {LABEL: ("x", "y")}
    for wrong in (labelled((2, b"b")), labelled((-1, b"b")), inferred(record(a=1))):
        with pytest.raises(UsageError, match="class_names"):
            class_names(wrong, ("x", "y"))


def test_what_does_not_conform() -> None:
    schema = Schema({"a": Feature("int64"), "b": Feature("bytes", (None,))}, {"a": ("x", "y")})
    values = {"a": ("int64", np.array([1])), "b": ("bytes", [b"x"])}
    assert nonconformity(values, schema) == ""  # type: ignore[arg-type]  # a dict of literals
    for changed, match in (
        ({"a": ("int64", np.array([2]))}, "the label 2 of a, expected 0 to 1"),
        ({"a": ("int64", np.array([0, 1]))}, "a has 2 values"),
        ({"a": ("bytes", [b"1"])}, "a is bytes"),
        ({"b": ("int64", np.array([1]))}, "b is int64"),
    ):
        assert match in nonconformity({**values, **changed}, schema)  # type: ignore[arg-type]  # as above
    assert nonconformity({"a": values["a"]}, schema) == "", "a ragged feature may be missing"  # type: ignore[arg-type]
    assert "no feature a" in nonconformity({"b": values["b"]}, schema)  # type: ignore[arg-type]
