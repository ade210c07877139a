"""`benchmarks/formats.py DATASET` runs, and the page that it writes has its marks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repository import ROOT

SCRIPT = ROOT / "benchmarks" / "formats.py"


@pytest.mark.long
def test_it_measures_a_folder(folder: Callable[..., Path]) -> None:
    command = [sys.executable, SCRIPT, folder(), "--images", "20"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert done.returncode == 0, done.stderr
    tables = [part.splitlines() for part in done.stdout.split("\n\n") if part.startswith("|")]
    assert [len({line.count("|") for line in lines}) for lines in tables] == [1, 1, 1]
    formats, costs, libraries = ([line.split("|")[1].strip() for line in lines[2:]] for lines in tables)
    assert {"tfrecord", "webdataset", "parquet"} <= set(formats)
    assert formats == costs
    assert {"tfrecord: TensorFlow", "parquet: pyarrow"} <= set(libraries)
    assert "20 images of" in done.stdout
    assert any(line.startswith(("- Keep", "- Take")) for line in done.stdout.splitlines())


def test_the_page_has_its_marks_once() -> None:
    page, script = (ROOT / "docs" / "formats.md").read_text(), SCRIPT.read_text()
    for mark in ("<!-- made by benchmarks/formats.py -->", "<!-- the end of what it makes -->"):
        assert page.count(mark) == 1
        assert mark in script
