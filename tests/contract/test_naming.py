"""Names of files: where each lies in each version of the format, and which a dataset may have."""

import pytest

from shardfeed.errors import UsageError
from shardfeed.naming import (
    check_split_name,
    column_file,
    dataset_name,
    index_file,
    is_dataset_file,
    is_index,
    is_shard,
    shard_file,
    shard_stem,
)


def test_shards_alone_are_matched_by_the_name_of_a_split() -> None:
    assert shard_file("train", 3, 8) == "train-00003-of-00008.tfrecord"
    made = [index_file("train", 3, 8), column_file("train", "image/class/label")]
    assert made == ["index/train-00003-of-00008.tfindex", "index/train.image.class.label.npy"]
    assert not any(name.startswith("train") for name in made)


def test_format_1_has_them_beside_each_other() -> None:
    assert index_file("train", 3, 8, version=1) == "train-00003-of-00008.tfindex"
    assert column_file("train", "image/class/label", version=1) == "train.image.class.label.npy"


def test_large_numbers_have_more_digits() -> None:
    assert shard_stem("a", 123_456, 1_000_000) == "a-123456-of-1000000"


def test_kinds_of_files() -> None:
    names = [shard_file("a", 0, 1), index_file("a", 0, 1), index_file("a", 0, 1, 1), column_file("a", "k")]
    assert [is_shard(name) for name in names] == [True, False, False, False]
    assert [is_index(name) for name in names] == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("train-00000-of-00001.tfrecord", True),
        ("index/train-00000-of-00001.tfindex", True),
        ("train-00000-of-00001.tfindex", True),
        ("index/train.image.height.npy", True),
        ("image.class.label.labels.txt", True),
        ("manifest.json", True),
        ("rejected.jsonl", True),
        ("data/train-00000-of-00001.tar", True),
        ("data/train-00000-of-00001.parquet", True),
        ("train-00000-of-00001.array_record", True),
        ("train/shard.00000.mds", True),
        ("train/index.json", True),
        ("_info.json", True),
        ("train.wids.json", True),
        ("index.json", False),
        ("data/notes.tar", False),
        ("photos.parquet", False),
        ("index/manifest.json", False),
        ("index/train-00000-of-00001.tfrecord", False),
        ("other/train.image.height.npy", False),
        ("index/a/train.image.height.npy", False),
        ("notes.txt", False),
        ("index", False),
        ("train-00000-of-00001.tar", True),
        ("index/train-00000-of-00001.index", True),
        ("backup.tar", False),
        ("train-00000-of-00001.index", False),
    ],
)
def test_what_may_be_a_file_of_a_dataset(name: str, ours: bool) -> None:
    assert is_dataset_file(name) is ours


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "ä", "train-00000-of-00008", "a\n"])
def test_names_that_no_split_has(name: str) -> None:
    with pytest.raises(UsageError, match="rename the split"):
        check_split_name(name)


def test_a_dataset_has_a_name_that_tfds_takes() -> None:
    assert [dataset_name(name) for name in ("flowers", "my flowers", "1st", "é")] == [
        "flowers",
        "my_flowers",
        "dataset_1st",
        "dataset__",
    ]
    versions = ("/data/flowers/1.0.0", "/data/flowers/1.0", "/data/my-own/1.0.0", "/1.0.0", "1.0.0", "flowers/12.3.45")
    assert [dataset_name(name) for name in versions] == [
        "flowers/1.0.0",
        "dataset_1_0",
        "dataset_1_0_0",
        "dataset_1_0_0",
        "dataset_1_0_0",
        "flowers/12.3.45",
    ]
