"""Display of a dataset, a split and a report in notebooks: bounded, escaped, and never an error."""

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from fragments import Page
from PIL import Image

import shardfeed
from shardfeed.converters import ImageFolder, convert
from shardfeed.readers import Dataset
from shardfeed.text import size_text

from repository import ROOT

HOSTILE = '<script>alert("x")<&script>'


def test_a_dataset_shows_splits_classes_and_pictures(flowers: Dataset) -> None:
    page = Page(flowers._repr_html_())
    assert page.text[0] == repr(flowers)[:77] + "..." or page.text[0] == repr(flowers)
    train = flowers["train"]
    size = size_text(sum(path.stat().st_size for path in Path(flowers.directory).glob("train-*.tfrecord")))
    assert page.text[1:9] == ["split", "samples", "shards", "size", "train", "161", "4", size]
    daisies = [str(flowers[name].class_counts["image/class/label"][0]) for name in ("train", "validation")]
    assert ["daisy", *daisies] == page.text[page.text.index("daisy") :][:3]
    assert len(page.pictures) == 8
    assert all(re.fullmatch(r"data:image/jpeg;base64,[\w+/=]+", picture) for picture in page.pictures)
    assert len(flowers._repr_html_()) < 60_000
    part = Page(train[:3]._repr_html_())
    assert part.text[0] == repr(train[:3])
    assert len(part.pictures) == 3
    assert Page(train[:0]._repr_html_()).pictures == []


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Forty classes called like scripts, and a file that is no image and called so."""
    for number in range(40):
        folder = tmp_path / "images" / f"{number:02d}{HOSTILE}"
        folder.mkdir(parents=True)
        Image.new("RGB", (3000, 20), (number, 9, 9)).save(folder / f"{HOSTILE}.png")
    (folder / f"{HOSTILE}.jpg").write_bytes(b"no image")
    return tmp_path


def test_text_from_outside_is_text_and_all_is_bounded(hostile: Path) -> None:
    report = convert(ImageFolder(hostile / "images"), hostile / "out", workers=1, max_bad=1)
    assert [noted.what for noted in report.rejected] == ["E_NOT_IMAGE"]
    data = shardfeed.open(hostile / "out")
    for shown in (report, data, data["train"]):
        fragment = shown._repr_html_()
        page = Page(fragment)
        assert set(page.tags) <= {"table", "tr", "th", "td", "b", "p", "img"}
        assert any(HOSTILE in text for text in page.text)
        assert len(page.pictures) == 8
        assert len(fragment) < 60_000
    assert "and 20 more" in Page(data._repr_html_()).text
    assert "rejected: 1 E_NOT_IMAGE" in Page(report._repr_html_()).text


def test_one_line_lists_splits_in_the_order_of_the_table(tmp_path: Path) -> None:
    splits = {"train": 0.5, "validation": 0.25, "test": 0.25}
    report = convert(ImageFolder(ROOT / "data_samples/shapes"), tmp_path / "out", split=splits, workers=1)
    for shown in (report, shardfeed.open(tmp_path / "out")):
        assert "train: 120, validation: 60, test: 60)" in repr(shown)


def test_what_is_damaged_or_gone_is_left_out(flowers: Dataset, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "copy"))
    data = shardfeed.open(copy)
    shard = copy / "train-00000-of-00004.tfrecord"
    before = shard.read_bytes()
    shard.write_bytes(bytes(byte ^ 1 for byte in before))
    assert 0 < len(Page(data._repr_html_()).pictures) < 8
    report = convert(ImageFolder(tmp_path_of(flowers, tmp_path)), tmp_path / "out", workers=1)
    assert len(Page(report._repr_html_()).pictures) == 2
    shutil.rmtree(tmp_path / "out")
    assert Page(report._repr_html_()).pictures == []


def tmp_path_of(flowers: Dataset, tmp_path: Path) -> Path:
    """A folder of two images."""
    for name in ("a", "b"):
        (tmp_path / "two" / name).mkdir(parents=True)
        Image.fromarray(np.full((9, 9, 3), 7, np.uint8)).save(tmp_path / "two" / name / "1.png")
    return tmp_path / "two"


def test_a_conversion_shows_a_bar_in_a_notebook_alone(
    tmp_path: Path, flowers: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_of(flowers, tmp_path)
    convert(ImageFolder(folder), tmp_path / "quiet", workers=1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    convert(ImageFolder(folder), tmp_path / "shown", workers=1)
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "1/1 shards" in shown
    convert(ImageFolder(folder), tmp_path / "own", workers=1, progress=lambda state: None)
    assert capsys.readouterr().err == ""
