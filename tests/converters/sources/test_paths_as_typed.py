"""Paths with braces, archives with a reader by name, and how a source prints."""

import shutil
from pathlib import Path

import pytest

from shardfeed.converters import from_dicts, open_source

from pictures import colour_images, image_bytes, waves


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    colour_images(tmp_path / "photos1", {"train": 3, "test": 1})
    return tmp_path


def test_braces_that_match_one_folder_open_it(photos: Path) -> None:
    assert len(open_source(photos / "photos{1}")) == 4


def test_a_folder_of_the_very_name_wins(photos: Path) -> None:
    colour_images(photos / "photos{1}", {"train": 2})
    assert len(open_source(photos / "photos{1}")) == 2


def test_a_folders_reader_reads_the_folder_in_an_archive(photos: Path) -> None:
    shutil.make_archive(str(photos / "photos"), "zip", photos / "photos1")
    source = open_source(photos / "photos.zip", reader="folder")
    assert len(source) == 4
    assert any("is unpacked into" in note for note in source.info().findings.notes)  # type: ignore[attr-defined]


def test_a_source_prints_in_one_short_line(photos: Path) -> None:
    row = {"image": image_bytes(waves(), "PNG"), "key": "a.png", "split": "train"}
    for source in (open_source(photos / "photos1"), from_dicts([row])):
        assert "\n" not in repr(source)
        assert len(repr(source)) < 200
    assert repr(open_source(photos / "photos1")).startswith("ImageFolder(4 samples, image/class/label, ")
    assert repr(from_dicts([row])).endswith("splits train)")
