"""Features of a record: their kinds, stated or derived by a rule, and the schemas that are refused."""

import json
from typing import Any, get_args

import pytest

from shardfeed.errors import UsageError
from shardfeed.manifest import Manifest, parse_manifest
from shardfeed.schema import (
    ENCODED,
    FILENAME,
    HEIGHT,
    LABEL,
    SHA256,
    TEXT,
    Feature,
    Kind,
    Schema,
    image_features,
)

NAMES = {LABEL: ("cat", "dog")}
WHOLE = Schema(
    image_features(sha256=True)
    | {
        LABEL: Feature("int64"),
        TEXT: Feature("bytes"),
        "image/object/bbox/xmin": Feature("float32", (None,)),
        "image/face_box": Feature("float32", (None,)),
        "image/price": Feature("float32"),
        "image/blob": Feature("bytes"),
        "image/other/text": Feature("bytes"),
    },
    NAMES,
)
KINDS: dict[str, Kind] = {
    ENCODED: "image",
    FILENAME: "bytes",
    HEIGHT: "number",
    SHA256: "text",
    LABEL: "label",
    TEXT: "text",
    "image/object/bbox/xmin": "place",
    "image/face_box": "number",
    "image/price": "number",
    "image/blob": "bytes",
    "image/other/text": "bytes",
}


def test_a_rule_gives_the_kinds_that_are_not_stated() -> None:
    assert {key: WHOLE.kind(key) for key in KINDS} == KINDS
    stated = WHOLE.stated()
    assert {key: stated.features[key].kind for key in KINDS} == KINDS
    assert stated.stated() == stated
    for kind in get_args(Kind):
        assert WHOLE.of_kind(kind) == stated.of_kind(kind) == sorted(k for k in WHOLE.features if WHOLE.kind(k) == kind)


def test_the_rule_fits_the_dtype() -> None:
    """Whatever others store under a key of TensorFlow's."""
    schema = Schema({ENCODED: Feature("int64"), TEXT: Feature("float32"), LABEL: Feature("bytes")}).stated()
    assert [schema.kind(key) for key in (ENCODED, TEXT, LABEL)] == ["number", "number", "bytes"]


@pytest.mark.parametrize(
    "schema", [WHOLE, WHOLE.stated(), Schema({}), Schema({LABEL: Feature("int64", (None,))}, NAMES)]
)
def test_json_there_and_back(schema: Schema) -> None:
    value = json.loads(json.dumps(schema.to_json()))
    assert Schema.from_json(value) == schema
    assert Schema.from_json(value).to_json() == schema.to_json()


def test_a_manifest_from_before_there_were_kinds() -> None:
    """It has them by the rule, and keeps its bytes."""
    data = Manifest("old", WHOLE, {}, {}, "0" * 32, {}, {}, {}).to_bytes()
    assert b'"kind"' not in data
    old = parse_manifest(data, "manifest.json")
    assert {key: old.schema.kind(key) for key in KINDS} == KINDS
    assert old.to_bytes() == data
    new = Manifest("old", WHOLE.stated(), {}, {}, "0" * 32, {}, {}, {}).to_bytes()
    assert new.count(b'"kind"') == len(WHOLE.features)
    assert parse_manifest(new, "manifest.json").schema == old.schema.stated()


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("text",), "Feature.dtype"),
        (("int64", (0,)), "Feature.shape"),
        (("int64", (None, 3)), "Feature.shape"),
        (("bytes", (2, 2)), "Feature.shape"),
        (("int64", (), "box"), "Feature.kind"),
        (("int64", (), "image"), "Feature.kind"),
        (("float32", (), "label"), "Feature.kind"),
        (("int64", (), "tags"), "Feature.kind"),
        (("int64", (3,), "tags"), "Feature.kind"),
        (("bytes", (), "number"), "Feature.kind"),
    ],
)
def test_features_that_cannot_be(arguments: tuple[Any, ...], place: str) -> None:
    with pytest.raises(UsageError) as caught:
        Feature(*arguments)
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("features", "names", "problem"),
    [
        ({"a\nb": Feature("int64")}, {}, "expected printable text"),
        ({LABEL: Feature("int64")}, {"image/other": ("a",)}, "belong to an int64 feature"),
        ({LABEL: Feature("bytes")}, NAMES, "belong to an int64 feature"),
        ({LABEL: Feature("int64", (), "number")}, NAMES, "of the kind 'number'; give it the kind 'label'"),
        ({LABEL: Feature("int64")}, {LABEL: ("cat", "cat")}, "named twice"),
    ],
)
def test_schemas_that_cannot_be(features: dict[str, Feature], names: dict[str, tuple[str, ...]], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Schema(features, names)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({LABEL: ("int64", [1])}, ""),
        ({LABEL: ("int64", [1]), "more": ("bytes", [b"x"]), "many": ("float32", [])}, ""),
        ({}, f"no feature {LABEL}"),
        ({LABEL: ("bytes", [b"1"])}, f"feature {LABEL} is bytes, the schema says int64"),
        ({LABEL: ("int64", [1, 2])}, f"feature {LABEL} has 2 values, the schema says one"),
        ({LABEL: ("int64", [1]), "many": ("int64", [1])}, "feature many is int64, the schema says float32"),
    ],
)
def test_whether_a_record_is_of_it(found: dict[str, Any], problem: str) -> None:
    assert Schema({LABEL: Feature("int64"), "many": Feature("float32", (None,))}, NAMES).mismatch(found) == problem


def test_fixed_shapes() -> None:
    schema = Schema({"colour": Feature("float32", (3,)), "points": Feature("int64", (2, 2))})
    assert Schema.from_json(schema.to_json()) == schema
    assert [schema.features[key].count for key in ("colour", "points")] == [3, 4]
    assert not schema.features["colour"].scalar
    assert not schema.features["colour"].ragged
    whole = {"colour": ("float32", [1.0, 2.0, 3.0]), "points": ("int64", [1, 2, 3, 4])}
    assert schema.mismatch(whole) == ""
    assert schema.mismatch(whole | {"points": ("int64", [1])}) == "feature points has 1 values, the schema says 4"
    assert schema.mismatch({"points": whole["points"]}) == "no feature colour"


def test_aliases() -> None:
    features = {"image": Feature("bytes", (), "image", ENCODED), "label": Feature("int64", alias=LABEL)}
    schema = Schema(features, {"label": ("a", "b")})
    assert (schema.key(ENCODED), schema.key("image"), schema.key(LABEL), schema.key(HEIGHT)) == (
        "image",
        "image",
        "label",
        None,
    )
    assert schema.aliases == {ENCODED: "image", LABEL: "label"}
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.stated().aliases == schema.aliases
    assert "alias" not in Schema({ENCODED: Feature("bytes")}).to_json()[ENCODED]
    for taken in (
        {"a": Feature("bytes", alias="b"), "b": Feature("bytes")},
        {k: Feature("bytes", alias="x") for k in "ab"},
    ):
        with pytest.raises(UsageError, match="give each name to one feature"):
            Schema(taken)
