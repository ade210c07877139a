"""ImageFolder: classes and splits from folders, and what it refuses to guess."""

import os
from pathlib import Path

import pytest

from shardfeed.converters.sources.image_folder import ImageFolder
from shardfeed.errors import UsageError
from shardfeed.schema import LABEL, TEXT

from trees import plant


def told(source: ImageFolder) -> list[tuple[str, str | None, int, str]]:
    """(key, split, label, text) of each sample."""
    return [
        (os.fsdecode(s.key), s.split, s.features[LABEL], s.features[TEXT].decode())  # type: ignore[misc, union-attr]
        for s in source
    ]


def test_the_first_folder_is_the_class(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, "rose/a.jpg", "daisy/deep/er/b.jpg", "daisy/a.jpg"))
    assert told(source) == [
        ("daisy/a.jpg", None, 0, "daisy"),
        ("daisy/deep/er/b.jpg", None, 0, "daisy"),
        ("rose/a.jpg", None, 1, "rose"),
    ]
    assert source.schema.class_names == {LABEL: ("daisy", "rose")}
    assert not source.findings.rejected
    assert not source.findings.notes


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train", "validation", "test"], ["train", "validation", "test"]),
        (["train", "val"], ["train", "validation"]),
        (["Train", "VALID"], ["train", "validation"]),
        (["training", "testing"], ["train", "test"]),
        (["train"], ["train"]),
    ],
)
def test_folders_with_the_names_of_splits_are_splits(tmp_path: Path, names: list[str], splits: list[str]) -> None:
    source = ImageFolder(plant(tmp_path, *(f"{name}/{c}/x.jpg" for name in names for c in ("a", "b"))))
    assert {key.split("/")[0]: split for key, split, *_ in told(source)} == dict(zip(names, splits, strict=True))
    assert source.schema.class_names == {LABEL: ("a", "b")}
    assert not source.findings.notes


def test_classes_are_those_of_all_splits_and_gaps_are_told(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, "train/cat/x.jpg", "train/dog/x.jpg", "test/cats/x.jpg", "test/dog/x.jpg"))
    assert source.schema.class_names == {LABEL: ("cat", "cats", "dog")}
    assert source.findings.notes == [
        "classes without files in the split test: 1 (cat)",
        "classes without files in the split train: 1 (cats)",
    ]


def test_two_folders_for_one_split_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, "val/a/x.jpg", "validation/a/x.jpg")
    with pytest.raises(UsageError, match="more than one folder is the split 'validation'"):
        ImageFolder(tmp_path)


def test_splits_beside_other_folders_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, "train/a/x.jpg", "test/a/x.jpg", "annotations/x.png")
    with pytest.raises(UsageError) as caught:
        ImageFolder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: got the splits test, train beside annotations")
    assert ImageFolder(tmp_path, class_names=["annotations", "test", "train"])[0].features[LABEL] == 0


def test_one_class_may_have_a_splits_name(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, "train/x.jpg", "bus/x.jpg"))
    assert [told[2:] for told in told(source)] == [(0, "bus"), (1, "train")]
    assert source.findings.notes == ["the folder train is used as a class, not as a split"]


def test_a_class_list_sets_order_and_is_checked(tmp_path: Path) -> None:
    plant(tmp_path, "cat/x.jpg", "dog/x.jpg")
    source = ImageFolder(tmp_path, class_names=["dog", "cow", "cat"])
    assert [told[2:] for told in told(source)] == [(2, "cat"), (0, "dog")]
    assert source.findings.notes == ["listed classes without a folder: 1 (cow)"]
    with pytest.raises(UsageError, match="got the class 'dog', expected one of the class list"):
        ImageFolder(tmp_path, class_names=["cat", "dgo"])


def test_an_empty_class_folder_is_a_class_and_told(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", "c/x.jpg")
    (tmp_path / "b").mkdir()
    source = ImageFolder(tmp_path)
    assert [told[2:] for told in told(source)] == [(0, "a"), (2, "c")]
    assert source.findings.notes == ["empty class folders: 1 (b)"]


@pytest.mark.promise(30)
def test_strays_in_the_root(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, "a/x.jpg", "b/x.jpg", "README.md", "LICENSE", "lost.JPG", ".DS_Store"))
    assert [(s.key, s.code) for s in source.findings.rejected] == [(b"lost.JPG", "E_NO_LABEL")]
    assert source.findings.notes == [
        "ignored hidden names: 1 (.DS_Store)",
        "2 files ignored, not images by name or content: 1 .md, 1 without extension (README.md, LICENSE)",
    ]


