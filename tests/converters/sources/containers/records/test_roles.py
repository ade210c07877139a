"""Which feature of records of others is the image, and which the label."""

from pathlib import Path

import pytest
from foreign_tfrecords import picture, write

import shardfeed
from shardfeed.converters import adopt, survey
from shardfeed.converters.existing.surveying import choose_key
from shardfeed.converters.sources.containers.records.features import supervised_keys
from shardfeed.errors import UsageError
from shardfeed.schema import ENCODED, LABEL, Feature

BYTES, INT, FLOAT, MANY = Feature("bytes"), Feature("int64"), Feature("float32"), Feature("bytes", (None,))


def image_feature(
    features: dict[str, Feature], images: dict[str, int], given: str | None, said: str | None
) -> str | None:
    return choose_key("image", features, given, said, images)


def label_feature(features: dict[str, Feature], given: str | None, said: str | None) -> str | None:
    return choose_key("label", features, given, said)


def test_the_image() -> None:
    one = {"jpg": BYTES, "txt": BYTES, "frames": MANY}
    assert image_feature(one, {"jpg": 9, "frames": 9}, None, None) == "jpg"
    assert image_feature(one, {}, None, None) is None, "no bytes of it are an image's"
    two = {"image": BYTES, "mask": BYTES}
    images = {"image": 9, "mask": 9}
    assert image_feature(two, images, None, None) == "image"
    assert image_feature({"left": BYTES, "right": BYTES}, {"left": 9, "right": 9}, None, None) is None
    assert image_feature({"left": BYTES, "right": BYTES}, {"left": 9, "right": 9}, None, "right") == "right"
    assert image_feature(two, images, "mask", "image") == "mask"
    ours = {ENCODED: BYTES, "thumbnail": BYTES}
    assert image_feature(ours, {ENCODED: 1, "thumbnail": 9}, None, "thumbnail") == ENCODED
    assert image_feature(ours, {"thumbnail": 9}, None, None) is None, "raw pixels without a word about them"
    for features, given, match in (
        (one, "png", "got 'png', expected one encoded image per record; there is 'jpg'"),
        (one, "txt", "got 'txt', expected one encoded image"),
        (ours, "thumbnail", "the records also have 'image/encoded'"),
    ):
        with pytest.raises(UsageError, match=match):
            image_feature(features, {"jpg": 9, "thumbnail": 9, ENCODED: 9}, given, None)


def test_the_label() -> None:
    assert label_feature({"a/label": INT, "class": INT}, None, None) == "a/label"
    assert label_feature({"class": INT, "id": INT}, None, None) == "class"
    assert label_feature({"target": INT}, None, None) == "target"
    assert label_feature({"target": FLOAT, "id": INT}, None, None) is None
    assert label_feature({"a/label": INT, "b/label": INT}, None, None) is None, "which?"
    assert label_feature({"a/label": INT, "b/label": INT}, None, "b/label") == "b/label"
    assert label_feature({"x": FLOAT}, "x", None) == "x"
    assert label_feature({LABEL: INT, "label": INT}, None, "label") == LABEL
    for features, given, match in (
        ({"id": INT, "name": BYTES}, "name", "got 'name', .*; there is 'id'; .*adopt"),
        ({"name": BYTES}, "id", "got 'id', expected one number per record; there is none"),
        ({LABEL: INT, "id": INT}, "id", "also have 'image/class/label'; .*label='id' to train_batches"),
    ):
        with pytest.raises(UsageError, match=match):
            label_feature(features, given, None)


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
