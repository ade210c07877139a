"""FileNames: classes in file names, and what it refuses to guess."""

import os
from pathlib import Path

import pytest

from shardfeed.converters.sources.image_folder import FileNames
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT

from trees import plant


def texts(source: FileNames) -> dict[str, bytes]:
    return {os.fsdecode(s.key): s.features[TEXT] for s in source}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cat.123.jpg", "cat"),
        ("cat_0001.jpg", "cat"),
        ("cat-7.JPEG", "cat"),
        ("cat (12).png", "cat"),
        ("cat 3.png", "cat"),
        ("american_bulldog_12.jpg", "american_bulldog"),
        ("golden retriever_12.jpg", "golden retriever"),
        ("n01440764_10026.JPEG", "n01440764"),
        ("größe__4.webp", "größe"),
    ],
)
def test_class_then_number(tmp_path: Path, name: str, text: str) -> None:
    source = FileNames(plant(tmp_path, name, "other_1.jpg"))
    assert texts(source)[name].decode() == text
    assert not source.findings.rejected


@pytest.mark.parametrize(
    ("name", "text"), [("3_cat.jpg", "cat"), ("0003-golden_retriever.jpg", "golden_retriever"), ("3 cat2.png", "cat2")]
)
def test_number_then_class(tmp_path: Path, name: str, text: str) -> None:
    source = FileNames(plant(tmp_path, name, "1_other.jpg"))
    assert texts(source)[name].decode() == text


@pytest.mark.parametrize("name", ["cat_2020_01.jpg", "3_cat_0001.jpg", "123.jpg", "cat.jpg", "cat1.jpg", "_1.jpg"])
def test_names_that_fit_neither_are_rejected(tmp_path: Path, name: str) -> None:
    source = FileNames(plant(tmp_path, name, "cat_1.jpg", "dog_1.jpg"))
    assert [(os.fsdecode(s.key), s.code) for s in source.findings.rejected] == [(name, "E_NO_LABEL")]
    assert len(source) == 2


def test_both_orders_at_once_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, "cat_1.jpg", "dog_1.jpg", "3_cat.jpg")
    with pytest.raises(UsageError) as caught:
        FileNames(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: some names are a class and a number, others a number and a class")


def test_names_that_say_nothing_are_refused_with_three_of_them(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{i:03d}.jpg" for i in range(9)))
    with pytest.raises(UsageError, match=r"file names contain no class; names are for example 000.jpg, 004.jpg"):
        FileNames(tmp_path)


def test_a_cameras_names_are_no_classes(tmp_path: Path) -> None:
    plant(tmp_path, "IMG_1.jpg", "IMG_2.jpg")
    with pytest.raises(UsageError, match="all matching names have the same class, 'IMG'"):
        FileNames(tmp_path)
    assert len(FileNames(tmp_path, class_names=["IMG"])) == 2
    assert len(FileNames(tmp_path, pattern=r"(?P<label>[A-Z]+)_\d\.jpg")) == 2


def test_only_images_are_looked_at(tmp_path: Path) -> None:
    source = FileNames(plant(tmp_path, "cat_1.jpg", "dog_1.jpg", "labels_2.csv", "README"))
    assert source.schema.class_names == {LABEL: ("cat", "dog")}
    assert source.findings.notes == [
        "2 files ignored, not images by name or content: 1 .csv, 1 without extension (labels_2.csv, README)"
    ]
    assert not source.findings.rejected


def test_a_pattern_fits_the_whole_name(tmp_path: Path) -> None:
    source = FileNames(
        plant(tmp_path, "a-cat-x.jpg", "b-dog-y.jpg", "wildcat.jpg"), pattern=r"\w-(?P<label>\w+)-\w\.jpg"
    )
    assert texts(source) == {"a-cat-x.jpg": b"cat", "b-dog-y.jpg": b"dog"}
    assert [s.key for s in source.findings.rejected] == [b"wildcat.jpg"]


def test_a_pattern_with_a_slash_fits_the_path(tmp_path: Path) -> None:
    plant(tmp_path, "one/val/cat7.jpg", "one/fold2/dog7.jpg", "cat7.jpg")
    source = FileNames(tmp_path, pattern=r".*/(?P<split>\w+)/(?P<label>\D+)\d\.jpg")
    assert [(s.split, s.features[TEXT]) for s in source] == [("fold2", b"dog"), ("validation", b"cat")]
    assert [s.key for s in source.findings.rejected] == [b"cat7.jpg"]


def test_folders_named_like_splits_are_splits(tmp_path: Path) -> None:
    source = FileNames(plant(tmp_path, "train/cat.0.jpg", "train/dog.0.jpg", "val/cat.1.jpg", "cat.3.jpg"))
    assert [s.split for s in source] == ["train", "train", "validation"]
    assert [s.key for s in source.findings.rejected] == [b"cat.3.jpg"]


def test_other_folders_say_nothing(tmp_path: Path) -> None:
    source = FileNames(plant(tmp_path, "photos_2020/cat_1.jpg", "photos_2021/dog_1.jpg"))
    assert source.schema.class_names == {LABEL: ("cat", "dog")}
    assert source[0].split is None


def test_a_class_list_is_checked(tmp_path: Path) -> None:
    plant(tmp_path, "cat_1.jpg", "dog_1.jpg")
    assert FileNames(tmp_path, class_names=["dog", "cat"])[0].features[LABEL] == 1
    with pytest.raises(UsageError, match=r"dog_1\.jpg: got the class 'dog', expected one of the class list"):
        FileNames(tmp_path, class_names=["cat", "cow"])


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "pattern: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0"),
        (r"(\w+)_.*", "has no group 'label'"),
        (r"(?P<label>x+)_.*", "no file name matches the pattern '(?P<label>x+)_.*'; names are for example cat_1.jpg"),
        (r"(?P<label>z?).*", "no file name matches"),
    ],
)
def test_patterns_that_cannot_be_meant(tmp_path: Path, pattern: str, words: str) -> None:
    plant(tmp_path, "cat_1.jpg")
    with pytest.raises(UsageError) as caught:
        FileNames(tmp_path, pattern=pattern)
    assert words in str(caught.value)


def test_a_split_that_names_no_files_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "cat_1.jpg")
    with pytest.raises(UsageError, match=r"cat_1.jpg: the split: got the name '1'"):
        FileNames(tmp_path, pattern=r"(?P<label>\w+)_(?P<split>\d)\.jpg")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    plant(tmp_path, "dog_1.jpg")
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9_1.jpg"), "wb"):
        pass
    with pytest.raises(UsageError, match=r"got the class name 'caf\\udce9'"):
        FileNames(tmp_path)
    assert len(FileNames(tmp_path, pattern=r"(?P<label>[a-z]+)\W?_\d\.jpg")) == 2


def test_nothing_in_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file in it \(0 hidden names\); check the path"):
        FileNames(tmp_path)
