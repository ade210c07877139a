"""Repairs that are possible, and impossible, for a damaged dataset whose shards are not TFRecords."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert, rebuild, salvage
from shardfeed.converters.existing.dataset_source import DatasetSource
from shardfeed.errors import IntegrityError, TooManyRejectedError, UsageError
from shardfeed.readers import Dataset


@pytest.fixture(scope="module")
def tars(flowers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """201 images in 2 tars. Read only."""
    out = tmp_path_factory.mktemp("tars") / "flowers"
    convert(ImageFolder(flowers_folder), out, to="webdataset", shards=2)
    return shardfeed.open(out)


@pytest.fixture
def damaged(tars: Dataset, tmp_path: Path) -> Path:
    """The same, its first tar cut in the middle."""
    copy = Path(shutil.copytree(tars.directory, tmp_path / "damaged"))
    tar = copy / "data" / "train-00000-of-00002.tar"
    os.truncate(tar, tar.stat().st_size // 2)
    return copy


def test_damaged_records_are_rejected_like_other_inputs(tars: Dataset, damaged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(TooManyRejectedError, match="E_DAMAGED") as caught:
        convert(DatasetSource(damaged), out, workers=1)
    assert not out.exists()
    rejected = caught.value.report.rejected
    assert 20 < len(rejected) < 101
    assert all("train-00000-of-00002.tar, record" in noted.why for noted in rejected)
    report = convert(DatasetSource(damaged), out, max_bad=len(rejected), workers=1)
    found, split = shardfeed.open(out)["train"], tars["train"]
    assert len(found) == report.manifest.splits["train"].records == 201 - len(rejected)
    whole = set(split.payloads(np.arange(201)))
    assert set(found.payloads(np.arange(len(found)))) <= whole


def test_salvage_says_what_else_does(damaged: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"format webdataset.*--max-bad"):
        salvage(damaged, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_index_cannot_be_made_again(tars: Dataset, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tars.directory, tmp_path / "copy"))
    assert not rebuild(copy).written
    index = copy / "index" / "train-00001-of-00002.index"
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match=r"00002.index: has \d+ bytes.* cannot be restored; .*--reader webdataset"):
        rebuild(copy)
