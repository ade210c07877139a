"""Names of classes in the files that other programs leave beside their TFRecords."""

import re
from pathlib import Path

import pytest
from foreign_tfrecords import picture, write

from shardfeed.converters import ColumnOptions, adopt, survey
from shardfeed.converters.sources.classes import class_list
from shardfeed.converters.sources.files.class_names import in_label_order, names_beside, read_named_classes
from shardfeed.converters.sources.open_source import open_source
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
        ("names.txt", "0: cat\n1: dog\n", {0: "cat", 1: "dog"}),
        ("names.txt", "0 cat\n1 dog\n", {0: "cat", 1: "dog"}),
        (
            "classes.txt",
            "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n",
            {1: "001.Black_footed_Albatross", 2: "002.Laysan_Albatross"},
        ),
        ("names.txt", "cat 0\ndog 1\n", {0: "cat", 1: "dog"}),
        ("names.txt", "707 old\n747 new\n", {0: "707 old", 1: "747 new"}),
        ("names.txt", "class 0\nclass 1\n", {0: "class 0", 1: "class 1"}),
        ("names.txt", "1 cat\n", {0: "1 cat"}),
        ("names.txt", "tench, Tinca tinca\ngoldfish, Carassius\n", {0: "tench, Tinca tinca", 1: "goldfish, Carassius"}),
        ("names.json", '["cat", "dog"]', {0: "cat", 1: "dog"}),
        ("names.json", '{\n  "0": "cat",\n  "1": "dog"\n}', {0: "cat", 1: "dog"}),
        ("class_indices.json", '{"cat": 0, "dog": 1}', {0: "cat", 1: "dog"}),
        ("names.txt", '{"cat": 0, "dog": 1}', {0: "cat", 1: "dog"}),
        ("names.txt", "{0: 'cat, tabby',\n 1: 'dog'}", {0: "cat, tabby", 1: "dog"}),
        ("names.txt", "['cat', \"dog's\"]", {0: "cat", 1: "dog's"}),
        ("names.json", '{"categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}]}', {1: "cat", 3: "dog"}),
        ("data.yaml", "names: [cat, dog]\nnc: 2\n", {0: "cat", 1: "dog"}),
        ("names.txt", "names:\n  0: cat\n  1: dog\n", {0: "cat", 1: "dog"}),
        ("names.csv", "id,name\n0,cat\n1,dog\n", {0: "cat", 1: "dog"}),
        ("names.csv", 'class_name;class_id\n"tench, Tinca tinca";1\ndog;0\n', {1: "tench, Tinca tinca", 0: "dog"}),
        ("names.csv", ",class\n0,cat\n1,dog\n", {0: "cat", 1: "dog"}),
        ("names.csv", "class\ncat\ndog\n", {0: "cat", 1: "dog"}),
        ("names.csv", "cat\ndog\n", {0: "cat", 1: "dog"}),
        ("names.csv", "0,cat\n1,dog\n", {0: "cat", 1: "dog"}),
    ],
)
def test_forms(tmp_path: Path, name: str, text: str, expected: dict[int, str]) -> None:
    (tmp_path / name).write_text(text)
    assert read_named_classes(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("names.json", '{"0": ["n01440764", "tench"]}', "expected a list of class names, or a mapping"),
        ("names.json", "{", "begins like JSON, but cannot be read as JSON"),
        ("names.json", '{"id": 0, "name": "cat"}\n{"id": 1, "name": "dog"}\n', "cannot be read as JSON"),
        ("names.json", "[]", "expected a list of class names"),
        ("names.json", '{"cat": 0, "dog": 0}', "the number 0 is already that of 'cat'"),
        ("names.json", '{"width": 640, "height": 480}', "expected a list of class names"),
        ("data.yaml", "nc: 2\n", "expected a list of class names, or a mapping"),
        ("names.csv", "class,count\ncat,3\ndog,4\n", "got the columns class, count, expected one number and one name"),
        ("names.txt", "0 cat\n2 dog\n", "numbered from 0 to 2, without 1"),
        ("names.csv", "id,name\n0,cat\n0,dog\n", "names.csv:3:1: the number 0 is already that of 'cat'"),
    ],
)
def test_forms_that_are_not_clear_are_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(LabelFileError, match=re.escape(words)):
        read_named_classes(tmp_path / name)


def test_class_lists_with_gaps_or_another_first_number_are_refused(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text('{"0": "cat", "2": "dog"}')
    with pytest.raises(LabelFileError, match="have the numbers 0, 2, without 1"):
        class_list(tmp_path / "names.json")
    (tmp_path / "names.json").write_text('{"1": "cat", "2": "dog"}')
    with pytest.raises(LabelFileError, match="numbers its classes from 1, but here they count from 0"):
        class_list(tmp_path / "names.json", from_zero=True)


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


def test_names_in_files_of_tfds_are_lines(tmp_path: Path) -> None:
    """A number in one belongs to the name, for `adopt` and `convert`."""
    write(tmp_path / "train.tfrecord", rows())
    (tmp_path / "label.labels.txt").write_text("0 ant\n1 bee\n2 cat\n")
    names = ("0 ant", "1 bee", "2 cat")
    assert survey(tmp_path).schema.class_names == {"label": names}
    assert open_source(tmp_path).schema.class_names == {LABEL: names}


def test_label_maps_in_the_folders_of_splits(tmp_path: Path) -> None:
    """As Roboflow has them; two that differ are refused, and the remedy works when it is typed."""
    for split in ("train", "valid"):
        write(tmp_path / "in" / split / "Cats.tfrecord", rows(first=1))
        (tmp_path / "in" / split / "Cats_label_map.pbtxt").write_text(THREE)
    found = survey(tmp_path / "in")
    assert found.schema.class_names == {"label": ("0", "ant", "bee", "cat")}
    assert open_source(tmp_path / "in").schema.class_names == {LABEL: ("ant", "bee", "cat")}
    (tmp_path / "in" / "valid" / "Cats_label_map.pbtxt").write_text(THREE.replace("bee", "wasp"))
    (tmp_path / "map.pbtxt").write_text(THREE)
    for read_it in (survey, open_source):
        with pytest.raises(UsageError, match="list different classes; give the right one"):
            read_it(tmp_path / "in")
    given = read_named_classes(tmp_path / "map.pbtxt")
    assert survey(tmp_path / "in", class_names=given).schema.class_names == found.schema.class_names
    source = open_source(tmp_path / "in", options=ColumnOptions(label_map=str(tmp_path / "map.pbtxt")))
    assert source.schema.class_names == {LABEL: ("ant", "bee", "cat")}


THREE = "item { id: 1 name: 'ant' } item { id: 2 name: 'bee' } item { id: 3 name: 'cat' }"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# classes\ncat\ndog\n", "names:1:1: looks like a comment"),
        ("cat\n// the others\ndog\n", "names:2:1: looks like a comment"),
        ("cat, dog, owl\n", "the only line looks like a list"),
        ("cat;dog;owl", "the only line looks like a list"),
        ("names = ['cat', 'dog']\n", "the only line looks like a list"),
        ("<classes/>", "the only line looks like a list"),
    ],
)
def test_a_line_that_is_no_class_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "names").write_text(text)
    with pytest.raises(LabelFileError, match=re.escape(said)):
        read_named_classes(tmp_path / "names")


def test_signs_in_the_names_of_classes_stay(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("tench, Tinca tinca\n#1\nC#\n<unknown>\n")
    assert [*read_named_classes(tmp_path / "names.txt").values()] == ["tench, Tinca tinca", "#1", "C#", "<unknown>"]
