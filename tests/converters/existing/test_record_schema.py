"""Schema common to all records, found record by record."""

from pathlib import Path

import numpy as np
import pytest
from foreign_tfrecords import write

from shardfeed.converters import survey
from shardfeed.converters.existing.tally import nonconformity
from shardfeed.converters.sources.record_features import FeatureLook
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


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([(1, b"b"), (2, b"c"), (1, b"b")], ("0", "b", "c")),
        ([(1, b"b"), (1, b"c"), (1, b"c")], ("0", "c")),  # that of most records, as `convert` has it
        ([(0, b"b"), (1, b"b")], ("0", "1")),  # one name of two labels
        ([(0, b"\xff"), (1, b"b")], ("0", "1")),
        ([(1, b"0")], ("0", "1")),
        ([(-1, b"a")], None),
        ([(1 << 40, b"a")], None),
    ],
)
def test_class_names(tmp_path: Path, pairs: list[tuple[int, bytes]], names: tuple[str, ...] | None) -> None:
    write(tmp_path / "train.tfrecord", [{LABEL: label, TEXT: text} for label, text in pairs])
    assert survey(tmp_path).schema.class_names == ({} if names is None else {LABEL: names})


def test_class_names_that_are_given(tmp_path: Path) -> None:
    write(tmp_path / "a" / "train.tfrecord", [{LABEL: 1, TEXT: b"b"}])
    assert survey(tmp_path / "a", class_names=("x", "y")).schema.class_names == {LABEL: ("x", "y")}
    for name, row in (("b", {LABEL: 2}), ("c", {LABEL: -1}), ("d", {"a": 1})):
        write(tmp_path / name / "train.tfrecord", [row])
        with pytest.raises(UsageError, match="class_names"):
            survey(tmp_path / name, class_names=("x", "y"))


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
