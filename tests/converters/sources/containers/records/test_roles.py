"""Which feature of records of others is the image, and which the label."""

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_tfrecords import picture, write

import shardfeed
from shardfeed.converters import adopt, survey
from shardfeed.converters.sources.open_source import open_source
from shardfeed.converters.sources.record_features import supervised_keys
from shardfeed.errors import UsageError
from shardfeed.schema import ENCODED, LABEL, Feature


def keys(folder: Path, rows: list[dict[str, Any]], **options: Any) -> tuple[str | None, str | None]:
    """The image and the label of records, as `adopt` finds them."""
    write(folder / "train.tfrecord", rows)
    found = survey(folder, **options)
    return found.schema.key(ENCODED), found.schema.key(LABEL)


def rows_of(**features: Any) -> list[dict[str, Any]]:
    """Three records; an image for True, a number for False, else the value."""
    made = {True: lambda n: picture(n), False: lambda n: n}
    return [{key: made[v](n) if isinstance(v, bool) else v for key, v in features.items()} for n in range(3)]


def asked_of(folder: Path) -> str:
    """Return what `convert` says that it takes, or asks."""
    try:
        return str(open_source(folder).described)  # type: ignore[attr-defined]
    except UsageError as error:
        return str(error)


@pytest.mark.parametrize(
    ("features", "image", "label", "said"),
    [
        ({"jpg": True, "txt": b"a b", "frames": [picture(1), picture(2)]}, "jpg", None, "image from jpg"),
        ({"image": True, "mask": True, "label": False}, "image", "label", "image from image, label from label"),
        ({"left": True, "right": True}, None, None, "several columns may be the image: left, right"),
        ({"a/image": True, "b/image": True}, None, None, "several columns may be the image: a/image, b/image"),
        ({ENCODED: True, "thumbnail": True, LABEL: False}, ENCODED, LABEL, f"image from {ENCODED}, label from {LABEL}"),
        ({"image": True, "a/label": False, "class": False}, "image", None, "several columns may be the label"),
        ({"image": True, "a/label": False, "b/label": False}, "image", None, "several columns may be the label"),
        ({"image": True, "class": False, "id": False}, "image", "class", "label from class"),
        ({"image": True, "target": False}, "image", "target", "label from target"),
        ({"image": True, "target": 0.5, "id": False}, "image", None, "has the number 0.5"),
        ({"image": True, LABEL: False, "label": False}, "image", LABEL, f"label from {LABEL}"),
        ({"image": True, "objects/bbox": [0.1, 0.1, 0.5, 0.5], "objects/label": 0}, "image", None, "image from image"),
    ],
)
def test_adopt_and_convert_find_the_same(
    tmp_path: Path, features: dict[str, Any], image: str | None, label: str | None, said: str
) -> None:
    """Where `convert` asks, `adopt` takes nothing, and notes it."""
    assert keys(tmp_path, rows_of(**features)) == (image, label)
    assert said in asked_of(tmp_path)
    asked = "several columns may be" in said or "has the number" in said
    notes = " ".join(survey(tmp_path).notes)
    nothing_to_ask = "no feature is the label: loaders then"
    assert asked == ("no feature is the" in notes.replace(nothing_to_ask, "") or "is not the label" in notes)


def test_files_of_tfds_say_which(tmp_path: Path) -> None:
    """The image among several, and a label by any name, whose classes are counted."""
    items = [{"featureKey": "right"}, {"featureKey": "digit"}]
    rows = rows_of(left=True, right=True, digit=False)
    write(tmp_path / "in" / "train.tfrecord", rows)
    (tmp_path / "in" / "dataset_info.json").write_text(json.dumps({"supervisedKeys": {"tuple": {"items": items}}}))
    assert "image from right, label from digit" in asked_of(tmp_path / "in")
    manifest = adopt(survey(tmp_path / "in"), tmp_path / "out")
    assert manifest.schema.aliases == {ENCODED: "right", LABEL: "digit"}
    assert manifest.splits["train"].class_counts == {"digit": (1, 1, 1)}


def test_keys_that_are_given(tmp_path: Path) -> None:
    rows = rows_of(left=True, right=True, frames=[picture(1), picture(2)], kind=False, x=0.5, name=b"cat")
    assert keys(tmp_path / "a", rows, image_key="right", label_key="kind") == ("right", "kind")
    assert keys(tmp_path / "a", rows, label_key="x") == (None, "x")
    ours = rows_of(**{ENCODED: True, "thumbnail": True, LABEL: False, "id": False})
    write(tmp_path / "b" / "train.tfrecord", ours)
    for folder, options, match in (
        ("a", {"image_key": "png"}, "got 'png', expected one encoded image per record; there is 'left', 'right'"),
        ("a", {"image_key": "frames"}, "got 'frames', expected one encoded image"),
        ("b", {"image_key": "thumbnail"}, "the records also have 'image/encoded'"),
        ("a", {"label_key": "name"}, "got 'name', .*; there is 'kind', 'x'; .*adopt"),
        ("b", {"label_key": "id"}, "also have 'image/class/label'; .*label='id' to train_batches"),
    ):
        with pytest.raises(UsageError, match=match):
            survey(tmp_path / folder, **options)  # type: ignore[arg-type]  # keys by name


def test_what_tfds_says(tmp_path: Path) -> None:
    assert supervised_keys(tmp_path) == (None, None)  # type: ignore[arg-type]
    for text in ("", "[]", "{}", '{"supervisedKeys": {"tuple": {"items": [{"featureKey": "x"}]}}}'):
        (tmp_path / "dataset_info.json").write_text(text)
        assert supervised_keys(str(tmp_path)) == (None, None)
    pair = '{"supervisedKeys": {"tuple": {"items": [{"featureKey": "x"}, {"featureKey": "y"}]}}}'
    (tmp_path / "dataset_info.json").write_text(pair)
    assert supervised_keys(str(tmp_path)) == ("x", "y")


def test_readers_find_both_under_their_usual_names(tmp_path: Path) -> None:
    rows = [{"left": picture(n), "right": picture(n + 50), "kind": n % 3, "text": b"x"} for n in range(9)]
    write(tmp_path / "in" / "train.tfrecord", rows)
    found = survey(tmp_path / "in", image_key="right", label_key="kind", class_names=("a", "b", "c"))
    manifest = adopt(found, tmp_path / "out")
    assert (manifest.options["image_key"], manifest.options["label_key"]) == ("right", "kind")
    data = shardfeed.open(tmp_path / "out")
    split = data["train"]
    assert manifest.schema.features["right"] == Feature("bytes", (), "image", ENCODED)
    assert (split.schema.key(ENCODED), split.schema.key(LABEL), split.schema.key("text")) == ("right", "kind", "text")
    assert data.class_names == split.class_names == ("a", "b", "c")
    assert split.class_counts == {"kind": (3, 3, 3)}
    assert split.column(LABEL).tolist() == split.column("kind").tolist() == [0, 1, 2] * 3
    assert split.formats == {"jpeg": 9}
    assert set(split[0]) == {"left", "right", "kind", "text"}, "a record has its own keys"
