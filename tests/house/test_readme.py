"""What README.md and docs/ show runs as it stands, and prints what they say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text())):
            found.append((f"{page.name}-{number}", match.group(1)))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where README's convert command has been typed."""
    here = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "data_samples", here / "data_samples")
    command = re.search(r"^    \$ shardfeed (convert .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert command
    arguments = [sys.executable, "-m", "shardfeed.tools.cli", *command.group(1).split()]
    done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, check=True)
    (here / "printed.txt").write_text(done.stdout)
    return here


def test_the_convert_command_prints_what_readme_shows(place: Path) -> None:
    shown = re.search(
        r"^    \$ shardfeed convert .*\n((?:    .*\n|\n)+)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert shown
    timing = re.compile(r"\(\d.*\)")  # seconds and rates differ from run to run

    def lines(text: str) -> list[str]:
        return [timing.sub("(time)", line.strip()) for line in text.splitlines() if line.strip()]

    assert lines(shown.group(1)) == lines((place / "printed.txt").read_text())


def test_there_are_blocks() -> None:
    assert len(blocks()) >= 5


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param(name, code, id=name, marks=[] if name.startswith("README") else pytest.mark.long)
        for name, code in blocks()
    ],
)
def test_python_blocks_run(place: Path, name: str, code: str) -> None:
    script = place / f"{name}.py"
    # Only the multi-GPU block is about several devices: it gets two logical CPU devices, which MirroredStrategy uses.
    prefix = ""
    if "tf.distribute.MirroredStrategy()" in code:
        prefix = (
            "import tensorflow as tf\n"
            "cpu = tf.config.list_physical_devices('CPU')[0]\n"
            "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
        )
        code = code.replace("tf.distribute.MirroredStrategy()", "tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])")
    script.write_text(prefix + code)
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, script.name], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "UserWarning" not in done.stderr
