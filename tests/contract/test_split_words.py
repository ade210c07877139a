"""One table of words for splits: who asks for `validation` gets `val`, at each door that takes a split's name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.converters import adopt, append, convert, export, filter, merge, reshard, split
from shardfeed.converters import survey as survey_of
from shardfeed.converters.sources.export_format import tool_words
from shardfeed.errors import SplitError, UsageError
from shardfeed.pipelines import array_batches, eval_batches
from shardfeed.pipelines.torch import torch_loader
from shardfeed.readers import Dataset
from shardfeed.split_words import renamed_splits, split_called

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def shards(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with the splits train (101) and val (100), of one shard each."""
    out = tmp_path_factory.mktemp("words") / "shards"
    convert(flowers_folder, out, split={"train": 0.5, "val": 0.5}, shards=1)
    return out


@pytest.fixture(scope="module")
def short(shards: Path) -> Dataset:
    return shardfeed.open(shards)


@pytest.fixture(scope="module")
def records(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shards of that dataset alone, as another program would write them."""
    folder = tmp_path_factory.mktemp("records")
    for shard in shards.glob("*.tfrecord"):
        os.link(shard, folder / shard.name)
    return folder


@pytest.fixture(scope="module")
def both(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset with a split val and a split validation."""
    out = tmp_path_factory.mktemp("both") / "both"
    convert(flowers_folder, out, split={"val": 0.4, "validation": 0.6}, shards=1)
    return shardfeed.open(out)


def names(data: Dataset, split: str) -> set[bytes]:
    return set(data[split].column("image/filename"))


@pytest.mark.parametrize(
    ("name", "splits", "found"),
    [
        ("val", ["train", "validation"], "validation"),
        ("validation", ["train", "val"], "val"),
        ("Valid", ["val"], "val"),
        ("training", ["train"], "train"),
        ("testset", ["test"], "test"),
        ("val", ["val", "validation"], "val"),
        ("validation", ["val", "validation"], "validation"),
        ("valid", ["val", "validation"], None),
        ("test", ["train"], None),
        ("dev", ["validation"], None),
        ("holdout", ["holdout"], "holdout"),
        ("", ["train"], None),
    ],
)
def test_a_word_finds_the_one_split_that_it_means(name: str, splits: list[str], found: str | None) -> None:
    assert split_called(name, splits) == found


def test_two_splits_are_never_joined() -> None:
    assert renamed_splits(["train", "val"], ["validation"]) == {"train": "train", "val": "validation"}
    apart = {"val": "val", "validation": "validation"}
    assert renamed_splits(["val", "validation"], ["validation"]) == apart
    assert renamed_splits(["val", "validation"], ["valid"]) == apart
    assert renamed_splits(["valid"], ["val", "validation"]) == {"valid": "valid"}


def test_the_same_files_answer_to_the_same_words_adopted_and_converted(records: Path, tmp_path: Path) -> None:
    adopt(survey_of(records), tmp_path / "adopted")
    convert(records, tmp_path / "converted")
    adopted, converted = shardfeed.open(tmp_path / "adopted"), shardfeed.open(tmp_path / "converted")
    assert [*adopted] == ["train", "val"]
    assert [*converted] == ["train", "validation"]
    for word in ("val", "validation", "valid"):
        assert word in adopted
        assert word in converted
        assert names(adopted, word) == names(converted, word)


def test_a_dataset_is_a_mapping_that_knows_the_words(short: Dataset, both: Dataset) -> None:
    assert short["validation"] is short["val"] is short.get("valid")
    assert "validation" in short.keys()  # noqa: SIM118  # of its keys, too
    assert [*short] == ["train", "val"]
    assert "test" not in short
    assert both["val"] is not both["validation"]
    with pytest.raises(SplitError, match=r"no split 'valid'; it has 'validation', 'val'"):
        both["valid"]


def test_each_loader_takes_the_split_by_either_word(short: Dataset) -> None:
    split = short["validation"]
    options: Any = {"batch_size": 50, "image_size": 8}
    assert len(array_batches(split, **options)) == 2
    assert len(torch_loader(split, workers=0, **options)) == 2
    assert int(eval_batches(split, **options).cardinality()) == 2


def test_commands_take_either_word(run: Run, shards: Path, tmp_path: Path) -> None:
    code, out, _ = run("preview", shards, "--split", "validation", "--output", tmp_path / "sheet.png")
    assert (code, "split val" in out) == (0, True)
    code, _, err = run("reshard", shards, tmp_path / "more", "--shards", "train=1,validation=2")
    assert (code, err) == (0, "")
    assert len(shardfeed.open(tmp_path / "more").manifest.splits["val"].shards) == 2
    code, _, _ = run("split", shards, tmp_path / "divided", "--of", "validation", "--split", "dev=0.5,test=0.5")
    assert code == 0
    assert {*shardfeed.open(tmp_path / "divided")} == {"train", "dev", "test"}
    code, _, _ = run("filter", shards, tmp_path / "half", "--where", "split == validation")
    assert code == 0
    assert [*shardfeed.open(tmp_path / "half")] == ["val"]


def test_functions_take_either_word(short: Dataset, both: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'val' is an existing split"):
        split(short, tmp_path / "no", {"dev": 0.5, "validation": 0.5}, of="train")
    with pytest.raises(SplitError, match="no split 'test'"):
        split(short, tmp_path / "no", {"a": 1.0}, of="test")
    with pytest.raises(UsageError, match="'valid' is not a split"):
        filter(both, tmp_path / "no", where="split == valid")
    with pytest.raises(UsageError, match="shards: got the split 'valid'"):
        reshard(both, tmp_path / "no", shards={"valid": 1})
    filter(short, tmp_path / "rest", where="not split in (training)")
    assert [*shardfeed.open(tmp_path / "rest")] == ["val"]


def test_datasets_are_merged_under_the_first_word(short: Dataset, flowers: Dataset, tmp_path: Path) -> None:
    merge([short, flowers], tmp_path / "val", prefix=["a", "b"])
    merge([flowers, short], tmp_path / "validation", prefix=["a", "b"])
    one, other = shardfeed.open(tmp_path / "val"), shardfeed.open(tmp_path / "validation")
    assert {name: len(one[name]) for name in one} == {"train": 101 + 161, "val": 100 + 40}
    assert {name: len(other[name]) for name in other} == {"train": 101 + 161, "validation": 100 + 40}


def test_new_samples_go_to_the_split_that_is_there(short: Dataset, folder: Any, tmp_path: Path) -> None:
    """By their own split, and by the shares that the user gives."""
    more = folder(2, classes=("daisy", "rose", "tulip"))
    (tmp_path / "more").mkdir()
    more.rename(tmp_path / "more" / "validation")
    grown = shardfeed.open(append(short, tmp_path / "more", tmp_path / "grown").out)
    assert {name: len(grown[name]) for name in grown} == {"train": 101, "val": 106}
    (tmp_path / "more" / "validation").rename(tmp_path / "flat")
    (tmp_path / "flat").rename(tmp_path / "new")
    more = tmp_path / "new"
    for path in [*more.glob("*/*")]:
        path.rename(path.with_stem(f"new{path.stem}"))
    drawn = shardfeed.open(append(short, more, tmp_path / "drawn", split={"train": 0.5, "validation": 0.5}).out)
    assert {*drawn} == {"train", "val"}
    assert sum(map(len, drawn.values())) == 207


def test_other_tools_get_the_word_that_they_know(short: Dataset, both: Dataset, tmp_path: Path) -> None:
    export(short, tmp_path / "folders", to="folder", drop=["ids"])
    assert {path.name for path in (tmp_path / "folders").iterdir() if path.is_dir()} == {"train", "val"}
    with pytest.raises(UsageError, match="got the split"):
        export(both, tmp_path / "no", to="folder")


def test_two_splits_are_not_called_the_same_in_an_export() -> None:
    """The files of COCO had one name for both."""
    assert tool_words(["train", "val"]) == {"train": "train", "val": "val"}
    assert tool_words(["train", "validation"]) == {"train": "train", "validation": "val"}
    assert tool_words(["val", "validation"]) == {"val": "val", "validation": "validation"}


def test_versions_are_compared_by_what_their_splits_mean(run: Run, records: Path, shards: Path, tmp_path: Path) -> None:
    convert(records, tmp_path / "converted")
    code, out, _ = run("report", shards, tmp_path / "converted", "--output", tmp_path / "page.html")
    assert code == 0
    assert "in another split" not in out
