"""The Example codec against TensorFlow's bytes, round trips, and bytes that are no Example."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.errors import IntegrityError
from shardfeed.formats.example import ExampleEncoder, cut_out, decode, encode
from shardfeed.formats.tfrecord import unframe
from shardfeed.schema import Feature

from repository import GOLDEN


def golden() -> list[tuple[bytes, dict[str, dict[str, list[Any]]]]]:
    data = (GOLDEN / "golden.tfrecord").read_bytes()
    examples = json.loads((GOLDEN / "golden.json").read_text())["examples"]
    pairs = []
    at = 0
    for features in examples:
        size = int.from_bytes(data[at : at + 8], "little") + 16
        pairs.append((unframe(data[at : at + size], "golden"), features))
        at += size
    assert at == len(data)
    return pairs


def as_values(kinds: dict[str, list[Any]]) -> tuple[str, list[Any]]:
    ((kind, values),) = kinds.items()
    return kind, [bytes.fromhex(v) for v in values] if kind == "bytes" else values


@pytest.mark.promise(28)
def test_encodes_the_bytes_tensorflow_writes() -> None:
    for payload, features in golden():
        schema = {key: Feature(as_values(kinds)[0], (None,)) for key, kinds in features.items()}
        values = {key: as_values(kinds)[1] for key, kinds in features.items()}
        assert encode(schema, values) == payload
        assert b"".join(ExampleEncoder(schema).parts(values)) == payload


@pytest.mark.promise(28)
def test_decodes_what_tensorflow_wrote() -> None:
    for payload, features in golden():
        found = decode(payload)
        assert found.keys() == features.keys()
        for key, kinds in features.items():
            kind, values = as_values(kinds)
            dtype, got = found[key]
            assert dtype == kind
            expected = values if kind == "bytes" else np.array(values, kind).tolist()
            assert (got if isinstance(got, list) else got.tolist()) == expected


def test_a_large_value_is_not_copied() -> None:
    image = bytes(100_000)
    parts = ExampleEncoder({"a": Feature("int64"), "image": Feature("bytes")}).parts({"a": 1, "image": image})
    assert any(part is image for part in parts)
    assert len(parts) <= 3


@pytest.mark.parametrize("key", ["a", "k" * 50, "k" * 121, "k" * 200])
def test_one_value_is_written_like_a_list_of_one(key: str) -> None:
    """Around every size at which a length takes one more byte, in the fast forms and in the general one."""
    sizes = [*range(140), 16_370, 16_383, 16_384, 4095, 4096, 2**21 - 1, 2**21, 2**21 + 9]
    values: list[tuple[Any, Any]] = [("bytes", bytes(size)) for size in sizes]
    values += [("int64", sign * 2**power + more) for power in range(63) for sign in (1, -1) for more in (-1, 0)]
    values += [("int64", 2**63 - 1), ("float32", 1.5)]
    for dtype, value in values:
        listed = encode({key: Feature(dtype, (None,))}, {key: [value]})
        assert encode({key: Feature(dtype)}, {key: value}) == listed, (dtype, value)
        ((found, decoded),) = decode(listed).values()
        assert (found, list(decoded)) == (dtype, [value])


def test_one_encoder_writes_many_examples() -> None:
    encoder = ExampleEncoder({"b": Feature("bytes"), "a": Feature("int64", (None,))})
    for values in ({"a": [1, 300], "b": b"x"}, {"b": bytes(5000), "a": []}):
        parts = encoder.parts(values)
        assert {key: list(found) for key, (_, found) in decode(b"".join(parts)).items()} == {
            "a": values["a"],
            "b": [values["b"]],
        }
    with pytest.raises(AssertionError):
        encoder.parts({"a": [1]})


def test_lists_that_are_not_packed_are_read() -> None:
    # int64_list { value: 5 value: -1 } and float_list { value: 1.0 } with one field a value
    ints = b"\x08\x05\x08" + b"\xff" * 9 + b"\x01"
    floats = b"\x0d\x00\x00\x80\x3f"
    for tag, inner, expected in ((b"\x1a", ints, [5, -1]), (b"\x12", floats, [1.0])):
        feature = tag + bytes([len(inner)]) + inner
        entry = b"\x0a\x01k\x12" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        _, values = decode(b"\x0a" + bytes([len(features)]) + features)["k"]
        assert list(values) == expected


def test_unknown_fields_are_skipped_and_a_feature_without_kind_is_missing() -> None:
    entry = b"\x0a\x01k\x12\x00"
    features = b"\x0a" + bytes([len(entry)]) + entry
    unknown = b"\x20\x07" + b"\x2a\x02hi" + b"\x35abcd" + b"\x39abcdefgh"
    assert decode(unknown + b"\x0a" + bytes([len(features)]) + features) == {}


VALUES = st.one_of(
    st.tuples(st.just("bytes"), st.lists(st.binary(max_size=40), max_size=4)),
    st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)),
    st.tuples(st.just("float32"), st.lists(st.floats(width=32, allow_nan=False), max_size=5)),
)


@given(st.dictionaries(st.text(min_size=1, max_size=12), VALUES, max_size=6))
def test_round_trip(features: dict[str, tuple[Any, list[Any]]]) -> None:
    schema = {key: Feature(kind, (None,)) for key, (kind, _) in features.items()}
    payload = encode(schema, {key: values for key, (_, values) in features.items()})
    found = decode(payload)
    assert found.keys() == features.keys()
    for key, (kind, values) in features.items():
        assert found[key][0] == kind
        got = found[key][1]
        assert (got if isinstance(got, list) else got.tolist()) == values
    shuffled = dict(reversed(schema.items()))
    assert encode(shuffled, {key: features[key][1] for key in shuffled}) == payload


@pytest.mark.promise(22)
@settings(max_examples=300)
@given(st.data())
def test_damaged_payloads_give_our_error_or_a_value(data: st.DataObject) -> None:
    payload = bytearray(data.draw(st.sampled_from([payload for payload, _ in golden() if payload])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    try:
        decode(bytes(payload[:cut]))
    except IntegrityError:
        pass


def test_endless_number_is_refused() -> None:
    with pytest.raises(IntegrityError, match="does not end"):
        decode(b"\xff" * 20)


@pytest.mark.parametrize("value", [0, 127, 128, 2**40, 2**63 - 1, -1, -(2**63)])
def test_numpy_integers_are_integers(value: int) -> None:
    """A source that takes its labels from an array gives np.int64, which overflows where int does not."""
    feature = {"label": Feature("int64")}
    assert encode(feature, {"label": np.int64(value)}) == encode(feature, {"label": value})  # type: ignore[dict-item]  # that is the point


def only(payload: bytes, key: str) -> bytes | None:
    """Value that `cut_out` must find."""
    dtype, values = decode(payload, {key}).get(key, ("bytes", []))
    return values[0] if dtype == "bytes" and len(values) == 1 else None


def test_a_value_is_cut_out_where_it_lies() -> None:
    features = {
        "a": Feature("int64"),
        "image": Feature("bytes"),
        "z": Feature("bytes", (None,)),
        "imag": Feature("bytes"),
    }
    for size in (0, 1, 100, 127, 128, 5000, 70_000):
        values = {"a": 3, "image": bytes(size), "z": [b"image", b"x"], "imag": b"e"}
        payload = encode(features, values)
        value, others = cut_out(payload, "image")
        assert isinstance(value, memoryview)
        assert (value.obj is payload, bytes(value)) == (True, bytes(size))
        del values["image"]
        assert others == encode({key: features[key] for key in values}, values), "what is left is as it was written"


def test_what_is_written_as_nobody_does_is_handed_on_whole() -> None:
    entry = encode({"image": Feature("bytes")}, {"image": b"abc"})
    two = encode({"image": Feature("bytes", (None,))}, {"image": [b"abc", b"d"]})
    number = encode({"image": Feature("int64")}, {"image": 3})
    value_first = b"\x0a\x12\x0a\x10\x12\x07\x0a\x05\x0a\x03abc\x0a\x05image"
    for payload, expected in ((entry * 2, b"abc"), (value_first, b"abc"), (two, None), (number, None), (b"", None)):
        assert only(payload, "image") == expected
        assert cut_out(payload, "image") == (expected, payload)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_of_damaged_payloads_the_same_is_cut_out_as_is_decoded(data: st.DataObject) -> None:
    payload = bytearray(data.draw(st.sampled_from([payload for payload, _ in golden() if payload])))
    key = data.draw(st.sampled_from(sorted(decode(bytes(payload)))))
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(payload[: data.draw(st.integers(max(0, len(payload) - 2), len(payload)))])
    try:
        expected = only(whole, key)
    except IntegrityError:
        return  # what nobody asks for is not looked at
    value, others = cut_out(whole, key)
    assert value == expected
    try:
        found = decode(whole)
    except IntegrityError:
        return
    left = decode(others)
    if value is not None and others != whole:
        assert key not in left
        del found[key]
    assert repr(left) == repr(found)
