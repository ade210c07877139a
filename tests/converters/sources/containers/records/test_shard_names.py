"""Which files are shards of which split, by their names alone."""

from pathlib import Path

import pytest

from shardfeed.converters.sources.shard_names import find_shards, find_splits, natural
from shardfeed.errors import UsageError


def splits(*names: str, split_name: str | None = None) -> dict[str, tuple[str | None, ...]]:
    return {split.name: split.files for split in find_splits("/d", names, split_name)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train-00000-of-00002", "train-00001-of-00002"], "train"),  # the Model Garden
        (["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"], "train"),
        (["mnist-train.tfrecord-00000-of-00002", "mnist-train.tfrecord-00001-of-00002"], "train"),  # TFDS
        (["x.tfrecord-00000-of-00002", "x.tfrecord-00001-of-00002"], "x"),
        (["coco_val.record-00000-of-00002", "coco_val.record-00001-of-00002"], "validation"),  # Object Detection API
        (["part_2.tfrec", "part_10.tfrec"], "part"),
        (["train00-2071.tfrec", "train01-2071.tfrec", "train15-97.tfrec"], "train"),  # Kaggle
        (["00-224x224-798.tfrec", "01-224x224-798.tfrec"], "train"),
        (["ld_test_00-512x512-40.tfrec", "ld_test_01-512x512-40.tfrec"], "test"),
        (["0.tfrecords", "1.tfrecords"], "train"),
        (["part-00000-6a5b-c000.tfrecord", "part-00001-6a5b-c000.tfrecord"], "part"),  # Spark
        (["part-r-00000.tfrecord", "part-r-00001.tfrecord"], "part"),
        (["cats_train_v1-0-of-2.tfrecord", "cats_train_v1-1-of-2.tfrecord"], "train"),
        (["train_small-00000-of-00002.tfrecord", "train_small-00001-of-00002.tfrecord"], "train_small"),  # our own
        (["small_train-00000-of-00001.tfrecord"], "train"),
        (["val2017-0-of-2.tfrecord", "val2017-1-of-2.tfrecord"], "validation"),
        (["cats_train_test-0-of-2.tfrecord", "cats_train_test-1-of-2.tfrecord"], "cats_train_test"),
        (["my data-0-of-2.TFRecord", "my data-1-of-2.TFRecord"], "my_data"),
        (["2017-0-of-2.tfrecord", "2017-1-of-2.tfrecord"], "split_2017"),
        (["a.tfrecord-00000-of-00002.gz", "a.tfrecord-00001-of-00002.gz"], "a"),  # what is in them is said later
    ],
)
def test_usual_names(names: list[str], expected: str) -> None:
    assert splits(*reversed(names)) == {expected: tuple(names)}


def test_several_splits_and_other_files() -> None:
    found = splits(
        "train.tfrecords", "cifar10.tfrecord", "README.md", "labels.txt", ".x.tfrecord", "train-00000-of-00001.tfindex"
    )
    assert found == {"cifar10": ("cifar10.tfrecord",), "train": ("train.tfrecords",)}
    assert splits("a-train.tfrecord", "b-train.tfrecord") == {
        "a_train": ("a-train.tfrecord",),
        "b_train": ("b-train.tfrecord",),
    }
    assert splits("README.md") == {}


def test_all_in_one_split() -> None:
    names = ["a-512.tfrec", "b-512.tfrec", "c-9.tfrec"]
    assert len(splits(*names)) == 3
    assert splits(*names, split_name="train") == {"train": tuple(names)}
    assert splits("x-00001-of-00003", split_name="test") == {"test": (None, "x-00001-of-00003", None)}
    assert splits("README", split_name="test") == {}


def test_missing_stale_and_doubled_shards() -> None:
    (split,) = find_splits("/d", ["a-00000-of-00003", "a-00002-of-00003"])
    assert split.missing == [1]
    assert not split.has_standard_names
    with pytest.raises(UsageError, match="-of-00002, -of-00003"):
        splits("a-00000-of-00002", "a-00000-of-00003")
    with pytest.raises(UsageError, match="twice"):
        splits("a-00000-of-00002", "a-00000-of-00002.tfrecord")
    (split,) = find_splits("/d", ["a-00000-of-00001.tfrecord"])
    assert split.has_standard_names


def test_natural_order() -> None:
    assert sorted(["p10", "p9", "p1a2", "p1a10"], key=natural) == ["p1a2", "p1a10", "p9", "p10"]


def test_shards_beside_folders_of_shards(tmp_path: Path) -> None:
    """Folders named like splits belong to them; others are named, and a split in both places is refused."""
    for name in ("train-0.tfrecord", "test/part-0.tfrecord", "old/part-0.tfrecord", "docs/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = find_shards(str(tmp_path))
    assert [(split.name, split.files) for split in found.splits] == [
        ("test", ("test/part-0.tfrecord",)),
        ("train", ("train-0.tfrecord",)),
    ]
    assert found.notes == ("folders with shards that are not read: 1 (old)",)
    (tmp_path / "test").rename(tmp_path / "train")
    with pytest.raises(UsageError, match="the split train is in its files and in a folder"):
        find_shards(str(tmp_path))
