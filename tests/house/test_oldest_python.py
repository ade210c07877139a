"""The Python that CI runs: the oldest one here that can make environments and compile our module."""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from repository import ROOT

HERE = ".".join(map(str, sys.version_info[:3]))
MINOR = ".".join(map(str, sys.version_info[:2]))
# Stand-ins fail as Debian's Python does without python3-venv, and without python3-dev; else they are this Python.
WITHOUT = {
    "venv": 'case "$*" in *venv*) exit 1;; esac',
    "headers": 'case "$*" in *sysconfig*) echo /nowhere; exit;; esac',
    "anything": "exit 127",
}


def stand_in(folder: Path, without: str | None = None) -> Path:
    """A Python of this version that lacks something, in a folder for PATH."""
    folder.mkdir()
    path = folder / f"python{MINOR}"
    path.write_text(f'#!/bin/sh\n{WITHOUT.get(without or "", "")}\nexec {shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o755)
    return path


def chosen(tmp_path: Path, *folders: Path, named: str = MINOR) -> tuple[str, str]:
    """Run the script: what it prints, and what it says, where setup.cfg names a version and PATH has these folders."""
    (tmp_path / ".ci").mkdir()
    # Debian's own Python, which may be older, stays out.
    text = (ROOT / ".ci" / "oldest_python.py").read_text().replace('"/usr/bin"', "")
    (tmp_path / ".ci" / "oldest_python.py").write_text(text)
    (tmp_path / "setup.cfg").write_text(f"[options]\npython_requires = >={named}\n")
    python3 = stand_in(tmp_path / "z_last")
    python3.rename(python3.with_name("python3"))
    environment = os.environ | {"PATH": os.pathsep.join(map(str, [*folders, python3.parent]))}
    words = [sys.executable, tmp_path / ".ci" / "oldest_python.py"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


@pytest.fixture(autouse=True)
def headers() -> None:
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("the headers of this Python are not installed")


def test_the_first_that_can_is_taken(tmp_path: Path) -> None:
    """Each that cannot is named with what it lacks, and what does not run is no Python."""
    able = stand_in(tmp_path / "z_able")
    unable = [stand_in(tmp_path / f"a_{name}", name) for name in ("headers", "venv", "anything")]
    python, said = chosen(tmp_path, able.parent, *(path.parent for path in unable), tmp_path / "not_there")
    assert python == str(able)
    assert said.splitlines() == [
        f"Not Python {HERE} in {unable[0]}: Python.h is missing (Debian: python3-dev).",
        f"Not Python {HERE} in {unable[1]}: it makes no environments (Debian: python3-venv).",
        f"Tests run on Python {HERE}, {able}: the oldest {MINOR} here.",
    ]


def test_without_one_it_is_python3_and_says_so(tmp_path: Path) -> None:
    assert chosen(tmp_path, named="3.2") == (
        "python3",
        f"No Python 3.2 here has all that the tests need: they run on Python {HERE}, python3.\n",
    )
