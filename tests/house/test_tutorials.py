"""The notebooks of docs/tutorials: each runs in a fresh kernel, its claims hold, and what is committed was executed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repository import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
LARGEST = 200_000  # bytes, with outputs
each_tutorial = pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(path: Path) -> str:
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    return "".join("".join(output.get("text", "")) for output in outputs)


@each_tutorial
def test_outputs_are_those_of_one_execution(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run: make tutorials"
    assert path.stat().st_size < LARGEST


@pytest.mark.long
@each_tutorial
def test_it_runs_and_says_what_is_committed(path: Path, tmp_path: Path) -> None:
    """The cells assert what the text around them claims."""
    before = {file: file.stat().st_mtime_ns for file in TUTORIALS[0].parent.iterdir()}
    command = [sys.executable, ROOT / "docs" / "run_tutorials.py", path.stem, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert {file: file.stat().st_mtime_ns for file in TUTORIALS[0].parent.iterdir()} == before
    numbers = re.compile(r"\S*\d\S*(?: [kMG]B\b)?")  # of times, losses, bytes per second
    assert numbers.sub("#", printed(tmp_path / path.name)) == numbers.sub("#", printed(path))


def test_each_claim_is_asserted_where_it_is_made() -> None:
    lines = {path.stem: "".join("".join([*cell["source"], "\n"]) for cell in code_cells(path)) for path in TUTORIALS}
    assert "\nassert accuracy >= 0.95\n" in lines["class_folders_keras"]
    assert "\nassert where >= 0.7\n" in lines["coco_boxes_torchvision"]
    assert "\nassert first | second == whole\n" in lines["killed_and_resumed"]
