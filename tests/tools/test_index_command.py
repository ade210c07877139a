"""`shardfeed index`: looks unless told to write; rebuilds datasets and adopts what others wrote."""

import json
import shutil
from pathlib import Path

import pytest

import shardfeed
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord.framing import frame
from shardfeed.readers import Dataset
from shardfeed.schema import LABEL, Feature
from shardfeed.tools.cli import main

INDEX = "index/train-00001-of-00004.tfindex"


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    home = tmp_path / "foreign"
    home.mkdir()
    for i in range(2):
        records = [encode({LABEL: Feature("int64")}, {LABEL: n % 2}) for n in range(5)]
        (home / f"x-train.tfrecord-0000{i}-of-00002").write_bytes(b"".join(map(frame, records)))
    (home / "notes").write_text("x")
    return home


@pytest.mark.promise(24)
def test_a_missing_index(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (copy / INDEX).read_bytes()
    assert main(["index", str(copy)]) == 0
    assert "nothing to do" in capsys.readouterr().out
    (copy / INDEX).unlink()
    assert main(["index", str(copy)]) == 0
    printed = capsys.readouterr().out
    assert f"{INDEX}: missing: can be made again" in printed
    assert "--rebuild" in printed
    assert not (copy / INDEX).exists()
    assert main(["index", str(copy), "--rebuild"]) == 0
    assert f"{INDEX}: missing: made again, byte for byte" in capsys.readouterr().out
    assert (copy / INDEX).read_bytes() == whole
    assert main(["verify", str(copy), "--quiet"]) == 0


def test_damage_that_an_index_does_not_mend(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / INDEX).unlink()
    shard = copy / "train-00001-of-00004.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-5])
    assert main(["index", str(copy), "--rebuild"]) == 4
    assert "shardfeed salvage" in capsys.readouterr().err
    assert not (copy / INDEX).exists()


def test_json_of_a_rebuild(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / INDEX).unlink()
    assert main(["index", str(copy), "--rebuild", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": {INDEX: "missing"}, "lost": {}, "written": True}


def test_adopting(foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(foreign)]) == 0
    printed = capsys.readouterr().out
    assert "nothing was written" in printed
    assert "x-train.tfrecord-00000-of-00002" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign"]
    assert main(["index", str(foreign), "--rebuild"]) == 2
    assert "name a new directory" in capsys.readouterr().err
    names = tmp_path / "names"
    names.write_text("no\nyes\nperhaps\n")
    assert main(["index", str(foreign), str(tmp_path / "out"), "--class-names", str(names), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["splits"] == {"train": {"records": 10, "shards": 2}}
    assert told["left_aside"] == ["notes"]
    data = shardfeed.open(tmp_path / "out")
    assert data.class_names == ("no", "yes", "perhaps")
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
    assert main(["index", str(foreign), str(tmp_path / "other"), "--split-name", "test", "--quiet"]) == 0
    assert list(shardfeed.open(tmp_path / "other")) == ["test"]


def test_adopting_in_place(foreign: Path) -> None:
    for path in foreign.glob("x-*"):
        path.rename(foreign / (path.name.replace("x-train.tfrecord", "train") + ".tfrecord"))
    assert main(["index", str(foreign), "--quiet"]) == 0
    assert not (foreign / "manifest.json").exists()
    assert main(["index", str(foreign), "--rebuild", "--quiet"]) == 0
    assert len(shardfeed.open(foreign)["train"]) == 10
    assert main(["verify", str(foreign), "--quiet"]) == 0


def test_wrong_usage(copy: Path, foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(copy), str(tmp_path / "out")]) == 2
    assert main(["index", str(copy), "--partial"]) == 2
    assert main(["index", str(foreign), str(tmp_path / "out"), "--rebuild"]) == 2
    assert main(["index", str(foreign), str(foreign)]) == 2
    (foreign / "x-train.tfrecord-00001-of-00002").unlink()
    assert main(["index", str(foreign), str(tmp_path / "out")]) == 2
    assert "--partial" in capsys.readouterr().err
    assert main(["index", str(foreign), str(tmp_path / "out"), "--partial", "--quiet"]) == 0
