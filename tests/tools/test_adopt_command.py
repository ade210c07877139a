"""`shardfeed adopt`: TFRecords that others wrote become a dataset; with `--dry-run` it only looks."""

import json
from pathlib import Path

import pytest

import shardfeed
from shardfeed.formats.example import encode
from shardfeed.formats.tfrecord import frame
from shardfeed.readers import Dataset
from shardfeed.schema import LABEL, Feature
from shardfeed.tools.cli import main


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    home = tmp_path / "foreign"
    home.mkdir()
    for i in range(2):
        records = [encode({LABEL: Feature("int64")}, {LABEL: n % 2}) for n in range(5)]
        (home / f"x-train.tfrecord-0000{i}-of-00002").write_bytes(b"".join(map(frame, records)))
    (home / "notes").write_text("x")
    return home


def test_adopting(foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", str(foreign), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was written" in printed
    assert "x-train.tfrecord-00000-of-00002" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign"]
    assert main(["adopt", str(foreign)]) == 2
    assert "give a new directory" in capsys.readouterr().err
    names = tmp_path / "names"
    names.write_text("no\nyes\nperhaps\n")
    assert main(["adopt", str(foreign), str(tmp_path / "out"), "--class-names", str(names), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["splits"] == {"train": {"records": 10, "shards": 2}}
    assert told["ignored_files"] == ["notes"]
    data = shardfeed.open(tmp_path / "out")
    assert data.class_names == ("no", "yes", "perhaps")
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
    assert main(["adopt", str(foreign), str(tmp_path / "other"), "--split-name", "test", "--quiet"]) == 0
    assert list(shardfeed.open(tmp_path / "other")) == ["test"]


def test_adopting_in_place(foreign: Path) -> None:
    for path in foreign.glob("x-*"):
        path.rename(foreign / (path.name.replace("x-train.tfrecord", "train") + ".tfrecord"))
    assert main(["adopt", str(foreign), "--dry-run", "--quiet"]) == 0
    assert not (foreign / "manifest.json").exists()
    assert main(["adopt", str(foreign), "--quiet"]) == 0
    assert len(shardfeed.open(foreign)["train"]) == 10
    assert main(["verify", str(foreign), "--quiet"]) == 0


def test_wrong_usage(flowers: Dataset, foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", flowers.directory, str(tmp_path / "out")]) == 2
    assert "shardfeed rebuild" in capsys.readouterr().err
    assert main(["adopt", str(foreign), str(foreign)]) == 2
    (foreign / "x-train.tfrecord-00001-of-00002").unlink()
    assert main(["adopt", str(foreign), str(tmp_path / "out")]) == 2
    assert "--partial" in capsys.readouterr().err
    assert main(["adopt", str(foreign), str(tmp_path / "out"), "--partial", "--quiet"]) == 0


@pytest.mark.parametrize("name", ["a_file", "nothing"])
def test_what_is_no_folder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a_file").touch()
    assert main(["adopt", str(tmp_path / name)]) == 2
    assert str(tmp_path / name) in capsys.readouterr().err
