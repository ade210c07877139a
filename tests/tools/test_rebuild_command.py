"""`shardfeed rebuild`: lost indexes, byte for byte; with `--dry-run` it only looks."""

import json
import shutil
from pathlib import Path

import pytest

from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

INDEX = "index/train-00001-of-00004.tfindex"


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


@pytest.mark.promise(24)
def test_a_missing_index(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (copy / INDEX).read_bytes()
    assert main(["rebuild", str(copy)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    (copy / INDEX).unlink()
    assert main(["rebuild", str(copy), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert f"{INDEX}: missing: can be restored" in printed
    assert "next: shardfeed rebuild" in printed
    assert not (copy / INDEX).exists()
    assert main(["rebuild", str(copy)]) == 0
    assert f"{INDEX}: missing: restored, byte for byte" in capsys.readouterr().out
    assert (copy / INDEX).read_bytes() == whole
    assert main(["verify", str(copy), "--quiet"]) == 0


def test_damage_that_an_index_does_not_mend(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / INDEX).unlink()
    shard = copy / "train-00001-of-00004.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-5])
    assert main(["rebuild", str(copy)]) == 4
    assert "shardfeed salvage" in capsys.readouterr().err
    assert not (copy / INDEX).exists()


def test_json_of_a_rebuild(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / INDEX).unlink()
    assert main(["rebuild", str(copy), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": {INDEX: "missing"}, "lost": {}, "written": True}


def test_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    assert main(["rebuild", str(tmp_path)]) == 2
