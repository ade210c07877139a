"""`shardfeed demo` from end to end, as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shardfeed
from shardfeed.converters import ImageFolder, convert

from repository import ROOT

SHAPES = ROOT / "data_samples" / "shapes"


def demo(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "shardfeed.tools.cli", "demo", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=550)


@pytest.mark.long
def test_it_converts_trains_and_says_what_to_type(tmp_path: Path) -> None:
    done = demo(tmp_path, "--samples", str(SHAPES), "--out", "out", "--epochs", "15")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    found = re.search(r"test accuracy ([0-9.]+)%", done.stdout)
    assert found
    assert float(found[1]) >= 90
    for line in ("$ shardfeed convert", "$ shardfeed verify out/dataset", "distribute(strategy", "images/s"):
        assert line in done.stdout
    data = shardfeed.open(tmp_path / "out" / "dataset")
    assert sorted(data) == ["test", "train", "validation"]
    assert sum(map(len, data.values())) == len(list(SHAPES.rglob("*.jpg")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_it_draws_its_own_images_replaces_an_earlier_run_and_says_when_it_learned_little(tmp_path: Path) -> None:
    (tmp_path / "demo_output").mkdir()
    convert(ImageFolder(SHAPES), tmp_path / "demo_output" / "dataset", workers=1)
    done = demo(tmp_path, "--epochs", "1")
    assert done.returncode == 0, done.stdout + done.stderr  # 1 would be a bug
    assert "at least 90% is typical after 40 epochs: increase --epochs" in done.stdout
    assert "Now with your own images" in done.stdout
    assert "demo_output/dataset --split train=0.7,validation=0.1,test=0.2 --replace" in done.stdout
    assert len(shardfeed.open(tmp_path / "demo_output" / "dataset")) == 3
    assert (tmp_path / "demo_output" / "samples" / "shapes").is_dir()


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--samples", "nowhere"), "nowhere"), (("--out", "file/x"), "file/x")]
)
def test_what_cannot_be_is_said_before_tensorflow_starts(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = demo(tmp_path, *arguments)
    assert done.returncode in (2, 5)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_it_does_not_write_over_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "out" / "dataset").mkdir(parents=True)
    (tmp_path / "out" / "dataset" / "mine.txt").write_text("precious")
    done = demo(tmp_path, "--samples", str(SHAPES), "--out", "out")
    assert done.returncode == 2
    assert (tmp_path / "out" / "dataset" / "mine.txt").read_text() == "precious"
