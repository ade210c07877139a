"""`shardfeed salvage`: what it prints, its JSON and its exit codes."""

import json
import shutil
from pathlib import Path

import pytest

from shardfeed.formats.tfrecord import frame
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

SHARD = "train-00001-of-00004.tfrecord"


@pytest.fixture
def damaged(flowers: Dataset, tmp_path: Path) -> Path:
    """Two shards damaged: one by a flip in its third record, one is missing."""
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "damaged"))
    starts = [
        int(line.split()[0]) for line in (copy / "index" / SHARD.replace("record", "index")).read_text().splitlines()
    ]
    data = bytearray((copy / SHARD).read_bytes())
    data[starts[2] + 300] ^= 1
    (copy / SHARD).write_bytes(data)
    (copy / "train-00002-of-00004.tfrecord").unlink()
    return copy


def test_losses_are_printed(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(damaged)]) == 4
    capsys.readouterr()
    assert main(["salvage", str(damaged), str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert f"{SHARD}: damaged, " in printed
    assert "  lost: 1 record, " in printed
    assert "train-00002-of-00004.tfrecord: missing, 0 of " in printed
    assert "LOST " in printed
    assert " of 201 records" in printed
    assert main(["verify", str(tmp_path / "out")]) == 0


def test_json_and_quiet(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["salvage", str(damaged), str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["expected"], told["lost"]) == (201, 201 - told["recovered"])
    assert [shard["problem"] for shard in told["shards"]] == ["damaged", "missing"]
    assert told["shards"][0]["lost"] == 1
    kept = json.loads((tmp_path / "out" / "salvaged.json").read_text())
    assert kept.items() <= told.items()
    assert main(["salvage", str(damaged), str(tmp_path / "again"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_left_out_is_printed(flowers: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(flowers.directory, tmp_path / "damaged"))
    first = (copy / SHARD.replace("00001", "00000")).read_bytes()
    with (copy / SHARD).open("ab") as file:
        file.write(first + frame(b"no example") + b"x")
    (copy / "index" / SHARD.replace("record", "index")).unlink()
    assert main(["salvage", str(copy), str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "  left out as duplicates: " in printed
    assert "  left out, as they do not match the schema: 1 record\n    offset " in printed
    assert "lost 0 of 201 records" in printed
    (copy / "manifest.json").unlink()
    (copy / "dataset_info.json").unlink()
    assert main(["salvage", str(copy), str(tmp_path / "again")]) == 0
    printed = capsys.readouterr().out
    assert "  lost: an unknown number of records, 1 byte" in printed
    assert "LOST: the number of records is unknown" in printed


def test_exit_codes(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["salvage", str(damaged), str(damaged)]) == 2
    assert main(["salvage", str(tmp_path / "none"), str(tmp_path / "out")]) == 2
    for path in damaged.glob("*.tfrecord"):
        path.write_bytes(b"")
    assert main(["salvage", str(damaged), str(tmp_path / "out")]) == 4
    assert "no intact record in it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
