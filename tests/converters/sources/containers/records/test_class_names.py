"""Names of classes in the files that other programs leave beside their TFRecords."""

from pathlib import Path

import pytest
from foreign_tfrecords import picture, write

from shardfeed.converters import adopt, survey
from shardfeed.converters.sources.rows.class_names import in_label_order, names_beside, read_named_classes
from shardfeed.errors import LabelFileError, UsageError
from shardfeed.schema import LABEL
from shardfeed.tools.cli import main

OBJECTS = "image/object/class/label"
LABEL_MAP = """
# what the Object Detection API reads
item {
  id: 1
  name: '/m/01'
  display_name: "a \\"cat\\""
}
item { name: "f\\303\\251e" id: 3 }
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("names", "cat\ndog\n", {0: "cat", 1: "dog"}),
        ("labels.txt", "0:daisy\n1:dandelion\n3:rose\n", {0: "daisy", 1: "dandelion", 3: "rose"}),
        ("labels.txt", "1: tench, Tinca tinca\n", {1: "tench, Tinca tinca"}),
        ("label_map.pbtxt", LABEL_MAP, {1: 'a "cat"', 3: "fée"}),
    ],
)
def test_forms(tmp_path: Path, name: str, text: str, expected: dict[int, str]) -> None:
    (tmp_path / name).write_text(text)
    assert read_named_classes(tmp_path / name) == expected


def test_files_that_name_no_class(tmp_path: Path) -> None:
    (tmp_path / "label_map.pbtxt").write_text("x")
    with pytest.raises(LabelFileError, match="no `item"):
        read_named_classes(tmp_path / "label_map.pbtxt")
    with pytest.raises(LabelFileError, match="cannot read"):
        read_named_classes(tmp_path / "none")
    (tmp_path / "labels.txt").write_bytes(b"\xff\n")
    with pytest.raises(LabelFileError, match="UTF-8"):
        read_named_classes(tmp_path / "labels.txt")
    assert names_beside(str(tmp_path), ["label_map.pbtxt", "labels.txt"], "label", images=True) is None


def test_names_in_label_order() -> None:
    assert in_label_order({1: "a", 3: "b"}) == ("0", "a", "2", "b")
    assert in_label_order({0: "a"}, 2) == ("a", "1")
    assert in_label_order({0: "a", 1: "a"}) == ("0", "1"), "one name for two"
    assert in_label_order({}) == ()


def rows(key: str = "label", first: int = 0) -> list[dict[str, object]]:
    return [{"image": picture(n), key: first + n % 3} for n in range(6)]


def test_those_beside_the_files_are_taken(tmp_path: Path) -> None:
    home = tmp_path / "in"
    write(home / "train.tfrecord", rows())
    (home / "labels.txt").write_text("0:a\n1:b\n2:c\n")
    found = survey(home)
    assert found.schema.class_names == {"label": ("a", "b", "c")}
    assert "class names of label come from labels.txt" in found.notes
    assert found.ignored_files == ()
    (home / "label.labels.txt").write_text("x\ny\nz\n")  # TFDS's has the feature's name
    assert survey(home).schema.class_names == {"label": ("x", "y", "z")}
    (home / "label.labels.txt").write_text("x\n")
    found = survey(home)
    assert found.schema.class_names == {"label": ("0", "1", "2")}
    assert "label.labels.txt does not name all classes of label, so it is not used" in found.notes


def test_objects_by_a_label_map(tmp_path: Path) -> None:
    """As the Object Detection API's: classes of boxes alone, from 1."""
    home = tmp_path / "in"
    boxes = [{"image/encoded": picture(n), OBJECTS: [1, 3][: n % 3]} for n in range(9)]
    write(home / "coco_train.record-00000-of-00001", boxes)
    assert survey(home).schema.class_names == {}
    (home / "label_map.pbtxt").write_text(LABEL_MAP)
    manifest = adopt(survey(home), tmp_path / "out")
    names = ("0", 'a "cat"', "2", "fée")
    assert manifest.schema.class_names == {OBJECTS: names}
    assert manifest.splits["train"].class_counts == {OBJECTS: (0, 6, 0, 3)}
    (home / "label_map.pbtxt").rename(tmp_path / "map.pbtxt")
    command = ["adopt", str(home), str(tmp_path / "other"), "--class-names", str(tmp_path / "map.pbtxt"), "--quiet"]
    assert main(command) == 0


def test_texts_beside_objects(tmp_path: Path) -> None:
    texts = [{"image/object/class/text": [b"cat"], OBJECTS: [2], LABEL: 0} for _ in range(3)]
    write(tmp_path / "a.tfrecord", texts)
    assert survey(tmp_path).schema.class_names == {LABEL: ("0",), OBJECTS: ("0", "1", "cat")}


def test_names_that_do_not_fit(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", rows())
    with pytest.raises(UsageError, match="2 names, and the values of label are 0 to 2"):
        survey(tmp_path, class_names=("a", "b"))
    assert survey(tmp_path, class_names={1: "b", 2: "c"}).schema.class_names == {"label": ("0", "b", "c")}
    write(tmp_path / "a.tfrecord", [{"image": picture(0)}])
    with pytest.raises(UsageError, match="found no label"):
        survey(tmp_path, class_names=("a", "b"))
