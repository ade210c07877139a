"""Installed packages whose code raises or returns junk: one line names the package, and nobody else is stopped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lying_packages import KINDS, NAMES, write_lying_package

from repository import ROOT

# The command, and whether the package is asked for: then its fault is an error, else at most a warning.
pytestmark = pytest.mark.promise(75)

COMMANDS: dict[str, tuple[str, bool]] = {
    "help": ("--help", False),
    "completion": ("completion bash", False),
    "completion of fish": ("completion fish", False),
    "its command": ("odd", True),
    "help of its command": ("help odd", True),
    "an unknown command": ("oddd", False),
    "convert": ("convert classes out --workers 1 --quiet", False),
    "its reader": ("convert classes out --reader odd", True),
    "its engine": ("convert classes out --engine odd", True),
}
FINE = {  # asked for, and nothing of it is called that fails
    ("help of its command", "raises"): False,
}


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A folder per class, beside a file that might be of the package's format."""
    for name in ("circle", "square"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        shutil.copy(ROOT / "data_samples" / "flat" / f"{name}.001.jpg", tmp_path / "classes" / name)
    (tmp_path / "classes" / "all.odd").write_text("of paper\n")
    return tmp_path


def run(folder: Path, words: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(folder / "site")}
    command = [sys.executable, "-m", "shardfeed.tools.cli", *words.split()]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


def check(folder: Path, kind: str, command: str) -> None:
    (folder / "site").mkdir()
    write_lying_package(folder / "site", kind)
    words, asked = COMMANDS[command]
    done = run(folder, words)
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert b"\x1b" not in done.stdout + done.stderr
    assert all(line.startswith(("shardfeed: ", "usage: ")) for line in said.splitlines()), said
    if asked:
        assert done.returncode in (2, 5), said
        assert "odd-package 1.5" in said
        assert not (folder / "out").exists()
    elif command == "an unknown command":
        assert done.returncode == 2
        assert "no such command; did you mean odd?" in said
    else:
        assert done.returncode == 0, said
        assert (command == "convert") == (folder / "out").exists()
        assert (command == "convert") == ("odd-package 1.5" in said)


SOME = [("raises BaseException at import", "completion"), ("raises KeyboardInterrupt at import", "convert")]
SOME += [("returns junk", "its reader"), ("raises", "its engine"), ("raises", "its command")]


@pytest.mark.parametrize(("kind", "command"), SOME)
def test_a_lying_package_is_named(kind: str, command: str, classes: Path) -> None:
    check(classes, kind, command)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_lying_package_is_named_by_every_command(kind: str, command: str, classes: Path) -> None:
    check(classes, kind, command)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_typed_is_left_out_and_shown_escaped(name: str, classes: Path) -> None:
    (classes / "site").mkdir()
    write_lying_package(classes / "site", "raises", name)
    for words in ("--help", "completion bash", "convert classes out --reader x"):
        done = run(classes, words)
        assert b"\x1b" not in done.stdout + done.stderr
        assert b"\x07" not in done.stdout + done.stderr
        assert name.encode() not in done.stdout
        assert b"Traceback" not in done.stderr
    assert b"of odd-package 1.5 is not used: a name has letters" in done.stderr
