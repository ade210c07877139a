"""`benchmarks/planning.py` runs, with and without shares."""

import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

SCRIPT = ROOT / "benchmarks" / "planning.py"


@pytest.mark.parametrize("options", [[], ["--split"]])
def test_it_measures_small_plans(options: list[str], tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--samples", "2000", "5000", "--rounds", "1", "--directory", tmp_path, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heading, *lines = done.stdout.splitlines()
    assert heading.split()[0] == "samples"
    assert [line.split()[0] for line in lines] == ["2,000", "5,000"]
    assert all(float(figure) >= 0 for line in lines for figure in line.split()[1:])