def test_strays_in_a_split(tmp_path: Path) -> None:
    source = ImageFolder(plant(tmp_path, "train/a/x.jpg", "train/b/x.jpg", "train/lost.png", "train/list.txt"))
    assert [s.key for s in source.findings.rejected] == [b"train/lost.png"]
    assert source.findings.notes == ["1 file ignored, not images by name or content: 1 .txt (train/list.txt)"]


def test_a_folder_with_files_and_no_image_is_no_class(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", "b/x.jpg", "meta/list.txt", "b/notes.txt")
    (tmp_path / "empty").mkdir()
    source = ImageFolder(tmp_path)
    assert source.schema.class_names == {LABEL: ("a", "b", "empty")}
    assert source.findings.notes[1:] == [
        "folders without images, not used as classes: 1 (meta)",
        "empty class folders: 1 (empty)",
    ]
    splits = ImageFolder(plant(tmp_path / "root", "train/a/x.jpg", "test/a/x.txt", "test/b/x.txt", "test/a/y/x.jpg"))
    assert splits.schema.class_names == {LABEL: ("a",)}
    assert splits.findings.notes[1] == "folders without images, not used as classes: 1 (test/b)"


@pytest.mark.promise(36)
def test_what_the_walk_refuses_is_rejected(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.jpg", "b/x.jpg", "y.jpg")
    os.mkfifo(tmp_path / "a" / "fifo.jpg")
    codes = {s.key: s.code for s in ImageFolder(tmp_path).findings.rejected}
    assert codes == {b"a/fifo.jpg": "E_NOT_REGULAR", b"y.jpg": "E_NO_LABEL"}


def test_a_flat_folder_points_to_the_other_sources(tmp_path: Path) -> None:
    plant(tmp_path, "x.jpg", "y.jpg")
    with pytest.raises(UsageError) as caught:
        ImageFolder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: got files and no folders, expected one folder for each class")


def test_a_split_without_class_folders_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "train/a/x.jpg", "test/1.jpg")
    with pytest.raises(UsageError, match="/test: got files and no class folders; leave it out by exclude='/test'"):
        ImageFolder(tmp_path)
    assert len(ImageFolder(tmp_path, exclude="/test")) == 1


def test_a_folder_too_high_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "flower_photos/rose/x.jpg", "flower_photos/tulip/x.jpg", "README")
    with pytest.raises(UsageError) as caught:
        ImageFolder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: got one class folder, 'flower_photos'")
    assert len(ImageFolder(tmp_path, class_names=["flower_photos"])) == 2


def test_a_folder_many_levels_too_high_is_told_once(tmp_path: Path) -> None:
    plant(tmp_path, "usr/share/icons/rose/x.jpg", "usr/share/icons/tulip/deep/x.jpg")
    with pytest.raises(UsageError, match=r"give 'usr/share/icons' in it as the root, or class_names=\['usr'\]"):
        ImageFolder(tmp_path)
    assert ImageFolder(tmp_path / "usr" / "share" / "icons").schema.class_names == {LABEL: ("rose", "tulip")}
    plant(tmp_path / "one", "a/b/c/x.jpg")
    with pytest.raises(UsageError, match="give 'a/b' in it as the root"):
        ImageFolder(tmp_path / "one")


@pytest.mark.parametrize("hidden", [False, True])
def test_nothing_in_it(tmp_path: Path, hidden: bool) -> None:
    plant(tmp_path, *([".x.jpg"] if hidden else []))
    with pytest.raises(UsageError, match=rf"no file in it \({int(hidden)} hidden names\)"):
        ImageFolder(tmp_path)


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    plant(tmp_path / "elsewhere", "x.jpg")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "cats").symlink_to("../elsewhere")
    with pytest.raises(UsageError, match="none of 1 inputs can be read, the first: cats: a link that points outside"):
        ImageFolder(tmp_path / "root")


def test_class_folders_of_any_name(tmp_path: Path) -> None:
    for name in (b"caf\xe9", b"a\nb", "caf\u00e9".encode(), "cafe\u0301".encode()):
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
        with open(os.path.join(os.fsencode(tmp_path), name, b"x.jpg"), "wb"):
            pass
    source = ImageFolder(tmp_path)
    assert source.schema.class_names == {LABEL: ("a\\nb", "caf\\xe9", "caf\u00e9")}
    assert [s.features[LABEL] for s in source] == [0, 2, 2, 1]
    assert "Unicode form" in source.findings.notes[0]


def test_folders_that_would_share_an_escaped_name_are_refused(tmp_path: Path) -> None:
    for name in (b"caf\xe9", b"caf\\xe9"):
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
    plant(tmp_path, "other/x.jpg")
    with pytest.raises(UsageError, match="would be the same class"):
        ImageFolder(tmp_path)
