"""The checks of decoding on a GPU, as far as they need none."""

import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

pytest.importorskip("torch")


@pytest.mark.long
def test_the_checks_that_need_no_gpu(tmp_path: Path) -> None:
    sizes = ["--images", "100", "--damaged", "200"]
    command = [sys.executable, ROOT / "benchmarks" / "gpu_checks.py", tmp_path, "--cpu", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ("pixels, cropped", "pixels, letterboxed", "pixels, seekable", "verdicts", "boxes"):
        assert f"| {check} | right |" in done.stdout, done.stdout
